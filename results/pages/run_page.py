"""A run's page: the matrix, each square with its judgements and links to their trials; what was not run, and why.

The matrix is plain HTML, so it can be read, printed and followed without a script. The judgements behind it are JSON in
the page (`_embedded`): `templates/run-*.js` filter the matrix by them and list those of one square.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from checkers.claims import Verdict
from checkers.properties.story_sentences import listing
from results.pages import rates, scorecard, trial_page, web
from results.pages.lane import windows
from results.record import Cell, LaneSummary, decisive, grouped, mapping, versions, words
from results.report import grid, sentences
from results.report.descriptions import GROUPS, Descriptions, explained, fault_name, meaning, property_text
from results.storage.files import BadFile
from results.storage.reading import load_trial
from results.text import again, count, few, moment, plain, plain_lines, span, typed

_MOST_DRAWN: Final = 3  # the most failures that are shown with a picture and a command; the others are folded
_MOST_FAILURES: Final = 100  # the most failures that are shown with their stories. The matrix has all of them
_ROOM: Final = 300_000  # characters of stories behind the matrix
_OF_TRIAL: Final = re.compile(r"trials/[^/:]+(?=[/:])")  # the beginning of a problem that concerns one trial
_MOST_NAMED: Final = 4  # names in a list before it says how many more there are
_LASTING: Final = 16  # what is added to the word of a weakness that shows without any fault as well


def render(
    root: Path,
    about: Mapping[str, Any],
    cells: Iterable[Cell],
    problems: Sequence[str],
    lanes: Iterable[LaneSummary] = (),
    certificate: str = "",
) -> str:
    """The page as HTML. root: the run's folder, which links are relative to. certificate: its sentence, or empty."""
    cells, lanes = list(cells), list(lanes)
    made, described = grid.grid(cells), Descriptions.of(about)
    columns = grid.columns(made, described.group, tuple(GROUPS))
    faults = [fault for _, mine in columns for fault in mine]
    backends = _backends(made)
    rows = ((fault, lock) for _, locks in backends for lock, _ in locks for fault in faults)
    places = [place for place in rows if place in made.squares]
    properties = sorted({cell.property for cell in cells if cell.property})
    boundaries, failing = _boundaries(lanes), grid.failures(cells)
    return web.render(
        "run.html",
        script=web.RUN_SCRIPT,
        style="run.css",
        title=f"{root.name} - fencepost",
        name=root.name,
        certificate=certificate,
        sentence=sentences.run_sentence(cells, len(problems)),
        facts=[*_facts(about, cells), *boundaries["facts"]],
        unfinished=_unfinished(about),
        words=grid.counts(cells),
        failing=sum(number for word, number in grid.counts(cells) if word.fails),
        columns=columns,
        faults=faults,
        widths=[_width(fault, made) for fault in faults],
        backends=backends,
        squares=made.squares,
        numbers={place: number for number, place in enumerate(places)},
        lasting=any(square.lasting for square in made.squares.values()),
        scorecards=scorecard.places(cells),
        versions=sorted({(cell.backend, cell.version) for cell in cells if cell.version and cell.page}),
        properties=properties,
        data=_embedded((made.squares[place] for place in places), root, _texts(described, made, properties)),
        sentence_of=sentences.cell_sentence,
        link=lambda cell: web.to_page(cell.page, root, cell.lane),
        story=lambda cell: web.to_page(cell.page, root, cell.lane, cell.property),
        drawn=[(case, *_drawn(case.first)) for case in failing[:_MOST_DRAWN]],
        failures=failing[_MOST_DRAWN:_MOST_FAILURES],
        more_failures=len(failing) - _MOST_FAILURES,
        documented=_hazards(cells),
        rates=rates.table(rates.per(lambda lane: (lane.backend, lane.lock), lanes)),
        boundaries=boundaries,
        named=lambda names: listing(few(names, _MOST_NAMED)),
        not_run=_not_run(cells),
        problems=[_problem(problem, root) for problem in problems],
        trials=_trials(cells, root),
        command=again(words(about.get("command"))),
        about=[
            (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
            for name, value in about.items()
            if name not in ("command", "described")
        ],
    )


def _facts(about: Mapping[str, Any], cells: Iterable[Cell]) -> list[tuple[str, str]]:
    """(name, value) of the facts at the top of the page."""
    facts = [*((name, about.get(name)) for name in ("profile", "seed")), *versions(cells).items()]
    facts += ((f"shape of {name}", shape) for name, shape in mapping(about.get("shapes")).items())
    started, closed = (moment(about.get(name)) for name in ("started", "closed"))
    if started is not None:
        facts.append(("started", f"{started:%Y-%m-%d %H:%M} UTC"))
    if started is not None and closed is not None:
        facts.append(("took", span((closed - started).total_seconds())))
    if isinstance(times := about.get("interruptions"), list):
        facts.append(("interrupted", f"{count(len(times), 'time')}, and resumed"))
    return [(name, str(value)) for name, value in facts if value not in (None, "")]


def _problem(problem: str, root: Path) -> dict[str, str]:
    """What was left out. link: to the trial's page, or empty; name: the link's text; rest: the text behind the link."""
    match = _OF_TRIAL.match(problem)
    folder = root / match[0] if match else root
    page = folder / "index.html"
    if not match or folder.is_symlink() or not page.is_file():
        return {"told": problem, "link": "", "name": "", "rest": problem}
    return {"told": problem, "link": web.to_page(page, root), "name": match[0], "rest": problem[match.end() :]}


def _drawn(cell: Cell) -> tuple[Markup, str]:
    """The picture of a failure, empty if nothing was seen to break, and the command that runs its trial again. Both are
    empty if the trial cannot be read.
    """
    try:
        record = load_trial(cell.page.parent) if cell.page is not None else None
    except BadFile:
        record = None
    if cell.page is None or record is None:
        return Markup(), ""
    lanes = (lane for lane in record.lanes if lane.history.facts.lane == cell.lane)
    judged = ((lane.history, each) for lane in lanes for each in lane.judgements if each.property == cell.property)
    pictures = (windows.small(history, seen) for history, each in judged if (seen := decisive(each)) is not None)
    return next(pictures, Markup()), trial_page.again(record, typed(cell.page.parent))


def _unfinished(about: Mapping[str, Any]) -> str:
    """A sentence that says that a run was interrupted, or is still going on; empty for a run that was closed."""
    if about.get("interrupted"):
        return "This run was interrupted: here is what had been judged until then."
    return "This run is still going on: here is what has been judged so far." if about.get("closed") == "" else ""


# The matrix


def _backends(made: grid.Grid) -> list[tuple[str, list[tuple[str, str]]]]:
    """(backend, [(lock, short name)]); those that fail in front."""
    names, of_lock = grid.short_names(made.locks), grouped(made.squares, lambda place: place[1])
    words = [(lock, made.squares[place].word) for lock, places in of_lock.items() for place in places]
    on = {
        lock: ", ".join(sorted({cell.backend for place in places for cell in made.squares[place].cells}))
        for lock, places in of_lock.items()
    }
    groups = grouped(grid.failing_first(made.locks, words), lambda lock: on[lock])
    order = grid.failing_first(sorted(groups), [(on[lock], word) for lock, word in words])
    return [(backend, [(lock, names[lock]) for lock in groups[backend]]) for backend in order]


def _texts(described: Descriptions, made: grid.Grid, properties: Sequence[str]) -> dict[str, dict[str, str]]:
    """Kind of header → name → its description; empty if the run did not store it."""
    return {
        "group": dict(GROUPS),
        "fault": {fault: described.faults.get(fault, "") for fault in made.faults},
        "lock": {lock: described.locks.get(lock, "") for lock in made.locks},
        "property": {name: property_text(name) for name in properties},
    }


def _width(fault: str, made: grid.Grid) -> int:
    """Characters of a column. It is set beforehand, so that nothing moves while the page is loaded."""
    lines = [len(part) + 1 for part in fault.split("-")]
    for (name, _), square in made.squares.items():
        if name == fault:
            lines += [len(f"{number} {grid.SIGNS[word].short}") + 2 for word, number in square.counts]
    return min(max(*lines, 8), 16)


def _embedded(squares: Iterable[grid.Square], root: Path, about: Mapping[str, Mapping[str, str]]) -> Markup:
    """The judgements of squares as JSON for a script element, which no text in it can end. about: see `_texts`.

    {"texts": [text], "trials": [[name, link, seed]], "about": {kind: {name: text}},
     "squares": [[word, property, lane, version, because, trial, story, ...]]}: seven numbers for each judgement, the
    heaviest word first. The word is its place in the order of weight (plus `_LASTING` for a weakness that shows without
    a fault, too), the trial is a place in `trials`, the others are places in `texts`; -1: none. Among judgements of the
    same word and property in one square only the first has its story, the lines joined by line ends. Judgements that do
    not fail have no story once there is no more room: the trial's page has it.
    """
    rows: list[list[int]] = []
    texts: dict[str, int] = {}
    trials: dict[tuple[str, str, int], int] = {}
    room = _ROOM

    def place(text: str) -> int:
        return texts.setdefault(plain_lines(text), len(texts))

    for square in squares:
        row: list[int] = []
        with_story: set[tuple[Verdict, str]] = set()
        for cell in sorted(square.cells, key=lambda cell: cell.word.weight):
            first = (cell.word, cell.property) not in with_story and (cell.word.fails or room > 0)
            with_story.add((cell.word, cell.property))
            if first:
                room -= sum(map(len, cell.story))
            trial = (cell.trial, web.to_page(cell.page, root), cell.seed)
            row += (
                cell.word.weight + _LASTING * square.lasts(cell),
                *map(place, (cell.property, cell.lane, cell.version, explained(cell.because))),
                -1 if cell.page is None else trials.setdefault(trial, len(trials)),
                place("\n".join(cell.story)) if first and cell.story else -1,
            )
        rows.append(row)
    known = {kind: {plain(name): plain(text) for name, text in each.items()} for kind, each in about.items()}
    data = {"texts": list(texts), "trials": list(trials), "squares": rows, "about": known}
    text = json.dumps(data, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


# Below the matrix


def _hazards(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """Known weaknesses that were shown: an entry for each mechanism, with a row for each lock and one example."""
    mechanisms = {
        because: grouped(cases, lambda case: case.first.lock)
        for because, cases in grouped(grid.documented(cells), lambda case: grid.reason(case.first.because)).items()
    }
    return [
        {
            "because": because,
            "meaning": meaning(because),
            "locks": len(locks),
            "properties": _properties(case for cases in locks.values() for case in cases),
            "rows": [
                {
                    "lock": lock,
                    "properties": _properties(cases),
                    "faults": sorted({fault_name(case.first.fault) for case in cases}),
                    "lanes": len({case.first.lane for case in cases}),
                    "first": cases[0].first,
                }
                for lock, cases in sorted(locks.items())
            ],
            "example": next(iter(locks.values()))[0],
        }
        for because, locks in sorted(mechanisms.items())
    ]


def _properties(cases: Iterable[grid.CellGroup]) -> str:
    return listing(sorted({case.first.property for case in cases}))


def _boundaries(lanes: Iterable[LaneSummary]) -> dict[str, Any]:
    """Rows of (messages hit, messages) of each verb, summed over a lock's lanes. facts: the sum of all rows, if any."""
    struck: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for lane in lanes:
        for verb, each in lane.boundaries.items():
            verbs = struck.setdefault((lane.backend, lane.lock), {})
            hit, messages = verbs.get(verb, (0, 0))
            verbs[verb] = hit + each["hit"], messages + each["messages"]
    rows = [(lock, backend, verbs, _coverage(verbs.values())) for (backend, lock), verbs in sorted(struck.items())]
    total = _coverage(covered for _, _, verbs, _ in rows for covered in verbs.values())
    return {
        "rows": rows,
        "verbs": sorted({verb for verbs in struck.values() for verb in verbs}),
        "facts": [("boundaries between requests that were hit", total)] if rows else [],
    }


def _coverage(covered: Iterable[tuple[int, int]]) -> str:
    """The sum of pairs (hit, messages), in words."""
    hit, messages = map(sum, zip((0, 0), *covered, strict=True))
    return f"{hit} of {messages} ({hit / messages:.0%})" if messages else "0 of 0"


def _not_run(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """An entry for each reason why something was not run, with its number of judgements; the most frequent first."""
    rows = []
    for because, mine in grouped(grid.not_run(cells), lambda cell: grid.reason(cell.because)).items():
        locks = {cell.lock or cell.lane or f"every lock of {cell.backend or 'every backend'}" for cell in mine}
        rows.append({
            "because": because,
            "count": len(mine),
            "locks": sorted(locks),
            "faults": sorted({fault_name(cell.fault) if cell.fault else "every fault" for cell in mine}),
            "properties": sorted({cell.property for cell in mine if cell.property}) or ["all"],
        })  # fmt: skip
    return sorted(rows, key=lambda row: (-row["count"], row["because"]))


def _trials(cells: Iterable[Cell], root: Path) -> list[dict[str, Any]]:
    """An entry for each stored trial, with its verdicts."""
    tried = (cell for cell in cells if cell.page is not None)
    return [
        {
            "first": mine[0],
            "link": web.to_page(page, root),
            "lanes": len({cell.lane for cell in mine}),
            "words": grid.tally(cell.word for cell in mine),
        }
        for page, mine in grouped(tried, lambda cell: cell.page).items()
    ]
