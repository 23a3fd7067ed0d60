// The sheet on which a timeline is drawn: a canvas, colours and hatches from the page's style, and one time axis from
// which every part takes its places. Shapes are those of the picture above: PATHS is `SHAPES` of
// `results/pages/svg.py`.

const SHAPES = Object.fromEntries(Object.entries(PATHS).map(([name, path]) => [name, new Path2D(path)]));
const COLOURS = [
  "paper", "raised", "ink", "soft", "line", "link", "hold", "hold-edge", "past", "past-edge", "bad", "write", "read",
  "band", "hatch", "rate",
];
const NARROW = 600; // pixels

// The next larger of 1, 2, 5 times a power of ten.
function round(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].find((factor) => factor * power >= least * 0.999) * power;
}

function duration(ns) {
  if (ns >= 999.5e6) return `${(ns / 1e9).toFixed(2)} s`;
  return ns >= 999.5e3 ? `${Number((ns / 1e6).toPrecision(3))} ms` : `${Number((ns / 1e3).toPrecision(3))} µs`;
}

// A moment, to a thousandth of what is in view.
function moment(ns, span) {
  return `${(ns / 1e9).toFixed(Math.min(Math.max(Math.ceil(-Math.log10(span / 1e12)), 0), 6))} s`;
}

class Sheet {
  constructor(canvas, lane, about) {
    Object.assign(this, { canvas, lane, about, places: about.places, g: canvas.getContext("2d"), scroll: 0 });
    this.resize();
  }

  resize() {
    const { canvas, places } = this;
    this.width = canvas.clientWidth;
    this.ratio = globalThis.devicePixelRatio || 1;
    canvas.width = Math.round(this.width * this.ratio);
    canvas.height = Math.round(places.height * this.ratio);
    this.narrow = this.width < NARROW;
    this.left = this.narrow ? 46 : 84;
    this.right = Math.max(this.width - 8, this.left + 1); // a pixel, also where there is no room
    this.recolour();
    // For the brush: operations of the whole lane in columns of two pixels.
    const [begin, end] = this.about.whole, columns = Math.max(Math.floor((this.right - this.left) / 2), 1);
    this.crowd = this.lane.invoked(begin, (end - begin) / columns, columns);
  }

  recolour() {
    const style = getComputedStyle(this.canvas);
    const named = (name) => style.getPropertyValue(`--${name}`).trim() || "#888";
    this.colour = Object.fromEntries(COLOURS.map((name) => [name, named(name)]));
    this.family = style.fontFamily;
    this.widths = new Map(); // of words, by their font
    const { hatch, bad, "past-edge": past } = this.colour;
    this.hatched = {
      fault: this.hatch(10, hatch, 1.4), past: this.hatch(6, past, 1.2), lacked: this.hatch(5, bad, 1.1),
    };
  }

  hatch(size, colour, width) {
    const tile = document.createElement("canvas"), pixels = Math.round(size * this.ratio);
    tile.width = tile.height = pixels;
    const g = tile.getContext("2d"), over = size + 2, under = size - 2;
    g.scale(pixels / size, pixels / size);
    g.strokeStyle = colour;
    g.lineWidth = width;
    g.stroke(new Path2D(`M-2 ${over}L${over}-2M-2 2L2-2M${under} ${over}L${over} ${under}`));
    return { pattern: this.g.createPattern(tile, "repeat"), scale: size / pixels, size };
  }

  x(time) { return this.left + (time - this.begin) / this.pixel; }
  time(x) { return this.begin + (x - this.left) * this.pixel; }
  // To whole pixels, so that neighbours meet.
  sharp(time) { return Math.round(this.within(time) * this.ratio) / this.ratio; }
  within(time) { return Math.min(Math.max(this.x(time), this.left), this.right); }
  top(row) { return this.places.rows + row * this.places.row - this.scroll; }

  box(colour, x, y, width, height) {
    this.g.fillStyle = this.colour[colour];
    this.g.fillRect(x, y, width, height);
  }

  // Hatching whose lines stay with what lies at `x` when it moves.
  hatching(kind, x) {
    const { pattern, scale, size } = this.hatched[kind];
    pattern.setTransform(new DOMMatrix([scale, 0, 0, scale, x % size, 0]));
    return pattern;
  }

  hatchBox(kind, x, y, width, height) {
    this.g.fillStyle = this.hatching(kind, x);
    this.g.fillRect(x, y, width, height);
  }

  fill(path, colour) {
    this.g.fillStyle = this.colour[colour];
    this.g.fill(path);
  }

  line(path, colour, width = 1, dash = []) {
    this.g.strokeStyle = this.colour[colour];
    this.g.lineWidth = width;
    this.g.setLineDash(dash);
    this.g.stroke(path);
    if (dash.length) this.g.setLineDash([]);
  }

  // One of the shapes at a place.
  shape(name, x, y, { fill, stroke, width = 1 }) {
    this.g.translate(x, y);
    if (fill) this.fill(SHAPES[name], fill);
    if (stroke) this.line(SHAPES[name], stroke, width);
    this.g.translate(-x, -y);
    this.drawn++;
  }

  font(size, weight = 400) {
    const font = `${weight} ${size}px ${this.family}`;
    if (font !== this.fonted) this.g.font = this.fonted = font; // which costs
  }

  // Columns of one pixel and of different heights on one line, neighbours of one height as one box.
  bars(heights, bottom, colour, width = 1) {
    this.g.fillStyle = this.colour[colour];
    for (let n = 0; n < heights.length;) {
      const tall = heights[n], from = n;
      while (n < heights.length && heights[n] === tall) n++;
      if (!tall) continue;
      this.g.fillRect(this.left + from * width, bottom - tall, (n - from) * width, tall);
      this.drawn++;
    }
  }

  words(text, x, y, colour, align = "left") {
    this.g.fillStyle = this.colour[colour];
    this.g.textAlign = align;
    this.g.fillText(text, x, y);
  }

  measure(text) {
    const key = this.fonted + text;
    if (!this.widths.has(key)) this.widths.set(key, this.g.measureText(text).width);
    return this.widths.get(key);
  }

  // As much of a text as fits.
  fitting(text, width) {
    if (this.measure(text) <= width) return text;
    let few = 0, many = Math.min(text.length, 200);
    while (few < many) {
      const middle = (few + many + 1) >> 1;
      if (this.measure(text.slice(0, middle) + "…") <= width) few = middle; else many = middle - 1;
    }
    return few > 2 ? text.slice(0, few) + "…" : "";
  }

  clipped(top, height, draw) {
    this.g.save();
    this.g.beginPath();
    this.g.rect(this.left, top, this.right - this.left, height);
    this.g.clip();
    draw();
    this.g.restore();
  }

  // Draws what lies between two moments. chosen: the operation to be ringed, or -1. cursor: x of the pointer, or null.
  paint(begin, end, chosen, cursor) {
    const { g, places, ratio } = this;
    Object.assign(this, { begin, end, chosen, pixel: (end - begin) / (this.right - this.left), drawn: 0 });
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.fonted = "";
    g.clearRect(0, 0, this.width, places.height);
    this.axis();
    this.faults();
    this.clipped(places.rows, places.shown, () => drawRows(this));
    this.gutter();
    for (const strip of places.strips) STRIPS[strip.name](this, strip);
    this.frame();
    this.violations();
    if (cursor !== null) this.cursor(cursor);
    this.brush();
  }

  axis() {
    const { places, left, right, begin, end } = this;
    const tick = round((end - begin) / (right - left) * (this.narrow ? 74 : 104));
    const digits = Math.max(0, -Math.floor(Math.log10(tick / 1e9) + 1e-9));
    const grid = new Path2D(), short = new Path2D();
    this.font(11);
    for (let n = Math.ceil(begin / tick); n * tick <= end; n++) {
      const x = Math.round(this.x(n * tick)) + 0.5;
      grid.moveTo(x, places.rows);
      grid.lineTo(x, places.axis);
      short.moveTo(x, places.axis);
      short.lineTo(x, places.axis + 5);
      const words = `${(n * tick / 1e9).toFixed(digits)} s`, half = this.measure(words) / 2;
      if (x - half > left - 30) this.words(words, Math.min(x, this.width - half), places.axis + 18, "soft", "center");
    }
    this.line(grid, "line");
    short.moveTo(left, places.axis + 0.5);
    short.lineTo(right, places.axis + 0.5);
    this.line(short, "soft");
  }

  // Each fault: its name on its line, its band over the row that it hit, or over all of them, and over the strips.
  faults() {
    const { places, lane } = this;
    const inView = ({ moments }) => moments[0] <= this.end && (moments[3] ?? Infinity) >= this.begin;
    const shown = this.about.faults.filter(inView);
    for (const { moments: [begun, applied, healing, healed], worker, line } of shown) {
      const left = this.within(begun), right = Math.max(this.within(healed ?? Infinity), left + 1.5);
      const on = this.within(applied ?? begun), off = this.within(healing ?? healed ?? Infinity);
      const band = (top, height) => {
        this.box("band", left, top, right - left, height);
        this.hatchBox("fault", on, top, Math.max(off - on, 1.5), height);
      };
      this.clipped(places.rows, places.shown, () => {
        const single = worker >= 0 && worker < lane.workers;
        band(single ? this.top(worker) : places.rows, single ? places.row : places.shown);
      });
      for (const strip of places.strips) band(strip.top, strip.height);
      const y = 3.5 + places.line * line, ends = places.line - 3;
      this.line(new Path2D(`M${left + 0.5} ${y + ends}V${y}H${right - 0.5}V${y + ends}`), "bad");
    }
    this.font(11.5, 600);
    for (let line = 0; 4 + places.line * line < places.marks; line++) {
      this.names(shown.filter((fault) => fault.line === line));
    }
  }

  // Names on one line: each has the room until the next begins.
  names(faults) {
    faults.forEach(({ name, target, moments, line }, n) => {
      const left = this.within(moments[0]) + 5;
      const room = (n + 1 < faults.length ? this.within(faults[n + 1].moments[0]) - 6 : this.right) - left;
      const words = room < 24 ? "" : this.fitting(target ? `${name}: ${target}` : name, room);
      if (!words) return;
      this.box("paper", left - 3, 5 + this.places.line * line, this.measure(words) + 6, this.places.line - 2);
      this.words(words, left, 16 + this.places.line * line, "bad");
    });
  }

  // The workers' names, and where rows are hidden that they are.
  gutter() {
    const { places, lane } = this, middle = places.row > 24 ? 12 + (places.row - 20) / 2 : places.row / 2;
    this.font(places.row > 24 ? 12 : 10.5, 600);
    for (let row = 0; row < lane.workers; row++) {
      const y = this.top(row) + middle;
      if (y < places.rows + 4 || y > places.rows + places.shown - 2) continue;
      this.words(this.narrow ? `w${row}` : `worker ${row}`, this.left - 8, y + 4, "ink", "right");
    }
    const all = lane.workers * places.row, bar = places.shown * places.shown / all;
    if (all > places.shown) this.box("soft", this.right + 3, places.rows + this.scroll / all * places.shown, 3, bar);
  }

  // The window of the picture above.
  frame() {
    const { places } = this, [begin, end] = this.about.window;
    if (end < this.begin || begin > this.end || (begin <= this.begin && end >= this.end)) return;
    const left = Math.max(this.x(begin), this.left - 4);
    const right = Math.min(Math.max(this.x(end), left + 3), this.right + 4);
    const path = new Path2D(`M${left} ${places.rows}H${right}V${places.rows + places.shown}H${left}z`);
    this.clipped(places.rows - 2, places.shown + 4, () => this.line(path, "ink", 1.4, [5, 3]));
  }

  // Markers of violations, those that would cover each other as one with their number.
  violations() {
    const { places, about: { violations } } = this, y = places.marks + 11;
    const marks = [];
    for (const [at, what] of violations) {
      if (at < this.begin || at > this.end) continue;
      const x = this.x(at), last = marks.at(-1);
      if (last && x - last.x < 14) last.whats.push(what); else marks.push({ x, at, whats: [what] });
    }
    this.marks = marks;
    this.font(10.5, 700);
    for (const { x, whats } of marks) {
      this.shape("violation", x, y, { fill: "bad" });
      if (whats.length > 1) this.words(`${whats.length}`, x + 8, y - 1, "bad");
      if (marks.length <= 60) this.line(new Path2D(`M${x} ${y}V${places.rows + places.shown}`), "bad", 1, [2, 3]);
    }
  }

  cursor(x) {
    const { places } = this, words = moment(this.time(x), this.end - this.begin);
    this.line(new Path2D(`M${x} ${places.rows}V${places.axis}`), "soft", 1);
    this.font(11, 600);
    const half = this.measure(words) / 2 + 5, at = Math.min(Math.max(x, this.left + half), this.width - half);
    this.box("ink", at - half, places.axis + 6, 2 * half, 17);
    this.words(words, at, places.axis + 18, "paper", "center");
  }

  // The whole lane in small, with the window that is shown.
  brush() {
    const { places, left, right, about } = this, top = places.brush, height = places.brushed, bottom = top + height;
    const [begin, end] = about.whole, place = (time) => left + (time - begin) / (end - begin) * (right - left);
    this.box("raised", left, top, right - left, height);
    for (const { moments: [begun, , , healed] } of about.faults) {
      const from = place(begun), to = place(healed ?? end);
      this.box("band", from, top, Math.max(to - from, 1), height);
      this.hatchBox("fault", from, top, Math.max(to - from, 1), height);
    }
    const most = this.crowd.reduce((a, b) => Math.max(a, b), 1), wide = (right - left) / this.crowd.length;
    const tall = (count) => count && Math.max(Math.round(Math.sqrt(count / most) * (height - 8)), 2);
    this.bars(Array.from(this.crowd, tall), bottom, "rate", wide);
    const marks = new Path2D();
    let last = -Infinity;
    for (const [at] of about.violations) {
      const x = place(at);
      if (x - last < 2) continue;
      marks.moveTo(x - 3, top);
      marks.lineTo(x + 3, top);
      marks.lineTo(x, top + 6);
      last = x;
    }
    this.fill(marks, "bad");
    const from = place(this.begin), to = Math.max(place(this.end), from + 3);
    this.g.globalAlpha = 0.72;
    this.box("paper", left, top, from - left, height);
    this.box("paper", to, top, right - to, height);
    this.g.globalAlpha = 1;
    this.line(new Path2D(`M${from + 0.5} ${top + 0.5}H${to - 0.5}V${bottom - 0.5}H${from + 0.5}z`), "soft");
    for (const x of [from, to]) this.box("link", x - 1.5, top + height / 2 - 8, 3, 16);
    this.font(11);
    if (!this.narrow) this.words("whole lane", left - 8, top + height / 2 + 4, "soft", "right");
  }
}
