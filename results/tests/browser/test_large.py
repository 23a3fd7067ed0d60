"""A page of a million operations opens at a cost in proportion to its size, and moves as cheaply as a tenth of it.

The tests compare the CPU time of the page's own thread, as the browser counts it: wall-clock time depends more on other
load of the machine. Load never shortens CPU time, but can lengthen it a little, so the least of a few looks counts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, CDPSession, Locator, Page

from results.tests import samples
from results.tests.browser.test_timeline import put
from results.tests.browser.visit import box, settle, timeline

SIZES: Final = (100_000, 1_000_000)
MOVES: Final = 30
LOOKS: Final = 5


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU seconds of a page's thread until the page was drawn, and while it was moved; the most marks on its canvas."""

    opening: float
    moving: float
    marks: int


def work(session: CDPSession) -> float:
    """CPU seconds of the page's thread."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def measure(chromium: Browser, path: Path, root: Path) -> Measured:
    with timeline(chromium, path, root) as (page, canvas):
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.reload(wait_until="commit")  # now everything is warm, and the work is counted
        before = work(session)
        page.wait_for_function("() => document.querySelector('.timeline canvas[data-ready=true]')")
        opening = work(session) - before
        canvas.scroll_into_view_if_needed()
        canvas.press("+")
        settle(page)
        before = work(session)
        marks = move(page, canvas)
        moving = work(session) - before
    return Measured(opening, moving, marks)


def move(page: Page, canvas: Locator) -> int:
    """Move the view by key, there and back, and by pointer. Returns the most marks that were drawn after a key."""
    marks = []
    for key in ("ArrowRight",) * (MOVES // 3) + ("ArrowLeft",) * (MOVES // 3):
        canvas.press(key)
        settle(page)  # each key is drawn once, however soon the next one comes
        marks.append(int(canvas.get_attribute("data-drawn") or 0))
    place = box(canvas)
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 3
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 200, y, steps=MOVES // 3)
    page.mouse.up()
    settle(page)
    return max(marks)


class Sizes:
    """A page of each size. Both pages are looked at until a condition holds, at most `LOOKS` times."""

    def __init__(self, chromium: Browser, roots: list[Path]) -> None:
        self._chromium = chromium
        self._pages = [(put(root, samples.long(size)), root) for size, root in zip(SIZES, roots, strict=True)]
        self._looks: list[list[Measured]] = []

    def come_to(self, is_so: Callable[[Measured, Measured], bool]) -> bool:
        """Whether `is_so` comes to hold for the least work of the small page and of the large page."""
        while not (self._looks and is_so(*self._least())):
            if len(self._looks) == LOOKS:
                return False
            self._looks.append([measure(self._chromium, *page) for page in self._pages])
            for size, measured in zip(SIZES, self._looks[-1], strict=True):
                print(f"{size:>9,} operations: {measured}")
        return True

    def _least(self) -> list[Measured]:
        return [
            Measured(min(look.opening for look in looks), min(look.moving for look in looks), looks[0].marks)
            for looks in zip(*self._looks, strict=True)
        ]


@pytest.fixture(scope="module")
def sizes(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Sizes:
    return Sizes(chromium, [tmp_path_factory.mktemp("large") for _ in SIZES])


def test_a_large_page_opens_at_a_cost_in_proportion_to_its_size(sizes: Sizes) -> None:
    assert sizes.come_to(lambda small, large: large.opening < 15 * small.opening)


def test_moving_a_page_costs_about_the_same_at_any_size(sizes: Sizes) -> None:
    assert sizes.come_to(lambda small, large: large.moving < 2.5 * small.moving and large.marks < 2.5 * small.marks)
