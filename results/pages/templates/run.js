// All that is chosen is in the address, after the #, so that it can be sent and gone back to.

const changed = () => {
  close();
  const state = chosen();
  write(state);
  apply(state);
};
form.addEventListener("input", changed);
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", (event) => {
  event.preventDefault();
  for (const name of fields) form.elements[name].value = "";
  changed();
  form.elements.text.focus();
});
const follow = () => {
  const state = read();
  close();
  for (const name of fields) form.elements[name].value = state[name]; // what no choice offers chooses nothing
  for (const name of fields) if (form.elements[name].selectedIndex === -1) form.elements[name].value = "";
  apply(chosen());
  const [kind, name] = [state.about.split(":", 1)[0], state.about.slice(state.about.indexOf(":") + 1)];
  const asked = ({ visible, lock, column }) => visible && lock === state.lock && column.name === state.fault;
  const square = squares.find(asked) || folds.find(asked);
  if (square) {
    const group = folds.find(({ row, column }) => row === square.row && column.name === square.column.of);
    const from = (seen(square.link) ? square : group || square).link;
    from.scrollIntoView({ block: "nearest", inline: "nearest" });
    open(square, from);
  } else if (Object.hasOwn(data.about, kind) && Object.hasOwn(data.about[kind], name)) {
    const head = [...abouts].find(([stop, each]) => seen(stop) && each[0] === kind && each[1] === name);
    about(kind, name, head ? head[0] : current || form.elements.text);
  } else if (state.verdict) {
    document.getElementById("matrix-section").scrollIntoView();
  }
};
addEventListener("hashchange", follow);
addEventListener("resize", fold);
follow();
