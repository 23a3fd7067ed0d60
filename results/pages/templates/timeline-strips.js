// Strips of measures under the rows: waits for a grant, rates, and whether anybody held, each in steps of time that
// stay where they are when the window moves.

const STRIPS = { wait: drawWaits, rate: drawRates, held: drawHeld };
const FINEST = 3, COARSEST = 24, ENOUGH = 6; // pixels of a step, and operations that it should have on average

// The steps in view: where the first begins, how long each is, and their number.
function steps(sheet) {
  const [begin, end] = sheet.about.whole, each = (end - begin) / Math.max(sheet.lane.count, 1);
  const length = round(Math.max(FINEST * sheet.pixel, Math.min(COARSEST * sheet.pixel, ENOUGH * each)));
  const first = Math.floor(sheet.begin / length);
  return { begin: first * length, length, count: Math.ceil(sheet.end / length) - first };
}

// The line above a strip: what it shows, where there is room for that, and what its parts are.
function title(sheet, strip, parts) {
  sheet.font(11);
  const size = ([kind, words]) => sheet.measure(words) + (kind ? 25 : 12);
  if (parts.reduce((sum, part) => sum + size(part), sheet.left) > sheet.right) parts = parts.slice(1);
  let x = sheet.left;
  for (const part of parts) {
    const [kind, words] = part;
    if (kind === "lacked") sheet.hatchBox(kind, x, strip.top - 12, 9, 9);
    else if (kind) sheet.box(kind, x, strip.top - 12, 9, 9);
    sheet.words(words, kind ? x + 13 : x, strip.top - 4, kind ? "soft" : "ink");
    x += size(part);
  }
}

// A line of the scale, with its words in the gutter.
function scale(sheet, y, words) {
  sheet.line(new Path2D(`M${sheet.left} ${Math.round(y) + 0.5}H${sheet.right}`), "line");
  sheet.font(10.5);
  sheet.words(words, sheet.left - 6, y + 4, "soft", "right");
}

// Stepped areas. shares: of each step, the share of the strip's height, 0 for nothing; under: what they stand on.
function area(sheet, strip, { begin, length }, shares, kind, under = null) {
  sheet.g.fillStyle = kind === "lacked" ? sheet.hatching(kind, 0) : sheet.colour[kind];
  const bottom = strip.top + strip.height;
  for (let n = 0; n < shares.length; n++) {
    if (!(shares[n] > 0)) continue;
    const left = sheet.sharp(begin + n * length), right = sheet.sharp(begin + (n + 1) * length);
    const tall = Math.max(Math.min(shares[n], 1) * strip.height, 1), low = under ? under[n] * strip.height : 0;
    sheet.g.fillRect(left, bottom - low - tall, right - left, tall);
    sheet.drawn++;
  }
}

function drawWaits(sheet, strip) {
  const { lane, lane: { grants } } = sheet, all = steps(sheet);
  const low = Math.floor(Math.log10(lane.waitedShortest / 1000));
  const high = Math.max(Math.ceil(Math.log10(lane.waitedLongest / 1000)), low + 1);
  const share = (wait) => (Math.log10(wait / 1000) - low) / (high - low) * 0.97 + 0.03;
  for (let power = low; power <= high && grants.length; power += high - low > 4 ? 2 : 1) {
    const wait = 1000 * 10 ** power;
    scale(sheet, strip.top + strip.height * (1 - share(wait)), duration(wait).replace(".00", ""));
  }
  const medians = new Float64Array(all.count), longests = new Float64Array(all.count);
  stepped(grants, all.begin, all.length, all.count, (n, at, next) => {
    if (next === at) return;
    const { median, longest } = lane.wait(at, next);
    medians[n] = share(median);
    longests[n] = share(longest);
  });
  area(sheet, strip, all, longests, "rate");
  area(sheet, strip, all, medians, "hold-edge");
  title(sheet, strip, grants.length ? [["", "wait for a grant"], ["hold-edge", "median"], ["rate", "longest"]]
    : [["", "wait for a grant: none was granted"]]);
}

function drawRates(sheet, strip) {
  const { lane, lane: { grants } } = sheet, all = steps(sheet), seconds = all.length / 1e9;
  const done = lane.completed(all.begin, all.length, all.count), granted = new Uint32Array(all.count);
  stepped(grants, all.begin, all.length, all.count, (n, at, next) => { granted[n] = next - at; });
  const most = round(Math.max(done.reduce((a, b) => Math.max(a, b), 0) / seconds, 0.1));
  scale(sheet, strip.top, most.toLocaleString("en"));
  scale(sheet, strip.top + strip.height, "0");
  area(sheet, strip, all, Array.from(done, (count) => count / seconds / most), "rate");
  area(sheet, strip, all, Array.from(granted, (count) => count / seconds / most), "hold-edge");
  title(sheet, strip, [["", "each second"], ["rate", "operations"], ["hold-edge", "grants"]]);
}

function drawHeld(sheet, strip) {
  const { lane } = sheet, all = steps(sheet);
  const [held, lacked] = [lane.held, lane.lacked].map((cover) => cover.shares(all.begin, all.length, all.count));
  scale(sheet, strip.top, "100 %");
  scale(sheet, strip.top + strip.height, "0 %");
  area(sheet, strip, all, held, "hold");
  area(sheet, strip, all, lacked, "lacked", held);
  title(sheet, strip, [["", "share of time"], ["hold", "somebody held"], ["lacked", "wanted, nobody had it"]]);
}
