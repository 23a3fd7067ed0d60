"""What every checker asks of a history: its columns as plain lists, and its grants with all that befell them.

Plain integers in lists are several times faster in loops than elements of arrays, so a view is built once per
history and handed to every checker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from checkers.history import History
from checkers.leases import INFINITY, Grant, Window, windows
from checkers.wire import NESTED, SHARED, F, Outcome

T = TypeVar("T")


class View:
    """A history made ready for loops. `column("ret")` is `INFINITY` where the outcome is unknown."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.facts = history.facts
        self._lists: dict[str, list[int]] = {}
        self._once: dict[Callable[[View], object], object] = {}

    def once(self, function: Callable[[View], T]) -> T:
        """What the function makes of this view; it is called once, however often it is asked for."""
        if function not in self._once:
            self._once[function] = function(self)
        return cast(T, self._once[function])

    def array(self, name: str) -> npt.NDArray[Any]:
        """One column as it was recorded."""
        return self.history.columns[name]

    def column(self, name: str) -> list[int]:
        """One column as a list of integers."""
        if name not in self._lists:
            values = self.array(name)
            if name == "ret":
                values = np.where(self.array("outcome") == Outcome.INFO, INFINITY, values)
            self._lists[name] = values.tolist()
        return self._lists[name]

    def rows(self, *kinds: F, outcomes: Sequence[Outcome] = ()) -> list[int]:
        """Row numbers of some kinds of operation, in order of invocation."""
        mask = _any_of(self.array("f"), kinds)
        if outcomes:
            mask &= _any_of(self.array("outcome"), outcomes)
        rows: list[int] = np.flatnonzero(mask).tolist()
        return rows

    @cached_property
    def zero(self) -> int:
        """ns; the time that stories call zero."""
        return int(self.array("inv")[0]) if len(self.history) else 0

    @cached_property
    def finish(self) -> int:
        """ns; the last moment that the history knows of."""
        return max(int(self.array("inv").max(initial=0)), int(self.array("ret").max(initial=0)))

    @cached_property
    def grants(self) -> tuple[Grant, ...]:
        """All grants in the order in which their acquires returned."""
        inv, ret, outcome = self.column("inv"), self.column("ret"), self.column("outcome")
        sent, ttl, token, owner = (self.column(name) for name in ("sent", "ttl", "token", "owner"))
        key, session, process = self.column("key"), self.column("session"), self.column("process")
        renewals, releases, lost = self._by_owner(F.RENEW), self._by_owner(F.RELEASE), self._by_owner(F.LOST)
        flags = self.column("flags")
        last, closed, asked = self._last_events(), self._closings(), self._next_asked()
        grants = []
        for row in self._whole(self.rows(F.ACQUIRE, F.TRY_ACQUIRE, outcomes=(Outcome.OK,))):
            who = owner[row]
            tries, losses = releases.get(who, []), lost.get(who, [])
            released = min((inv[r] for r in tries if outcome[r] != Outcome.FAIL), default=INFINITY)
            if session[row]:
                released = min(released, closed.get(session[row], INFINITY), asked.get(row, INFINITY))
            done = [(ret[r], inv[r]) for r in tries if outcome[r] == Outcome.OK]
            believed = min((sent[r] or inv[r] for r in losses), default=INFINITY)
            left = min((inv[r] for r in (*tries, *losses)), default=last[who])
            freed, freeing = min(done, default=(INFINITY, INFINITY))
            grants.append(
                Grant(
                    row=row,
                    key=key[row],
                    owner=who,
                    process=process[row],
                    token=token[row],
                    session=session[row],
                    inv=inv[row],
                    start=sent[row] or inv[row],
                    ret=ret[row],
                    ttl=ttl[row] or self.facts.ttl,
                    shared=bool(flags[row] & SHARED),
                    renewals=tuple((inv[r], ret[r]) for r in renewals.get(who, []) if outcome[r] == Outcome.OK),
                    release=tries[0] if tries else -1,
                    lost=losses[0] if losses else -1,
                    released=released,
                    freed=(freeing, freed),
                    believed=believed,
                    # A grant that is over when its answer arrives is never believed.
                    left=max(left, ret[row]) if believed > ret[row] else ret[row],
                )
            )
        grants.sort(key=lambda grant: (grant.ret, grant.row))
        return tuple(grants)

    @cached_property
    def by_key(self) -> dict[int, list[Grant]]:
        """Grants of each key that has any, in the order in which their acquires returned."""
        result: defaultdict[int, list[Grant]] = defaultdict(list)
        for grant in self.grants:
            result[grant.key].append(grant)
        return dict(sorted(result.items()))

    @cached_property
    def by_owner(self) -> dict[int, Grant]:
        """Owner → its grant."""
        return {grant.owner: grant for grant in self.grants}

    @cached_property
    def windows(self) -> dict[int, Window]:
        """Acquire row → when that grant was in force at the server."""
        prolonged = self._extremes(Outcome.OK, F.SESSION_OPEN, F.KEEP_ALIVE)
        return windows(self.facts, self.grants, {session: latest for session, (_, latest) in prolonged.items()})

    def _by_owner(self, kind: F) -> dict[int, list[int]]:
        result: dict[int, list[int]] = {}
        owner = self.column("owner")
        for row in self._whole(self.rows(kind)):
            result.setdefault(owner[row], []).append(row)
        return result

    def _whole(self, rows: list[int]) -> list[int]:
        """Without what a holder did inside its own hold: an acquire of what it had, and the release that undid it."""
        flags = self.column("flags")
        return [row for row in rows if not flags[row] & NESTED]

    def _closings(self) -> dict[int, int]:
        """Session → ns from which it may have been closed."""
        closed = self._extremes(Outcome.OK, F.SESSION_CLOSE)
        for session, (first, _) in self._extremes(Outcome.INFO, F.SESSION_CLOSE).items():
            closed[session] = (min(first, closed.get(session, (first, first))[0]), 0)
        return {session: first for session, (first, _) in closed.items()}

    def _extremes(self, outcome: Outcome, *kinds: F) -> dict[int, tuple[int, int]]:
        """Session → first and last invocation of such operations on it."""
        result: dict[int, tuple[int, int]] = {}
        inv, session = self.column("inv"), self.column("session")
        for row in self.rows(*kinds, outcomes=(outcome,)):
            first, _ = result.get(session[row], (inv[row], 0))
            result[session[row]] = (first, inv[row])
        return result

    def _next_asked(self) -> dict[int, int]:
        """Acquire row → ns at which the same session asked for the same name again: it had given up what it held.

        An adapter may then remove what an unanswered or impossible release left behind.
        """
        result: dict[int, int] = {}
        inv, session, key = self.column("inv"), self.column("session"), self.column("key")
        latest: dict[tuple[int, int], int] = {}
        for row in self._whole(self.rows(F.ACQUIRE, F.TRY_ACQUIRE)):
            name = (session[row], key[row])
            if session[row] and name in latest:
                result[latest[name]] = inv[row]
            latest[name] = row
        return result

    def _last_events(self) -> dict[int, int]:
        """Owner → ns of the last thing that was recorded of it."""
        owners, place = np.unique(self.array("owner"), return_inverse=True)
        last = np.zeros(len(owners), np.int64)
        np.maximum.at(last, place, np.maximum(self.array("inv"), self.array("ret")))
        return dict(zip(owners.tolist(), last.tolist(), strict=True))


def _any_of(values: npt.NDArray[Any], wanted: Sequence[int]) -> npt.NDArray[np.bool_]:
    mask = np.zeros(len(values), bool)
    for value in wanted:
        mask |= values == value
    return mask
