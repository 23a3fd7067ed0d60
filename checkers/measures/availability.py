"""When somebody wanted a lock, nobody had it, and nobody got it: how long that took, and whether it ended."""

from typing import NamedTuple

import numpy as np

from checkers.history.counting import Ints, apart
from checkers.measures.measure_result import WITNESSES, Reading, Value, counts, durations, measure, ratio
from checkers.measures.measured_history import MeasuredHistory
from checkers.properties.fifo_and_deadlock import DEADLOCK_FREE
from checkers.properties.recovery import RECOVERY
from checkers.properties.releases import CRASH_RELEASE
from checkers.row_format import INFINITY, Outcome, Reason

_NOT_ASKED = (Reason.DENIED, Reason.NOT_OWNER)  # reasons why an acquire failed that nothing could have granted


class IdleGaps(NamedTuple):
    """Times (ns) in which a lock was wanted and nobody had it, by key and time. waited: how long locks were wanted."""

    key: Ints
    begin: Ints
    end: Ints
    waited: int


@measure("availability-gap", "unasked", "crowded", "untimed")
def availability_gap(measured: MeasuredHistory) -> Reading:
    """Times in which a key was asked for while no grant was certainly in force or given: the longest, and the total.

    A key is asked for while an acquire of it, also one that is refused in the end, has no answer. A gap ends when a
    grant returns or a core begins (`checkers.history.holds_and_lease_ends`): hand-overs are short gaps. `share` is the
    total divided by the time in which anybody asked. Times of several keys are added up.
    """
    gaps = _gaps(measured)
    lasted = gaps.end - gaps.begin
    total = int(lasted.sum())
    longest = np.argsort(-lasted, kind="stable")[:1]
    return Reading(
        durations(longest=lasted.max(initial=0), total=total, asked=gaps.waited)
        + counts(gaps=len(lasted))
        + [ratio("share", total / gaps.waited if gaps.waited else None)],
        None if gaps.waited else "no acquire took any time",
        tuple(_waiters(measured, int(gaps.key[n]), int(gaps.begin[n]), int(gaps.end[n])) for n in longest.tolist()),
    )


def longest_gap(measured: MeasuredHistory) -> tuple[int, int] | None:
    """When the longest gap of `availability_gap` began and ended (ns). None: there is none, or it cannot be known."""
    if measured.unasked or measured.crowded or measured.untimed:
        return None
    gaps = _gaps(measured.timed)
    longest = int(np.argmax(gaps.end - gaps.begin)) if len(gaps.begin) else -1
    return (int(gaps.begin[longest]), int(gaps.end[longest])) if longest >= 0 else None


@measure("recovery-after-heal", "unstruck", "no_lock", "untimed", judged_by=RECOVERY.id)
def recovery_after_heal(measured: MeasuredHistory) -> Reading:
    """For each fault, how long after its heal the first successful acquire of any key returned, and the longest gap
    (see availability-gap) from the fault's beginning to that moment.

    `first` is None if nobody got a lock after the heal; `gap` then counts until the end. Only gaps that begin with the
    fault or later count. Faults of one name are numbered. `recovery` judges the last heal, by key and bound.
    """
    faults = sorted(measured.struck, key=lambda fault: fault.begun)
    returned = np.sort(measured.holds.columns.ret)
    gaps = None if measured.crowded else _gaps(measured)
    values: list[Value] = []
    recovered = 0
    numbers: dict[str, int] = {}
    for fault in faults:
        numbers[fault.name] = numbers.get(fault.name, 0) + 1
        name = f"{fault.name}#{numbers[fault.name]}"
        place = int(np.searchsorted(returned, fault.healed, "right"))
        first = int(returned[place]) if fault.healed and place < len(returned) else None
        recovered += first is not None
        values += durations(name, first=None if first is None else first - fault.healed)
        if gaps is not None:
            begun = gaps.begin >= fault.begun
            begun &= gaps.begin <= (INFINITY if first is None else first)
            values += durations(name, gap=(gaps.end - gaps.begin)[begun].max(initial=0))
    values += counts(faults=len(faults), recovered=recovered)
    if not any(fault.healed for fault in faults):
        return Reading(values, "no fault was healed")
    wanted = measured.ended[measured.acquires].max() > min(fault.healed for fault in faults if fault.healed)
    return Reading(values, None if wanted else "nobody asked for a lock after a heal")


@measure("deadlock", "no_lock", "crowded", "untimed", judged_by=DEADLOCK_FREE.id)
def deadlock(measured: MeasuredHistory) -> Reading:
    """For how long, at the end of the history, a key was asked for that nobody held any more and nobody got.

    The time begins when the last grant of the key had returned and its holder was gone, or somebody asked after that.
    It ends at the last moment at which somebody still asked. A holder is gone when it has left and its lease can be
    over or, if no lease ends, when it asked for the release, or when nothing later is known of its process. An alert if
    this is longer than the TTL and the longer bound of recovery and crash-release. `deadlock-free` looks for circles.
    """
    holds, rows, c = measured.holds.columns, measured.acquires, measured.history.columns
    finish = measured.finish
    key = c["key"][rows].astype(np.int64)
    keys = len(np.bincount(key))
    free = np.zeros(keys, np.int64)
    np.maximum.at(free, holds.key, _gone(measured))
    until = np.where((c["outcome"][rows] == Outcome.INFO) & (c["ret"][rows] == 0), finish, measured.ended[rows])
    waiting = (until > free[key]) & (c["outcome"][rows] != Outcome.OK)
    waiting &= ~np.isin(c["reason"][rows], _NOT_ASKED)
    begin, end = np.full(keys, INFINITY, np.int64), np.zeros(keys, np.int64)
    np.minimum.at(begin, key[waiting], np.maximum(c["inv"][rows], free[key])[waiting])
    np.maximum.at(end, key[waiting], until[waiting])
    lasted = np.maximum(end - begin, 0)
    worst = int(np.argmax(lasted))
    longest = int(lasted[worst])
    bounds = measured.facts.bounds
    ttl = measured.facts.ttl if measured.leased else 0
    allowed = ttl + max(bounds.get(RECOVERY.id, 0), bounds.get(CRASH_RELEASE.id, 0))
    stuck = longest > allowed > 0
    return Reading(
        durations(longest=longest, allowed=allowed or None) + counts(keys=(lasted > allowed).sum() if allowed else 0),
        measured.idle,
        (_waiters(measured, worst, int(begin[worst]), int(end[worst])),) if longest else (),
        "somebody asked in vain until the end for what nobody held" if stuck else None,
    )


def _gone(measured: MeasuredHistory) -> Ints:
    """ns, for each grant; see `deadlock`."""
    holds, c = measured.holds.columns, measured.history.columns
    gone: Ints = np.maximum(holds.ret, holds.left)
    if measured.leased:
        return np.maximum(gone, np.where(holds.free < INFINITY, holds.core_end, holds.expiry))
    names, process = np.unique(c["process"], return_inverse=True)
    last = np.zeros(len(names), np.int64)
    np.maximum.at(last, process, measured.ended)
    kept = np.array([hold.released == INFINITY and hold.lost < 0 for hold in measured.holds], bool)
    return np.where(kept, last[np.searchsorted(names, holds.process)], gone)


def _waiters(measured: MeasuredHistory, key: int, begin: int, end: int) -> tuple[int, ...]:
    """Rows of the first few acquires of a key that were under way at some moment."""
    rows, c = measured.acquires, measured.history.columns
    there = (c["key"][rows] == key) & (c["inv"][rows] < end) & (measured.ended[rows] >= begin)
    return tuple(rows[there][:WITNESSES].tolist())


def _gaps(measured: MeasuredHistory) -> IdleGaps:
    holds, c = measured.holds.columns, measured.history.columns
    rows = measured.acquires[~np.isin(c["reason"][measured.acquires], _NOT_ASKED)]
    held = np.flatnonzero(holds.latest < holds.core_end)
    moments = apart(
        (c["key"][rows], c["inv"][rows]),
        (c["key"][rows], measured.ended[rows]),
        (holds.key[held], holds.latest[held]),
        (holds.key[held], holds.core_end[held]),
        (holds.key, holds.ret),
    )
    places = np.unique(np.concatenate(moments.places))
    sent, answered, begun, over, granted = (np.searchsorted(places, column) for column in moments.places)

    def there(begins: Ints, ends: Ints) -> Ints:
        n = len(places)
        return np.cumsum(np.bincount(begins, minlength=n) - np.bincount(ends, minlength=n))

    wanted = there(sent, answered) > 0
    free = wanted & (there(begun, over) == 0)
    new = np.append(True, ~free[:-1]) | (np.bincount(granted, minlength=len(places)) > 0)
    first = np.flatnonzero(free & new)
    last = np.flatnonzero(free & np.append(new[1:] | ~free[1:], True)) + 1
    times = moments.time(places)
    lengths = np.append(times[1:] - times[:-1], 0)
    return IdleGaps(moments.key(places[first]), times[first], times[last], int(lengths[wanted].sum()))
