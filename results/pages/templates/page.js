// Tips: hover or focus shows what stands in an element's <title> or data-tip; a click, Enter or Space pins it, Escape
// lets go. `window.fencepost` is for other scripts of the page.
(() => {
  "use strict";
  const tip = document.getElementById("tip");
  let pinned = null;
  const adopt = (root) => {
    for (const element of root.querySelectorAll(".tip")) {
      const title = element.querySelector(":scope > title");
      if (!title) continue;
      element.dataset.tip = title.textContent;
      element.setAttribute("aria-label", title.textContent);
      element.setAttribute("role", "img");
      // Whoever goes by keyboard comes by everything that was recorded, in the order of time. On the page of a run that
      // would be a long way to the matrix.
      if (element.matches(".op, .hold-of, .fault-of") && !element.closest(".case")) element.setAttribute("tabindex", "0");
      title.remove(); // the browser's own tip would stand in front of ours
    }
  };
  // Beside the point; the tip of a mark stands below or above its picture if there is room, and covers no other mark.
  const place = (x, y, element) => {
    const box = tip.getBoundingClientRect(), picture = element?.closest("svg.picture")?.getBoundingClientRect();
    const tops = [y + 18, y - box.height - 12];
    if (picture) tops.unshift(picture.bottom + 4, picture.top - box.height - 4);
    const top = tops.find((each) => each >= 8 && each + box.height <= innerHeight) ?? 8;
    tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = top + "px";
  };
  let ours = false; // the matrix of a run shows tips of its own
  const show = (text, x, y, element) => {
    if (tip.textContent !== text) tip.textContent = text;
    tip.hidden = false;
    ours = true;
    place(x, y, element);
  };
  const hide = () => {
    if (pinned || !ours) return;
    tip.hidden = true;
    ours = false;
  };
  const unpin = () => {
    if (pinned instanceof Element) pinned.classList.remove("pinned");
    pinned = null;
    tip.classList.remove("fixed");
    tip.hidden = true;
    ours = false;
  };
  const pin = (text, x, y, element) => {
    unpin();
    show(text, x, y, element);
    pinned = element || true;
    if (element) element.classList.add("pinned");
    tip.classList.add("fixed");
  };
  const middle = (element) => {
    const box = element.getBoundingClientRect();
    return [box.left + box.width / 2, box.bottom - 10];
  };
  const of = (event) => event.target instanceof Element ? event.target.closest("[data-tip]") : null;
  addEventListener("pointermove", (event) => {
    if (pinned) return;
    const element = of(event);
    if (element) show(element.dataset.tip, event.clientX, event.clientY, element); else hide();
  });
  addEventListener("click", (event) => {
    const element = of(event);
    const again = element && element === pinned && tip.textContent === element.dataset.tip;
    if (event.target instanceof Element && event.target.closest("#tip")) return;
    if (!element || again) unpin(); else pin(element.dataset.tip, event.clientX, event.clientY, element);
  });
  addEventListener("focusin", (event) => {
    const element = of(event);
    if (element && !pinned) show(element.dataset.tip, ...middle(element), element);
  });
  addEventListener("focusout", hide);
  addEventListener("scroll", unpin, { passive: true });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") unpin();
    const element = of(event);
    if (!element || element.tagName === "CANVAS" || !(event.key === "Enter" || event.key === " ")) return;
    event.preventDefault();
    if (element === pinned) unpin(); else pin(element.dataset.tip, ...middle(element), element);
  });
  adopt(document);

  // What scrolls sideways can be reached by keyboard, for as long as it does.
  const reach = () => {
    for (const box of document.querySelectorAll(".wide")) {
      if (box.scrollWidth > box.clientWidth) box.setAttribute("tabindex", "0"); else box.removeAttribute("tabindex");
    }
  };
  addEventListener("resize", reach);
  addEventListener("toggle", reach, true);
  reach();

  // Copies a text and says on the button what happened. A page from disk may be refused the clipboard.
  const copy = async (button, text, refused) => {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      button.textContent = refused();
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  };
  addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
    const code = button?.parentElement.querySelector("code");
    if (code) copy(button, code.textContent, () => { getSelection().selectAllChildren(code); return "selected"; });
  });

  // A text that was deflated and written in base64.
  const unpacked = (packed) => {
    const signs = atob(packed), bytes = new Uint8Array(signs.length);
    for (let at = 0; at < signs.length; at++) bytes[at] = signs.charCodeAt(at);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
  };

  window.fencepost = { unpin, adopt, unpacked, copy };
})();
