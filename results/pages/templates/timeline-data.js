// What a timeline knows: a lane's operations, ordered from the columns that `results/pages/lane/timeline.py` wrote,
// and questions about them whose cost does not grow with their number. Times are nanoseconds since the trial's origin.

const TICK = 1000; // ns, of the columns' times

// A column from its differences; null and texts stay as they are.
function summed(column) {
  let sum = 0;
  return column.map((entry) => typeof entry === "number" ? sum += entry : entry);
}

// Classes of operations, as bits, so that a stretch of them can be told in one byte.
const DONE = 1, REFUSED_ACCESS = 2, REFUSED = 4, UNKNOWN = 8, LOST = 16, STALLED = 32;
const TROUBLED = REFUSED_ACCESS | REFUSED | UNKNOWN;
const OK = 0, FAILED = 1;

function classOf([glyph, outcome]) {
  if (glyph === "stall") return STALLED;
  if (outcome === OK) return glyph === "lost" ? LOST : DONE;
  if (outcome !== FAILED) return UNKNOWN;
  return glyph === "read" || glyph === "write" ? REFUSED_ACCESS : REFUSED;
}

class Lane {
  // about: what the page carries, see `results/pages/lane/timeline.py`. Operations are told apart by their places
  // thread by thread: a worker's own, that of its renewals, then the stalls of the machine.
  static async open(about) {
    const lane = new Lane();
    await lane.order(about, sliced());
    await lane.arrange(sliced());
    return lane;
  }

  async order({ columns, holds: grants, codes, errors, keys, workers }, pause) {
    const count = columns.code.length, size = grants.row.length, invoked = summed(columns.inv);
    Object.assign(this, { count, columns, codes, errors, keys, workers, threads: [] });
    this.values = { token: summed(columns.token), value: summed(columns.value), base: summed(columns.base) };
    const rows = Array.from({ length: 3 * workers }, () => []);
    await each(count, pause, (row) => {
      const process = columns.process[row], turn = Math.floor(process / workers); // -1 for who read in the end
      const sort = codes[columns.code[row]][0] === "stall" ? 2 : turn & 1;
      rows[(process - turn * workers) * 3 + sort].push(row);
    });
    this.row = new Uint32Array(count); // of the history
    this.code = new Uint32Array(count);
    this.inv = new Float64Array(count);
    this.end = new Float64Array(count); // of one that never completed: its invocation
    this.reach = new Float64Array(count); // by when it and all before it, of its thread, had ended
    const holds = this.holds = {
      op: new Uint32Array(size), begin: new Float64Array(size), end: new Float64Array(size),
      lease: new Float64Array(size).fill(NaN), open: new Uint8Array(size), reach: new Float64Array(size),
      rank: new Uint32Array(size),
    };
    const ranks = summed(grants.rank);
    const granted = new Int32Array(count).fill(-1); // places in the columns of holds
    grants.row.forEach((row, at) => { granted[row] = at; });
    let op = 0, n = 0;
    for (const [place, mine] of rows.entries()) {
      const thread = { worker: Math.floor(place / 3), sort: place % 3, from: op, to: op + mine.length, holds: n };
      let reach = -Infinity, until = -Infinity;
      await each(mine.length, pause, (i) => {
        const row = mine[i], at = granted[row], inv = invoked[row] * TICK;
        const end = inv + Math.max(columns.lasted[row], 0) * TICK;
        this.row[op] = row;
        this.code[op] = columns.code[row];
        this.inv[op] = inv;
        this.end[op] = end;
        this.reach[op] = reach = Math.max(reach, end);
        if (at >= 0) {
          holds.op[n] = op;
          holds.begin[n] = end;
          holds.end[n] = end + grants.held[at] * TICK;
          if (grants.lease[at] !== null) holds.lease[n] = end + grants.lease[at] * TICK;
          holds.open[n] = grants.open[at];
          holds.rank[n] = ranks[at];
          holds.reach[n] = until = Math.max(until, holds.end[n]);
          n++;
        }
        op++;
      });
      thread.held = n;
      if (mine.length) this.threads.push(thread);
    }
  }

  // What the questions below rest on.
  async arrange(pause) {
    const classes = this.codes.map(classOf), waits = this.codes.map(([glyph]) => glyph === "acquire");
    const { holds, count } = this;
    const marks = new Uint8Array(count);
    await each(count, pause, (op) => { marks[op] = classes[this.code[op]]; });
    this.marks = await Pyramid.over(marks, (a, b) => a | b, pause);

    // Completed operations, counted before each in its thread.
    this.done = new Uint32Array(count + 1);
    await each(count, pause, (op) => { this.done[op + 1] = this.done[op] + Number(classes[this.code[op]] === DONE); });

    this.rows = Array.from({ length: this.workers }, () => ({ threads: [], held: null, past: null }));
    const waiting = [], granted = [];
    for (const thread of this.threads) {
      const row = this.rows[thread.worker], size = thread.held - thread.holds;
      row.threads.push(thread);
      const mine = [];
      await each(thread.to - thread.from, pause, (i) => {
        if (waits[this.code[thread.from + i]]) mine.push(thread.from + i);
      });
      waiting.push(mine);
      granted.push(Array.from({ length: size }, (_, i) => thread.holds + i));
      if (thread.sort !== 0) continue;
      row.held = new Cover(size);
      row.past = new Cover(size);
      await each(size, pause, (i) => {
        const n = thread.holds + i;
        row.held.add(holds.begin[n], holds.end[n]);
        if (holds.lease[n] < holds.end[n]) row.past.add(Math.max(holds.lease[n], holds.begin[n]), holds.end[n]);
      });
    }

    const grants = await merged(granted, holds.begin, pause);
    this.grants = new Float64Array(grants.length);
    this.waits = new Float64Array(grants.length);
    this.held = new Cover(grants.length);
    await each(grants.length, pause, (i) => {
      const n = grants[i];
      this.grants[i] = holds.begin[n];
      this.waits[i] = Math.max(holds.begin[n] - this.inv[holds.op[n]], 1000);
      this.held.add(holds.begin[n], holds.end[n]);
    });
    this.longest = await Pyramid.over(this.waits, Math.max, pause);
    this.waitedLongest = this.longest.of(0, grants.length) || 1000;
    this.waitedShortest = this.waits.reduce((a, b) => Math.min(a, b), this.waitedLongest);
    await this.spread(pause);

    const acquires = await merged(waiting, this.inv, pause);
    const wanted = new Cover(acquires.length);
    await each(acquires.length, pause, (i) => wanted.add(this.inv[acquires[i]], this.end[acquires[i]]));
    // Wanted and not held: what is left of each wait when the holds are taken out.
    this.lacked = new Cover(wanted.size + this.held.size + 1);
    await each(wanted.size, pause, (i) => {
      let from = wanted.begin[i];
      for (let k = lower(this.held.end, from, 0, this.held.size); from < wanted.end[i]; k++) {
        const until = k < this.held.size ? Math.min(this.held.begin[k], wanted.end[i]) : wanted.end[i];
        if (until > from) this.lacked.add(from, until);
        if (k >= this.held.size) break;
        from = Math.max(from, this.held.end[k]);
      }
    });
  }

  // How many of the first 64, 128, ... waits were of each length, on a logarithmic scale.
  async spread(pause) {
    const counts = new Uint32Array(((this.waits.length >> 6) + 1) * 64), now = new Uint32Array(64);
    this.steps = new Uint8Array(this.waits.length);
    await each(this.waits.length, pause, (i) => {
      if ((i & 63) === 0) counts.set(now, i);
      now[this.steps[i] = step(this.waits[i])]++;
    });
    if ((this.waits.length & 63) === 0) counts.set(now, this.waits.length);
    this.counts = counts;
  }

  // Median and longest wait of the grants from place `from` to `to`.
  wait(from, to) {
    const longest = this.longest.of(from, to), low = from >> 6, high = to >> 6;
    if (to - from <= 128) return { median: this.waits.slice(from, to).sort()[(to - from) >> 1], longest };
    const sums = new Int32Array(64);
    for (let s = 0; s < 64; s++) sums[s] = this.counts[high * 64 + s] - this.counts[low * 64 + s];
    for (let i = low * 64; i < from; i++) sums[this.steps[i]]--;
    for (let i = high * 64; i < to; i++) sums[this.steps[i]]++;
    let left = (to - from) >> 1, at = 0;
    while (left >= sums[at]) left -= sums[at++];
    return { median: Math.min(1000 * 10 ** ((at + 0.5) / 8), longest), longest };
  }

  // Places [from, to) of a thread's operations of which some part lies between two moments.
  between(thread, begin, end) {
    return [lower(this.reach, begin, thread.from, thread.to), lower(this.inv, end, thread.from, thread.to)];
  }

  // How many operations were completed, ok, in each of so many steps of one length.
  completed(begin, length, count) {
    const counts = new Uint32Array(count), tell = (n, low, high) => { counts[n] += this.done[high] - this.done[low]; };
    for (const { from, to } of this.threads) stepped(this.reach, begin, length, count, tell, from, to);
    return counts;
  }

  // How many were invoked in each.
  invoked(begin, length, count) {
    const counts = new Uint32Array(count), tell = (n, low, high) => { counts[n] += high - low; };
    for (const { from, to } of this.threads) stepped(this.inv, begin, length, count, tell, from, to);
    return counts;
  }

  threadOf(op) {
    return this.threads.find((thread) => op < thread.to);
  }

  keyOf(op) {
    return this.columns.key?.[this.row[op]] ?? 0;
  }

  tokenOf(op) {
    return this.values.token[this.row[op]];
  }

  // Everything that is known about one operation.
  operation(op) {
    const [glyph, outcome, kind, nothing, result, tail] = this.codes[this.code[op]];
    const { columns, values, row: { [op]: row } } = this;
    const token = values.token[row], value = values.value[row], base = values.base[row], error = columns.error[row];
    const words = kind + (value === null ? nothing : ` ${value}`) + (base === null ? "" : ` (on ${base})`)
      + (token === null ? "" : ` with token ${token}`) + tail;
    return {
      op, row, glyph, outcome, worker: this.threadOf(op).worker,
      token, value, kind, words, result: error ? `${result} (${this.errors[error]})` : result,
      inv: this.inv[op], end: columns.lasted[row] < 0 ? null : this.end[op],
      key: this.keys.length > 1 ? this.keys[this.keyOf(op)] : null,
    };
  }
}

// The step of a length of time on a logarithmic scale: eight for each power of ten, from a microsecond on.
function step(wait) {
  return Math.min(Math.max(Math.floor(8 * Math.log10(wait / 1000)), 0), 63);
}
