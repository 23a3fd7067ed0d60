// What stands in the matrix, once: its columns, squares and heads; and how a square is drawn, and what its tip says.

const matrix = document.getElementById("matrix");
if (!matrix) return; // a run without a matrix has nothing to do for the parts below

const FAILING = 4, UPHELD = 7; // words that weigh less than the first fail
const WIDTH = 7; // numbers of one judgement
const LASTING = 16; // is added to the word of a weakness that shows without any fault, too
const NARROWEST = 22, WIDEST = 44; // pixels of a column in colours
const PHONE = 600; // pixels of a window
const data = JSON.parse(document.getElementById("data").textContent);
const badges = [...document.getElementById("badges").content.children];
const names = badges.map((badge) => badge.lastChild.textContent); // of the words, heaviest first
const signs = badges.map((badge) => badge.querySelector("i").textContent);
const short = [...document.getElementById("short").content.children].map((word) => word.textContent);
const text = (at) => at < 0 ? "" : data.texts[at];
const form = document.getElementById("filter");
const panel = document.getElementById("panel");
const box = matrix.parentElement;
const corner = matrix.querySelector(".corner");
const fields = ["text", "backend", "version", "property", "verdict", "view"];

const element = (name, given, ...children) => {
  const made = Object.assign(document.createElement(name), given);
  made.append(...children);
  return made;
};

// What stands in the table, once, and a column for each group, into which its faults are folded.

const cols = [...matrix.querySelectorAll("col")];
const faults = [...matrix.querySelectorAll("thead [data-fault]")].map((head, at) => (
  { head, name: head.dataset.fault, of: head.dataset.of || "", col: cols[at + 1], cells: [], squares: [] }));
const groups = [...matrix.querySelectorAll("thead [data-group]")].map((head) => {
  const group = { head, name: head.dataset.group, col: element("col"), cells: [], squares: [], folded: false };
  group.faults = faults.filter((fault) => fault.of === group.name);
  group.faults[0].col.before(group.col);
  return group;
});
const squares = [], folds = [];
for (const body of matrix.tBodies) {
  for (const row of body.querySelectorAll("tr[data-lock]")) {
    const place = { row, body, lock: row.dataset.lock, backend: body.dataset.backend };
    const mine = new Map();
    [...row.querySelectorAll("td")].forEach((cell, at) => {
      faults[at].cells.push(cell);
      const link = cell.firstElementChild;
      if (!link) return;
      const flat = data.squares[Number(link.dataset.i)], judgements = [];
      for (let at = 0; at < flat.length; at += WIDTH) {
        const [word, property, lane, version, because, trial, story] = flat.slice(at, at + WIDTH);
        judgements.push({
          word: word % LASTING, lasting: word >= LASTING, property: text(property), lane: text(lane),
          version: text(version), because: text(because), trial: data.trials[trial], story: text(story),
        });
      }
      const square = { ...place, link, column: faults[at], judgements, shown: judgements, visible: true };
      squares.push(square);
      faults[at].squares.push(square);
      mine.set(faults[at], square);
    });
    for (const group of groups) {
      const members = group.faults.map((fault) => mine.get(fault)).filter(Boolean);
      const cell = element("td", { className: members.length ? "of-group" : "of-group nothing" });
      group.cells.push(cell);
      row.insertBefore(cell, group.faults[0].cells.at(-1));
      if (!members.length) continue;
      const square = { ...place, link: element("a"), column: group, members, shown: [], visible: true };
      cell.append(square.link);
      folds.push(square);
      group.squares.push(square);
    }
  }
}
const of = new Map([...squares, ...folds].map((square) => [square.link, square]));
const locks = [...matrix.querySelectorAll("tr[data-lock]")];
const abouts = new Map([
  ...faults.map(({ head, name }) => [head.firstElementChild, ["fault", name]]),
  ...groups.map(({ head, name }) => [head.firstElementChild, ["group", name]]),
  ...locks.map((row) => [row.querySelector("th > button"), ["lock", row.dataset.lock]]),
]);
for (const link of of.keys()) link.setAttribute("role", "button");
for (const stop of [...of.keys(), ...abouts.keys()]) stop.setAttribute("aria-haspopup", "dialog");
for (const titled of matrix.querySelectorAll("[title]")) titled.removeAttribute("title"); // our tip says more

let unfolded = null; // the group that was asked for
let opened = null; // what is in the panel: what it was opened from, and what the address says of it
let trail = []; // what was in it before
let current = null; // what Tab reaches

// A cell: its colour, its words, its tip

const counted = (judgements) => {
  const counts = new Map();
  for (const { word } of judgements) counts.set(word, (counts.get(word) || 0) + 1);
  return [...counts].sort(([a], [b]) => a - b);
};
// As `Square.shade`: what is promised and held stands before what held without a promise.
const rank = (word) => word === UPHELD ? FAILING + 1.5 : word;
const draw = (square, judgements) => {
  const counts = counted(judgements), link = square.link;
  const own = judgements.filter(({ lasting }) => !lasting).map(({ word }) => word).sort((a, b) => rank(a) - rank(b));
  const style = (word) => badges[word].classList[1].slice(2);
  square.shown = judgements;
  link.className = `w-${style(counts[0][0])} h-${own.length ? style(own[0]) : "lasting"}`;
  link.classList.toggle("thin", own.length < judgements.length);
  link.dataset.s = own.length ? signs[own[0]] : "";
  const told = counts.map(([word, number]) => `${number} ${names[word]}`);
  link.setAttribute("aria-label", [title(square), ...told].join(", "));
  link.replaceChildren(...counts.map(([word, number], place) => {
    const sign = element("i", { textContent: signs[word] });
    sign.setAttribute("aria-hidden", "true");
    return element(place ? "span" : "b", {}, sign, ` ${number} ${short[word]}`);
  }));
  const tried = judgements.find(({ trial }) => trial);
  if (tried) link.href = address(tried);
};
const title = ({ lock, column: { name } }) => `${lock} ${name === "none" ? "without any fault" : "under " + name}`;
const tips = (square) => [title(square), ...counted(square.shown).map(([word, number]) => {
  const theirs = square.shown.filter((judgement) => judgement.word === word);
  const broken = word < UPHELD - 1 ? [...new Set(theirs.map(({ property }) => property))] : [];
  const few = broken.length > 3 ? [...broken.slice(0, 3), `${broken.length - 3} more`] : broken;
  return `${signs[word]} ${number} ${names[word]}${few.length ? ": " + few.join(", ") : ""}`;
})].join("\n");
const said = (kind, name) => Object.hasOwn(data.about[kind], name) ? data.about[kind][name] : "";

const tip = document.getElementById("tip");
const point = (at) => {
  const square = of.get(at), head = abouts.get(at);
  tip.hidden = !square && !head;
  if (tip.hidden) return;
  const first = head && said(...head).split(/(?<=[.!?])\s/)[0];
  tip.textContent = square ? tips(square) : first ? `${head[1]}\n${first}` : head[1];
  const place = at.getBoundingClientRect(), size = tip.getBoundingClientRect(), below = place.bottom + 6;
  tip.style.left = Math.max(8, Math.min(place.left, innerWidth - size.width - 8)) + "px";
  tip.style.top = (below + size.height > innerHeight ? Math.max(8, place.top - size.height - 6) : below) + "px";
};
const within = (event) => event.target instanceof Element ? event.target.closest("a[role], th > button") : null;
matrix.addEventListener("pointerover", (event) => { if (event.pointerType === "mouse") point(within(event)); });
matrix.addEventListener("pointerleave", () => point(null));
matrix.addEventListener("focusin", (event) => { if (event.target.matches(":focus-visible")) point(event.target); });
matrix.addEventListener("focusout", () => point(null));
for (const scrolled of [window, box]) scrolled.addEventListener("scroll", () => point(null), { passive: true });
