"""Opens a page as people open it, from disk, and complains about everything that a page must never do.

Complaints: an error or a warning in the console, an exception, a crash, a dialog, a new window, something that the
page's own policy refused, a request for anything but the page and its run's `assets/`, a layout that moves by itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Dialog, FloatRect, Locator, Page, Route, expect

Motion = Literal["reduce", "no-preference"]
Scheme = Literal["light", "dark"]

PATIENCE: Final = 180_000  # milliseconds for everything that a test waits for, long enough for a slow machine

_WATCH: Final = """
(() => {
  const seen = { refused: [], shifts: [], meddled: false };
  Object.defineProperty(globalThis, "seenByTests", { value: seen });
  addEventListener("securitypolicyviolation", (event) => {
    seen.refused.push(`${event.effectiveDirective}: ${event.blockedURI} ${event.sample}`);
  }, true);
  // What moves before anybody has touched anything moves by itself. (The browser's own reckoning excuses half a second
  // after an input: on a busy machine that is too short.) A pointer that is there from the start has not moved.
  for (const kind of ["keydown", "pointerdown", "pointermove", "wheel"]) {
    addEventListener(kind, (event) => {
      if (kind !== "pointermove" || event.movementX || event.movementY) seen.meddle();
    }, { capture: true, passive: true });
  }
  const note = (entries) => {
    for (const entry of entries) {
      if (seen.meddled || entry.value < 1e-3) continue; // parts of a pixel, which nobody sees
      const of = entry.sources.map((source) => source.node && (source.node.outerHTML || source.node.textContent));
      seen.shifts.push(`moved by ${entry.value.toFixed(4)}: ${of.map((text) => String(text).slice(0, 120))}`);
    }
  };
  const observer = new PerformanceObserver((list) => note(list.getEntries()));
  observer.observe({ type: "layout-shift", buffered: true });
  // What has moved by now, also where the browser has yet to call us.
  seen.now = () => {
    note(observer.takeRecords());
    return { refused: seen.refused, shifts: seen.shifts };
  };
  seen.meddle = () => {
    seen.now();
    seen.meddled = true;
  };
})();
"""
"""Runs before any script of the page; the page's policy does not apply to it."""

_REACHED: Final = """
(mark) => {
  const box = mark.getBoundingClientRect();
  for (let y = Math.max(box.top, 0); y <= Math.min(box.bottom, innerHeight); y++) {
    for (let x = Math.max(box.left, 0); x <= Math.min(box.right, innerWidth); x++) {
      if (mark.contains(document.elementFromPoint(x, y))) return { x, y };
    }
  }
}
"""

_DRAWN: Final = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))"

_RESTING: Final = """
(canvas) => new Promise((done) => {
  let before = "", same = 0;
  const look = () => {
    const now = [canvas.dataset.begin, canvas.dataset.end].join();
    same = now === before ? same + 1 : 0;
    before = now;
    if (same > 5) done(now.split(",").map(Number)); else requestAnimationFrame(look);
  };
  look();
})
"""
"""[begin, end] of the view, once they no longer change."""


@contextmanager
def visit(
    browser: Browser,
    path: Path,
    root: Path,
    *,
    fragment: str = "",
    width: int = 1280,
    height: int = 900,
    scheme: Scheme = "light",
    scale: float = 1,
    slow: int = 1,
) -> Iterator[Page]:
    """The page at `path`, loaded. When it is left, the test fails if the page did something that it must not do.

    root: the folder under which an `assets/` may be read. fragment: the part of the address after `#`. width, height:
    of the window, in CSS pixels. slow: how many times slower the processor is made.
    """
    complaints: list[str] = []
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, device_scale_factor=scale, locale="en-GB"
    )

    def on_request(route: Route) -> None:
        request, path = route.request, file_of(route.request.url)
        clicked = request.resource_type == "document" and request.is_navigation_request()  # or the page was opened
        asset = path is not None and path.parent.name == "assets" and path.is_relative_to(root.resolve())
        if asset or (clicked and path is not None):
            route.continue_()
        else:
            complaints.append(f"asked for {request.url[:200]}")
            route.abort()

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(f"console {message.type}: {message.text[:500]}")

    def on_dialog(dialog: Dialog) -> None:
        complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    context.route("**/*", on_request)
    context.add_init_script(_WATCH)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    if slow > 1:
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slow})
    page.on("console", on_console)
    page.on("pageerror", lambda error: complaints.append(f"exception: {error}"))
    page.on("websocket", lambda socket: complaints.append(f"asked for {socket.url}"))
    page.on("dialog", on_dialog)
    page.on("popup", lambda popup: complaints.append(f"opened a window: {popup.url}"))
    page.on("crash", lambda _: complaints.append("the page crashed"))
    try:
        page.goto(path.resolve().as_uri() + (f"#{fragment}" if fragment else ""))
        settle(page)
        yield page
        complaints += settled(page)
    except BaseException as error:
        if complaints:
            error.add_note("the page: " + "; ".join(complaints))
        raise
    finally:
        context.close()
    if complaints:
        raise AssertionError(f"{path.parent.name}/{path.name}: " + "\n".join(complaints))


@contextmanager
def timeline(
    browser: Browser, path: Path, root: Path, *, lane: int = 0, motion: Motion = "reduce", **options: Any
) -> Iterator[tuple[Page, Locator]]:
    """The page of a trial, and the canvas of one lane, drawn and scrolled into view."""
    with visit(browser, path, root, **options) as page:
        page.emulate_media(reduced_motion=motion)
        if lane:
            page.get_by_role("radio").nth(lane).check(force=True)
        canvas = page.locator("section[data-lane]:not([hidden]) .timeline canvas")
        expect(canvas).to_have_attribute("data-ready", "true")
        canvas.scroll_into_view_if_needed()
        settle(page)
        yield page, canvas


def span(canvas: Locator) -> tuple[float, float]:
    """(begin, end) of the view, in ns since the trial's origin."""
    begin, end = canvas.evaluate(_RESTING)
    return begin, end


def box(element: Locator) -> FloatRect:
    place = element.bounding_box()
    assert place is not None
    return place


def settle(page: Page) -> None:
    """Wait until all changes are drawn."""
    page.evaluate(_DRAWN)


def meddle(page: Page) -> Page:
    """Count no more shifts: the test now changes the page without a user's input. Returns the page."""
    settle(page)
    page.evaluate("seenByTests.meddle()")
    return page


def unfold(page: Page) -> None:
    meddle(page).evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


def on_paper(page: Page) -> None:
    """Lay the page out as it is printed."""
    meddle(page).emulate_media(media="print")


def reach(mark: Locator) -> tuple[float, float]:
    """Scroll an element into view. Returns a point of the window at which the pointer is on the element."""
    mark.scroll_into_view_if_needed()
    settle(mark.page)  # the page notices the scroll with the next frame, and then unpins its mark
    place = mark.evaluate(_REACHED)
    assert place, f"nothing of {mark} can be pointed at"
    return place["x"], place["y"]


def settled(page: Page) -> list[str]:
    """What the page did wrong by itself until it was drawn: what its policy refused, and shifts of its layout."""
    settle(page)
    seen: dict[str, Any] = page.evaluate("seenByTests.now()")
    return [*(f"refused by its own policy: {what}" for what in seen["refused"]), *seen["shifts"]]


def file_of(url: str) -> Path | None:
    """The path on this disk that a URL leads to; None if it leads elsewhere."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" and not parts.netloc else None
