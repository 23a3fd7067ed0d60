"""What is new in a run, compared with an earlier one: what is red, what was known, what does not fail any more.

Red is a regression, a new violation, or a positive control that fell silent. A failing verdict that the same cell had
before is known. Without an earlier run every failing verdict is red.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from checkers.claims import Verdict, heaviest
from results.comparison.compare import NOT_COMPARABLE, WORSE, CellChange, Comparison, Name, apart, by_name, compare
from results.record import Cell, grouped
from results.report import verdict_changes
from results.report.verdict_changes import ACCUSING, BLIND, NewsPlace
from results.storage.reading import RunContents

RED: Final = WORSE
INCONCLUSIVE: Final = NOT_COMPARABLE


@dataclass(frozen=True, slots=True)
class News:
    """The changes of a run, by what they mean. first: there is no earlier run; `comparison` is with an empty one.

    red      worse than before, or failing for the first time.
    lost     `unknown` or `not stressed`, and not so before.
    known    failing, as before.
    cleared  not failing any more.
    missing  judged before, and not now.
    left_out the number of trials without a verdict.
    """

    first: bool
    comparison: Comparison
    red: tuple[CellChange, ...]
    lost: tuple[CellChange, ...]
    known: tuple[CellChange, ...]
    cleared: tuple[CellChange, ...]
    missing: tuple[CellChange, ...]
    left_out: int

    @property
    def status(self) -> int:
        """0: nothing is red; 1: something is red; 3: nothing is red, but evidence is missing."""
        if self.red or (not self.first and self.comparison.status == WORSE):
            return RED
        if self.lost or self.missing or self.left_out or (not self.first and self.comparison.status == NOT_COMPARABLE):
            return INCONCLUSIVE
        return 0


def news(before: RunContents | None, after: RunContents, older: Sequence[RunContents] = ()) -> News:
    """before: the earlier run, or None. older: the runs before it, the last one first.

    What failed in one of those, and had no evidence since, is known. If a run has several versions of a backend, each
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
    """The first of the earlier runs. For cells that are broken in `after` and without evidence in this run, it gets the
    verdict of the last run with evidence, if that was broken too: a night without evidence makes no old violation new.
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
