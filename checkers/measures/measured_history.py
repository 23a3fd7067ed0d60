"""What all measures look at: a history in the terms of our own recordings, wherever it comes from.

In our recordings each attempt at a lock has an identity of its own, and times are times. A history from elsewhere may
name holders, which come again and again, may know no leases, and may have places in the order of events as times.
"""

from collections import defaultdict
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np

from checkers.claims import matches
from checkers.history.counting import Ints, any_of, apart
from checkers.history.history import FaultInterval, History
from checkers.history.order_of_grants import superseded
from checkers.history.view import View
from checkers.models.model import Settings
from checkers.properties.fenced_store import BY_THE_CLOCK
from checkers.properties.shared_counters import lock_unexercised, unless
from checkers.row_format import ACQUIRES, NESTED, NONE, F, Outcome

FOREVER: Final = 1 << 61
"""ns; the TTL of a lock without leases in a history from elsewhere: a holder holds it until it is released."""


class MeasuredHistory(View):
    """A history to be measured. settings fill in what a history from elsewhere does not say of itself."""

    def __init__(self, history: History, settings: Settings) -> None:
        self.foreign = not history.facts.trial
        super().__init__(_attempts(history, settings) if self.foreign else history)
        self.recorded = history
        self.settings = settings

    @cached_property
    def leased(self) -> bool:
        return self.facts.lease != "none" and self.facts.ttl < FOREVER

    @cached_property
    def acquires(self) -> Ints:
        """Rows of all attempts at a lock, however they ended, except those by an owner that holds it already."""
        return np.array(self.attempts(), np.int64)

    @cached_property
    def released(self) -> Ints:
        """Rows of all releases, however they ended, except those inside a hold."""
        return np.array(self.whole(F.RELEASE), np.int64)

    # Why something cannot be measured, or None: see `checkers.measures.measure_result.Obstacle`.
    unasked = property(lambda self: unless(len(self.acquires), "nobody asked for a lock"))
    no_lock = property(lambda self: self.unasked or unless(len(self.holds), "no lock was granted"))
    unreleased = property(lambda self: unless(len(self.released), "nobody released anything"))
    unstruck = property(lambda self: unless(self.struck, "there was no fault to recover from"))
    no_clock = property(lambda self: unless("clock" in {f.kind for f in self.struck}, "no clock was set"))
    no_fence = property(lambda self: unless(matches(self.facts.store, ("fence-*",)), "the store looks at no tokens"))
    fenced = property(lambda self: unless(self.facts.store in BY_THE_CLOCK, "the store is no store without a fence"))
    endless = property(lambda self: unless(self.leased, "no lease ends by itself"))
    crowded = property(lambda self: unless(self.facts.permits == 1, "several may hold at once"))

    @cached_property
    def idle(self) -> str | None:
        """Why no client can have got in another's way, or None."""
        return self.no_lock or lock_unexercised(self)

    @cached_property
    def superseded(self) -> Ints:
        """ns, for each hold; when another had certainly been given a grant that excludes it, or `INFINITY`."""
        later = superseded(self)
        return np.array([later[hold.row][0] for hold in self.holds], np.int64)

    @cached_property
    def reentered(self) -> bool:
        """Whether, in a history from elsewhere, an owner was granted a lock that it had not released."""
        if not self.foreign:
            return False
        key, owner, inv, ret = (self.recorded.columns[name].tolist() for name in ("key", "owner", "inv", "ret"))
        balance = defaultdict[tuple[int, int], int](int)
        granted, released = self.attempts(Outcome.OK), self.rows(F.RELEASE, outcomes=(Outcome.OK,))
        moments = [(inv[row], 0, row) for row in granted] + [(ret[row], 1, row) for row in granted]
        moments += [(ret[row], -1, row) for row in released]
        moments += [(inv[row], -1, row) for row in self.rows(F.RELEASE, outcomes=(Outcome.INFO,))]
        for _, change, row in sorted(moments, key=lambda moment: (moment[0], moment[1] != 0)):
            if not change and balance[key[row], owner[row]] > 0:
                return True
            balance[key[row], owner[row]] += change
        return False

    @cached_property
    def untimed(self) -> str | None:
        """Why the history says nothing about how long anything took, or None."""
        if self.in_ns:
            return None
        _, times = _moments(self.recorded)
        if not len(times) or times[0] == times[-1]:
            return "the file has no times"
        return "the times in the file run backwards" if (np.diff(times) < 0).any() else None

    @cached_property
    def timed(self) -> "MeasuredHistory":
        """The history with times instead of places. Only if `untimed` is None."""
        clock = self.recorded.clock
        if not self.foreign or clock is None:
            return self
        c = self.recorded.columns
        places, times = _moments(self.recorded)
        shift = 1 - int(times[0])  # no time may be 0
        done = clock[:, 1] >= clock[:, 0]
        columns = {**c, "inv": clock[:, 0] + shift, "ret": np.where(done, clock[:, 1] + shift, 0)}

        def at(place: int, *, after: bool) -> int:
            """A fault's time, which is not known: its end (after) as late as events allow, its beginning as early."""
            number = int(np.searchsorted(places, place))
            last, following = (int(times[min(max(n, 0), len(times) - 1)]) for n in (number - 1, number))
            return (max(following - 1, last) if after else min(last + 1, following)) + shift if place else 0

        def dated(fault: FaultInterval) -> FaultInterval:
            begun, applied = at(fault.begun, after=False), at(fault.applied, after=False)
            healing, healed = at(fault.healing, after=True), at(fault.healed, after=True)
            return replace(fault, begun=begun, applied=applied, healing=healing, healed=healed)

        faults = tuple(map(dated, self.recorded.faults))
        return MeasuredHistory(replace(self.recorded, columns=columns, faults=faults, clock=None), self.settings)

    @property
    def in_ns(self) -> bool:
        """Whether times here are times, not places."""
        return not self.foreign or self.recorded.clock is None


def _moments(history: History) -> tuple[Ints, Ints]:
    """The places of all events, in order, and the times that the file gives them."""
    assert history.clock is not None
    c = history.columns
    done = c["outcome"] != Outcome.INFO
    places = np.concatenate((c["inv"], c["ret"][done])).astype(np.int64)
    times = np.concatenate((history.clock[:, 0], history.clock[done, 1]))
    order = np.argsort(places, kind="stable")
    return places[order], times[order]


def _attempts(history: History, settings: Settings) -> History:
    """A history from elsewhere as if recorded: each attempt gets an identity of its own, and its holder as the session.

    What a holder does belongs to its last attempt that was granted, or may have been. A holder that asks again has
    given up what it held: a hold may have been longer (if one may hold the lock twice), never shorter. If one lock
    guards all there is, reads and writes belong to it whatever their key.
    """
    c, facts = history.columns, history.facts
    asks = any_of(c["f"], ACQUIRES) & (c["flags"] & NESTED == 0)
    key = c["key"].astype(np.int64)
    locks = np.unique(key[asks])
    if len(locks) == 1:
        key = np.where(any_of(c["f"], (F.READ, F.WRITE)), locks[0], key)
    _, group = np.unique(apart((key, c["owner"])).places[0], return_inverse=True)
    order = np.argsort(group, kind="stable")
    begins = (asks & (c["outcome"] != Outcome.FAIL))[order]
    attempt = np.cumsum(begins)
    before = attempt - begins
    first = np.searchsorted(group[order], group[order], "left")
    identity = np.empty(len(history), np.int64)
    identity[order] = np.where(attempt > before[first], attempt, len(history) + 1 + group[order])
    identity[asks & (c["outcome"] == Outcome.FAIL)] = 0
    session = np.where(c["session"] == 0, c["owner"], c["session"])
    fenced = any_of(c["f"], (F.READ, F.WRITE)) & (c["token"] != NONE)
    granted = asks & (c["outcome"] == Outcome.OK)
    facts = replace(
        facts,
        lease=facts.lease or "grant",
        ttl=facts.ttl or settings.ttl or (0 if c["ttl"][granted].any() else FOREVER),
        drift=facts.drift or settings.drift,
        permits=max(facts.permits, settings.permits),
        store=facts.store or (settings.store if fenced.any() else "unfenced"),
        workers=int(c["process"].max(initial=0)) + 2,
    )
    return replace(history, facts=facts, columns={**c, "owner": identity, "session": session})
