"""What a run tells that an earlier one did not: what is red, what was known already, what fails no longer.

Red is a regression, a new violation, or a positive control that fell silent. A failing verdict that was there before in
the same cell is known. Where there is nothing to compare with, every failing verdict is red.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from checkers.claims import heaviest
from results.comparison.compare import NOT_COMPARABLE, WORSE, Change, Comparison, Name, apart, by_name, compare, words
from results.record import Cell
from results.report import became
from results.report.became import ACCUSING, BLIND, Place
from results.storage.reading import Contents

RED: Final = WORSE
INCONCLUSIVE: Final = NOT_COMPARABLE


@dataclass(frozen=True, slots=True)
class News:
    """first: there was nothing to compare with, so `comparison` is with nothing.

    red      worse than before, or failing for the first time.
    lost     nothing can be said of it any more, or yet: `unknown` or `unexercised`, and not so before.
    known    failing, as it was before.
    cleared  failing no longer.
    missing  judged before, and not asked or not answered now.
    left_out trials that came to no verdict, or cannot be read.
    """

    first: bool
    comparison: Comparison
    red: tuple[Change, ...]
    lost: tuple[Change, ...]
    known: tuple[Change, ...]
    cleared: tuple[Change, ...]
    missing: tuple[Change, ...]
    left_out: int

    @property
    def status(self) -> int:
        """0 nothing red, 1 red, 3 nothing red as far as can be told: evidence is missing."""
        if self.red or (not self.first and self.comparison.status == WORSE):
            return RED
        if self.lost or self.missing or self.left_out or (not self.first and self.comparison.status == NOT_COMPARABLE):
            return INCONCLUSIVE
        return 0


def news(before: Contents | None, after: Contents, older: Sequence[Contents] = ()) -> News:
    """before: the earlier run, or None; older: those before it, the last one first.

    What failed in one of those, and of which nothing could be said since, is known. Where a run has several versions of
    a backend, each stands for itself.
    """
    after, *earlier = apart([after, *([] if before is None else [before, *older])])
    past = _recalled(earlier, after) if earlier else Contents((), (), ())
    comparison = compare(past, after)
    placed = [
        (became.place(*words(change.before, change.after), first=before is None), change)
        for change in comparison.changes
    ]
    red, lost, known, cleared, missing = (
        tuple(change for of, change in placed if of is place)
        for place in (Place.RED, Place.LOST, Place.KNOWN, Place.CLEARED, Place.MISSING)
    )
    return News(before is None, comparison, red, lost, known, cleared, missing, len(after.problems))


def _recalled(earlier: Sequence[Contents], after: Contents) -> Contents:
    """The first of the earlier runs. Where it could not judge what `after` finds broken, the verdict of the last run
    that could stands in it, if it found that broken too: a night without evidence makes no old violation a new one.
    """
    before = earlier[0]
    by_run = [by_name(run.cells) for run in earlier]
    open_ = {
        name
        for name, cells in by_name(after.cells).items()
        if heaviest(cell.word for cell in cells) in ACCUSING and _silent(by_run[0].get(name, ()))
    }
    recalled: dict[Name, list[Cell]] = {}
    for run in by_run[1:]:
        for name in [name for name in open_ if not _silent(run.get(name, ()))]:
            open_.remove(name)
            if heaviest(cell.word for cell in run[name]) in ACCUSING:
                recalled[name] = run[name]
    dropped = {id(cell) for name in recalled for cell in by_run[0].get(name, ())}
    kept = [cell for cell in before.cells if id(cell) not in dropped]
    return replace(before, cells=(*kept, *(cell for cells in recalled.values() for cell in cells)))


def _silent(cells: Sequence[Cell]) -> bool:
    return not cells or heaviest(cell.word for cell in cells) in BLIND
