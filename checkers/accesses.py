"""The accesses of a history to the fenced store, key by key, in the form that the engines judge."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

from checkers.leases import INFINITY
from checkers.tokens import disordered
from checkers.view import View
from checkers.wire import FINAL, F, Outcome, Reason

REFUSALS: Final = (Reason.STALE_TOKEN, Reason.NOT_OWNER)
"""Only these say that the fence turned the access away; any other failure never reached the store."""


class Access(NamedTuple):
    """One read or write of one key.

    outcome  OK, FAIL (the fence refused it) or INFO; ``ret`` is `INFINITY` for INFO.
    value    what was written, or what an accepted read returned.
    final    a read past the fence, after everything else.
    """

    row: int
    write: bool
    outcome: int
    token: int
    owner: int
    value: int
    inv: int
    ret: int
    final: bool = False

    @property
    def ok(self) -> bool:
        """It was accepted."""
        return self.outcome == Outcome.OK

    @property
    def refused(self) -> bool:
        """The fence turned it away."""
        return self.outcome == Outcome.FAIL

    @property
    def unknown(self) -> bool:
        """Accepted, refused or never there: nobody knows."""
        return self.outcome == Outcome.INFO


def accesses(view: View) -> dict[int, list[Access]]:
    """Accesses by key, in order of invocation; those that certainly never reached the store are left out."""
    result: defaultdict[int, list[Access]] = defaultdict(list)
    inv, ret, f, outcome = view.column("inv"), view.column("ret"), view.column("f"), view.column("outcome")
    token, owner, value, key = view.column("token"), view.column("owner"), view.column("value"), view.column("key")
    reason, flags = view.column("reason"), view.column("flags")
    for row in view.rows(F.READ, F.WRITE):
        if outcome[row] != Outcome.FAIL or reason[row] in REFUSALS:
            result[key[row]].append(
                Access(
                    row,
                    f[row] == F.WRITE,
                    outcome[row],
                    token[row],
                    owner[row],
                    value[row],
                    inv[row],
                    ret[row],
                    bool(flags[row] & FINAL),
                )
            )
    return dict(sorted(result.items()))


def next_granted(view: View, *, by_time: bool = False) -> dict[int, tuple[int, int]]:
    """Acquire row → (ns, acquire row) of the first return among the grants of its key that certainly came later.

    (`INFINITY`, -1) for the last. Later means: a larger token; without tokens, sent after this one's acquire had
    returned, or, where both were certainly in force for a while, in the order of that: two non-empty cores can follow
    one another in one order only.

    by_time: tokens count only where they agree with real time, for a store that does not look at them.
    """
    result: dict[int, tuple[int, int]] = {}
    for grants in view.by_key.values():
        with_token = sorted((g for g in grants if g.token >= 0), key=lambda g: g.token)
        if len(with_token) == len(grants) and not (by_time and disordered(grants)):
            first, equals = (INFINITY, -1), (INFINITY, -1)
            for place in range(len(with_token) - 1, -1, -1):
                grant = with_token[place]
                if place + 1 < len(with_token) and with_token[place + 1].token > grant.token:
                    first = equals
                result[grant.row] = first
                equals = min(equals, (grant.ret, grant.row))
            continue
        forced = _next_forced(view, [g.row for g in grants])
        by_start = sorted(grants, key=lambda g: g.start, reverse=True)
        first = (INFINITY, -1)
        place = 0
        for grant in reversed(grants):
            while place < len(by_start) and by_start[place].start > grant.ret:
                first = min(first, (by_start[place].ret, by_start[place].row))
                place += 1
            result[grant.row] = min(first, forced.get(grant.row, first))
    return result


def _next_forced(view: View, rows: list[int]) -> dict[int, tuple[int, int]]:
    """Acquire row → the first return among later grants with a core, for the grants that have one themselves."""
    forced = sorted(
        (w for w in map(view.windows.__getitem__, rows) if w.latest < w.end(w.start)), key=lambda w: w.latest
    )
    result = {}
    first, level, waiting = (INFINITY, -1), INFINITY, (INFINITY, -1)
    for window in reversed(forced):
        if window.latest < level:  # at one instant neither is later
            first, level = min(first, waiting), window.latest
        result[window.grant.row] = first
        waiting = min(waiting, (window.grant.ret, window.grant.row))
    return result
