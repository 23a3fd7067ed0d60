"""Holds that may overlap: readers beside readers, and as many owners as there are permits.

Source: checkers/CONDITIONS.md, section 15. Exact, but for refused tries that are left to the search. O(n log n).
"""

from typing import Final, Literal, NamedTuple

import numpy as np

from checkers.engines.kernel import Column
from checkers.engines.locks_by_owner import OwnerHolds, spans
from checkers.history.counting import apart
from checkers.history.history import History
from checkers.row_format import INFINITY, SHARED, F, Outcome

READERS: Final = 0  # in place of a number of permits: readers share, a writer is alone

EXPLAINED, OPEN, IMPOSSIBLE = range(3)


class Blocked(NamedTuple):
    """Stretches of time in which there is no room."""

    key: Column
    begin: Column  # ns
    end: Column  # ns
    everybody: Column  # whether there is no room for readers either


class Sweep(NamedTuple):
    """What happens if everybody holds as briefly as possible."""

    at: Column  # ns; of each momentary hold when it finds room
    bad: Column  # of each key the first hold that finds none, or -1
    blocked: Blocked


def sweep(history: History, held: OwnerHolds, permits: int, keys: int) -> Sweep:
    """The sweep over all keys. permits: `READERS`, or the number of permits."""
    begin, end = spans(history, held)
    key = history.columns["key"][held.acquire].astype(np.int64)
    reader = (history.columns["flags"][held.acquire] & SHARED != 0) & (permits == READERS)
    core = begin < end
    # Ends and begins of cores, key by key. At one instant ends come first. Each key has free room before and after.
    hold = np.tile(np.flatnonzero(core), 2)
    step = np.repeat([-1, 1], len(hold) // 2)
    time = np.where(step > 0, begin[hold], end[hold])
    order = np.lexsort((time, key[hold]))
    hold, step, time = hold[order], step[order], time[order]
    inside, writers, most = np.cumsum(step), np.cumsum(np.where(reader[hold], 0, step)), max(permits, 1)
    full, free = (step > 0) & (inside == most), (step < 0) & (inside == most - 1)
    alone = np.flatnonzero(core & ~reader & (permits == READERS))
    blocked = Blocked(
        key=np.concatenate((key[hold[full]], key[alone])),
        begin=np.concatenate((time[full], begin[alone])),
        end=np.concatenate((time[free], end[alone])),
        everybody=np.arange(np.count_nonzero(full) + len(alone)) >= np.count_nonzero(full),
    )
    # At one instant momentary holds come after the ends of cores, and before their begins.
    brief = np.flatnonzero(~core)
    closed, opened = _ahead(blocked, key[brief], reader[brief], end[brief], "right")
    at = end.copy()
    at[brief] = np.where(closed < end[brief], opened, end[brief])
    late = brief[(at[brief] > _until(history, held, begin)[brief]) | (at[brief] == INFINITY)]
    crowding = np.flatnonzero((step > 0) & np.where(reader[hold], writers > 0, inside > most))
    without = np.concatenate((late, hold[crowding]))
    without = without[np.argsort(np.concatenate((at[late], time[crowding])), kind="stable")[::-1]]
    bad = np.full(keys, -1, np.int64)
    bad[key[without]] = without  # the first one of a key is the last to be entered
    return Sweep(at, bad, blocked)


def _ahead(
    blocked: Blocked, key: Column, reader: Column, moments: Column, side: Literal["left", "right"]
) -> tuple[Column, Column]:
    """(begin, end) of the first stretch that matters to a hold and ends at its moment (left) or after it (right).

    `INFINITY` twice for none. reader: of each hold whether only what leaves no room for readers matters.
    """
    group, there = 2 * key + reader, 2 * blocked.key + blocked.everybody
    ends, times = apart((there, blocked.end), (group, moments)).places
    order = np.argsort(ends, kind="stable")
    place = np.append(order, -1)[np.searchsorted(ends, times, side, sorter=order)]
    place[np.append(there, -1)[place] != group] = -1
    return np.append(blocked.begin, INFINITY)[place], np.append(blocked.end, INFINITY)[place]


def _until(history: History, held: OwnerHolds, begin: Column) -> Column:
    """ns; the last instant of each momentary hold."""
    c = history.columns
    until = np.where(c["outcome"][held.release] == Outcome.INFO, INFINITY, c["ret"][held.release])
    return np.where(c["outcome"][held.acquire] == Outcome.INFO, until, np.minimum(until, begin))


def crowded(history: History, held: OwnerHolds, swept: Sweep, permits: int) -> dict[int, tuple[int, ...]]:
    """Key → rows of holds that cannot all have happened."""
    result: dict[int, tuple[int, ...]] = {}
    bad = np.flatnonzero(swept.bad >= 0)
    if not len(bad):
        return result
    begin, end = spans(history, held)
    until = _until(history, held, begin)
    flags = history.columns["flags"]
    key = history.columns["key"][held.acquire]
    by_key = np.argsort(key, kind="stable")
    places = np.searchsorted(key[by_key], bad), np.searchsorted(key[by_key], bad, "right")
    for k, first, last in zip(bad.tolist(), *places, strict=True):
        h = int(swept.bad[k])
        others = by_key[first:last]
        if begin[h] < end[h]:
            meeting = others[(begin[others] <= begin[h]) & (end[others] > begin[h]) & (others != h)]
            if permits == READERS:
                if flags[held.acquire[h]] & SHARED:
                    meeting = meeting[flags[held.acquire[meeting]] & SHARED == 0]
                meeting = meeting[:1]
            else:
                meeting = meeting[np.argsort(begin[meeting], kind="stable")][:permits]
        else:
            meeting = others[(begin[others] < until[h]) & (end[others] > end[h]) & (others != h)]
        rows = [row for x in meeting for row in (held.acquire[x], held.release[x])]
        rows += [held.release[h], held.acquire[h]]
        result[k] = tuple(int(row) for row in rows if row >= 0)
    return result


def refusals(history: History, swept: Sweep, permits: int, refused: Column) -> tuple[Column, Column, Column]:
    """For each refused try (verdict, ns of a moment without room, whether that is just before a release)."""
    c = history.columns
    inv, ret, key = c["inv"][refused], c["ret"][refused], c["key"][refused].astype(np.int64)
    readers = (c["flags"][refused] & SHARED != 0) & (permits == READERS)
    begin, end = _ahead(swept.blocked, key, readers, inv, "left")
    met = begin <= ret
    at = np.where(met, np.maximum(inv, begin), 0)
    # At most so many can have held meanwhile: the acquires sent by then, less those certainly released before.
    acquires = np.isin(c["f"], (F.ACQUIRE, F.TRY_ACQUIRE)) & (c["outcome"] != Outcome.FAIL)
    releases = (c["f"] == F.RELEASE) & (c["outcome"] == Outcome.OK)
    most = _earlier(c["key"][acquires], c["inv"][acquires], key, ret + 1)
    most -= _earlier(c["key"][releases], c["ret"][releases], key, inv)
    verdict = np.where(met, EXPLAINED, np.where(most < max(permits, 1), IMPOSSIBLE, OPEN))
    return verdict, at, met & (at == end)


def _earlier(key: Column, times: Column, wanted: Column, moments: Column) -> Column:
    """For each moment of a wanted key, how many times of that key are earlier. Times are above 0."""
    there, first, last = apart((key, times), (wanted, np.zeros_like(moments)), (wanted, moments)).places
    there = np.sort(there)
    return np.searchsorted(there, last) - np.searchsorted(there, first)
