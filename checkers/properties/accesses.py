"""The accesses of a history to the protected resource, key by key, and who had been given the lock by then."""

import numpy as np

from checkers.history.view import View
from checkers.models.operations import ByKey, Operations
from checkers.models.stores import REFUSALS
from checkers.properties.token_order import disordered
from checkers.wire import INFINITY, F, Outcome


def accesses(view: View) -> dict[int, Operations]:
    """Reads and writes by key, in order of invocation, without those that certainly never reached the store."""
    by_key = ByKey(view.history, (F.READ, F.WRITE))
    reached = (view.array("outcome") != Outcome.FAIL) | np.isin(view.array("reason"), REFUSALS)
    return {
        key: found
        for key in by_key.keys
        for every in [by_key[key]]
        for found in [Operations(every.source, every.rows[reached[every.rows]])]
        if len(found)
    }


def next_granted(view: View, *, by_time: bool = False) -> dict[int, tuple[int, int]]:
    """Acquire row → (ns, acquire row) of the first return among the grants of its key that certainly came later.

    (`INFINITY`, -1) for the last. Later means: a larger token; without tokens, sent after this one's acquire had
    returned, or, where both were certainly in force for a while, in the order of that: two non-empty cores can follow
    one another in one order only.

    by_time: tokens count only where they agree with real time, for a store that does not look at them.
    """
    result: dict[int, tuple[int, int]] = {}
    for holds in view.holds.by_key.values():
        with_token = sorted((g for g in holds if g.token >= 0), key=lambda g: g.token)
        if len(with_token) == len(holds) and not (by_time and disordered(holds)):
            first, equals = (INFINITY, -1), (INFINITY, -1)
            for place in range(len(with_token) - 1, -1, -1):
                hold = with_token[place]
                if place + 1 < len(with_token) and with_token[place + 1].token > hold.token:
                    first = equals
                result[hold.row] = first
                equals = min(equals, (hold.ret, hold.row))
            continue
        forced = _next_forced(view, [g.row for g in holds])
        by_start = sorted(holds, key=lambda g: g.start, reverse=True)
        first = (INFINITY, -1)
        place = 0
        for hold in reversed(holds):
            while place < len(by_start) and by_start[place].start > hold.ret:
                first = min(first, (by_start[place].ret, by_start[place].row))
                place += 1
            result[hold.row] = min(first, forced.get(hold.row, first))
    return result


def _next_forced(view: View, rows: list[int]) -> dict[int, tuple[int, int]]:
    """Acquire row → the first return among later grants with a core, for the grants that have one themselves."""
    cores = (hold for hold in map(view.holds.by_row.__getitem__, rows) if hold.latest < hold.core_end)
    forced = sorted(cores, key=lambda hold: hold.latest)
    result = {}
    first, level, waiting = (INFINITY, -1), INFINITY, (INFINITY, -1)
    for hold in reversed(forced):
        if hold.latest < level:  # at one instant neither is later
            first, level = min(first, waiting), hold.latest
        result[hold.row] = first
        waiting = min(waiting, (hold.ret, hold.row))
    return result
