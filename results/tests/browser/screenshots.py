"""Makes the README's pictures from a recorded run. ``make screenshots`` records a run first.

python -m results.tests.browser.screenshots [RUN]

`violation.png`: the page of the trial with the weightiest story, from the verdict to the legend of its picture.
`matrix.png`: the run's page, to the end of the matrix. A run that tried an upgrade gives only `certificate.png`: its
certificate, to the end of what changes. Pages are in light colours, as they open; the pictures have few colours.
"""

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PIL import Image, ImageOps
from playwright.sync_api import Browser, FloatRect, Locator, Page

from checkers.claims import Verdict
from results.commands import find
from results.record import Cell
from results.run import Run
from results.storage.files import RUNS, BadFile
from results.tests.browser.conftest import started
from results.tests.browser.visit import box, settle, visit

FOLDER: Final = Path(__file__).parents[2] / "screenshots"
CERTIFICATE: Final = "certificate.html"
SCALE: Final = 1.5
COLOURS: Final = 96
MARGIN: Final = 20  # white pixels above and below a picture, in place of what the page has there
WIDTH, LOWEST = 1240, 1500
"""The width and the greatest height of a picture without its margin, in CSS pixels."""


def main(arguments: Sequence[str]) -> int:
    """arguments: the run, else the last. Returns 0; 2 without such a run or anything to show; 3 without a browser."""
    try:
        run = find.find((arguments or ["last"])[0], RUNS)
        with started() as browser:
            makers = (certificate,) if (run.path / CERTIFICATE).exists() else (violation, matrix)
            for path in (make(browser, run) for make in makers):
                print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")
    except BadFile as error:
        print(f"screenshots: {error}", file=sys.stderr)
        return 2
    except FileNotFoundError as error:
        print(f"screenshots: {error}", file=sys.stderr)
        return 3
    return 0


def violation(browser: Browser, run: Run) -> Path:
    """Raises BadFile if nothing broke in this run."""
    cell = most_telling(run.read().cells)
    if cell is None or cell.page is None:
        raise BadFile(f"{run.path}: nothing broke in this run")
    address = f"lane={cell.lane.replace('/', '%2F')}&property={cell.property}"
    with visit(browser, cell.page, run.path, fragment=address, width=WIDTH, height=LOWEST, scale=SCALE) as page:
        lane = page.locator("section[data-lane]:not([hidden])")
        shown = lane.locator(f"[data-window][data-property='{cell.property}']:not([hidden])")
        return _shot(page, page.get_by_role("heading", level=1), shown.locator(".legend"), "violation.png")


def matrix(browser: Browser, run: Run) -> Path:
    with visit(browser, run.path / "index.html", run.path, width=WIDTH, height=LOWEST, scale=SCALE) as page:
        return _shot(page, page.get_by_role("heading", level=1), page.locator("#matrix"), "matrix.png")


def certificate(browser: Browser, run: Run) -> Path:
    with visit(browser, run.path / CERTIFICATE, run.path, width=WIDTH, height=LOWEST, scale=SCALE) as page:
        last = page.get_by_role("region", name="What changes for you")
        return _shot(page, page.locator(".eyebrow"), last, "certificate.png")


def most_telling(cells: Sequence[Cell]) -> Cell | None:
    """The cell to show: violations before known weaknesses, lost data before other breaks, then the longest story."""
    broken = [cell for cell in cells if cell.word in (Verdict.VIOLATED, Verdict.WEAKNESS_SHOWN) and cell.story]
    lost = ("fenced-store", "no-lost-update", "")

    def rank(cell: Cell) -> tuple[int, int, int, str, str]:
        kind = lost.index(cell.property if cell.property in lost else "")
        return cell.word.weight, kind, -len(cell.story), cell.trial, cell.lane

    return min(broken, key=rank, default=None)


def _shot(page: Page, first: Locator, last: Locator, name: str) -> Path:
    """Store a picture from the top of one element to the end of another, over the whole width."""
    settle(page)
    top, end = box(first)["y"], box(last)
    clip: FloatRect = {"x": 0, "y": top, "width": WIDTH, "height": min(end["y"] + end["height"] - top, LOWEST)}
    image = Image.open(io.BytesIO(page.screenshot(clip=clip, animations="disabled"))).convert("RGB")
    image = ImageOps.expand(image, (0, MARGIN), "white")
    path = FOLDER / name
    path.parent.mkdir(exist_ok=True)
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    return path


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
