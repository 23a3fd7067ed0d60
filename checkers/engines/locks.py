"""The locks without leases: mutex, reentrant mutex, readers and writers, permits.

Source: checkers/CONDITIONS.md, section 15. What each owner held follows from its own operations (`locks_by_owner`);
then the cores of all holds must fit beside one another: O(n) for one holder (`locks_alone`), else O(n log n)
(`locks_together`). Exact; the section lists what is left to the search.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

import numpy as np

from checkers.engines import locks_alone as alone
from checkers.engines import locks_order
from checkers.engines import locks_together as together
from checkers.engines.kernel import Column
from checkers.engines.locks_by_owner import COUNT, DEPTH, EITHER, TURNS, OwnerHolds, calls_of, holds, slots
from checkers.history.history import History
from checkers.models.engine_answer import Conflict, EngineAnswer
from checkers.models.model import Settings
from checkers.row_format import F, Outcome, Reason

_ODD: Final = "operations of one owner overlap, or go on after an unanswered release: more than one story fits"
_OPEN_PLACE: Final = "a refused try beside a hold whose place in the order is open"
_LOOSE: Final = "a refused try that only an unanswered acquire with an unanswered release may explain"
_OWN: Final = "a refused try beside an acquire of the same owner that was under way"
_COUNTED: Final = "a refused try that only some of the possible orders explain"


def _exclusive(history: History, settings: Settings, how: int) -> EngineAnswer:
    keys, numbers, key = _keys(history), slots(history), history.columns["key"]
    held = holds(history, numbers, how, keys)
    first, second = alone.overlaps(held.acquire, held.release, calls_of(history), keys)
    conflicts = dict(_failures(history, held))
    for k in np.flatnonzero(first >= 0).tolist():
        conflicts.setdefault(k, Conflict("overlap", k, _four(held, int(first[k]), int(second[k]))))
    undecided = dict.fromkeys(np.flatnonzero(held.odd).tolist(), _ODD)
    skipped = _mask(keys, conflicts, undecided)
    refused = _refused(history, settings, skipped)
    with_tries = _mask(keys, key[refused])

    def order() -> Column:
        member = locks_order.members(history, held, numbers, how)
        swept = together.sweep(history, held, 1, keys)
        rows = locks_order.pinned(history, held, member, swept, skipped | with_tries).rows
        if not len(refused):
            return rows
        reasons = locks_order.RefusedTries(refused, place, phantoms)
        wanted = with_tries & ~_mask(keys, conflicts, undecided)
        tried = locks_order.stretched(history, reach, member, held, reasons, wanted)
        return np.concatenate((rows, tried))

    if len(refused):
        reach = alone.stretched(history, held, keys)
        undecided |= dict.fromkeys(np.flatnonzero(with_tries & reach.tied).tolist(), _OPEN_PLACE)
        refused = refused[~reach.tied[key[refused]]]
        place = alone.explained(history, reach, refused, own=how == TURNS)
        phantoms = alone.phantoms(history, held, reach, refused, place, own=how == TURNS)
        for n in np.flatnonzero(place < 0).tolist():
            k, row = int(key[refused[n]]), int(refused[n])
            if phantoms[n] == alone.MAYBE or (phantoms[n] < 0 and held.loose[k]):
                undecided.setdefault(k, _LOOSE)
            elif phantoms[n] < 0:
                rows = (*alone.beside(reach, k, int(-1 - place[n])), row)
                conflicts.setdefault(k, Conflict("refused-while-free", k, rows))
        if how == DEPTH:
            undecided |= dict.fromkeys(alone.entangled(history, reach, refused, place), _OWN)
    return _answer(conflicts, undecided, order)


def _together(history: History, settings: Settings, how: int) -> EngineAnswer:
    keys, numbers, key = _keys(history), slots(history), history.columns["key"]
    held = holds(history, numbers, how, keys)
    permits = settings.permits if how == COUNT else together.READERS
    swept = together.sweep(history, held, permits, keys)
    conflicts = dict(_failures(history, held))
    for k, rows in together.crowded(history, held, swept, permits).items():
        conflicts.setdefault(k, Conflict("overlap" if how == EITHER else "too-many", k, rows))
    undecided = dict.fromkeys(np.flatnonzero(held.odd).tolist(), _ODD)
    refused = _refused(history, settings, _mask(keys, conflicts, undecided))
    verdict, at, before = together.refusals(history, swept, permits, refused)
    for n in np.flatnonzero(verdict != together.EXPLAINED).tolist():
        k, row = int(key[refused[n]]), int(refused[n])
        if verdict[n] == together.IMPOSSIBLE:
            conflicts.setdefault(k, Conflict("refused-while-free", k, (row,)))
        else:
            undecided.setdefault(k, _COUNTED)

    def order() -> Column:
        skipped = _mask(keys, conflicts, undecided)
        member = locks_order.members(history, held, numbers, how)
        certain = locks_order.pinned(history, held, member, swept, skipped)
        tried = ~skipped[key[refused]]
        others = locks_order.Order(refused[tried], at[tried], np.where(before[tried], 0, 4))
        return locks_order.merged(certain, others)

    return _answer(conflicts, undecided, order)


def semaphore(history: History, settings: Settings) -> EngineAnswer:
    """At most `Settings.permits` holders at once; one permit is the specification of a mutex."""
    return mutex(history, settings) if settings.permits == 1 else _together(history, settings, COUNT)


# What each specifies: the classes of the same names in `checkers.models.locks`.
mutex: Final = partial(_exclusive, how=TURNS)  # the holder of the lock does not get it again
reentrant_mutex: Final = partial(_exclusive, how=DEPTH)  # the holder of the lock gets it again
rwlock: Final = partial(_together, how=EITHER)  # readers share, writers are alone


def _answer(conflicts: dict[int, Conflict], undecided: dict[int, str], order: Callable[[], Column]) -> EngineAnswer:
    """undecided: some of these keys may have a conflict all the same."""
    undecided = {k: why for k, why in undecided.items() if k not in conflicts}
    return EngineAnswer(tuple(conflicts.values()), undecided, order)


def _refused(history: History, settings: Settings, skipped: Column) -> Column:
    """Rows of the tries that were refused because somebody held, if that is evidence; without those of skipped keys."""
    if not settings.strict_try:
        return np.empty(0, np.int64)
    c = history.columns
    refused = (c["outcome"] == Outcome.FAIL) & (c["reason"] == Reason.HELD)
    rows = np.flatnonzero(refused & (c["f"] == F.TRY_ACQUIRE))
    return rows[~skipped[c["key"][rows]]]


def _mask(keys: int, *chosen: Iterable[int]) -> Column:
    mask = np.zeros(keys, bool)
    for numbers in chosen:
        mask[list(numbers)] = True
    return mask


def _keys(history: History) -> int:
    return int(history.columns["key"].max()) + 1 if len(history) else 0


def _failures(history: History, held: OwnerHolds) -> Iterator[tuple[int, Conflict]]:
    """The first failure of each key, as (key, conflict)."""
    order = np.argsort(held.failed, kind="stable")
    keys, first = np.unique(history.columns["key"][held.failed[order]], return_index=True)
    for k, n in zip(keys.tolist(), order[first].tolist(), strict=True):
        row, other = int(held.failed[n]), int(held.failed_with[n])
        yield k, Conflict("release-by-another", k, (row,)) if other < 0 else Conflict("second-acquire", k, (other, row))


def _four(held: OwnerHolds, first: int, second: int) -> tuple[int, ...]:
    """The rows of two holds: the earlier one's, then the later one's release and its acquire, which broke the rule."""
    rows = (held.acquire[first], held.release[first], held.release[second], held.acquire[second])
    return tuple(int(row) for row in rows if row >= 0)
