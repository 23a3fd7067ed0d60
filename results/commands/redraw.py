"""`python -m results redraw`, `export`, `rejudge`, `scorecard`: draw a run's pages again, write one page to a file,
judge its histories again, and answer: may I use this lock where lost data costs money?
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from checkers.properties.story_sentences import listing
from results.commands.find import find, of_this_name, run_or_trial
from results.pages import run_page, scorecard, trend, trial_page, web
from results.record import Cell
from results.report.grid import short_names
from results.storage import files, verdicts
from results.storage.files import BadFile
from results.storage.reading import load_trial
from results.storage.run_folder import CLOSED
from results.terminal.output import say, warn
from results.text import typed


def redraw(results: Path, run: str) -> int:
    """Returns 0; 2 if a page could not be drawn, such as that of a damaged trial: all others are."""
    drawn = find(run, results)
    problems: list[str] = []
    for folder in files.entries(drawn.path / "trials", problems):
        try:
            drawn.draw_trial(folder)
        except (BadFile, OSError) as error:
            problems.append(files.reason(error))
    head, state = drawn.head()
    page = drawn.draw(drawn.summarise(head.closed, head.about))
    if drawn.path.parent.resolve() == results.resolve():
        problems += trend.refresh(results)
    warn(*problems)
    say(f"{typed(page)}" + ("" if state == CLOSED else f" ({state})"))
    return 2 if problems else 0


def export(results: Path, of: str, output: Path | None) -> int:
    """Returns 0; 2 if the run or trial is missing or damaged."""
    run, trial = run_or_trial(of, results)
    if trial is not None:
        page = trial_page.render(load_trial(trial), typed(trial), inline=True)
    else:
        contents, (head, _) = run.read(), run.head()
        # The pages of its trials are not exported.
        cells = [replace(cell, page=None) for cell in contents.cells]
        lanes = [replace(lane, page=None) for lane in contents.lanes]
        page = run_page.render(run.path, {**head.asked, **head.about}, cells, contents.problems, lanes)
    output = output or Path(files.safe_name((trial or run.path).name) + ".html")
    files.write_text(output, web.without_links(page))
    say(str(output))
    return 0


def rejudge(results: Path, of: str) -> int:
    """List what today's checkers judge differently. Returns 1 if anything is, 2 if something is damaged, else 0."""
    run, trial = run_or_trial(of, results)
    problems: list[str] = []
    judged = different = 0
    for folder in [trial] if trial is not None else files.entries(run.path / "trials", problems):
        try:
            for lane in load_trial(folder).lanes:
                judged += len(lane.judgements)
                for line in verdicts.differences(lane, verdicts.again(lane)):
                    different += 1
                    say(f"{folder.name}  {line}")
        except BadFile as error:
            problems.append(str(error))
    warn(*problems)
    print(f"{judged} judgements, {different or 'none'} different")
    return 1 if different else 2 if problems else 0


def scorecard_(
    results: Path, lock: str, runs: Sequence[str], beside: str | None, output: Path | None, *, without_links: bool
) -> int:
    """Returns 0, whatever the verdicts. runs: empty for the last run. Raises BadFile."""
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
    """A path in the last run's folder. Only a scorecard that the run's own page links to has the lock's name alone."""
    run, own = tried[-1], scorecard.places(tried[-1].cells)
    if len(tried) == 1 and len(locks) == 1:
        return scorecard.inside(run.root, Path(own[locks[0]]).parent.name)
    name = " beside ".join(locks) + (f" in {len(tried)} runs" if len(tried) > 1 else "")
    return scorecard.inside(run.root, files.safe_name(name, [Path(place).parent.name for place in own.values()]))
