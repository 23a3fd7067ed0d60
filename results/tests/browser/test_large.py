"""A page of a million operations opens and moves like one of a tenth of them.

Compared is the work of the page's own thread, as the browser counts its processor time: a clock on the wall says more
about what else this machine is doing. What it says, and how many tasks took long by it, is printed (`pytest -rP`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, CDPSession, Locator, Page

from checkers.judgement import judge
from checkers.verdict import Verdict
from results.pages import page as pages
from results.pages import web
from results.record import LaneRecord
from results.tests import samples
from results.tests.browser.visit import settle, visit

SIZES: Final = (100_000, 1_000_000)
MOVES: Final = 30

_OPENED: Final = """
() => new Promise((done) => {
  const look = () => {
    if (document.querySelector(".timeline canvas[data-ready=true]")) done(performance.now());
    else requestAnimationFrame(look);
  };
  look();
})
"""
"""ms since the page was asked for."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one page: bytes; CPU seconds of its thread until it was drawn, and per move; what a clock said until then, in
    seconds; tasks of more than 50 ms while it was moved; marks on the canvas.
    """

    size: int
    opening: float
    moving: float
    clock: float
    stalls: int
    marks: int


def work(session: CDPSession) -> float:
    """CPU seconds that the page's thread has spent."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


@contextmanager
def counted(page: Page) -> Iterator[CDPSession]:
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    yield session
    session.detach()


def measure(chromium: Browser, path: Path, root: Path) -> Measured:
    with visit(chromium, path, root) as page, counted(page) as session:
        page.reload(wait_until="commit")  # with everything warm, and counted
        before = work(session)
        clock: float = page.evaluate(_OPENED) / 1e3
        opening = work(session) - before
        canvas = page.locator(".timeline canvas")
        canvas.scroll_into_view_if_needed()
        canvas.press("+")
        settle(page)
        stalls = page.evaluate("seenByTests.tasks.length")
        before = work(session)
        marks = move(page, canvas)
        moving = (work(session) - before) / MOVES
        stalls = page.evaluate("seenByTests.tasks.length") - stalls
    return Measured(path.stat().st_size, opening, moving, clock, stalls, marks)


def move(page: Page, canvas: Locator) -> int:
    """By key and by pointer, there and back; the most marks that were drawn on the way."""
    marks = []
    for key in ("ArrowRight", "ArrowLeft"):
        for _ in range(MOVES // 3):
            canvas.press(key)
            marks.append(int(canvas.get_attribute("data-drawn") or 0))
    place = canvas.bounding_box()
    assert place is not None
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 3
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 200, y, steps=MOVES // 3)
    page.mouse.up()
    settle(page)
    return max(marks)


@pytest.fixture(scope="module")
def measured(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, Measured]:
    root = tmp_path_factory.mktemp("large")
    web.write_assets(root)
    found = {}
    for size in SIZES:
        history = samples.long(size)
        verdict = Verdict("server-exclusion", True, counters={"contended acquires": size // 40})
        record = replace(samples.trial(f"long-{size}"), lanes=(LaneRecord(history, (judge(verdict, history),)),))
        path = root / "trials" / record.name / "index.html"
        path.parent.mkdir(parents=True)
        path.write_text(pages.render(record, ["0.arrow"], path.parent), "utf-8")
        found[size] = measure(chromium, path, root)
        one = found[size]
        print(
            f"{size:>9,} operations: {one.size / 1e6:.2f} MB, drawn {one.clock:.2f} s after it was asked for "
            f"({one.opening:.2f} s of work), {1e3 * one.moving:.1f} ms of work a move, {one.stalls} stalls, "
            f"{one.marks} marks"
        )
    return found


def test_opens(measured: Mapping[int, Measured]) -> None:
    small, large = (measured[size] for size in SIZES)
    assert large.opening < 15 * small.opening


def test_moves_at_the_same_cost(measured: Mapping[int, Measured]) -> None:
    small, large = (measured[size] for size in SIZES)
    assert large.moving < 2.5 * small.moving
    assert large.marks < 2.5 * small.marks


def test_is_no_larger_than_its_operations(measured: Mapping[int, Measured]) -> None:
    small, large = (measured[size] for size in SIZES)
    assert small.size <= 1_500_000
    assert large.size < 11 * small.size
