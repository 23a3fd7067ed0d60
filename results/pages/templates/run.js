// A run's page: the matrix is coloured, folded to the window and filtered by the judgements behind it; a panel beside
// it has a cell's judgements, or what a fault, a lock or a property is; tables are sorted. All that is chosen is in the
// address, after the #, so that it can be sent and gone back to.
(() => {
  "use strict";
  for (const table of document.querySelectorAll(".sortable")) sortable(table);
  const matrix = document.getElementById("matrix");
  if (!matrix) return;

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

  // Filters

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

  // The panel

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
