// Timelines as people use them: opened when their lane is looked at, moved and zoomed with wheel, fingers, mouse and
// keys, and telling what lies under the pointer. The page's own script shows what stands in `data-tip` of an element.

const SHORTEST = 20_000; // ns, of a window
const STEPS = 60; // operations around a violation, about
const still = matchMedia("(prefers-reduced-motion: reduce)");

let scrolled = -Infinity; // when the wheel last turned for somebody else: a scroll of the page that runs on is not ours

class Timeline {
  constructor(figure) {
    this.figure = figure;
    this.canvas = figure.querySelector("canvas");
    this.span = figure.querySelector(".timeline-span");
    this.pointers = new Map();
    Object.assign(this, { chosen: -1, cursor: null, violation: -1, drag: null, moved: false, frame: 0, goal: null });
    new ResizeObserver(() => this.resized()).observe(this.canvas);
  }

  resized() {
    if (!this.canvas.clientWidth) return; // the tab of another lane is open
    if (this.sheet) this.sheet.resize();
    if (this.sheet) this.paint(); // at once: a canvas that changes its size is empty
    else this.opening ??= this.open().catch((error) => {
      this.span.textContent = `This browser cannot draw it: ${error}`;
      throw error;
    });
  }

  async open() {
    const about = JSON.parse(await fencepost.unpacked(this.figure.querySelector("script").textContent));
    this.lane = await Lane.open(about);
    this.about = about;
    [this.begin, this.end] = about.whole;
    this.sheet = new Sheet(this.canvas, this.lane, about);
    this.finder = new Finder(this.sheet);
    // For tests, and for whoever asks in the browser's console.
    this.canvas.operationAt = (x, y) => this.operationAt(x, y);
    this.canvas.operation = (op) => this.lane.operation(op);
    this.canvas.dataset.operations = this.lane.count;
    for (const button of this.figure.querySelectorAll("button")) {
      button.disabled = false;
      button.addEventListener("click", () => this.do(button.dataset.do));
    }
    const on = (name, does, options) => this.canvas.addEventListener(name, (event) => does.call(this, event), options);
    on("wheel", this.wheel, { passive: false });
    on("pointerdown", this.down);
    on("pointermove", this.move);
    on("pointerup", this.up);
    on("pointercancel", this.up);
    on("pointerleave", this.leave);
    on("click", this.click);
    on("dblclick", (event) => this.zoom(event.shiftKey ? 3 : 1 / 3, this.time(event.offsetX)));
    on("keydown", this.key);
    this.paint();
    this.canvas.dataset.ready = "true";
  }

  // Painting

  later() {
    this.frame ||= requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (!this.canvas.clientWidth) return;
    if (devicePixelRatio !== this.sheet.ratio) this.sheet.resize();
    this.sheet.paint(this.begin, this.end, this.chosen, this.cursor);
    const span = this.end - this.begin;
    const shown = { begin: Math.round(this.begin), end: Math.round(this.end), drawn: this.sheet.drawn };
    Object.assign(this.canvas.dataset, shown);
    this.span.textContent = `${moment(this.begin, span)} to ${moment(this.end, span)} (${duration(span)})`;
  }

  recolour() {
    if (!this.sheet || !this.canvas.clientWidth) return;
    this.sheet.recolour();
    this.paint();
  }

  // The window, which may be ahead of what is painted

  get pixel() {
    return (this.end - this.begin) / (this.sheet.right - this.sheet.left);
  }

  time(x) {
    return this.begin + (x - this.sheet.left) * this.pixel;
  }

  // The nearest window that there is.
  fitting(begin, end) {
    const [first, last] = this.about.whole;
    const span = Math.min(Math.max(end - begin, SHORTEST), last - first);
    const from = Math.min(Math.max((begin + end - span) / 2, first), last - span);
    return [from, from + span];
  }

  show(begin, end) {
    [this.begin, this.end] = this.fitting(begin, end);
    this.later();
  }

  // The same, on the way there.
  go(begin, end) {
    if (still.matches) {
      this.show(begin, end);
      return;
    }
    const from = [this.begin, this.end], started = performance.now();
    this.halt();
    this.goal = this.fitting(begin, end);
    const on = () => {
      const part = Math.min((performance.now() - started) / 180, 1), share = 1 - (1 - part) ** 3;
      this.show(...from.map((time, n) => time + (this.goal[n] - time) * share));
      if (part < 1) this.way = requestAnimationFrame(on); else this.goal = null;
    };
    on();
  }

  halt() {
    cancelAnimationFrame(this.way);
    this.goal = null;
  }

  zoom(factor, at) {
    const [begin, end] = this.goal ?? [this.begin, this.end], [first, last] = this.about.whole;
    const span = Math.min(Math.max((end - begin) * factor, SHORTEST), last - first);
    const fixed = at ?? (begin + end) / 2, from = fixed - (fixed - begin) * span / (end - begin);
    this.go(from, from + span);
  }

  pan(share) {
    const [begin, end] = this.goal ?? [this.begin, this.end], by = (end - begin) * share;
    this.go(begin + by, end + by);
  }

  do(what) {
    const [begin, end] = this.about.window;
    if (what === "in") this.zoom(0.5);
    else if (what === "out") this.zoom(2);
    else if (what === "whole") this.go(...this.about.whole);
    else if (what === "moment") this.go(begin - (end - begin) / 20, end + (end - begin) / 20);
    else this.toViolation(what === "next" ? 1 : -1);
  }

  toViolation(by) {
    const { violations, whole } = this.about;
    if (!violations.length) return;
    const count = violations.length, now = violations[this.violation]?.[0];
    let next = this.violation;
    do next = next < 0 && by < 0 ? count - 1 : (next + by + count) % count;
    while (violations[next][0] === now && next !== this.violation); // several at one moment are seen at once
    this.violation = next;
    const [at] = violations[next];
    const all = whole[1] - whole[0], span = Math.min(this.end - this.begin, all / 4, STEPS * all / this.lane.count);
    this.go(at - span / 2, at + span / 2);
    const box = this.canvas.getBoundingClientRect(), { left, right, places } = this.sheet;
    const whats = violations.filter(([its]) => its === at).map(([, what]) => what);
    const text = `${next + 1} of ${count}: ${this.finder.violationsText(at, whats)}`;
    this.tell(text, box.left + (left + right) / 2, box.top + places.marks);
  }

  // Telling

  // Shows a text as if the pointer were there: the page's script does so for what stands in `data-tip`.
  tell(text, clientX, clientY) {
    if (text) this.canvas.dataset.tip = text; else delete this.canvas.dataset.tip;
    if (clientX === undefined) return;
    this.canvas.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX, clientY }));
  }

  operationAt(x, y) {
    const { op } = this.finder.at(x, y);
    if (op < 0) return null;
    const { row, worker, kind, outcome, inv, end, words, result } = this.lane.operation(op);
    return { row, worker, kind, outcome: ["ok", "refused", "unknown"][outcome], inv, ret: end, words, result };
  }

  // Pointer and wheel

  wheel(event) {
    const lines = event.deltaMode ? 16 : 1, [first, last] = this.about.whole;
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const out = !sideways && event.deltaY > 0 && this.end - this.begin >= (last - first) * 0.9999;
    if (!event.ctrlKey && (out || event.timeStamp - scrolled < 200)) return;
    event.preventDefault();
    this.halt();
    const { left, right } = this.sheet, by = (sideways ? event.deltaX || event.deltaY : event.deltaY) * lines;
    if (sideways) {
      this.show(this.begin + by * this.pixel, this.end + by * this.pixel);
      return;
    }
    const factor = Math.exp(Math.min(Math.max(by, -200), 200) * (event.ctrlKey ? 0.01 : 0.0022));
    const at = this.time(Math.min(Math.max(event.offsetX, left), right));
    const span = Math.min(Math.max((this.end - this.begin) * factor, SHORTEST), last - first);
    const begin = at - (at - this.begin) * span / (this.end - this.begin);
    this.show(begin, begin + span);
  }

  down(event) {
    if (event.button !== 0) return;
    this.halt();
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.canvas.setPointerCapture(event.pointerId);
    const { places, left, right } = this.sheet, x = event.offsetX;
    const [first, last] = this.about.whole, place = (time) => left + (time - first) / (last - first) * (right - left);
    const brush = event.offsetY >= places.brush - 4;
    const near = (time) => Math.abs(x - place(time)) < 7;
    const part = !brush ? "pan" : near(this.begin) ? "begin" : near(this.end) ? "end" : "brush";
    this.moved = this.pointers.size > 1;
    this.drag = { part, x, y: event.offsetY, begin: this.begin, end: this.end, scroll: this.sheet.scroll };
    if (part === "brush" && (x < place(this.begin) || x > place(this.end))) {
      const middle = first + (x - left) / (right - left) * (last - first), half = (this.end - this.begin) / 2;
      Object.assign(this.drag, { begin: middle - half, end: middle + half });
      this.show(middle - half, middle + half);
    }
  }

  move(event) {
    if (!event.isTrusted) return; // our own, see `tell`
    const x = event.offsetX, y = event.offsetY, pointer = this.pointers.get(event.pointerId);
    if (!pointer || !this.drag) {
      this.hover(x, y);
      return;
    }
    if (this.pointers.size === 2) this.pinch(event.pointerId, x);
    Object.assign(pointer, { x, y });
    if (this.pointers.size !== 1) return;
    const { part, begin, end } = this.drag, dx = x - this.drag.x, dy = y - this.drag.y;
    if (!this.moved && Math.abs(dx) < 4 && Math.abs(dy) < 4) return;
    this.moved = true;
    this.tell("");
    const { left, right } = this.sheet, [first, last] = this.about.whole;
    const whole = (last - first) / (right - left);
    if (part === "pan") {
      this.show(begin - dx * this.pixel, end - dx * this.pixel);
      this.scroll(this.drag.scroll - dy);
    } else if (part === "brush") this.show(begin + dx * whole, end + dx * whole);
    else if (part === "begin") this.show(Math.min(begin + dx * whole, end - SHORTEST), end);
    else this.show(begin, Math.max(end + dx * whole, begin + SHORTEST));
  }

  pinch(id, x) {
    const other = [...this.pointers].find(([its]) => its !== id)[1], before = this.pointers.get(id).x;
    const [was, is] = [Math.abs(before - other.x), Math.abs(x - other.x)].map((gap) => Math.max(gap, 12));
    const fixed = this.time(other.x), span = (this.end - this.begin) * was / is;
    const begin = fixed - (fixed - this.begin) * was / is;
    this.show(begin, begin + span);
  }

  up(event) {
    this.pointers.delete(event.pointerId);
    if (!this.pointers.size) this.drag = null;
  }

  leave() {
    if (this.canvas.classList.contains("pinned")) return;
    Object.assign(this, { cursor: null, chosen: -1 });
    this.tell("");
    this.later();
  }

  // What was a drag pins nothing.
  click(event) {
    if (this.moved) event.stopPropagation();
    else if (event.isTrusted) this.chosen = this.finder.at(event.offsetX, event.offsetY).op; // else that of `keep`
    if (!this.moved && this.chosen >= 0) listLogs(this, this.chosen);
    this.moved = false;
    this.later();
  }

  hover(x, y) {
    const { left, right, places } = this.sheet;
    const target = this.finder.at(x, y), pinned = this.canvas.classList.contains("pinned");
    this.canvas.style.cursor = y >= places.brush - 4 ? "ew-resize" : target.text ? "pointer" : "grab";
    if (!pinned) this.chosen = target.op;
    this.cursor = x >= left && x <= right && y < places.axis ? x : null;
    this.tell(target.text);
    this.later();
  }

  // Keys

  scroll(to) {
    const { places } = this.sheet;
    this.sheet.scroll = Math.min(Math.max(to, 0), Math.max(this.lane.workers * places.row - places.shown, 0));
    this.later();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const does = {
      ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2),
      PageUp: () => this.pan(-0.9), PageDown: () => this.pan(0.9),
      ArrowUp: () => this.other(-1), ArrowDown: () => this.other(1),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      0: () => this.do("whole"), Home: () => this.do("whole"),
      n: () => this.toViolation(1), p: () => this.toViolation(-1),
      ",": () => this.step(-1), ".": () => this.step(1), Enter: () => this.keep(),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    event.stopPropagation(); // the page has keys of its own
    does();
  }

  // To the worker's next or previous operation, in the order of invocation; from none, to the one in the middle.
  step(by) {
    const { lane, chosen: now } = this;
    if (now < 0) {
      this.other(0);
      return;
    }
    let best = now;
    for (const { from, to } of lane.rows[lane.threadOf(now).worker].threads) {
      let op = lower(lane.row, lane.row[now], from, to);
      op = by < 0 ? op - 1 : op === now ? op + 1 : op;
      if (op >= from && op < to && (best === now || (lane.row[op] - lane.row[best]) * by < 0)) best = op;
    }
    this.choose(best);
  }

  // To the next worker above or below that did something; from none, to the first.
  other(by) {
    const middle = (this.begin + this.end) / 2, time = this.chosen < 0 ? middle : this.lane.end[this.chosen];
    let row = this.chosen < 0 ? 0 : this.lane.threadOf(this.chosen).worker + by, op = -1;
    for (; op < 0 && row >= 0 && row < this.lane.workers; row += by || 1) op = this.nearest(row, time);
    this.choose(op);
  }

  nearest(row, time) {
    const { lane } = this, far = (op) => op < 0 ? Infinity : Math.abs(lane.end[op] - time);
    return lane.rows[row].threads
      .map(({ from, to }) => Math.min(lower(lane.reach, time, from, to), to - 1))
      .reduce((best, op) => far(op) < far(best) ? op : best, -1);
  }

  choose(op) {
    if (op < 0) return;
    this.chosen = op;
    const { places } = this.sheet, span = this.end - this.begin, at = this.lane.end[op];
    if (at < this.begin || at > this.end) this.show(at - span / 2, at + span / 2);
    const top = this.lane.threadOf(op).worker * places.row;
    if (top < this.sheet.scroll) this.scroll(top);
    else if (top + places.row > this.sheet.scroll + places.shown) this.scroll(top + places.row - places.shown);
    this.paint();
    const box = this.canvas.getBoundingClientRect();
    const y = box.top + this.sheet.top(0) + top + places.row / 2;
    this.tell(this.finder.described(op), box.left + this.sheet.x(at), y);
  }

  keep() {
    if (this.chosen < 0) return;
    const box = this.canvas.getBoundingClientRect(), { worker } = this.lane.threadOf(this.chosen);
    const clientX = box.left + this.sheet.x(this.lane.end[this.chosen]);
    const clientY = box.top + this.sheet.top(worker) + this.sheet.places.row / 2;
    this.canvas.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX, clientY }));
  }
}

const timelines = [...document.querySelectorAll(".timeline:has(canvas)")].map((figure) => new Timeline(figure));
const recolour = () => { for (const timeline of timelines) timeline.recolour(); };
for (const query of ["(prefers-color-scheme: dark)", "print", "(forced-colors: active)"]) {
  matchMedia(query).addEventListener("change", recolour);
}
for (const moment of ["beforeprint", "afterprint"]) addEventListener(moment, recolour);
addEventListener("wheel", (event) => { if (!event.defaultPrevented) scrolled = event.timeStamp; }, { passive: true });
