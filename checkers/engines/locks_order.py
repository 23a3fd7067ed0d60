"""Orders of linearization points for locks: what proves a valid verdict.

Source: checkers/CONDITIONS.md, section 15. Refused tries stand where a stretched hold explains them. O(n log n).
"""

from typing import NamedTuple

import numpy as np

from checkers.engines import locks_alone as alone
from checkers.engines.kernel import Column
from checkers.engines.locks_by_owner import DEPTH, OwnerHolds, Slots, spans
from checkers.engines.locks_together import Sweep
from checkers.history.counting import any_of
from checkers.history.history import History
from checkers.row_format import ACQUIRES, INFINITY, F, Outcome


class Order(NamedTuple):
    """Rows in an order of linearization points."""

    rows: Column
    points: Column  # ns
    phases: Column  # at one instant, lower phases come first


def pinned(history: History, held: OwnerHolds, inner: Column, swept: Sweep, skipped: Column) -> Order:
    """Each acquire at its return and each release at its invocation.

    At one instant cores end first (phase 1), then momentary holds come (2), then cores begin (3). inner: for each row
    the hold that it is a part of, or -1. skipped: mask of the keys to leave out.
    """
    c = history.columns
    begin, end = spans(history, held)
    rows = np.flatnonzero(inner >= 0)
    rows = rows[~skipped[c["key"][rows]]]
    hold = inner[rows]
    point = np.where(c["f"][rows] == F.RELEASE, c["inv"][rows], c["ret"][rows])
    core = begin[hold] < end[hold]
    point = np.where(core, point, swept.at[hold])
    phase = np.where(core, np.where(point == end[hold], 1, 3), 2)
    order = np.lexsort((rows, hold, phase, point))
    return Order(rows[order], point[order], phase[order])


def members(history: History, held: OwnerHolds, slots: Slots, how: int) -> Column:
    """For each row the hold that it is a part of, or -1: an acquire, its release, and what lies inside."""
    member = np.full(len(history), -1, np.int64)
    count = np.arange(len(held.acquire))
    member[held.acquire] = count
    ended = held.release >= 0
    member[held.release[ended]] = count[ended]
    if how == DEPTH:
        c = history.columns
        # Nothing lies inside an unanswered acquire that was released later.
        rows = np.flatnonzero((c["outcome"] == Outcome.OK) & any_of(c["f"], (*ACQUIRES, F.RELEASE)))
        rows = rows[np.argsort(slots.of[rows], kind="stable")]
        before = rows[np.maximum.accumulate(np.where(member[rows] >= 0, np.arange(len(rows)), 0))]
        member[rows] = np.where(slots.of[before] == slots.of[rows], member[before], -1)
    return member


def merged(order: Order, other: Order) -> Column:
    """The rows of two orders, merged by points and phases; at one instant phase 0 comes first, phase 4 last."""
    rows, points, phases = (np.concatenate(pair) for pair in zip(order, other, strict=True))
    return rows[np.lexsort((np.arange(len(rows)), phases, points))]


class RefusedTries(NamedTuple):
    """Refused tries, and what explains each: see `locks_alone`."""

    rows: Column
    place: Column
    phantoms: Column


def stretched(
    history: History, holds: alone.Stretched, member: Column, held: OwnerHolds, refused: RefusedTries, wanted: Column
) -> Column:
    """The rows of the keys in the mask `wanted`, in order, with holds that reach as far as refused tries may need."""
    tried, place, phantoms = refused
    c = history.columns
    key = c["key"][holds.acquire].astype(np.int64)
    last = np.flatnonzero(np.append(key[1:] != key[:-1], np.full(min(1, len(key)), True)))
    following = np.append(holds.earliest[1:], [INFINITY])[: len(key)]
    following[last] = INFINITY
    ghosts, haunted = phantoms[phantoms >= 0], c["key"][tried[phantoms >= 0]]
    behind = holds.first[haunted + 1] > holds.first[haunted]  # else nobody held the key before
    since = np.maximum(c["inv"][ghosts], alone.freed(history, holds)[haunted])
    following[holds.first[haunted + 1][behind] - 1] = since[behind]
    until = np.minimum(holds.latest, following)  # where each hold ends
    # For each row that belongs to a hold, the number of the hold in this order; phantoms come after all holds.
    by_acquire = np.full(len(history), -1, np.int64)
    by_acquire[holds.acquire] = np.arange(len(key))
    number = by_acquire[held.acquire]
    rows = np.flatnonzero(member >= 0)
    rows = rows[wanted[c["key"][rows]]]
    hold = number[member[rows]]
    release = c["f"][rows] == F.RELEASE
    point = np.where(release, c["inv"][rows], c["ret"][rows])
    kind = np.where(rows == holds.acquire[hold], 0, np.where(rows == holds.release[hold], 2, 1))
    explained = wanted[c["key"][tried]]
    tries, at = tried[explained], place[explained]
    late = c["inv"][tries] > np.append(until, INFINITY)[np.maximum(at, -1)]
    final = np.isin(at, last)
    at = np.where(late & ~final, at + 1, at)
    at = np.where((at < 0) | (late & final), len(key), at)
    begun = np.append(holds.earliest, [0])[at]
    extra = np.unique(ghosts[wanted[haunted]])
    whole_rows = np.concatenate((rows, tries, extra))
    whole_hold = np.concatenate((hold, at, np.full(len(extra), len(key))))
    whole_kind = np.concatenate((kind, np.full(len(tries), 1), np.full(len(extra), 0)))
    whole_point = np.concatenate((point, np.maximum(c["inv"][tries], begun), np.zeros(len(extra), np.int64)))
    return whole_rows[np.lexsort((whole_rows, whole_point, whole_kind, whole_hold))]
