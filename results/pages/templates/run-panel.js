// The panel beside the matrix has a cell's judgements, or what a fault, a lock or a property is.

const address = (judgement) => `${judgement.trial[1]}#lane=${encodeURIComponent(judgement.lane)}`
  + (judgement.property ? `&property=${encodeURIComponent(judgement.property)}` : "");
const counts = (judgements) => element("p", { className: "counts" }, ...counted(judgements).map(([word, number]) =>
  element("span", { className: "count" }, badges[word].cloneNode(true), " ", element("b", { textContent: number }))));
// A link inside of the panel: what it leads to has a way back.
const inside = (label, show) => element("button", { type: "button", className: "inside", textContent: label, onclick: () => {
  const { again, from } = opened;
  trail.push(again);
  show(from);
} });
const fill = (heading, state, from, again, ...parts) => {
  close(false, true);
  opened = { from, again };
  from.classList.add("open");
  document.getElementById("panel-title").textContent = heading;
  const back = trail.length
    ? [element("button", { type: "button", className: "inside", textContent: "← back", onclick: () => trail.pop()() })] : [];
  document.getElementById("panel-list").replaceChildren(...back, ...parts);
  panel.hidden = false;
  panel.scrollTop = 0;
  tip.hidden = true;
  const covered = from.getBoundingClientRect().right + 12 - panel.getBoundingClientRect().left;
  if (covered > 0 && panel.offsetWidth < innerWidth / 2) box.scrollLeft += covered;
  document.getElementById("panel-title").focus();
  write({ ...chosen(), ...state });
};
const open = (square, from = square.link) => {
  const { members, lock, column, shown } = square;
  const parts = members
    ? members.filter(({ visible }) => visible).flatMap((member) =>
      [element("h3", {}, inside(member.column.name, (from) => open(member, from))), counts(member.shown)])
    : counted(shown).flatMap(([word]) => blocks(square, word));
  const state = { lock, fault: column.name };
  fill(title(square), state, from, () => open(square, from), ...members ? [] : [counts(shown)], ...parts);
};
const about = (kind, name, from) => {
  const group = groups.find((each) => kind === "group" && each.name === name);
  const fault = faults.find((each) => kind === "fault" && each.name === name);
  const their = squares.flatMap((square) => ({
    group: square.column.of === name, fault: square.column.name === name, lock: square.lock === name, property: true,
  })[kind] ? square.judgements : []).filter((judgement) => kind !== "property" || judgement.property === name);
  const more = group ? group.faults.map((each) => ["fault", each.name]) : fault && fault.of ? [["group", fault.of]]
    : kind !== "lock" ? []
    : [...new Set(their.map(({ property }) => property))].filter(Boolean).sort().map((each) => ["property", each]);
  const what = { group: "Its faults", fault: "Its group", lock: "Its properties" }[kind];
  const card = kind === "lock" && squares.find(({ lock }) => lock === name)?.row.dataset.card;
  fill(name === "none" ? "no fault" : name, { about: `${kind}:${name}` }, from, () => about(kind, name, from),
    element("p", { className: "about", textContent: said(kind, name) || "This run was stored without a description of it." }),
    ...card ? [element("p", {}, element("a", { href: card, textContent: "Its scorecard" }))] : [],
    element("h3", { textContent: "In this run" }), counts(their),
    ...more.length ? [element("h3", { textContent: what }),
      element("ul", {}, ...more.map((each) => element("li", {}, inside(each[1], (from) => about(...each, from)))))] : []);
};
// One block for each property and reason; the lanes of which it is said are links.
const blocks = (square, word) => {
  const alike = new Map();
  for (const judgement of square.shown) {
    if (judgement.word !== word) continue;
    const key = JSON.stringify([judgement.property, judgement.because]);
    if (!alike.has(key)) alike.set(key, []);
    alike.get(key).push(judgement);
  }
  return [element("h3", {}, badges[word].cloneNode(true)), ...[...alike.values()].map((judgements) => {
    const { property, because, lasting } = judgements[0];
    const head = property ? inside(property, (from) => about("property", property, from)) : "everything";
    const block = element("div", {}, element("h4", {}, head));
    if (because && !because.startsWith("held")) block.append(element("p", { className: "because", textContent: because }));
    if (lasting) block.append(element("p", { className: "because", textContent: "It shows without any fault, too." }));
    const story = judgements.find((judgement) => judgement.story);
    if (story) {
      const lines = story.story.split("\n").map((line) => element("li", { textContent: line }));
      block.append(element("ol", { className: "story" }, ...lines));
    }
    block.append(element("ul", {}, ...judgements.filter(({ lane }) => lane).map((judgement) => element("li", {}, lane(square, judgement)))));
    return block;
  })];
};
const lane = (square, judgement) => {
  const mine = judgement.lane.startsWith(square.lock + "/") ? judgement.lane.slice(square.lock.length + 1) : judgement.lane;
  if (!judgement.trial) return mine;
  return element("a", {
    textContent: mine, href: address(judgement), title: `${judgement.lane}, trial ${judgement.trial[0]}, seed ${judgement.trial[2]}`
      + (judgement.version && `, ${square.backend} ${judgement.version}`),
  });
};
const close = (back = false, refill = false) => {
  if (!opened) return;
  opened.from.classList.remove("open");
  panel.hidden = true;
  if (back) (seen(opened.from) ? opened.from : current)?.focus();
  opened = null;
  if (refill) return;
  trail = [];
  write(chosen());
};
document.getElementById("panel-close").addEventListener("click", () => close(true));
document.addEventListener("pointerdown", (event) => {
  if (opened && !panel.contains(event.target) && !within(event)) close();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    point(null);
    if (opened) close(true);
  }
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    form.elements.text.focus();
    form.elements.text.select();
  }
});
