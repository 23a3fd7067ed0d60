// Tips: hover or focus shows what stands in an element's <title>, a click pins it, Escape lets go.
(() => {
  const tip = document.getElementById("tip");
  let pinned = null;
  for (const element of document.querySelectorAll(".tip")) {
    const title = element.querySelector(":scope > title");
    if (!title) continue;
    element.dataset.tip = title.textContent;
    element.setAttribute("aria-label", title.textContent);
    title.remove(); // the browser's own tip would stand in front of ours
  }
  const place = (x, y) => {
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(8, y - box.height - 12) : y + 18) + "px";
  };
  const show = (element, x, y) => {
    tip.textContent = element.dataset.tip;
    tip.hidden = false;
    place(x, y);
  };
  const hide = () => { if (!pinned) tip.hidden = true; };
  const unpin = () => {
    if (pinned) pinned.classList.remove("pinned");
    pinned = null;
    tip.classList.remove("fixed");
    tip.hidden = true;
  };
  const middle = (element) => {
    const box = element.getBoundingClientRect();
    return [box.left + box.width / 2, box.bottom - 10];
  };
  const of = (event) => event.target instanceof Element ? event.target.closest("[data-tip]") : null;
  addEventListener("pointermove", (event) => {
    if (pinned) return;
    const element = of(event);
    if (element) show(element, event.clientX, event.clientY); else hide();
  });
  addEventListener("click", (event) => {
    const element = of(event);
    const again = element && element === pinned;
    if (event.target instanceof Element && event.target.closest("#tip")) return;
    unpin();
    if (!element || again) return;
    show(element, event.clientX, event.clientY);
    pinned = element;
    element.classList.add("pinned");
    tip.classList.add("fixed");
  });
  addEventListener("focusin", (event) => {
    const element = of(event);
    if (element && !pinned) show(element, ...middle(element));
  });
  addEventListener("focusout", hide);
  addEventListener("scroll", unpin, { passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") unpin(); });
})();
