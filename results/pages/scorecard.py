"""A scorecard: may I use this lock where lost data costs money? It shows verdicts by groups of faults, for one or more
locks, versions and runs side by side, with the advice that follows, times, and stories.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, Self

from checkers.claims import NO_FAULT, Verdict, heaviest
from checkers.properties.story_sentences import listing
from results.pages import rates, web
from results.pages.rates import UNKNOWN, shown
from results.record import Cell, LaneSummary, grouped, settled
from results.report import advice, grid, sentences
from results.report.descriptions import COLUMNS, OTHER, WORDS, groups
from results.storage import files
from results.storage.reading import RunContents
from results.storage.summary import Summary
from results.text import count, few

FOLDER: Final = "scorecards"
_PAGE: Final = "index.html"
_MOST_NAMED: Final = 4  # faults that a mark names before it says how many more there are
_DATA: Final = "Data in the store is kept, with"
_OTHERS: Final = "Others"
_PROMISES: Final[Mapping[str, Mapping[str, str]]] = WORDS["promises"]
"""Title → property → the promise in words. The promises about data stand before these, by the check at the store."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A run, or what it has of one lock."""

    root: Path
    cells: tuple[Cell, ...]
    lanes: tuple[LaneSummary, ...]

    @classmethod
    def of(cls, root: Path, contents: RunContents | Summary) -> Self:
        return cls(root, contents.cells, contents.lanes)


@dataclass(frozen=True, slots=True)
class _Side:
    """One version of a lock, in all runs that tried it. cells: settled in each run."""

    lock: str
    backend: str
    version: str
    cells: tuple[Cell, ...] = ()
    lanes: tuple[LaneSummary, ...] = ()
    runs: tuple[Path, ...] = ()

    @property
    def server(self) -> str:
        return f"{self.backend} {self.version}".strip()

    @property
    def words(self) -> tuple[tuple[Verdict, int], ...]:
        return grid.tally(cell.word for cell in self.cells)

    @property
    def facts(self) -> str:
        """How much was tried."""
        tried = [cell for cell in self.cells if cell.page is not None]
        faults = {fault for cell in tried for fault in cell.fault.split("+")} - {NO_FAULT}
        runs = f" in {count(len(self.runs), 'run')}" if len(self.runs) > 1 else ""
        return f"{count(len({cell.page for cell in tried}), 'trial')}, {count(len(faults), 'fault')}{runs}"


@dataclass(frozen=True, slots=True)
class _Mark:
    """The judgements of one side's promise under a group of faults. number: how many of `total` have the word."""

    word: Verdict
    number: int
    total: int
    tip: str
    first: Cell


def places(cells: Iterable[Cell]) -> dict[str, str]:
    """Each lock of a run → the address of its scorecard, relative to the run's folder. cells: all of the run."""
    names: dict[str, str] = {}
    for lock in sorted({cell.lock for cell in cells} - {""}):
        names[lock] = files.safe_name(lock, names.values())
    return {lock: f"{FOLDER}/{name}/{_PAGE}" for lock, name in names.items()}


def inside(root: Path, name: str) -> Path:
    """The path of a page among a run's scorecards; makes its folder. Raises BadFile if a link would lead out."""
    path = files.inside(files.inside(root / FOLDER, name), _PAGE)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write_all(run: Tried) -> None:
    """The scorecards of all locks of a run, in its folder. Raises BadFile where a link would lead out of it."""
    cells, lanes = grouped(run.cells, lambda cell: cell.lock), grouped(run.lanes, lambda lane: lane.lock)
    for lock, place in places(run.cells).items():
        path = inside(run.root, Path(place).parent.name)
        mine = replace(run, cells=tuple(cells[lock]), lanes=tuple(lanes.get(lock, ())))
        files.write_text(path, render([lock], [mine], path))


def render(locks: Sequence[str], runs: Sequence[Tried], path: Path) -> str:
    """The page as HTML. runs: oldest first. path: where it will stand; links are relative to it."""
    address = cache(partial(web.relative, folder=path.resolve().parent))

    def link(of: Cell | LaneSummary | None) -> str:
        page = "" if of is None else address(of.page)
        return page + web.at_lane(of.lane, of.property if isinstance(of, Cell) else "") if of and page else ""

    sides = [side for lock in locks for side in _sides(lock, runs)]
    advices = [advice.advise(side.cells) for side in sides]
    applied = {each.rule for each in advices}
    letters = [""] if len(sides) == 1 else [chr(ord("A") + at) if at < 26 else str(at + 1) for at in range(len(sides))]
    return web.render(
        "scorecard.html",
        style="scorecard.css",
        title=f"{' and '.join(locks)}: scorecard - fencepost",
        locks=locks,
        link=link,
        runs=[(run.root.resolve().name, address(run.root / _PAGE), _tried_in(run, locks)) for run in runs],
        sides=[(side, mine, side.words, _stories(side)) for side, mine in zip(sides, advices, strict=True)],
        letters=letters,
        columns=_columns(sides),
        sections=_sections(sides),
        speeds=_speeds(sides),
        data=advice.DATA,
        sentence_of=sentences.cell_sentence,
        rules=[(stated, number in applied) for number, stated in enumerate(advice.RULES)],
    )


def _sides(lock: str, runs: Iterable[Tried]) -> list[_Side]:
    """The versions of a lock, in the order in which they were tried first. Each has the cells that were not run."""
    made: dict[tuple[str, str], _Side] = {}
    for run in runs:
        mine = settled(cell for cell in run.cells if cell.lock == lock)
        for key in dict.fromkeys((cell.backend, cell.version) for cell in mine if cell.page):
            side = made.get(key) or _Side(lock, *key)
            cells = (cell for cell in mine if cell.page is None or (cell.backend, cell.version) == key)
            lanes = (lane for lane in run.lanes if (lane.lock, lane.backend, lane.version) == (lock, *key))
            made[key] = replace(
                side, cells=(*side.cells, *cells), lanes=(*side.lanes, *lanes), runs=(*side.runs, run.root)
            )
    not_run = tuple(cell for run in runs for cell in run.cells if cell.lock == lock)
    return list(made.values()) or [_Side(lock, not_run[0].backend, "", not_run)]


def _tried_in(run: Tried, locks: Collection[str]) -> str:
    """The versions on which a run tried these locks."""
    tried = {f"{cell.backend} {cell.version}".strip() for cell in run.cells if cell.page and cell.lock in locks}
    return ", ".join(sorted(tried))


# The table


def _columns(sides: Iterable[_Side]) -> dict[str, list[str]]:
    """Group of faults → the faults of it that were tried, in the order of `COLUMNS`."""
    names = sorted({cell.fault for side in sides for cell in side.cells if cell.page is not None})
    mine = {group: [name for name in names if group in groups(name)] for group in COLUMNS}
    return {group: faults for group, faults in mine.items() if faults or group != OTHER}


def _sections(sides: Sequence[_Side]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The sections of the table: (title, rows). words: the promise, or the check at the store. marks: for each side,
    group of faults → its mark.
    """
    cells = [cell for side in sides for cell in side.cells if cell.page is not None]
    modes = {cell.store for cell in cells if cell.property in advice.DATA}
    names = {cell.property for cell in cells} - {"", *advice.DATA}

    def row(words: str, name: str, remark: str, about: Callable[[Cell], bool]) -> dict[str, Any]:
        marks = [_marks(filter(about, side.cells)) for side in sides]
        return {"words": words, "name": name, "remark": remark, "marks": marks}

    def of_data(mode: str) -> dict[str, Any]:
        _, remark = advice.CHECKS.get(mode, ("", ""))
        here = (*advice.DATA, "")
        return row(advice.check(mode), mode, remark, lambda cell: cell.store == mode and cell.property in here)

    def of_lock(name: str, words: str) -> dict[str, Any]:
        return row(words, name, "", lambda cell: cell.property in (name, ""))

    known = {title: {name: words for name, words in mine.items() if name in names} for title, mine in _PROMISES.items()}
    known[_OTHERS] = dict.fromkeys(sorted(names.difference(*known.values())), "")
    made = {_DATA: [of_data(mode) for mode in (*advice.CHECKS, *sorted(modes - advice.CHECKS.keys())) if mode in modes]}
    made |= {title: [of_lock(name, words) for name, words in mine.items()] for title, mine in known.items()}
    return [(title, rows) for title, rows in made.items() if rows]


def _marks(cells: Iterable[Cell]) -> dict[str, _Mark]:
    """Group of faults → the mark of these judgements in it."""
    placed = grouped(((group, cell) for cell in cells for group in groups(cell.fault)), lambda pair: pair[0])
    return {group: _mark([cell for _, cell in mine]) for group, mine in placed.items()}


def _mark(cells: Sequence[Cell]) -> _Mark:
    judged = [cell for cell in cells if cell.word is not Verdict.NOT_APPLICABLE]
    if not judged:
        reasons = dict.fromkeys(cell.because for cell in cells)
        return _Mark(Verdict.NOT_APPLICABLE, 0, 0, "\n".join(reasons), cells[0])
    word = heaviest(cell.word for cell in judged)
    first = [cell for cell in judged if cell.word is word]
    lines = [f"{number} {each}" for each, number in grid.tally(cell.word for cell in judged)]
    lines.append(f"{word}: {listing(few(sorted({cell.fault for cell in first}), _MOST_NAMED))}")
    return _Mark(word, len(first), len(judged), "\n".join(lines), min(first, key=lambda cell: not cell.story))


# Below the table


_SPEEDS: Final = (
    "acquire without faults: p50 / p99; grants in one lane",
    "acquire during faults: p50 / p99; grants in one lane",
    "worst recovery: from the end of a fault to the next grant",
    "no grant after a fault until the trial ended",
)
_Number = tuple[str, LaneSummary | None]  # a text, and the lane where it was measured


def _speeds(sides: Sequence[_Side]) -> list[tuple[str, tuple[_Number, ...]]]:
    """The rows of `_SPEEDS`, with a number for each side; none if nothing was measured."""
    if not any(lane.measures for side in sides for lane in side.lanes):
        return []
    return list(zip(_SPEEDS, zip(*map(_numbers, sides), strict=True), strict=True))


def _numbers(side: _Side) -> list[_Number]:
    known = rates.per(lambda lane: lane.lock, side.lanes).get(side.lock)
    if known is None:
        return [(UNKNOWN, None)] * len(_SPEEDS)
    phases = (known.quiet, known.faulted)
    heals = [(seconds, lane) for lane in side.lanes if lane.measures for seconds in lane.measures["recovery_s"]]
    recovered = [(seconds, lane) for seconds, lane in heals if seconds is not None]
    worst = max(recovered, key=lambda heal: heal[0], default=None)
    never = next((lane for seconds, lane in heals if seconds is None), None)
    return [
        *((f"{shown(of.p50)} / {shown(of.p99)} ms; {shown(of.rate)} grants/s", None) for of in phases),
        (f"{shown(worst[0])} s under {worst[1].fault}", worst[1]) if worst else (UNKNOWN, None),
        (f"{known.missing} of {known.heals} times", never) if heals else (UNKNOWN, None),
    ]


def _stories(side: _Side) -> list[Cell]:
    """One judgement of each kind of break, with the shortest story: the heaviest first, of equal ones those of data."""

    def rank(cell: Cell) -> tuple[int, bool, int]:
        return cell.word.weight, cell.property not in advice.DATA, len(cell.story)

    with_story = sorted((cell for cell in side.cells if cell.story and cell.word in advice.BROKE), key=rank)
    kinds = grouped(with_story, lambda cell: (cell.word, cell.property, grid.reason(cell.because)))
    return [mine[0] for mine in kinds.values()]
