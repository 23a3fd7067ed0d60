// Rows of workers: holds as bars, operations as shapes. What a drawing costs depends on the pixels, not on the
// operations: where they are too many to be shapes, each column of pixels asks the lane what is in it, and loses none
// of its troubles.

const NEAR = 2500; // operations in view that are still drawn one by one
const CELL = 8; // pixels that share one mark of a trouble

function drawRows(sheet) {
  const { places, lane } = sheet;
  const from = Math.floor(sheet.scroll / places.row);
  const to = Math.min(Math.ceil((sheet.scroll + places.shown) / places.row), lane.workers);
  const inView = [], lines = new Path2D();
  let many = 0;
  for (let row = from; row < to; row++) {
    inView.push(lane.rows[row].threads.map((thread) => [thread, ...lane.between(thread, sheet.begin, sheet.end)]));
    many += inView.at(-1).reduce((sum, [, low, high]) => sum + high - low, 0);
  }
  for (let row = from; row < to; row++) {
    const bar = barOf(sheet, row);
    stalls(sheet, inView[row - from], bar);
    holds(sheet, lane.rows[row], bar);
    if (many <= NEAR) shapes(sheet, inView[row - from], bar); else columns(sheet, inView[row - from], bar);
    const y = Math.round(bar.top + places.row) - 0.5;
    lines.moveTo(sheet.left, y);
    lines.lineTo(sheet.right, y);
  }
  sheet.line(lines, "line");
  if (sheet.chosen < 0) return;
  const { middle } = barOf(sheet, lane.threadOf(sheet.chosen).worker);
  ring(sheet, sheet.x(lane.end[sheet.chosen]), middle);
}

// Where in its row the bar of a worker lies.
function barOf(sheet, row) {
  const top = sheet.top(row), tall = sheet.places.row > 24;
  const y = top + (tall ? 12 : 5), height = sheet.places.row - (tall ? 20 : 10);
  return { top, y, height, tall, middle: y + height / 2, bottom: y + height, end: top + sheet.places.row };
}

// When the machine did not run the worker.
function stalls(sheet, threads, bar) {
  for (const [{ sort }, low, high] of threads) {
    if (sort !== 2 || high - low > (sheet.right - sheet.left) / 2) continue;
    const path = new Path2D();
    for (let op = low; op < high; op++) {
      const left = sheet.within(sheet.lane.inv[op]);
      path.rect(left, bar.end - 4, Math.max(sheet.within(sheet.lane.end[op]) - left, 1), 3);
    }
    sheet.fill(path, "line");
  }
}

// Bars of holds, or in each column the share of it in which the worker held.
function holds(sheet, row, bar) {
  const { left, right, lane } = sheet, held = lane.holds;
  const thread = row.threads.find(({ sort }) => sort === 0);
  if (!thread) return;
  const low = lower(held.reach, sheet.begin, thread.holds, thread.held);
  const high = lower(held.begin, sheet.end, low, thread.held);
  if (high - low > (right - left) / 3) {
    coverage(sheet, row, bar);
    return;
  }
  let free = left;
  for (let n = low; n < high; n++) {
    const from = Math.max(sheet.x(held.begin[n]), left - 4), lease = held.lease[n];
    const to = Math.min(Math.max(sheet.x(held.end[n]), from + 1.5), right + 4), late = lease < held.end[n];
    const sure = late ? Math.min(Math.max(sheet.x(lease), from), to) : to;
    // Who holds several locks at once has a part of the bar for each.
    const parts = Math.min(lane.keys.length || 1, 2), height = bar.height / parts;
    const y = bar.y + (parts > 1 ? lane.keyOf(held.op[n]) % 2 * height : 0);
    sheet.drawn++;
    sheet.box("hold", from, y, sure - from, height);
    if (late) {
      sheet.box("past", sure, y, to - sure, height);
      sheet.hatchBox("past", sure, y, to - sure, height);
    }
    if (to - from > 3) {
      edge(sheet, from, sure, y, height, "hold-edge");
      if (late) edge(sheet, sure, to, y, height, "past-edge");
    } else {
      sheet.box(late ? "past-edge" : "hold-edge", from, y, to - from, height);
    }
    if (held.open[n] && to <= right) {
      sheet.line(new Path2D(`M${to} ${bar.y - 3}v${bar.height + 6}`), "hold-edge", 2, [3, 2]);
    }
    if (late && lease >= sheet.begin && to - from > 8) {
      const flag = new Path2D(`M${sure} ${bar.bottom + 3}v${-bar.height - 12}l7 3.5l-7 3.5`);
      sheet.fill(flag, "past-edge");
      sheet.line(flag, "past-edge", 1.5);
    }
    if (!bar.tall || to - from <= 12) continue;
    sheet.font(10.5, 700);
    const at = Math.max(from, left + 1), width = sheet.measure(`#${held.rank[n]}`);
    const room = n + 1 < high ? Math.min(sheet.x(held.begin[n + 1]) - 3, right) : right;
    if (at < free || at + width > room) continue;
    sheet.words(`#${held.rank[n]}`, at, bar.y - 2.5, "ink");
    free = at + width + 4;
  }
}

function edge(sheet, from, to, y, height, colour) {
  sheet.g.strokeStyle = sheet.colour[colour];
  sheet.g.lineWidth = 1;
  sheet.g.strokeRect(from + 0.5, y + 0.5, Math.max(to - from - 1, 0), height - 1);
}

function coverage(sheet, row, bar) {
  const count = Math.ceil(sheet.right - sheet.left);
  const heights = (cover, least) => Array.from(cover.shares(sheet.begin, sheet.pixel, count),
    (share) => share > 0 ? Math.max(Math.round(share * bar.height), least) : 0);
  sheet.bars(heights(row.held, 2), bar.bottom, "hold-edge");
  sheet.bars(heights(row.past, 4), bar.bottom, "past-edge");
}

// Operations one by one: a shape at the completion and a line back to the invocation. Where shapes would cover each
// other ticks stand for the ordinary ones; refused and unknown ones are never left out.
function shapes(sheet, threads, bar) {
  const { lane } = sheet, waiting = new Path2D(), lasting = new Path2D(), ticks = new Path2D();
  const ordinary = [], troubles = [];
  for (const [{ sort }, low, high] of threads) {
    if (sort === 2) continue;
    for (let op = low; op < high; op++) {
      const from = Math.max(sheet.x(lane.inv[op]), sheet.left - 20), x = sheet.x(lane.end[op]);
      const [glyph, outcome] = lane.codes[lane.code[op]];
      if (x - from > 1.5) {
        const path = glyph === "acquire" ? waiting : lasting;
        path.moveTo(from, bar.middle);
        path.lineTo(Math.min(x, sheet.right + 20), bar.middle);
      }
      if (x > sheet.right + 20) continue;
      if (outcome !== OK) troubles.push({ x, op, glyph, outcome });
      else if (glyph !== "acquire") ordinary.push({ x, op, glyph });
    }
  }
  sheet.line(waiting, "soft", 1.5, [1.5, 3.5]);
  sheet.line(lasting, "write", 1.2);
  const taken = troubles.filter(({ glyph }) => glyph !== "acquire").map(({ x }) => x).sort((a, b) => a - b);
  ordinary.sort((a, b) => a.x - b.x);
  const fits = (x, n) => x - (ordinary[n - 1]?.x ?? -Infinity) >= 8 && (ordinary[n + 1]?.x ?? Infinity) - x >= 8
    && Math.abs((taken[lower(taken, x - 8, 0, taken.length)] ?? Infinity) - x) >= 8;
  ordinary.forEach(({ x, op, glyph }, n) => {
    if (op === sheet.chosen || fits(x, n)) ordinaryShape(sheet, glyph, x, bar.middle);
    else ticks.rect(x - 0.6, bar.middle - (glyph === "renew" ? 2 : 4.5), 1.2, glyph === "renew" ? 4 : 9);
  });
  sheet.drawn += ordinary.length;
  sheet.fill(ticks, "write");
  let last = { x: -Infinity };
  troubles.sort((a, b) => a.x - b.x || a.outcome - b.outcome);
  for (const trouble of troubles) {
    if (trouble.x - last.x < 3 && trouble.outcome === last.outcome && trouble.glyph === last.glyph) continue;
    troubleShape(sheet, trouble, bar.middle);
    last = trouble;
  }
}

function ordinaryShape(sheet, glyph, x, y) {
  if (glyph === "write") sheet.shape("write", x, y, { fill: "write", stroke: "paper" });
  else if (glyph === "read") sheet.shape("read", x, y, { fill: "read", stroke: "write", width: 2 });
  else if (glyph === "renew") sheet.shape("renew", x, y, { stroke: "write", width: 1.6 });
  else if (glyph === "release") sheet.shape("release", x, y, { fill: "hold-edge" });
  else if (glyph === "lost") sheet.shape("lost", x, y, { fill: "paper", stroke: "past-edge", width: 2 });
  else sheet.shape("other", x, y, { fill: "soft" });
}

function troubleShape(sheet, { x, glyph, outcome }, y) {
  const access = glyph === "read" || glyph === "write";
  if (access) sheet.shape(glyph, x, y, { fill: "paper", stroke: "bad", width: 1.4 });
  if (outcome === FAILED) {
    sheet.shape(access ? "cross" : "small", x, y, { stroke: access ? "bad" : "soft", width: access ? 2 : 1.5 });
  } else {
    sheet.font(13, 800);
    sheet.words("?", x, y + 4.5, "bad", "center");
    sheet.drawn++;
  }
}

function ring(sheet, x, y) {
  sheet.line(new Path2D(`M${x - 11} ${y}a11 11 0 1 0 22 0a11 11 0 1 0-22 0z`), "link", 2.5);
}

// Operations too many to be shapes: how many in each column, and in cells of a few columns the gravest trouble.
function columns(sheet, threads, bar) {
  const { lane, pixel } = sheet, count = Math.ceil(sheet.right - sheet.left), crowd = new Uint32Array(count);
  const add = (n, at, next) => { crowd[n] += next - at; };
  for (const [{ sort }, low, high] of threads) {
    if (sort !== 2) stepped(lane.inv, sheet.begin, pixel, count, add, low, high);
  }
  const most = bar.tall ? 6 : 4;
  const heights = Array.from(crowd, (many) => many && Math.min(Math.round(2 + Math.log2(many) / 2), most));
  sheet.bars(heights, bar.end - 1, "rate");
  const cell = CELL * pixel, y = bar.tall ? bar.top + 6 : bar.middle;
  const first = Math.floor(sheet.begin / cell), cells = new Uint8Array(Math.ceil(sheet.end / cell) - first);
  const gravest = (n, at, next) => { cells[n] |= lane.marks.of(at, next); };
  for (const [{ sort, from, to }] of threads) {
    if (sort !== 2) stepped(lane.inv, first * cell, cell, cells.length, gravest, from, to);
  }
  cells.forEach((marks, n) => {
    const x = sheet.x((first + n + 0.5) * cell);
    if (marks & REFUSED_ACCESS) sheet.shape("cross", x, y, { stroke: "bad", width: 2 });
    else if (marks & UNKNOWN) troubleShape(sheet, { x, glyph: "other", outcome: 2 }, y);
    else if (marks & LOST) sheet.shape("lost", x, y, { stroke: "past-edge", width: 1.5 });
    else if (marks & REFUSED) sheet.shape("small", x, y, { stroke: "soft", width: 1.2 });
  });
}
