"""`python -m results list`, `show`, `load` and `open`: stored runs in the terminal or in the browser."""

import json
import webbrowser
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from checkers.claims import heaviest
from results.commands import find
from results.pages.trial_page import command_of
from results.record import CPU_PARTS, Cell, LaneSummary, grouped
from results.report import sentences
from results.run import Run
from results.storage import files, reading, resumable, summary
from results.storage.files import RUNS, BadFile
from results.storage.run_folder import CLOSED, INTERRUPTED, RunFolder
from results.terminal import matrix
from results.terminal.output import Output, Printer, say
from results.text import command_line, plain, typed


def list_(results: Path, *, json: bool) -> int:
    """Print the runs, oldest first. Returns 0, also if some are damaged."""
    if results != RUNS and not results.exists():
        raise BadFile(f"{results}: there is no such folder")
    stored = find.runs(results)
    for run in stored:
        print(_line(run, as_json=json))
    if not stored and not json:
        say(f"no runs in {results}")
    return 0


def show(results: Path, run: str, of: str | None) -> int:
    shown = find.find(run, results)
    contents = shown.read()
    if of is None:
        if certified := summary.certificate(summary.about_end(shown.path)):
            printer = Printer(Output())
            printer.line(certified)
            printer.gap()
        matrix.render(contents.cells, Output(), contents.problems, lambda cell: command_of(cell.page))
        for page in (shown.path / files.CERTIFICATE_PAGE, shown.path / "index.html"):
            if page.is_file():
                say(str(typed(page)))
        if not resumable.why_not(shown):
            say(f"interrupted; to go on: {resumable.command(shown)}")
        return 0
    cells = [cell for cell in contents.cells if cell.page is not None]
    chosen = [cell for cell in cells if of in (cell.lane, cell.trial)]
    if not chosen:
        folder = find.find_trial(of, shown)
        chosen = [cell for cell in cells if cell.page == folder / "index.html"]
        if error := reading.about_trial(folder).get("error"):
            say(f"{folder.name} was aborted: {error}")
    _tell(chosen)
    return 0


def load(results: Path, run: str) -> int:
    """Print how much was asked of the locks of each backend, and which part used how much CPU. Returns 0."""
    lanes = find.find(run, results).read().lanes
    folders = dict.fromkeys(lane.page.parent for lane in lanes if lane.page)
    cpu = {folder: reading.about_trial(folder).get("cpu") or {} for folder in folders}
    head = ("", "lanes", "grants", "operations", "grants/s", "operations/s", *(f"{part} (CPU s)" for part in CPU_PARTS))
    say(f"| {' | '.join(head)} |", f"{'|---' * len(head)}|")
    for name, mine in sorted(grouped(lanes, lambda lane: lane.backend).items()):
        say(_load(name, mine, cpu))
    if lanes:
        say(_load("all", lanes, cpu))
    return 0


def open_(results: Path, run: str, trial: str | None) -> int:
    shown = find.find(run, results)
    if trial is None:
        page = run_page(shown)
    else:
        page = find.find_trial(trial, shown) / "index.html"
        page = page if page.is_file() else shown.draw_trial(page.parent)
    say(str(typed(page)))
    webbrowser.open(page.resolve().as_uri())
    return 0


def run_page(run: Run) -> Path:
    """The run's page. It is drawn now if the run was not closed."""
    page = run.path / "index.html"
    state = run.state()
    if state == CLOSED and page.is_file():
        return page
    return run.draw(run.summarise("", {INTERRUPTED: True} if state == INTERRUPTED else {}))


def _line(run: find.Stored, *, as_json: bool) -> str:
    try:
        if run.wrong:
            raise BadFile(run.wrong)
        head, state = RunFolder(run.path).head()
    except BadFile as error:
        if as_json:
            return json.dumps({"run": run.path.name, "folder": str(run.path), "state": "damaged", "wrong": str(error)})
        return plain(f"{run.path.name}  damaged: {error}")
    words = {str(word): count for word, count in head.words.items() if count}
    if as_json:
        asked = ("seed", "profile", "shard", "versions", "shapes")
        return json.dumps({
            "run": run.path.name,
            "folder": str(run.path),
            "state": state,
            "started": run.started,
            "closed": head.closed or None,
            "failed": head.failed,
            "certificate": summary.certificate(head.about) or None,
            "words": words,
            "left_out": list(head.problems),
            "asked": {name: head.asked[name] for name in asked if name in head.asked},
        })  # fmt: skip
    if state == CLOSED and head.about.get(INTERRUPTED):
        state = INTERRUPTED
    counts = ", ".join(f"{count} {word}" for word, count in words.items()) or "nothing judged"
    if certified := summary.certificate(head.about):
        counts = f"{certified}; {counts}"
    elif state == CLOSED:
        counts = f"{sentences.came_to(head.words, len(head.problems))}: {counts}"
    left = f", {len(head.problems)} left out" if head.problems else ""
    return plain(f"{run.path.name}  {counts}{left}" + ("" if state == CLOSED else f" ({state})"))


def _load(name: str, lanes: Sequence[LaneSummary], cpu: Mapping[Path, Mapping[str, float]]) -> str:
    """A line of the table, of these lanes and their trials. cpu: folder of a trial → part → seconds."""
    measured = [lane.measures for lane in lanes if lane.measures is not None]
    grants, operations = sum(each["grants"] for each in measured), sum(lane.operations for lane in lanes)
    seconds = sum(each["seconds"] for each in measured)
    rates = [f"{number / seconds if seconds else 0:.1f}" for number in (grants, operations)]
    trials = [cpu[folder] for folder in dict.fromkeys(lane.page.parent for lane in lanes if lane.page)]
    used = [f"{sum(trial.get(part, 0.0) for trial in trials):.0f}" for part in CPU_PARTS]
    return f"| {' | '.join([name, f'{len(lanes):,}', f'{grants:,}', f'{operations:,}', *rates, *used])} |"


def _tell(cells: Iterable[Cell]) -> None:
    """Print for each lane of each trial the sentence, the verdicts with the stories of what broke, and the page."""
    printer = Printer(Output())
    for (trial, lane, page), mine in grouped(cells, lambda cell: (cell.trial, cell.lane, cell.page)).items():
        word = heaviest(cell.word for cell in mine)
        first = [cell for cell in mine if cell.word is word]
        printer.whole(f"{lane}, trial {trial}, seed {first[0].seed}")
        printer.line(sentences.cell_sentence(*first), indent=2)
        for cell in sorted(mine, key=lambda cell: cell.word.weight):
            printer.line(f"{cell.word}: {cell.property} ({cell.because})", indent=2)
            for line in cell.story:
                printer.line(line, indent=6)
        if page is not None:
            printer.whole(f"{typed(page)}", indent=2)
            printer.whole(f"again: {command_line('checkers', str(typed(page.parent)))}", indent=2)
        printer.gap()
