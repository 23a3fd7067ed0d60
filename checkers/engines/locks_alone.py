"""Holds of which no two may overlap: mutual exclusion, and refused tries as evidence.

Source: checkers/CONDITIONS.md, section 15. Exact. O(n), and O(n log n) where tries were refused.
"""

from typing import Final, NamedTuple

import numpy as np

from checkers.engines.codes import INFO
from checkers.engines.kernel import Column, kernel, no_rows
from checkers.engines.locks_by_owner import Calls, OwnerHolds, spans
from checkers.history.counting import apart
from checkers.history.history import History
from checkers.row_format import INFINITY, Outcome


@kernel
def overlaps(acquire: Column, release: Column, calls: Calls, keys: int) -> tuple[Column, Column]:
    """For each key the indexes of two holds that cannot both have happened, or -1 twice."""
    outcome, inv, ret, key = calls.outcome, calls.inv, calls.ret, calls.key
    # Holds come in the order of their ends: two cores overlap iff one begins before the previous one ends.
    first, second = np.full(keys, -1, np.int64), np.full(keys, -1, np.int64)
    last = no_rows(keys)
    end = np.zeros(keys, np.int64)
    # A stack of momentary holds since the last core, without those that a later one lies within; the last one on top.
    top = no_rows(keys)
    below = np.empty(len(acquire), np.int32)
    for h in range(len(acquire)):
        a, r = acquire[h], release[h]
        k = key[a]
        if first[k] >= 0:
            continue
        begun = INFINITY if outcome[a] == INFO else ret[a]
        ended = INFINITY if r < 0 else inv[r]
        if begun < ended:
            if begun < end[k]:
                first[k], second[k] = last[k], h
            x = top[k]
            while x >= 0:
                if inv[release[x]] > begun and _until(acquire[x], release[x], ret, outcome) < ended and first[k] < 0:
                    first[k], second[k] = h, x
                x = below[x]
            top[k] = -1
            last[k] = h
            end[k] = ended
        else:
            until = _until(a, r, ret, outcome)
            x = top[k]
            while x >= 0 and _until(acquire[x], release[x], ret, outcome) >= until:
                x = below[x]
            below[h] = x
            top[k] = h
    return first, second


@kernel
def _until(acquire: int, release: int, ret: Column, outcome: Column) -> int:
    """ns; the last instant of a momentary hold."""
    until = INFINITY if outcome[release] == INFO else ret[release]
    return until if outcome[acquire] == INFO else min(until, ret[acquire])


class Stretched(NamedTuple):
    """Holds in their order within each key, and how far each can reach."""

    acquire: Column  # row of each hold
    release: Column  # likewise, -1 for none
    owner: Column  # of each hold
    first: Column  # of each key the index of its first hold; one more than there are keys
    earliest: Column  # ns; the earliest instant of each acquire
    latest: Column  # ns; the latest instant of each release
    another: Column  # of each hold the index of its key's next hold by another owner, or of the next key's first hold
    tied: Column  # of each key whether two holds of no length at one instant have no order


def stretched(history: History, held: OwnerHolds, keys: int) -> Stretched:
    """How far holds reach; only for keys with disjoint cores and no momentary holds but those tied to one instant."""
    c = history.columns
    begin, end = spans(history, held)
    key = c["key"][held.acquire].astype(np.int64)
    order = np.lexsort((begin, end, key))
    acquire, release, begin, end, key = held.acquire[order], held.release[order], begin[order], end[order], key[order]
    first = np.searchsorted(key, np.arange(keys + 1))
    until = np.where((release < 0) | (c["outcome"][release] == Outcome.INFO), INFINITY, c["ret"][release])
    earliest, latest = c["inv"][acquire].copy(), until
    owner = c["owner"][acquire]
    same = key[1:] == key[:-1]
    earliest[1:][same] = np.maximum(earliest[1:], end[:-1])[same]
    latest[:-1][same] = np.minimum(latest[:-1], begin[1:])[same]
    tied = np.zeros(keys, bool)
    tied[key[1:][same & (begin[1:] == end[1:]) & (begin[:-1] == end[:-1]) & (end[1:] == end[:-1])]] = True
    tied[key[begin >= INFINITY]] = True
    places = np.arange(1, len(key) + 1)
    changes = np.append(~same | (owner[1:] != owner[:-1]), np.full(min(1, len(key)), True))
    another = np.minimum.accumulate(np.where(changes, places, len(key))[::-1])[::-1]
    return Stretched(acquire, release, owner, first, earliest, latest, another, tied)


def explained(history: History, holds: Stretched, refused: Column, *, own: bool) -> Column:
    """For each refused try the hold that explains it (own: also one by the same owner), else -1 - the next hold."""
    c = history.columns
    inv, ret, key, asking = (c[name][refused] for name in ("inv", "ret", "key", "owner"))
    latest, moments = apart((c["key"][holds.acquire], holds.latest), (key, inv)).places
    place = np.searchsorted(latest, moments)
    limit = holds.first[key.astype(np.int64) + 1]
    if not own:
        its = (place < limit) & (np.append(holds.owner, 0)[place] == asking)
        place = np.where(its, np.append(holds.another, 0)[place], place)
    met = (place < limit) & (np.append(holds.earliest, 0)[place] <= ret)
    return np.where(met, place, -1 - place)


MAYBE: Final = -2


def phantoms(
    history: History, held: OwnerHolds, holds: Stretched, refused: Column, place: Column, *, own: bool
) -> Column:
    """For each try that no hold explains, the row of an unanswered acquire that can have come last and explains it.

    -1 for none, `MAYBE` if this is not decided: among reentrant holds (not own).
    """
    c, key = history.columns, history.columns["key"][refused]
    ghosts = np.sort(held.ghosts)[::-1]
    first = np.full(len(holds.first) - 1, -1, np.int64)
    first[c["key"][ghosts]] = ghosts  # the last assignment stays: the first one of each key
    ghost, ret = first[key], c["ret"][refused]
    met = (place < 0) & (ghost >= 0) & (c["inv"][ghost] <= ret)
    if own:
        return np.where(met & (freed(history, holds)[key] <= ret), ghost, -1)
    return np.where(met, MAYBE, -1)  # the acquire may be part of a longer hold by its owner


def freed(history: History, holds: Stretched) -> Column:
    """ns; the earliest end of the last hold of each key, 0 if it has none."""
    release = np.append(holds.release, -1)[holds.first[1:] - 1]
    end = np.where(release < 0, INFINITY, history.columns["inv"][release])
    return np.where(holds.first[1:] > holds.first[:-1], end, 0)


def beside(holds: Stretched, key: int, after: int) -> tuple[int, ...]:
    """Rows of the holds before and after a moment at which nobody held."""
    rows: list[int] = []
    for h in (after - 1, after):
        if holds.first[key] <= h < holds.first[key + 1]:
            rows += [int(row) for row in (holds.acquire[h], holds.release[h]) if row >= 0]
    return tuple(rows)


def entangled(history: History, holds: Stretched, refused: Column, place: Column) -> set[int]:
    """Keys where a try needs a hold to last into the time to which the next hold, by the try's owner, would reach back.

    Only an owner that tries while it acquires can be in both places: then not all stretches are possible at once.
    """
    c = history.columns
    before_another = np.flatnonzero((place >= 0) & (place + 1 < len(holds.acquire)))
    following = holds.acquire[place[before_another] + 1]
    tries = refused[before_another]
    same = (c["key"][following] == c["key"][tries]) & (c["owner"][following] == c["owner"][tries])
    tangled = tries[same & (holds.earliest[place[before_another] + 1] <= c["inv"][tries])]
    return set(c["key"][tangled].tolist())
