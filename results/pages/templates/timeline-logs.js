// What servers logged about an operation, listed below the canvas on the axis of the lane.

const ABOUT = 200e6; // ns before and after an operation in which lines are listed

let logs; // [{ at, server, text }, ...] in the order of time; at: ns of the clock of the operations

// What the page has of the servers' logs, in which each line begins with its time; null where it has none.
async function logLines() {
  const packed = document.querySelector("#logged");
  if (!packed || logs) return logs ?? null;
  const [zero, of] = JSON.parse(await fencepost.unpacked(packed.textContent));
  const read = (server) => (line) => {
    const [, second, part, text] = line.match(/^(\d{4}-\d\d-\d\dT[\d:]{8})\.(\d{1,9})Z (.*)/) ?? [];
    return second ? [{ at: Date.parse(`${second}Z`) * 1e6 + Number(part.padEnd(9, "0")) - zero, server, text }] : [];
  };
  const all = Object.entries(of).flatMap(([server, log]) => log.split("\n").flatMap(read(server)));
  return logs = all.sort((one, other) => one.at - other.at);
}

// What every server logged from shortly before an operation until shortly after it, on the axis of the lane; where
// that is nothing, the line before and the line after it.
async function listLogs({ figure, lane, about, finder }, op) {
  const found = await logLines(), { worker, words, inv, end } = lane.operation(op);
  if (!found) return;
  const until = end ?? inv, all = found.map((line) => ({ ...line, at: line.at - about.origin }));
  const near = all.filter(({ at }) => at >= inv - ABOUT && at <= until + ABOUT);
  const beside = () => [all.findLast(({ at }) => at < inv), all.find(({ at }) => at > until)].filter(Boolean);
  const lines = near.length ? near : beside();
  const made = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
  const list = document.createElement("ul");
  for (const { at, server, text } of lines) {
    const line = document.createElement("li");
    line.className = at >= inv && at <= until ? "meanwhile" : "";
    line.append(made("span", finder.when(at)), made("b", server), made("code", text));
    list.append(line);
  }
  const what = `within ${duration(ABOUT)} of worker ${worker}'s ${words}`;
  const none = `No server logged anything ${what}${lines.length ? "; before and after:" : "."}`;
  const logged = figure.querySelector(".timeline-logged");
  logged.replaceChildren(made("p", near.length ? `Logged by servers ${what}:` : none), list);
  logged.hidden = false;
}
