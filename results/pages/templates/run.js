// A run's page: the matrix is filtered by the judgements behind it, a square's judgements stand in a panel beside it,
// tables are sorted. All that is chosen is in the address, after the #, so that it can be sent and gone back to.
(() => {
  "use strict";
  for (const table of document.querySelectorAll(".sortable")) sortable(table);
  const matrix = document.getElementById("matrix");
  if (!matrix) return;

  const FAILING = 4; // words that weigh less than this fail
  const WIDTH = 7; // numbers of one judgement
  const data = JSON.parse(document.getElementById("data").textContent);
  const badges = [...document.getElementById("badges").content.children];
  const names = badges.map((badge) => badge.lastChild.textContent); // of the words, heaviest first
  const short = [...document.getElementById("short").content.children].map((word) => word.textContent);
  const text = (at) => at < 0 ? "" : data.texts[at];
  const form = document.getElementById("filter");
  const panel = document.getElementById("panel");
  const fields = ["text", "backend", "version", "property", "verdict"];

  // What stands in the table, once.

  const faults = [...matrix.querySelectorAll("thead th[data-fault]")].map((th) => th.dataset.fault);
  const cols = [...matrix.querySelectorAll("col")];
  const squares = [];
  for (const body of matrix.tBodies) {
    for (const row of body.querySelectorAll("tr[data-lock]")) {
      for (const link of row.querySelectorAll("a[data-i]")) {
        const flat = data.squares[Number(link.dataset.i)];
        const judgements = [];
        for (let at = 0; at < flat.length; at += WIDTH) {
          const [word, property, lane, version, because, trial, story] = flat.slice(at, at + WIDTH);
          judgements.push({
            word, property: text(property), lane: text(lane), version: text(version), because: text(because),
            trial: data.trials[trial], story: text(story),
          });
        }
        squares.push({
          link, row, body, judgements, shown: judgements, lock: row.dataset.lock, backend: body.dataset.backend,
          column: link.parentElement.cellIndex, fault: faults[link.parentElement.cellIndex - 1],
        });
      }
    }
  }
  const of = new Map(squares.map((square) => [square.link, square]));

  let opened = null; // the square whose judgements are in the panel
  let current = null; // the one that Tab reaches

  // Filters

  const read = () => {
    const parameters = new URLSearchParams(location.hash.slice(1));
    return Object.fromEntries([...fields, "lock", "fault"].map((name) => [name, parameters.get(name) || ""]));
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
    const narrowed = state.version || state.property;
    let count = 0, outside = 0;
    const rows = new Set(), bodies = new Set(), columns = new Set();
    for (const square of squares) {
      const place = `${square.lock} ${square.fault}`.toLowerCase();
      const mine = narrowed ? square.judgements.filter(asks) : square.judgements;
      const visible = mine.some(carries) && (!state.backend || square.backend === state.backend)
        && terms.every((term) => place.includes(term));
      const left = visible ? square.judgements.length === mine.length ? [] : square.judgements.filter((j) => !asks(j)) : square.judgements;
      for (const judgement of left) if (judgement.word < FAILING) outside++;
      if (square.shown !== mine && visible) draw(square, mine);
      square.link.hidden = !visible;
      if (!visible) continue;
      count++;
      rows.add(square.row);
      bodies.add(square.body);
      columns.add(square.column);
    }
    for (const row of matrix.rows) {
      if (row.dataset.lock !== undefined) row.hidden = !rows.has(row);
      if (row.classList.contains("group")) continue;
      for (const cell of row.cells) if (cell.cellIndex) cell.hidden = !columns.has(cell.cellIndex);
    }
    cols.forEach((col, at) => { col.hidden = at > 0 && !columns.has(at); });
    for (const body of matrix.tBodies) {
      body.hidden = !bodies.has(body);
      const rest = body.rows[0].cells[1];
      rest.colSpan = Math.max(columns.size, 1);
    }
    document.getElementById("shown").textContent =
      `${count.toLocaleString("en")} of ${squares.length.toLocaleString("en")} cells shown`;
    document.getElementById("outside").textContent = outside
      ? `✖ ${outside.toLocaleString("en")} failing ${outside === 1 ? "judgement is" : "judgements are"} outside of what is shown.` : "";
    for (const name of fields) form.elements[name].classList.toggle("on", Boolean(state[name]));
    reachable();
  };

  const counted = (judgements) => {
    const counts = new Map();
    for (const { word } of judgements) counts.set(word, (counts.get(word) || 0) + 1);
    return [...counts].sort(([a], [b]) => a - b);
  };
  const draw = (square, judgements) => {
    const counts = counted(judgements);
    square.shown = judgements;
    square.link.className = badges[counts[0][0]].classList[1] + (square === opened ? " open" : "");
    square.link.title = counts.map(([word, number]) => `${number} ${names[word]}`).join("\n");
    square.link.replaceChildren(...counts.map(([word, number], place) => {
      const line = document.createElement(place ? "span" : "b");
      const glyph = badges[word].querySelector("i").cloneNode(true);
      line.append(glyph, ` ${number} ${short[word]}`);
      return line;
    }));
    if (judgements[0].trial) square.link.href = address(judgements[0]);
  };

  // From cell to cell: one of them is reached by Tab, the others by the arrows.

  const reachable = (square = current) => {
    if (!square || square.link.hidden) square = squares.find((each) => !each.link.hidden) || null;
    if (current) current.link.tabIndex = -1;
    current = square;
    if (current) current.link.tabIndex = 0;
  };
  for (const { link } of squares) {
    link.tabIndex = -1;
    link.setAttribute("role", "button");
    link.setAttribute("aria-haspopup", "dialog");
  }
  const step = (from, key) => {
    const across = key === "ArrowLeft" || key === "ArrowRight" || key === "Home" || key === "End";
    const side = across ? "row" : "column";
    const line = squares.filter((each) => !each.link.hidden && each[side] === from[side]);
    const at = line.indexOf(from);
    const to = { ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1, Home: 0, End: line.length - 1 }[key];
    return line[to];
  };
  matrix.addEventListener("focusin", (event) => {
    const square = of.get(event.target);
    if (square) reachable(square);
  });
  matrix.addEventListener("keydown", (event) => {
    const square = of.get(event.target);
    if (!square || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      open(square);
    } else if (/^(Arrow|Home|End)/.test(event.key)) {
      event.preventDefault();
      const next = step(square, event.key);
      if (next) next.link.focus();
    }
  });
  matrix.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-i]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return; // a new tab is the browser's
    event.preventDefault();
    open(of.get(link));
  });

  // The panel

  const address = (judgement) => `${judgement.trial[1]}#lane=${encodeURIComponent(judgement.lane)}`
    + (judgement.property ? `&property=${encodeURIComponent(judgement.property)}` : "");
  const element = (name, ...children) => {
    const made = document.createElement(name);
    made.append(...children);
    return made;
  };
  const open = (square) => {
    close();
    opened = square;
    square.link.classList.add("open");
    document.getElementById("panel-title").textContent =
      `${square.lock} ${square.fault === "none" ? "without any fault" : "under " + square.fault}`;
    const counts = counted(square.shown);
    document.getElementById("panel-words").replaceChildren(...counts.map(([word, number]) => {
      const count = element("span", badges[word].cloneNode(true), " ", element("b", String(number)));
      count.className = "count";
      return count;
    }));
    document.getElementById("panel-list").replaceChildren(...counts.flatMap(([word]) => blocks(square, word)));
    panel.hidden = false;
    panel.scrollTop = 0;
    const covered = square.link.getBoundingClientRect().right + 12 - panel.getBoundingClientRect().left;
    if (covered > 0 && panel.offsetWidth < innerWidth / 2) matrix.parentElement.scrollLeft += covered;
    document.getElementById("panel-title").focus();
    write({ ...chosen(), lock: square.lock, fault: square.fault });
  };
  // One block for each property and reason; the lanes of which it is said are links.
  const blocks = (square, word) => {
    const groups = new Map();
    for (const judgement of square.shown) {
      if (judgement.word !== word) continue;
      const key = JSON.stringify([judgement.property, judgement.because]);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(judgement);
    }
    const head = element("h3", badges[word].cloneNode(true));
    return [head, ...[...groups.values()].map((judgements) => {
      const { property, because } = judgements[0];
      const block = element("div", element("h4", property || "everything"));
      if (because && !because.startsWith("held")) block.append(Object.assign(element("p", because), { className: "because" }));
      const story = judgements.find((judgement) => judgement.story);
      if (story) {
        const lines = story.story.split("\n").map((line) => element("li", line));
        block.append(Object.assign(element("ol", ...lines), { className: "story" }));
      }
      block.append(element("ul", ...judgements.filter(({ lane }) => lane).map((judgement) => element("li", lane(square, judgement)))));
      return block;
    })];
  };
  const lane = (square, judgement) => {
    const mine = judgement.lane.startsWith(square.lock + "/") ? judgement.lane.slice(square.lock.length + 1) : judgement.lane;
    if (!judgement.trial) return mine;
    const link = element("a", mine);
    link.href = address(judgement);
    link.title = `${judgement.lane}, trial ${judgement.trial[0]}, seed ${judgement.trial[2]}`
      + (judgement.version && `, ${square.backend} ${judgement.version}`);
    return link;
  };
  const close = (back = false) => {
    if (!opened) return;
    opened.link.classList.remove("open");
    panel.hidden = true;
    if (back) opened.link.focus();
    opened = null;
    write(chosen());
  };
  document.getElementById("panel-close").addEventListener("click", () => close(true));
  document.addEventListener("pointerdown", (event) => {
    if (opened && !panel.contains(event.target) && !event.target.closest("a[data-i]")) close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && opened) close(true);
    const typing = event.target.closest("input, select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      form.elements.text.focus();
      form.elements.text.select();
    }
  });

  // Address and form

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
  // However little of the matrix is left, what stands below it stays where it is.
  const room = document.getElementById("room");
  const keep = () => {
    if (squares.some((square) => square.link.hidden)) return;
    room.style.minHeight = "";
    room.style.minHeight = room.offsetHeight + "px";
  };
  const follow = () => {
    const state = read();
    close();
    for (const name of fields) form.elements[name].value = state[name]; // what no choice offers chooses nothing
    for (const name of fields) if (form.elements[name].selectedIndex === -1) form.elements[name].value = "";
    apply(chosen());
    const square = squares.find((each) => each.lock === state.lock && each.fault === state.fault && !each.link.hidden);
    if (square) {
      square.link.scrollIntoView({ block: "nearest", inline: "nearest" });
      open(square);
    } else if (state.verdict) {
      document.getElementById("matrix-section").scrollIntoView();
    }
  };
  addEventListener("hashchange", follow);
  addEventListener("resize", keep);
  keep();
  follow();

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
})();
