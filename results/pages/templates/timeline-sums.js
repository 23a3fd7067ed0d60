// Sorted columns and what is summed up over them, so that a question about any stretch costs little. Nothing here knows
// of locks.

// Work is done in slices, between which the browser may draw and answer.
const SLICE_MS = 8;
const BLOCK = 16384; // steps between two looks at the clock

function sliced() {
  let until = performance.now() + SLICE_MS;
  return async () => {
    if (performance.now() < until) return;
    await (globalThis.scheduler?.yield ? scheduler.yield() : new Promise((go) => setTimeout(go)));
    until = performance.now() + SLICE_MS;
  };
}

async function each(count, pause, step) {
  for (let from = 0; from < count; from += BLOCK) {
    const to = Math.min(from + BLOCK, count);
    for (let at = from; at < to; at++) step(at);
    await pause();
  }
}

// The first place in `from` to `to` of a sorted array whose entry is not less than `value`.
function lower(sorted, value, from, to) {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (sorted[middle] < value) from = middle + 1; else to = middle;
  }
  return from;
}

// The same for a value that is not far behind `from`.
function onward(sorted, value, from, to) {
  let stride = 1;
  while (from + stride < to && sorted[from + stride] < value) stride *= 2;
  return lower(sorted, value, from + (stride >> 1), Math.min(from + stride, to));
}

// For each of so many steps of one length: the places in `from` to `to` of the entries that lie in it.
function stepped(sorted, begin, length, count, tell, from = 0, to = sorted.length) {
  for (let n = 0, at = lower(sorted, begin, from, to); n < count; n++) {
    const next = onward(sorted, begin + (n + 1) * length, at, to);
    tell(n, at, next);
    at = next;
  }
}

// The largest entry of a stretch, or all bits of it, from summaries of 32, 1024, ... entries.
class Pyramid {
  static async over(base, both, pause) {
    const made = new Pyramid();
    made.levels = [base];
    made.both = both;
    for (let under = base; under.length > 32; under = made.levels.at(-1)) {
      const level = new under.constructor(Math.ceil(under.length / 32));
      await each(under.length, pause, (i) => { level[i >> 5] = both(level[i >> 5], under[i]); });
      made.levels.push(level);
    }
    return made;
  }

  of(from, to) {
    let result = 0;
    for (const level of this.levels) {
      const low = (from + 31) >> 5, high = to >> 5;
      if (low >= high) {
        for (let i = from; i < to; i++) result = this.both(result, level[i]);
        return result;
      }
      for (let i = from; i < low * 32; i++) result = this.both(result, level[i]);
      for (let i = high * 32; i < to; i++) result = this.both(result, level[i]);
      from = low;
      to = high;
    }
    return result;
  }
}

// Stretches of time, sorted and disjoint, and how much of any window they cover.
class Cover {
  constructor(size) {
    this.begin = new Float64Array(size);
    this.end = new Float64Array(size);
    this.before = new Float64Array(size + 1); // covered before each
    this.size = 0;
  }

  // Stretches come in the order of their beginnings; what overlaps is joined.
  add(begin, end) {
    const last = this.size - 1;
    if (last >= 0 && begin <= this.end[last]) {
      this.end[last] = Math.max(this.end[last], end);
    } else if (end > begin) {
      this.begin[this.size] = begin;
      this.end[this.size++] = end;
    }
    const now = this.size - 1;
    if (now >= 0) this.before[now + 1] = this.before[now] + this.end[now] - this.begin[now];
  }

  until(time) {
    const at = lower(this.begin, time, 0, this.size) - 1;
    return at < 0 ? 0 : this.before[at] + Math.min(time, this.end[at]) - this.begin[at];
  }

  share(begin, end) {
    return (this.until(end) - this.until(begin)) / (end - begin);
  }

  // The shares of so many windows of one length, one after another.
  shares(begin, length, count) {
    const shares = new Float64Array(count);
    let at = lower(this.begin, begin, 0, this.size), before = this.until(begin);
    for (let n = 0; n < count; n++) {
      const time = begin + (n + 1) * length;
      at = onward(this.begin, time, at, this.size);
      const now = at ? this.before[at - 1] + Math.min(time, this.end[at - 1]) - this.begin[at - 1] : 0;
      shares[n] = (now - before) / length;
      before = now;
    }
    return shares;
  }
}

// Several sorted lists of places as one, in the order of `time[place]`.
async function merged(lists, time, pause) {
  const heads = lists.map(() => 0);
  const out = new Uint32Array(lists.reduce((sum, list) => sum + list.length, 0));
  await each(out.length, pause, (i) => {
    let best = -1, least = Infinity;
    for (let k = 0; k < lists.length; k++) {
      if (heads[k] < lists[k].length && time[lists[k][heads[k]]] < least) least = time[lists[k][heads[k]]], best = k;
    }
    out[i] = lists[best][heads[best]++];
  });
  return out;
}
