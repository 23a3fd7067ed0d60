// A trial's lanes, of which one is shown, and the violations of a lane, of which one is shown.
// The address tells which: #lane=<name>&property=<property>, or #lane-<number>.
(() => {
  "use strict";
  const lanes = [...document.querySelectorAll("section.lane")];
  const current = () => lanes.find((lane) => !lane.hidden);

  // Windows that do not stand in the page are packed: further violations, and of a large trial all of a lane.
  const unpack = async (lane) => {
    const packed = lane.querySelector(":scope > .packed");
    if (!packed) return;
    const html = await fencepost.unpacked(packed.dataset.packed);
    if (!packed.isConnected) return; // another got here first
    packed.remove();
    const windows = lane.querySelector(":scope > .windows");
    windows.insertAdjacentHTML("beforeend", html);
    fencepost.adopt(windows);
  };

  const choose = (lane) => {
    if (!lane || lane === current()) return;
    fencepost.unpin();
    for (const other of lanes) other.hidden = other !== lane;
    if (lane.querySelector(":scope > [data-first]")) unpack(lane);
    const tab = document.getElementById("tab-" + lanes.indexOf(lane));
    if (tab) {
      tab.checked = true;
      tab.closest("li").hidden = false;
      tab.closest("li").scrollIntoView({ block: "nearest" });
    }
    // What draws itself in a size that it had not while it was hidden.
    dispatchEvent(new Event("resize"));
  };
  const tell = (lane, property) => {
    const address = new URLSearchParams({ lane: lane.dataset.lane });
    if (property) address.set("property", property);
    history.replaceState(null, "", "#" + address);
  };

  const go = (lane, number) => {
    const windows = [...lane.querySelectorAll(".window")];
    const wanted = windows[(number + windows.length) % windows.length];
    fencepost.unpin();
    for (const window of windows) {
      window.hidden = window !== wanted;
      window.classList.toggle("current", window === wanted);
    }
    const step = lane.querySelector(".step");
    if (step) step.textContent = `violation ${windows.indexOf(wanted) + 1} of ${windows.length}`;
    return wanted;
  };
  const step = async (lane, by) => {
    if (!lane || !lane.querySelector("[data-step]")) return;
    await unpack(lane);
    const windows = [...lane.querySelectorAll(".window")];
    const shown = go(lane, windows.findIndex((window) => !window.hidden) + by);
    tell(lane, shown.dataset.property);
    land(lane);
  };
  // The story stands where it is seen, wherever the page was.
  const land = (lane) => {
    (lane.querySelector(".window:not([hidden]) .story") ?? lane).scrollIntoView({ block: "nearest" });
  };
  const open = async () => {
    const address = new URLSearchParams(location.hash.slice(1));
    const [, number] = location.hash.match(/^#lane-(\d+)$/) || [];
    const lane = number === undefined
      ? lanes.find((each) => each.dataset.lane === address.get("lane"))
      : lanes[Number(number)];
    if (!lane) return;
    choose(lane);
    const property = address.get("property");
    if (!property) return land(lane);
    await unpack(lane);
    const windows = [...lane.querySelectorAll(".window")];
    const at = windows.findIndex((window) => window.dataset.property === property);
    if (at >= 0 && windows[at].dataset.kind) {
      go(lane, at);
      land(lane);
    } else lane.querySelector(`tr[data-property="${CSS.escape(property)}"]`)?.scrollIntoView({ block: "center" });
  };

  addEventListener("change", (event) => {
    if (event.target.name !== "lane") return;
    choose(lanes[Number(event.target.value)]);
    tell(current());
  });
  addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-step]") : null;
    if (button) step(button.closest(".lane"), Number(button.dataset.step));
  });
  addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.closest("input:not([type=radio]), textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n") step(current(), 1);
    if (event.key === "p") step(current(), -1);
  });
  addEventListener("hashchange", open);
  open();
  // Paper shows all lanes, and cannot wait for them.
  addEventListener("load", async () => {
    for (const packed of document.querySelectorAll(".packed[data-first]")) await unpack(packed.closest(".lane"));
  });

  // The operations of a line of the story: pointed at in the line, marked in the picture.
  const mark = (event, on) => {
    const line = event.target instanceof Element ? event.target.closest("[data-rows], tr[data-operation]") : null;
    if (!line) return;
    const rows = (line.dataset.rows || line.dataset.operation).split(" ");
    for (const row of rows) {
      for (const shape of line.closest(".window").querySelectorAll(`[data-row="${row}"]`)) shape.classList.toggle("told", on);
    }
  };
  addEventListener("pointerover", (event) => mark(event, true));
  addEventListener("pointerout", (event) => mark(event, false));

  // A picture as a file of its own, with the colours and fonts that it has on the page.
  const LOOK = ["fill", "fill-rule", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity",
    "font-family", "font-size", "font-style", "font-weight"];
  const drawn = (picture) => {
    const copy = picture.cloneNode(true), { width, height } = picture.viewBox.baseVal;
    const shapes = [picture, ...picture.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
    for (const [at, shape] of shapes.entries()) {
      const look = getComputedStyle(shape);
      for (const name of LOOK) copies[at].setAttribute(name, look.getPropertyValue(name));
      if (!shape.dataset.tip) continue;
      copies[at].append(document.createElementNS(copy.namespaceURI, "title"));
      copies[at].lastChild.textContent = shape.dataset.tip;
      delete copies[at].dataset.tip;
    }
    const paper = document.createElementNS(copy.namespaceURI, "rect");
    const sheet = { width, height, fill: getComputedStyle(document.documentElement).backgroundColor };
    for (const [name, value] of Object.entries(sheet)) paper.setAttribute(name, value);
    copy.prepend(paper);
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    return new XMLSerializer().serializeToString(copy);
  };
  const painted = async (svg) => {
    const image = new Image();
    image.src = "data:image/svg+xml," + encodeURIComponent(svg);
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height]; // sharp on dense screens too
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => { canvas.toBlob(done); });
  };
  addEventListener("click", async (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-save], [data-link]") : null;
    if (!button) return;
    const lane = button.closest(".lane").dataset.lane, shown = button.closest(".window");
    tell(button.closest(".lane"), shown.dataset.property);
    if (!button.dataset.save) {
      fencepost.copy(button, location.href, () => "it is in the address bar");
      return;
    }
    const svg = drawn(shown.querySelector("svg.picture"));
    const file = button.dataset.save === "png" ? await painted(svg) : new Blob([svg], { type: "image/svg+xml" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = `${lane} ${shown.dataset.property}`.trim().replace(/[^\w-]+/g, "-") + "." + button.dataset.save;
    link.click();
    URL.revokeObjectURL(link.href);
  });

  // The filter: all words must be somewhere in what is known of a lane.
  const filter = document.getElementById("filter-lanes");
  filter?.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    const items = [...document.querySelectorAll(".choice li")];
    for (const item of items) item.hidden = !words.every((word) => item.dataset.find.toLowerCase().includes(word));
    const left = items.filter((item) => !item.hidden).length;
    document.getElementById("lanes-shown").textContent = left < items.length ? `${left} of ${items.length}` : "";
  });
})();
