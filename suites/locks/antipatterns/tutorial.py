"""The lock of many a tutorial, as it ought to be, and those that get it wrong, each in one place.

Each anti-pattern is tried where nothing but the lock stands between two writers. A hazard that must show names its
defect. All else that it is known to break, as any lease lock does, is listed as well but need not show here: better
locks are the positive controls of that.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from checkers.claims import NO_FAULT, Claim, Hazard
from checkers.row_format import Reason
from suites.lock import Grant, Indeterminate, Refused, new_owner, now
from suites.locks import lease_claims
from suites.locks.lease_claims import CLOCKS, SOUND
from suites.locks.redis_node import TAKE, validity
from suites.locks.redis_single import BY_LOSS, BY_THE_CLOCK, RedisLock

UNFENCED: Final = ("set/unfenced",)
"""The lane."""
EXCLUSION: Final = ("server-exclusion", "holder-exclusion")
ASKED: Final = (*EXCLUSION, "no-lost-update")
"""What is asked there of a lock without tokens and bounds."""

CLAIMS: Final = tuple(claim for claim in lease_claims.CLAIMS if claim.property in ASKED)
HAZARDS: Final = tuple(
    replace(hazard, certain=False)
    for hazard in (*lease_claims.HAZARDS, *BY_THE_CLOCK, *BY_LOSS)
    if hazard.property in ASKED
)
"""Of a lease on one Redis node without a token."""

ENDLESS: Final = tuple(Claim(name, under=(*SOUND, *CLOCKS)) for name in EXCLUSION)
"""Of a lock that no time ends, and so neither a frozen holder nor a clock."""
CRASHED: Final = (
    Hazard("crash-release", ("kill-holder",), "never-expires"),
    Hazard("crash-release", ("kill-*", "freeze-*", "stall-holder", "long-call"), "never-expires", certain=False),
)
"""And that none frees either."""

BOOKS: Final = 0.35
"""Seconds that `GetThenDel` takes between the look and the deletion."""

_IS_MINE: Final = "if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end return 0"
_DELETE: Final = "return redis.call('DEL', KEYS[1])"


def broken(
    mechanism: str, *properties: str, under: tuple[str, ...] = (NO_FAULT,), may: tuple[str, ...] = ()
) -> tuple[Hazard, ...]:
    """What a defect breaks, what it may break without a fault, and `HAZARDS`."""
    certain = (Hazard(name, under, mechanism) for name in properties)
    return (*certain, *(Hazard(name, (NO_FAULT,), mechanism, certain=False) for name in may), *HAZARDS)


class TutorialLock(RedisLock):
    """SET NX PX with the owner in the value, polled; owner-checked scripts extend and release it. No fencing token.

    A lost answer of one without a TTL may leave something behind for ever, which `sweep` removes.
    """

    tokens: ClassVar[bool] = False
    bounds: ClassVar[Mapping[str, float]] = {}
    lanes: ClassVar[tuple[str, ...]] = UNFENCED
    claims: ClassVar[tuple[Claim, ...]] = CLAIMS
    hazards: ClassVar[tuple[Hazard, ...]] = HAZARDS

    PARTS: ClassVar[tuple[str, ...]] = ()
    ACQUIRE: ClassVar[str] = TAKE


class SetnxNoTtl(TutorialLock):
    """``setnx-no-ttl``: SETNX, and DEL when done. Nothing ends the lock of a holder that dies.

    The first form of the command's own page, which has since advised against it:
    https://redis.io/docs/latest/commands/setnx/. Often it was meant to have a TTL, set by an EXPIRE that a crash in
    between never sends. One comfort: no pause, no clock and no slow network ever ends it early.
    """

    name: ClassVar[str] = "setnx-no-ttl"
    lease: ClassVar[str] = "none"
    renewed: ClassVar[bool] = False
    bounds: ClassVar[Mapping[str, float]] = {"crash-release": 0.3}
    claims: ClassVar[tuple[Claim, ...]] = ENDLESS
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *CRASHED,
        *(replace(hazard, certain=False) for hazard in BY_LOSS if hazard.property in ASKED),
    )

    ACQUIRE: ClassVar[str] = "if redis.call('SET', KEYS[1], ARGV[1], 'NX') then return 1 end return 0"
    # After a lost answer it may be held for ever, by nobody.
    LOOKS_AT_CLOCK: ClassVar[bool] = False


class GetThenDel(TutorialLock):
    """``get-then-del``: looks whose the lock is, and then deletes it, in two requests.

    Between them the lease may end and somebody else be granted the lock, which the DEL then takes away. Hence the
    script of https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ that does both at once. What
    happens in between is usually little; here it is a third of a second of books, and holds last nearly a lease.
    """

    name: ClassVar[str] = "get-then-del"
    renewed: ClassVar[bool] = False
    pace: ClassVar[float] = 0.4
    hazards: ClassVar[tuple[Hazard, ...]] = broken("released-by-another", "server-exclusion", may=ASKED)

    def release(self, grant: Grant) -> None:
        """The owner is compared by the server; a client that compares what GET answers is no better."""
        self._if_owner(_IS_MINE, grant)
        time.sleep(BOOKS)
        self._if_owner(_DELETE, grant)


class UnconditionalDel(TutorialLock):
    """``unconditional-del``: DEL when done, whosever the lock is by then.

    A holder that overran its lease frees its successor's lock, and lets a third one in; whose release then frees the
    third one's, and so on. The commonest mistake of all, which the random value in the key is there to prevent: see
    "Correct Implementation with a Single Instance" on
    https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
    """

    name: ClassVar[str] = "unconditional-del"
    hazards: ClassVar[tuple[Hazard, ...]] = broken(
        "released-by-another", "owner-release", under=("freeze-holder",), may=("owner-release", *ASKED)
    )

    RELEASE: ClassVar[str] = "redis.call('DEL', KEYS[1]) return 1"


class RenewAnyones(TutorialLock):
    """``renew-anyones``: extends the key, whosever it is by then.

    EXPIRE asks for no owner. Who lost the lock during a pause is told that it has another TTL, and works on.
    """

    name: ClassVar[str] = "renew-anyones"
    hazards: ClassVar[tuple[Hazard, ...]] = broken(
        "renewed-anothers", "honest-renewal", under=("stall-renewal",), may=("honest-renewal", *ASKED)
    )

    RENEW: ClassVar[str] = "return redis.call('PEXPIRE', KEYS[1], ARGV[2])"


class IgnoredResult(TutorialLock):
    """``ignored-result``: sends SET NX, and does not look at the answer.

    ``redis.set(key, me, nx=True, px=ttl)`` answers None when somebody else holds the lock, and raises nothing.
    """

    name: ClassVar[str] = "ignored-result"
    hazards: ClassVar[tuple[Hazard, ...]] = broken("no-exclusion", *ASKED)

    ACQUIRE: ClassVar[str] = "redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) return 1"


class LongCall(TutorialLock):
    """``long-call``: never renews, and its client does not look at the clock.

    Good enough until the work under the lock waits for somebody else: a call that takes longer than the TTL, to a
    payment provider for instance. The lease ends meanwhile, and the holder goes on as if it had not.
    """

    name: ClassVar[str] = "long-call"
    renewed: ClassVar[bool] = False
    hazards: ClassVar[tuple[Hazard, ...]] = (
        Hazard("holder-exclusion", ("long-call", "stall-holder"), "outlived-ttl"),
        *broken("outlived-ttl", "no-lost-update", under=("stall-holder",), may=("holder-exclusion", "no-lost-update")),
    )

    LOOKS_AT_CLOCK: ClassVar[bool] = False


class TtlTooShort(LongCall):
    """``ttl-too-short``: a TTL shorter than the work, neither renewed nor looked at.

    Nothing need go wrong for two to be inside: half a step of work takes longer than the lease lasts. It shows in
    production when the work grows, long after the TTL was chosen.
    """

    name: ClassVar[str] = "ttl-too-short"
    min_ttl: ClassVar[float] = 0.2
    pace: ClassVar[float] = 0.5
    hazards: ClassVar[tuple[Hazard, ...]] = broken("outlived-ttl", "holder-exclusion", "no-lost-update")


class GoesAhead(TutorialLock):
    """``goes-ahead``: when the lock service cannot be asked, it goes ahead: "better twice than never".

    That may be what the work wants, but it is not a lock then: as soon as the network parts a client from the service,
    and the others can still reach it, two are inside.
    """

    name: ClassVar[str] = "goes-ahead"
    hazards: ClassVar[tuple[Hazard, ...]] = broken(
        "went-ahead", *EXCLUSION, under=("cut-client-refuse", "cut-client-drop", "kill-server"), may=ASKED
    )

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """None only when somebody certainly holds it. What no server gave has no TTL."""
        sent = now()
        try:
            return super().acquire(name, timeout)
        except Refused as refusal:
            if refusal.reason is not Reason.UNAVAILABLE:
                raise
        except Indeterminate:
            pass
        return Grant(name, new_owner(), None, sent, 0, now() + validity(self._ttl))


class ClientClockToken(TutorialLock):
    """``client-clock-token``: the fencing token is the client's clock when it began to ask, in nanoseconds.

    Whoever began to wait early and got the lock late comes with a lower token than those before it, and the fence
    refuses the rightful holder. Here the clocks of all clients are even the same; where they are not, it is worse. The
    lock itself must give the token: see Kleppmann, "How to do distributed locking" (2016).
    """

    name: ClassVar[str] = "client-clock-token"
    tokens: ClassVar[bool] = True
    lanes: ClassVar[tuple[str, ...]] = ("register/fence-writes",)
    claims: ClassVar[tuple[Claim, ...]] = (*CLAIMS, Claim("fenced-store", stores=("fence-*",)))
    hazards: ClassVar[tuple[Hazard, ...]] = (
        Hazard("token-order", (NO_FAULT,), "client-clock"),
        *(hazard for hazard in HAZARDS if hazard.property in EXCLUSION),
    )

    def acquire(self, name: str, timeout: float) -> Grant | None:
        began = time.time_ns()
        grant = super().acquire(name, timeout)
        return grant and replace(grant, token=began)
