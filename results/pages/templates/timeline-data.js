// What a timeline knows: a lane's operations, unpacked from what `results/packing.py` put into the page, and questions
// about them whose cost does not grow with their number. Times are nanoseconds since the trial's origin.

// base64 of deflated bytes; `size`: how many there are when they are inflated.
async function inflate(text, size, pause) {
  const stream = new DecompressionStream("deflate-raw");
  const out = new Uint8Array(size);
  const reading = (async () => {
    const reader = stream.readable.getReader();
    for (let at = 0; ;) {
      const { done, value } = await reader.read();
      if (done) return;
      out.set(value, at);
      at += value.length;
    }
  })();
  const writer = stream.writable.getWriter();
  for (let at = 0; at < text.length; at += 4 * BLOCK) {
    const piece = atob(text.slice(at, at + 4 * BLOCK));
    const bytes = new Uint8Array(piece.length);
    for (let i = 0; i < piece.length; i++) bytes[i] = piece.charCodeAt(i);
    await writer.write(bytes);
    await pause();
  }
  await writer.close();
  await reading;
  return out;
}

// A column from its planes: all low bytes first, then all of the next. More than six bytes do not fit into a double.
async function column(bytes, from, length, width, pause) {
  const out = width <= 4 ? new Uint32Array(length) : width <= 6 ? new Float64Array(length) : new BigInt64Array(length);
  for (let plane = 0; plane < width; plane++) {
    const at = from + plane * length;
    if (width <= 6) {
      const factor = 256 ** plane;
      await each(length, pause, (i) => { out[i] += bytes[at + i] * factor; });
    } else {
      const shift = BigInt(8 * plane);
      await each(length, pause, (i) => { out[i] |= BigInt(bytes[at + i]) << shift; });
    }
  }
  return out;
}

// 0, 1, 2, 3, ... as 0, -1, 1, -2, ...
const signed = (n) => typeof n === "bigint" ? BigInt.asIntN(64, (BigInt.asUintN(64, n) >> 1n) ^ -(n & 1n))
  : n % 2 ? -(n + 1) / 2 : n / 2;
const plus = (a, b) => typeof a === typeof b ? a + b : BigInt.asIntN(64, BigInt(a) + BigInt(b));

const TOKEN = 1, VALUE = 2, BASE = 4, ERROR = 8, HOLD = 16; // bits of a code: which columns have a value

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
  // about: plain data of `packing.Packed`; text: its base64.
  static async open(about, text) {
    const lane = new Lane();
    await lane.unpack(about, text, sliced());
    await lane.arrange(sliced());
    return lane;
  }

  async unpack(about, text, pause) {
    Object.assign(this, { codes: about.codes, errors: about.errors, keys: about.keys, workers: about.workers });
    const bytes = await inflate(text, about.columns.reduce((sum, [, length, width]) => sum + length * width, 0), pause);
    const raw = {};
    let at = 0;
    for (const [name, length, width] of about.columns) {
      raw[name] = await column(bytes, at, length, width, pause);
      at += length * width;
    }
    const count = raw.code.length, tick = about.tick;
    this.count = count;
    this.code = about.codes.length < 256 ? new Uint8Array(raw.code) : raw.code;
    this.key = raw.key;
    this.error = raw.error;
    this.inv = new Float64Array(count);
    this.end = new Float64Array(count); // of one that never completed: its invocation
    this.never = new Uint8Array(count);
    this.reach = new Float64Array(count); // by when it and all before it, of its thread, had ended
    this.generation = new Int32Array(count);
    this.ranks = new Map([TOKEN, VALUE, BASE, ERROR, HOLD].map((bit) => [bit, new Uint32Array((count >> 9) + 2)]));
    for (const name of ["token", "value", "base"]) {
      this[name] = raw[name] instanceof BigInt64Array ? raw[name] : new Float64Array(raw[name].length);
    }
    const holds = raw.held.length;
    this.holds = {
      op: new Uint32Array(holds), begin: new Float64Array(holds), end: new Float64Array(holds),
      lease: new Float64Array(holds).fill(NaN), open: raw.open, reach: new Float64Array(holds), past: null,
    };
    this.threads = [];
    const next = { [TOKEN]: 0, [VALUE]: 0, [BASE]: 0, [ERROR]: 0, [HOLD]: 0 };
    const bits = about.codes.map((code) => code[2]);
    let from = 0;
    for (const [worker, sort, size] of about.threads) {
      const thread = { worker, sort, from, to: from + size, holds: next[HOLD] };
      let now = 0, reach = -Infinity, generation = 0, token = 0, value = 0, held = -Infinity;
      await each(size, pause, (i) => {
        const op = thread.from + i, has = bits[this.code[op]];
        if ((op & 511) === 0) for (const [bit, ranks] of this.ranks) ranks[op >> 9] = next[bit];
        const inv = now + signed(raw.gap[op]) * tick;
        const end = inv + Math.max(raw.lasted[op] - 1, 0) * tick;
        this.inv[op] = inv;
        this.end[op] = now = end;
        this.never[op] = raw.lasted[op] === 0 ? 1 : 0;
        this.reach[op] = reach = Math.max(reach, end);
        this.generation[op] = generation += signed(raw.generation[op]);
        if (has & TOKEN) this.token[next[TOKEN]] = token = plus(token, signed(raw.token[next[TOKEN]++]));
        if (has & BASE) this.base[next[BASE]] = plus(value, signed(raw.base[next[BASE]++]));
        if (has & VALUE) this.value[next[VALUE]] = value = plus(value, signed(raw.value[next[VALUE]++]));
        if (has & ERROR) next[ERROR]++;
        if (has & HOLD) {
          const n = next[HOLD]++, lease = raw.lease[n];
          this.holds.op[n] = op;
          this.holds.begin[n] = end;
          this.holds.end[n] = end + raw.held[n] * tick;
          this.holds.reach[n] = held = Math.max(held, this.holds.end[n]);
          if (lease) this.holds.lease[n] = end + (lease % 2 ? -(lease + 1) / 2 : lease / 2 - 1) * tick;
        }
      });
      thread.held = next[HOLD];
      this.threads.push(thread);
      from += size;
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

    const asked = await merged(waiting, this.inv, pause);
    const wanted = new Cover(asked.length);
    await each(asked.length, pause, (i) => wanted.add(this.inv[asked[i]], this.end[asked[i]]));
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
    const found = new Uint32Array(count);
    for (const { from, to } of this.threads) {
      let at = lower(this.reach, begin, from, to);
      for (let n = 0; n < count; n++) {
        const next = onward(this.reach, begin + (n + 1) * length, at, to);
        found[n] += this.done[next] - this.done[at];
        at = next;
      }
    }
    return found;
  }

  // How many were invoked in each.
  invoked(begin, length, count) {
    const found = new Uint32Array(count);
    for (const { from, to } of this.threads) {
      let at = lower(this.inv, begin, from, to);
      for (let n = 0; n < count; n++) {
        const next = onward(this.inv, begin + (n + 1) * length, at, to);
        found[n] += next - at;
        at = next;
      }
    }
    return found;
  }

  rank(bit, op) {
    let rank = this.ranks.get(bit)[op >> 9];
    for (let i = op & ~511; i < op; i++) if (this.codes[this.code[i]][2] & bit) rank++;
    return rank;
  }

  threadOf(op) {
    return this.threads.find((thread) => op < thread.to);
  }

  // The row of the history: how many were invoked before it, or with it by a thread of a lower number.
  rowOf(op) {
    const mine = this.threadOf(op), at = this.inv[op];
    return this.threads.reduce((sum, thread) => sum + (thread === mine ? op - thread.from
      : lower(this.inv, this.threads.indexOf(thread) < this.threads.indexOf(mine) ? at + 1 : at, thread.from, thread.to)
        - thread.from), 0);
  }

  tokenOf(op) {
    return this.codes[this.code[op]][2] & TOKEN ? this.token[this.rank(TOKEN, op)] : null;
  }

  // Everything that is known about one operation.
  operation(op) {
    const [glyph, outcome, bits, kind, result, tail] = this.codes[this.code[op]];
    const { worker } = this.threadOf(op);
    const has = (bit, values) => bits & bit ? values[this.rank(bit, op)] : null;
    const token = has(TOKEN, this.token), value = has(VALUE, this.value), base = has(BASE, this.base);
    const error = has(ERROR, this.error);
    const process = this.generation[op] * this.workers + worker;
    const words = kind + (value === null ? "" : ` ${value}`) + (base === null ? "" : ` (on ${base})`)
      + (token === null ? "" : ` with token ${token}`) + tail;
    return {
      op, glyph, outcome, worker, process, token, value, words, kind,
      result: error === null ? result : `${result} (${this.errors[error]})`,
      inv: this.inv[op], end: this.never[op] ? null : this.end[op],
      key: this.key && this.keys.length > 1 ? this.keys[this.key[op]] : null, row: this.rowOf(op),
    };
  }
}

// The step of a length of time on a logarithmic scale: eight for each power of ten, from a microsecond on.
function step(wait) {
  return Math.min(Math.max(Math.floor(8 * Math.log10(wait / 1000)), 0), 63);
}
