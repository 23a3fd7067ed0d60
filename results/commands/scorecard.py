"""`python -m results scorecard LOCK [RUN...] [--beside LOCK2]`: may I use this lock where lost data costs money?"""

from collections.abc import Sequence
from pathlib import Path

from checkers.properties.stories import listing
from results.commands.find import find, of_this_name
from results.pages import scorecard, web
from results.record import Cell
from results.report.grid import short_names
from results.storage import files
from results.storage.files import BadFile
from results.terminal.output import say
from results.text import typed


def main(
    results: Path, lock: str, runs: Sequence[str], beside: str | None, output: Path | None, *, without_links: bool
) -> int:
    """Returns 0, whatever the verdicts. runs: none for the last one. Raises BadFile."""
    named = {run.path.resolve(): run for run in (find(name, results) for name in runs or ["last"])}
    in_time = sorted(named.values(), key=lambda run: str(run.about()["started"]))
    tried = [scorecard.Tried.of(run.path, run.read()) for run in in_time]
    cells = [cell for run in tried for cell in run.cells]
    locks = list(dict.fromkeys(_lock(name, cells) for name in (lock, beside) if name is not None))
    path = output or _place(tried, locks)
    page = scorecard.render(locks, tried, path)
    files.write_text(path, web.without_links(page) if without_links else page)
    say(str(typed(path)))
    return 0


def _lock(name: str, cells: Sequence[Cell]) -> str:
    """The lock of this name, or of the short name that pages show, or whose name begins so. Raises BadFile."""
    short = {short: lock for lock, short in short_names(scorecard.places(cells)).items()}
    chosen = of_this_name(name, list(dict.fromkeys((*short.values(), *short))), "locks")
    if not chosen:
        raise BadFile(f"no lock {name!r} was tried; there are {listing(sorted(short)) if short else 'none'}")
    return short.get(chosen, chosen)


def _place(tried: Sequence[scorecard.Tried], locks: Sequence[str]) -> Path:
    """In the folder of the last run. Only what a run's own page links to has the lock's name alone."""
    run, own = tried[-1], scorecard.places(tried[-1].cells)
    if len(tried) == 1 and len(locks) == 1:
        return scorecard.inside(run.root, Path(own[locks[0]]).parent.name)
    name = " beside ".join(locks) + (f" in {len(tried)} runs" if len(tried) > 1 else "")
    return scorecard.inside(run.root, files.safe_name(name, [Path(place).parent.name for place in own.values()]))
