"""The README's pictures, from a run that was recorded, or: ``make screenshots``.

python -m results.tests.browser.screenshots [RUN] [--results DIR]

`violation.png`: the page of the trial whose story weighs most, from its verdict to the picture of it. `matrix.png`: the
run's page down to the end of its matrix. Of a run that tried an upgrade only `certificate.png`: its certificate down to
what changes. All light, as they open, with few colours.
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
MARGIN: Final = 20
"""Pixels of paper around what is shown: what stands beside it on the page is left out."""
WIDTH, LOWEST = 1240, 1500
"""CSS pixels that a picture is wide, and high at most."""


def main(arguments: Sequence[str]) -> int:
    """arguments: the run, if not the last. 0; 2: no such run, or nothing in it to show; 3: no browser."""
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
    """Raises BadFile where nothing broke in this run."""
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
    """What is violated before what is known weakness shown, lost data before the rest, then the longest story."""
    broken = [cell for cell in cells if cell.word in (Verdict.VIOLATED, Verdict.WEAKNESS_SHOWN) and cell.story]
    lost = ("fenced-store", "no-lost-update", "")

    def rank(cell: Cell) -> tuple[int, int, int, str, str]:
        kind = lost.index(cell.property if cell.property in lost else "")
        return cell.word.weight, kind, -len(cell.story), cell.trial, cell.lane

    return min(broken, key=rank, default=None)


def _shot(page: Page, first: Locator, last: Locator, name: str) -> Path:
    """From the top of one element to the end of another, over the whole width."""
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
