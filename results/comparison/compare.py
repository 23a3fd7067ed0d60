"""Compares two runs, A and B, verdict by verdict. Pure: no files, no output.

A single verdict can make B worse: a promise that became `violated`, or a weakness that must show and did not. That
needs no statistics, and nothing outweighs it. If B lost its evidence of a cell (`unknown`, `not stressed`, or the trial
was left out), the cell is lost: it is neither worse nor the same. So a version that breaks its trials is no better than
one that does not. Times and rates are compared in `results.comparison.speeds`.

The news of a run: what is red compared with an earlier run, what was known, what does not fail any more. Red is a
regression, a new violation, or a positive control that fell silent. A failing verdict that the same cell had before is
known. Without an earlier run every failing verdict is red.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from checkers.claims import Verdict, heaviest
from results.comparison.speeds import Speed, samples, speeds
from results.record import Cell, grouped, judged
from results.report import verdict_changes
from results.report.verdict_changes import ACCUSING, BLIND, Kind, NewsPlace
from results.storage.reading import RunContents

SAME_OR_BETTER: Final = 0
WORSE: Final = 1
NOT_COMPARABLE: Final = 3

_LEFT_OUT: Final = re.compile(r"trials/([^/:]+)[/:]")  # the beginning of a problem that concerns one trial: its folder


@dataclass(frozen=True, slots=True)
class Seen:
    """A cell in one run: its heaviest verdict, in `times` of `trials` trials, and the first judgement with it."""

    word: Verdict
    times: int
    trials: int
    because: str
    story: tuple[str, ...]
    page: Path | None

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> Self:
        """What was seen of cells that ask the same question. There must be at least one."""
        word = heaviest(cell.word for cell in cells)
        heavy = [cell for cell in cells if cell.word is word]
        return cls(word, len(heavy), len(cells), heavy[0].because, heavy[0].story, heavy[0].page)


@dataclass(frozen=True, slots=True)
class CellChange:
    """A property of a lane under a fault, in both runs. worse: why it is; lost: why B's evidence is lost; or empty."""

    backend: str
    lock: str
    lane: str
    fault: str
    property: str
    kind: Kind
    worse: str
    lost: str
    before: Seen | None
    after: Seen | None

    def words(self) -> tuple[Verdict | None, Verdict | None]:
        return self.before.word if self.before else None, self.after.word if self.after else None


@dataclass(frozen=True, slots=True)
class Comparison:
    changes: tuple[CellChange, ...]  # all cells that one of the runs judged, the heaviest first
    # The worse ones first, last those of too few trials; empty if the runs have no trials in common, or nothing
    # was measured.
    speeds: tuple[Speed, ...]

    @property
    def common(self) -> int:
        """The number of cells that both judged."""
        return sum(change.before is not None and change.after is not None for change in self.changes)

    @property
    def timed(self) -> bool:
        """Whether there were enough trials to judge any time or rate."""
        return any(speed.p is not None for speed in self.speeds)

    @property
    def status(self) -> int:
        """The exit status."""
        if any(change.worse for change in self.changes) or any(speed.word == "worse" for speed in self.speeds):
            return WORSE
        if any(change.lost for change in self.changes) or not (self.common or self.timed):
            return NOT_COMPARABLE
        return SAME_OR_BETTER


def compare(before: RunContents, after: RunContents) -> Comparison:
    first, second = ({name: Seen.of(mine) for name, mine in by_name(run.cells).items()} for run in (before, after))
    broken = {_trial(match[1]) for problem in after.problems if (match := _LEFT_OUT.match(problem))}
    changes = [_change(name, first.get(name), second.get(name), broken) for name in first.keys() | second.keys()]
    timed = speeds(samples(before.lanes), samples(after.lanes))
    return Comparison(
        tuple(sorted(changes, key=_order)),
        tuple(sorted(timed, key=lambda speed: (speed.word != "worse", speed.word != "better", speed.p is None))),
    )


def apart(runs: Sequence[RunContents]) -> list[RunContents]:
    """The same runs. If any run has several versions of a backend, each version counts as a backend in all runs.

    Otherwise what one version broke could hide behind another version that broke it before.
    """
    known = [{(cell.backend, cell.version) for cell in run.cells if cell.version} for run in runs]
    if all(len(versions) == len({backend for backend, _ in versions}) for versions in known):
        return list(runs)
    return [
        replace(
            run,
            cells=tuple(replace(cell, backend=f"{cell.backend} {cell.version}".rstrip()) for cell in run.cells),
            lanes=tuple(replace(lane, backend=f"{lane.backend} {lane.version}".rstrip()) for lane in run.lanes),
        )
        for run in runs
    ]


Name = tuple[str, str, str, str, str]
"""backend, lock, lane, fault, property"""


def question(cell: Cell | CellChange) -> Name:
    return cell.backend, cell.lock, cell.lane, cell.fault, cell.property


def by_name(cells: Iterable[Cell]) -> dict[Name, list[Cell]]:
    return grouped(judged(cells), question)


def _change(name: Name, before: Seen | None, after: Seen | None, broken: set[str]) -> CellChange:
    """broken: the trials that the second run left out."""
    old, new = (None if seen is None else seen.word for seen in (before, after))
    lost = verdict_changes.lost(old, new)
    if after is None and before is not None and before.page is not None and _trial(before.page.parent.name) in broken:
        lost = "its trial was left out"
    return CellChange(*name, verdict_changes.kind(old, new), verdict_changes.worse(old, new), lost, before, after)


def _trial(folder: str) -> str:
    """The name of a trial without the number that tells it from others of the same name."""
    return re.sub(r"~\d+$", "", folder)


def _order(change: CellChange) -> tuple[object, ...]:
    heavy = min((seen.word.weight for seen in (change.after, change.before) if seen is not None), default=0)
    kind = list(Kind).index(change.kind)
    return not change.worse, not change.lost, change.kind is Kind.SAME, kind, heavy, *question(change)


RED: Final = WORSE
INCONCLUSIVE: Final = NOT_COMPARABLE


@dataclass(frozen=True, slots=True)
class News:
    """The changes of a run by meaning. first: there is no earlier run, and `comparison` compares with an empty run."""

    first: bool
    comparison: Comparison
    red: tuple[CellChange, ...]  # worse than before, or failing for the first time
    lost: tuple[CellChange, ...]  # `unknown` or `not stressed`, and not so before
    known: tuple[CellChange, ...]  # failing, as before
    cleared: tuple[CellChange, ...]  # not failing any more
    missing: tuple[CellChange, ...]  # judged before, and not now
    left_out: int  # the number of trials without a verdict

    @property
    def status(self) -> int:
        """0: nothing is red; 1: something is red; 3: nothing is red, but evidence is missing."""
        if self.red or (not self.first and self.comparison.status == WORSE):
            return RED
        if self.lost or self.missing or self.left_out or (not self.first and self.comparison.status == NOT_COMPARABLE):
            return INCONCLUSIVE
        return 0


def news(before: RunContents | None, after: RunContents, older: Sequence[RunContents] = ()) -> News:
    """The news of the run `after`. before: the earlier run, or None. older: runs before that one, the last one first.

    What failed in an older run, and had no evidence since, is known. If a run has several versions of a backend, each
    version counts as a backend.
    """
    after, *earlier = apart([after, *([] if before is None else [before, *older])])
    past = _recalled(earlier, after) if earlier else RunContents((), (), ())
    comparison = compare(past, after)
    first = before is None
    placed = grouped(comparison.changes, lambda change: verdict_changes.place(*change.words(), first=first))
    red, lost, known, cleared, missing = (
        tuple(placed.get(place, ()))
        for place in (NewsPlace.RED, NewsPlace.LOST, NewsPlace.KNOWN, NewsPlace.CLEARED, NewsPlace.MISSING)
    )
    return News(first, comparison, red, lost, known, cleared, missing, len(after.problems))


def _recalled(earlier: Sequence[RunContents], after: RunContents) -> RunContents:
    """The latest earlier run. A cell that is broken in `after` and has no evidence in that run gets the verdict of the
    last run with evidence, if it was broken there too: a night without evidence makes no old violation new.
    """
    last, *older = [by_name(run.cells) for run in earlier]
    recalled: dict[Name, list[Cell]] = {}
    for name, cells in by_name(after.cells).items():
        if _heaviest(cells) in ACCUSING and _heaviest(last.get(name)) in (None, *BLIND):
            evidence = (run[name] for run in older if _heaviest(run.get(name)) not in (None, *BLIND))
            if (then := next(evidence, [])) and _heaviest(then) in ACCUSING:
                recalled[name] = then
    dropped = {id(cell) for name in recalled for cell in last.get(name, ())}
    kept = [cell for cell in earlier[0].cells if id(cell) not in dropped]
    return replace(earlier[0], cells=(*kept, *(cell for cells in recalled.values() for cell in cells)))


def _heaviest(cells: Sequence[Cell] | None) -> Verdict | None:
    return heaviest(cell.word for cell in cells) if cells else None
