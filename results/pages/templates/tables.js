// Tables are sorted by the column whose head is pressed.

for (const table of document.querySelectorAll(".sortable")) sortable(table);

function sortable(table) {
  const body = table.tBodies[0];
  const heads = [...table.querySelectorAll("th[aria-sort]")];
  for (const head of heads) head.querySelector("button").addEventListener("click", () => {
    const column = head.cellIndex;
    const up = head.getAttribute("aria-sort") !== "ascending";
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const numeric = head.matches(".number, .counted");
    const key = (row) => {
      const cell = row.cells[column];
      return !numeric ? cell.textContent : cell.dataset.v === undefined ? null : Number(cell.dataset.v);
    };
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null); // unknown comes last, whichever way
      const order = numeric ? x - y : x.localeCompare(y);
      return up ? order : -order;
    };
    body.append(...[...body.rows].sort(compare));
  });
}
