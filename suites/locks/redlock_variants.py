"""Redlock with fewer nodes, without its look at the clock, and with its remedy against nodes that lose their data."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, Self

from checkers.claims import NO_FAULT, Claim, Hazard
from infra.access import OPEN, Access
from suites.lock import now
from suites.locks.lease_claims import HAZARDS, INSIDE, besides
from suites.locks.redis_node import validity
from suites.locks.redlock import BY_ONE_NODE, Redlock

NODES: Final = 3
_FIRST: Final = tuple(f"redis{number}" for number in range(1, NODES + 1))
_UNASKED: Final = ("honest-belief", "crash-release", "fail-fast", "fenced-store")
_LATE: Final = "answer-past-ttl"
WIPED: Final = ("wipe-server",)


class RedlockOfThree(Redlock):
    """``redlock-3``: Redlock on three nodes, as most deployments have it.

    Otherwise it is ``redlock``. Two of three votes are a majority, so one node may be away; of five, two may. A holder
    has one vote to spare, not two: if one node did not answer it, any other that loses the lock frees it.
    """

    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "register/compare-owner", "leader/unfenced")
    nodes: ClassVar[tuple[str, ...]] = _FIRST
    hazards: ClassVar[tuple[Hazard, ...]] = (*HAZARDS, *(replace(hazard, nodes=_FIRST) for hazard in BY_ONE_NODE))

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """Uses only the first three nodes."""
        return super().open(endpoints[:NODES], ttl, access)


class RedlockUnchecked(Redlock):
    """``redlock-unchecked``: Redlock that does not look at the clock, and has no small timeout for each node.

    Otherwise it is ``redlock``. It leaves out two things that the page of Redlock asks for: that the client "computes
    how much time elapsed in order to acquire the lock", and a timeout, small compared to the TTL, that "prevents the
    client from remaining blocked for a long time trying to talk with a Redis node which is down". This client waits up
    to `REQUEST` for answers, and counts its lease from the last.

    It shows the heart of a debate. Kleppmann, "How to do distributed locking" (2016), has a client stop while the
    answers are on their way. In "Is Redlock safe?" (2016), antirez replies that Redlock is immune to that, because it
    checks the time again when it has them. It is, and this lock is not: one node that stands still for longer than the
    TTL makes every acquire return when the lock is over at all others. The service does nothing wrong.

    Any other slow answer, such as a busy machine's, does the same in part: the client believes for longer than it
    holds, by as much as the answer took. So the lock cannot promise that two are never inside at once.
    """

    bounds: ClassVar[Mapping[str, float]] = {"recovery": 6.0, "hand-over": 1.5}
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced",)
    pace: ClassVar[float] = 0.3  # after the pause a client finds a holder inside whose lease was over long before
    claims: ClassVar[tuple[Claim, ...]] = besides((*_UNASKED, *INSIDE), Redlock.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides(_UNASKED, Redlock.hazards),
        Hazard("holder-exclusion", ("pause-server",), _LATE),
        *(
            Hazard(name, (NO_FAULT,), mechanism, certain=False)
            for name in INSIDE
            for mechanism in (_LATE, "outlived-ttl")
        ),
    )

    REQUEST: ClassVar[float] = 5.0

    def _expires(self, _sent: int) -> int:
        return now() + validity(self._ttl)


class RedlockDelayedRestart(Redlock):
    """``redlock-delayed-restart``: Redlock whose nodes have no vote until they have been up for a TTL.

    Otherwise it is ``redlock``, with the remedy of its page ("Performance, crash recovery and fsync", antirez) against
    nodes that forget: a node that comes back from a crash stays away for a bit more than the longest TTL, so that every
    lock that it may have known is over. Here the script that votes looks at the node's own uptime, in whole seconds,
    and says no while that is too short. Renewals and releases need not wait: a node that lost its data finds nothing to
    renew.

    What its authors claim: exclusion without any persistence, with "an availability penalty": after a crash of the
    majority nobody gets a lock for a TTL. This does not cover a replica that takes the node's place: it has been up all
    the while.
    """

    bounds: ClassVar[Mapping[str, float]] = {**Redlock.bounds, "recovery": 7.0}
    lanes: ClassVar[tuple[str, ...]] = ("set/unfenced", "register/compare-owner")
    claims: ClassVar[tuple[Claim, ...]] = (
        *Redlock.claims,
        *(Claim(name, under=WIPED) for name in ("server-exclusion", "holder-exclusion", "honest-belief")),
    )
    hazards: ClassVar[tuple[Hazard, ...]] = (*HAZARDS, *(hazard for hazard in BY_ONE_NODE if hazard.under != WIPED))

    ACQUIRE: ClassVar[str] = """
local up = tonumber(string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(-?%d+)'))
-- Two moments in whole seconds may be a second closer to each other than they say; a clock set back makes it negative.
if (up - 1) * 1000 < ARGV[2] * 1.1 then return 0 end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0"""
