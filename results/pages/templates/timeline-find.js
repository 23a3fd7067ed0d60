// What lies at a place of a sheet, in words: the text of a tip.

const NEAREST = 9; // pixels from which an operation is meant
const MOST_TRIED = 150; // operations on each side of the pointer, of a thread

class Finder {
  constructor(sheet) {
    this.sheet = sheet;
  }

  // What lies at a place: { op, text }, op -1 where it is none.
  at(x, y) {
    const { places, left, right } = this.sheet, nothing = { op: -1, text: "" };
    if (x < left || x > right || y > places.axis) return nothing;
    if (y >= places.rows + places.shown) return { op: -1, text: this.measures(x) };
    if (y >= places.rows) return this.inRow(Math.floor((y - this.sheet.top(0)) / places.row), x);
    const near = this.sheet.marks.find((mark) => Math.abs(mark.x - x) < NEAREST);
    if (near && y >= places.marks - 3) return { op: -1, text: this.violationsText(near.at, near.whats) };
    const fault = this.under(this.sheet.time(x)).find(({ line }) => line === Math.floor((y - 3) / places.line));
    return fault ? { op: -1, text: this.faultText(fault) } : nothing;
  }

  // A moment, as exactly as what is in view makes sense of it.
  when(time) {
    return `${(time / 1e9).toFixed(this.sheet.end - this.sheet.begin < 1e8 ? 6 : 4)} s`;
  }

  // The faults that are under way at some time between two moments.
  under(begin, end = begin) {
    return this.sheet.about.faults.filter(({ moments }) => moments[0] <= end && (moments[3] ?? Infinity) >= begin);
  }

  violationsText(at, whats) {
    const many = whats.length > 1 ? `${whats.length} violations from` : "violation at";
    return [`${many} ${this.when(at)}`, ...new Set(whats)].slice(0, 9).join("\n");
  }

  faultText({ name, target, moments }) {
    const words = ["begun", "applied", "healing", "healed"];
    const lines = words.map((what, n) => `${what} ${moments[n] === null ? "never" : this.when(moments[n])}`);
    return `${target ? `${name}: ${target}` : name}\n${lines.join("\n")}`;
  }

  // The operation whose completion is nearest, a refused or unknown one rather than another; else one that is under
  // way; else a hold.
  inRow(row, x) {
    const { sheet, sheet: { lane, pixel } } = this, time = sheet.time(x), reach = NEAREST * pixel;
    let best = -1, least = NEAREST, around = -1, crowd = 0;
    const weigh = (op) => {
      const [glyph, outcome] = lane.codes[lane.code[op]], far = Math.abs(lane.end[op] - time) / pixel;
      const weight = outcome !== OK ? far / 2 : glyph === "acquire" ? far + 3 : far;
      if (weight < least) [least, best] = [weight, op];
      if (lane.inv[op] <= time && lane.end[op] >= time) around = op;
    };
    for (const { from, to } of lane.rows[row]?.threads ?? []) {
      const place = (moment) => lower(lane.reach, moment, from, to);
      const low = place(time - reach), middle = place(time), high = place(time + reach);
      crowd += place(time + pixel / 2) - place(time - pixel / 2);
      const last = Math.min(high + 1, middle + MOST_TRIED, to);
      for (let op = Math.max(low, middle - MOST_TRIED); op < last; op++) weigh(op);
      if (high - low < MOST_TRIED || !(lane.marks.of(low, high) & TROUBLED)) continue;
      for (let op = low; op < high; op++) if (lane.codes[lane.code[op]][1] !== OK) weigh(op);
    }
    const op = best >= 0 ? best : around;
    if (op < 0) return { op, text: this.holdText(row, time) };
    const others = crowd > 1 ? `\none of ${crowd} at this pixel: zoom in for the others` : "";
    return { op, text: this.described(op) + others };
  }

  described(op) {
    const { worker, words, result, inv, end, key } = this.sheet.lane.operation(op);
    const until = end === null ? "" : `, returned ${this.when(end)} (${duration(end - inv)})`;
    const lines = [`worker ${worker}: ${words}`, `outcome: ${result}`, `invoked ${this.when(inv)}${until}`];
    if (key !== null) lines.push(`key: ${key}`);
    return lines.join("\n");
  }

  holdText(row, time) {
    const { lane, lane: { holds } } = this.sheet, thread = lane.rows[row]?.threads.find(({ sort }) => sort === 0);
    if (!thread) return "";
    const n = lower(holds.reach, time, thread.holds, thread.held);
    if (n >= thread.held || holds.begin[n] > time || holds.end[n] < time) return "";
    const token = lane.tokenOf(holds.op[n]), lease = holds.lease[n];
    const lines = [
      `worker ${row} holds #${holds.rank[n]}, ${token === null ? "no token" : `token ${token}`}`,
      `${this.when(holds.begin[n])} to ${this.when(holds.end[n])}${holds.open[n] ? "; no release is known" : ""}`,
    ];
    if (!Number.isNaN(lease)) lines.push(`its lease may end at ${this.when(lease)}`);
    return lines.join("\n");
  }

  // What the strips say about the step at a place.
  measures(x) {
    const { sheet, sheet: { lane, lane: { grants } } } = this, all = steps(sheet);
    const begin = all.begin + Math.floor((sheet.time(x) - all.begin) / all.length) * all.length;
    const end = begin + all.length;
    const from = lower(grants, begin, 0, grants.length), to = lower(grants, end, from, grants.length);
    const lines = [`${this.when(begin)} to ${this.when(end)}`];
    if (to > from) {
      const { median, longest } = lane.wait(from, to);
      lines.push(`wait for a grant: median ${duration(median)}, longest ${duration(longest)} (${to - from} granted)`);
    } else lines.push("nothing was granted");
    const share = (cover) => `${Math.round(cover.share(begin, end) * 100)} %`;
    lines.push(
      `${(lane.completed(begin, all.length, 1)[0] / all.length * 1e9).toFixed(1)} operations/s`,
      `somebody held ${share(lane.held)} of the time, wanted and free ${share(lane.lacked)}`,
    );
    return [...lines, ...new Set(this.under(begin, end).map(({ name }) => `during ${name}`))].join("\n");
  }
}
