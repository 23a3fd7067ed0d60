// The matrix is filtered by the judgements behind it, folded to the window, and walked through with the arrows.

const read = () => {
  const parameters = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries([...fields, "lock", "fault", "about"].map((name) => [name, parameters.get(name) || ""]));
};
const write = (state) => {
  const parameters = new URLSearchParams(Object.entries(state).filter(([, value]) => value));
  const hash = parameters.size ? "#" + parameters : location.pathname + location.search;
  history.replaceState(null, "", hash);
};
const chosen = () => Object.fromEntries(fields.map((name) => [name, form.elements[name].value]));

const apply = (state) => {
  const terms = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  const asks = (judgement) => (!state.version || judgement.version === state.version)
    && (!state.property || judgement.property === state.property);
  const carries = (judgement) => !state.verdict
    || (state.verdict === "failing" ? judgement.word < FAILING : names[judgement.word] === state.verdict);
  let count = 0, outside = 0;
  for (const square of squares) {
    const place = `${square.lock} ${square.column.name} ${square.column.of}`.toLowerCase();
    const mine = square.judgements.filter(asks);
    square.visible = mine.some(carries) && (!state.backend || square.backend === state.backend)
      && terms.every((term) => place.includes(term));
    for (const judgement of square.judgements) {
      if (judgement.word < FAILING && !(square.visible && mine.includes(judgement))) outside++;
    }
    square.link.hidden = !square.visible;
    if (!square.visible) continue;
    draw(square, mine);
    count++;
  }
  for (const square of folds) {
    const mine = square.members.filter(({ visible }) => visible).flatMap(({ shown }) => shown);
    square.visible = mine.length > 0;
    square.link.hidden = !square.visible;
    if (square.visible) draw(square, mine.sort((a, b) => a.word - b.word));
  }
  for (const row of locks) row.hidden = true;
  for (const body of matrix.tBodies) body.hidden = true;
  for (const { row, body, visible } of squares) if (visible) row.hidden = body.hidden = false;
  document.getElementById("shown").textContent =
    `${count.toLocaleString("en")} of ${squares.length.toLocaleString("en")} cells shown`;
  document.getElementById("outside").textContent = outside
    ? `✖ ${outside.toLocaleString("en")} failing ${outside === 1 ? "judgement is" : "judgements are"} outside of what is shown.` : "";
  for (const name of fields) form.elements[name].classList.toggle("on", Boolean(state[name]));
  fold();
};

// Which groups are folded: on a phone all, elsewhere those for which there is no room.

const fold = () => {
  const heat = form.elements.view.value !== "text";
  matrix.classList.toggle("heat", heat);
  for (const column of [...faults, ...groups]) column.there = column.squares.filter(({ visible }) => visible).length > 0;
  const there = (group) => group.faults.filter((fault) => fault.there).length;
  const width = () => faults.filter(({ of, there }) => !of && there).length
    + groups.reduce((sum, group) => sum + (group.folded ? Number(group.there) : there(group)), 0);
  for (const group of groups) group.folded = heat;
  const aside = corner.offsetWidth, room = box.parentElement.clientWidth - aside;
  if (heat && innerWidth > PHONE) {
    for (const group of unfolded ? [unfolded, ...groups] : groups) {
      group.folded = false;
      group.folded = group !== unfolded && width() * NARROWEST > room;
    }
  }
  for (const fault of faults) {
    const folded = groups.some((group) => group.folded && group.name === fault.of);
    for (const cell of [fault.head, fault.col, ...fault.cells]) {
      cell.hidden = !fault.there;
      cell.classList.toggle("folded", folded);
    }
  }
  for (const group of groups) {
    for (const cell of [group.col, ...group.cells]) cell.hidden = !group.there || !group.folded;
    group.head.hidden = !group.there;
    group.head.rowSpan = group.folded ? 2 : 1;
    group.head.colSpan = group.folded ? 1 : Math.max(there(group), 1);
    group.head.classList.toggle("folded-head", group.folded);
    group.head.firstElementChild.textContent = group.folded ? `${group.name} (${there(group)})` : group.name;
  }
  // A group of a single column is as wide as its name.
  const alone = (fault) => groups.find((group) => heat && group.name === fault.of && !group.folded && there(group) === 1);
  for (const fault of faults) fault.col.style.width = alone(fault) ? `${fault.of.length * 7 + 8}px` : "";
  for (const body of matrix.tBodies) body.rows[0].cells[1].colSpan = Math.max(width(), 1);
  matrix.style.maxWidth = heat ? `${aside + width() * WIDEST}px` : "";
  box.classList.toggle("scrolls", !heat || width() * NARROWEST > room);
  reachable();
};

// One cell or head is reached by Tab, the others by the arrows.

const stops = [...matrix.querySelectorAll("a[role], th > button")];
const seen = (stop) => stop.getClientRects().length > 0;
const reachable = (stop = current) => {
  if (!stop || !seen(stop)) stop = stops.find((each) => of.has(each) && seen(each)) || null;
  if (current) current.tabIndex = -1;
  current = stop;
  if (current) current.tabIndex = 0;
};
for (const stop of stops) stop.tabIndex = -1;
const step = (from, key) => {
  const across = /Left|Right|Home|End/.test(key), place = from.getBoundingClientRect(), middle = place.left + place.width / 2;
  const line = stops.filter((stop) => {
    if (across) return stop.closest("tr") === from.closest("tr") && seen(stop);
    const other = stop.getBoundingClientRect();
    return other.left <= middle && middle < other.right;
  });
  const at = line.indexOf(from);
  return line[{ ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1, Home: 0, End: line.length - 1 }[key]];
};
matrix.addEventListener("focusin", (event) => { if (stops.includes(event.target)) reachable(event.target); });
matrix.addEventListener("keydown", (event) => {
  if (!stops.includes(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    choose(event.target);
  } else if (/^(Arrow|Home|End)/.test(event.key)) {
    event.preventDefault();
    const next = step(event.target, event.key);
    if (next) next.focus();
  }
});
matrix.addEventListener("click", (event) => {
  const stop = within(event);
  if (!stop || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return; // a new tab is the browser's
  event.preventDefault();
  choose(stop);
});
const choose = (stop) => {
  trail = [];
  const [kind, name] = abouts.get(stop) || [];
  const group = groups.find((each) => kind === "group" && each.name === name);
  if (group && group.folded && innerWidth > PHONE) {
    unfolded = group;
    fold();
    stop.focus();
  } else if (kind) about(kind, name, stop);
  else open(of.get(stop));
};
