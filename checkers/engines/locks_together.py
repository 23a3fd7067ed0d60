"""Holds that may overlap: readers beside readers, and as many owners as there are permits.

Source: checkers/CONDITIONS.md, section 15. Exact without refused tries. With them, orders are choices: tries that even
the briefest holds explain are accepted, tries that no order explains are not, the rest is for the search. O(n log n).
"""

from typing import Final, NamedTuple

import numpy as np

from checkers.engines.kernel import Column, kernel
from checkers.engines.locks_by_owner import OwnerHolds, spans
from checkers.history.counting import apart
from checkers.history.history import History
from checkers.row_format import INFINITY, SHARED, F, Outcome

READERS: Final = 0
"""In place of a number of permits: readers share, a writer is alone."""

EXPLAINED, OPEN, IMPOSSIBLE = range(3)


class Blocked(NamedTuple):
    """Stretches of time in which there is no room, in the order of their ends."""

    key: Column
    begin: Column  # ns
    end: Column  # ns
    everybody: Column  # whether there is no room for readers either


class Sweep(NamedTuple):
    """What happens if everybody holds as briefly as possible."""

    at: Column  # ns; of each momentary hold when it finds room
    bad: Column  # of each key the hold that finds none, or -1
    blocked: Blocked


def sweep(history: History, held: OwnerHolds, permits: int, keys: int) -> Sweep:
    """The sweep over all keys. permits: `READERS`, or the number of permits."""
    c = history.columns
    begin, end = spans(history, held)
    until = _until(history, held, begin)
    core = begin < end
    acquires = np.flatnonzero(core)
    acquires = acquires[np.argsort(begin[acquires], kind="stable")]
    events = _Events(acquires, np.flatnonzero(core & (end < INFINITY)), np.flatnonzero(~core))
    shared = (c["flags"][held.acquire] & SHARED) != 0
    return _sweep(_Cores(c["key"][held.acquire], shared, begin, end, until), events, permits, keys)


def _until(history: History, held: OwnerHolds, begin: Column) -> Column:
    """ns; the last instant of each momentary hold."""
    c = history.columns
    until = np.where(c["outcome"][held.release] == Outcome.INFO, INFINITY, c["ret"][held.release])
    return np.where(c["outcome"][held.acquire] == Outcome.INFO, until, np.minimum(until, begin))


class _Cores(NamedTuple):
    """Of each hold; times in ns."""

    key: Column
    shared: Column
    begin: Column
    end: Column
    until: Column  # the last instant of a momentary hold


class _Events(NamedTuple):
    """Indexes of holds."""

    acquires: Column  # of cores, by their begins
    releases: Column  # of cores, by their ends
    momentary: Column  # by their ends


@kernel
def _sweep(cores: _Cores, events: _Events, permits: int, keys: int) -> Sweep:
    key, shared, begin, end, until = cores
    acquires, releases, momentary = events
    at = np.full(len(begin), -1, np.int64)
    bad = np.full(keys, -1, np.int64)
    readers = np.zeros(keys, np.int64)  # or permits in use
    writers = np.zeros(keys, np.int64)
    # Since when there is no room (where readers share: for writers), and since when there is none for readers either.
    full = np.full(keys, -1, np.int64)
    closed = np.full(keys, -1, np.int64)
    waiting = np.full(keys, -1, np.int64)
    next_ = np.full(len(begin), -1, np.int64)
    most = 2 * len(acquires)
    of = np.empty(most, np.int64)
    since = np.empty(most, np.int64)
    over = np.empty(most, np.int64)
    everybody = np.zeros(most, np.bool_)
    count = 0
    a, r, m = 0, 0, 0
    while a < len(acquires) or r < len(releases) or m < len(momentary):
        # At one instant releases come first, then momentary holds, then acquires.
        to_release = end[releases[r]] if r < len(releases) else INFINITY + 1
        to_momentary = end[momentary[m]] if m < len(momentary) else INFINITY + 1
        to_acquire = begin[acquires[a]] if a < len(acquires) else INFINITY + 1
        if to_acquire < to_release and to_acquire < to_momentary:
            h = acquires[a]
            a += 1
            k = key[h]
            if bad[k] >= 0:
                continue
            alone = permits == READERS and not shared[h]
            if writers[k] or (alone and readers[k]) or (permits != READERS and readers[k] == permits):
                bad[k] = h
                continue
            if alone:
                writers[k] = 1
                closed[k] = to_acquire
            else:
                readers[k] += 1
            if full[k] < 0 and (permits == READERS or readers[k] == permits):
                full[k] = to_acquire
            continue
        if to_release <= to_momentary:
            h = releases[r]
            r += 1
            k = key[h]
            if bad[k] >= 0:
                continue
            if permits == READERS and not shared[h]:
                writers[k] = 0
                of[count], since[count], over[count] = k, closed[k], to_release
                everybody[count] = True
                count += 1
                closed[k] = -1
            else:
                readers[k] -= 1
            if full[k] >= 0 and (permits != READERS or readers[k] + writers[k] == 0):
                of[count], since[count], over[count] = k, full[k], to_release
                count += 1
                full[k] = -1
            now = to_release
        else:
            h = momentary[m]
            m += 1
            k = key[h]
            if bad[k] >= 0:
                continue
            next_[h] = waiting[k]
            waiting[k] = h
            now = to_momentary
        # Momentary holds that find room now.
        h = waiting[k]
        before = -1
        while h >= 0:
            if full[k] < 0 or (permits == READERS and shared[h] and writers[k] == 0):
                at[h] = now
                if now > until[h] and bad[k] < 0:
                    bad[k] = h
                if before < 0:
                    waiting[k] = next_[h]
                else:
                    next_[before] = next_[h]
            else:
                before = h
            h = next_[h]
    for k in range(keys):
        if waiting[k] >= 0 and bad[k] < 0:
            bad[k] = waiting[k]
        if closed[k] >= 0:
            of[count], since[count], over[count] = k, closed[k], INFINITY
            everybody[count] = True
            count += 1
        if full[k] >= 0:
            of[count], since[count], over[count] = k, full[k], INFINITY
            count += 1
    return Sweep(at, bad, Blocked(of[:count], since[:count], over[:count], everybody[:count]))


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
    # What readers meet, and what all others meet, counts under two different keys.
    of, begin, end, everybody = swept.blocked
    asked, there = 2 * key + readers, 2 * of.astype(np.int64) + everybody
    ends, moments = apart((there, end), (asked, inv)).places
    order = np.argsort(ends, kind="stable")
    place = np.append(order, -1)[np.searchsorted(ends, moments, sorter=order)]
    begin, end = np.append(begin, 0), np.append(end, 0)
    met = (np.append(there, -1)[place] == asked) & (begin[place] <= ret)
    at = np.where(met, np.maximum(inv, begin[place]), 0)
    # At most so many can have held meanwhile: the acquires sent by then, less those certainly released before.
    acquires = np.isin(c["f"], (F.ACQUIRE, F.TRY_ACQUIRE)) & (c["outcome"] != Outcome.FAIL)
    releases = (c["f"] == F.RELEASE) & (c["outcome"] == Outcome.OK)
    most = _earlier(c["key"][acquires], c["inv"][acquires], key, ret + 1)
    most -= _earlier(c["key"][releases], c["ret"][releases], key, inv)
    verdict = np.where(met, EXPLAINED, np.where(most < max(permits, 1), IMPOSSIBLE, OPEN))
    return verdict, at, met & (at == end[place])


def _earlier(key: Column, times: Column, asked: Column, moments: Column) -> Column:
    """For each moment of an asked key, how many times of that key are earlier. Times are above 0."""
    there, first, last = apart((key, times), (asked, np.zeros_like(moments)), (asked, moments)).places
    there = np.sort(there)
    return np.searchsorted(there, last) - np.searchsorted(there, first)
