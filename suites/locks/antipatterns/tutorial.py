"""The lock of many tutorials done right, and anti-patterns that each get one thing about it wrong.

Each anti-pattern but ``client-clock-token`` is tried where nothing but the lock keeps two writers apart. The hazards
that must show name its defect. Its other hazards, mostly those of any lease lock, are listed as well but need not show
here: better locks are the positive controls for them.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from checkers.claims import NO_FAULT, Claim, Hazard
from checkers.row_format import Reason
from suites.lock import Grant, Indeterminate, Refused, new_owner, now
from suites.locks import lease_claims
from suites.locks.lease_claims import CLOCKS, EXCLUSION, SOUND, may_break
from suites.locks.redis_node import TAKE, validity
from suites.locks.redis_single import BY_LOSS, BY_THE_CLOCK, RedisLock

UNFENCED: Final = ("set/unfenced",)
"""The lane in which the anti-patterns are tried."""
ASKED: Final = (*EXCLUSION, "no-lost-update")
"""The properties that are asked there of a lock without tokens and bounds."""

CLAIMS: Final = tuple(claim for claim in lease_claims.CLAIMS if claim.property in ASKED)
HAZARDS: Final = tuple(
    replace(hazard, certain=False)
    for hazard in (*lease_claims.HAZARDS, *BY_THE_CLOCK, *BY_LOSS)
    if hazard.property in ASKED
)
"""Hazards of a lease on one Redis node without a token."""

ENDLESS: Final = tuple(Claim(name, under=(*SOUND, *CLOCKS)) for name in EXCLUSION)
"""Claims of a lock that never expires, so that neither a frozen holder nor a clock ends it."""
CRASHED: Final = (
    Hazard("crash-release", ("kill-holder",), "never-expires"),
    Hazard("crash-release", ("kill-*", "freeze-*", "stall-holder", "long-call"), "never-expires", certain=False),
)
"""Hazards of such a lock if nobody frees it."""

BOOKS: Final = 0.35
"""Seconds that `GetThenDel` takes between the look and the deletion."""

_IS_MINE: Final = "if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end return 0"
_DELETE: Final = "return redis.call('DEL', KEYS[1])"


def broken(
    mechanism: str, *properties: str, under: tuple[str, ...] = (NO_FAULT,), may: tuple[str, ...] = ()
) -> tuple[Hazard, ...]:
    """The hazards of a defect: properties that it breaks, those that it may break without a fault, and `HAZARDS`."""
    certain = (Hazard(name, under, mechanism) for name in properties)
    return (*certain, *may_break(may, (NO_FAULT,), mechanism), *HAZARDS)


class TutorialLock(RedisLock):
    """SET NX PX with the owner in the value, polled; owner-checked scripts extend and release it. No fencing token.

    If an answer is lost, the key of a lock without a TTL may stay for ever; `sweep` removes the key.
    """

    tokens: ClassVar[bool] = False
    bounds: ClassVar[Mapping[str, float]] = {}
    lanes: ClassVar[tuple[str, ...]] = UNFENCED
    claims: ClassVar[tuple[Claim, ...]] = CLAIMS
    hazards: ClassVar[tuple[Hazard, ...]] = HAZARDS

    PARTS: ClassVar[tuple[str, ...]] = ()
    ACQUIRE: ClassVar[str] = TAKE


class SetnxNoTtl(TutorialLock):
    """``setnx-no-ttl``: SETNX takes the lock and DEL frees it, without a TTL. Nothing ends a dead holder's lock.

    This is the lock's first form on the page of SETNX, which now advises against it:
    https://redis.io/docs/latest/commands/setnx/. Often it was meant to have a TTL, set by an EXPIRE, which a client
    that crashes in between never sends. One comfort: no pause, clock or slow network ends it early.
    """

    lease: ClassVar[str] = "none"
    renewed: ClassVar[bool] = False
    bounds: ClassVar[Mapping[str, float]] = {"crash-release": 0.3}
    claims: ClassVar[tuple[Claim, ...]] = ENDLESS
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *CRASHED,
        *(replace(hazard, certain=False) for hazard in BY_LOSS if hazard.property in ASKED),
    )

    ACQUIRE: ClassVar[str] = "if redis.call('SET', KEYS[1], ARGV[1], 'NX') then return 1 end return 0"
    # After a lost answer the lock may be held for ever, by nobody.
    LOOKS_AT_CLOCK: ClassVar[bool] = False


class GetThenDel(TutorialLock):
    """``get-then-del``: the release first looks whose the lock is, and then deletes it, in two requests.

    Between them the lease may end and another client be granted the lock, which the DEL then takes away. The script of
    https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ avoids this: it does both at once. Usually
    little happens in between. Here it is a third of a second of bookkeeping, and a hold lasts nearly a lease.
    """

    renewed: ClassVar[bool] = False
    pace: ClassVar[float] = 0.4
    hazards: ClassVar[tuple[Hazard, ...]] = broken("released-by-another", "server-exclusion", may=ASKED)

    def release(self, grant: Grant) -> None:
        """The owner is compared by the server; a client that compares what GET answers is no better."""
        self._if_owner(_IS_MINE, grant)
        time.sleep(BOOKS)
        self._if_owner(_DELETE, grant)


class UnconditionalDel(TutorialLock):
    """``unconditional-del``: the release sends DEL, even if another client holds the lock by then.

    A holder that overran its lease, or a client that releases twice, frees its successor's lock, and lets a third
    client in. The successor's release then frees the third client's lock, and so on. This is the commonest mistake of
    all. The random value in the key is there to prevent it: see "Correct Implementation with a Single Instance" on
    https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
    """

    hazards: ClassVar[tuple[Hazard, ...]] = broken(
        "released-by-another", "owner-release", under=("freeze-holder",), may=("owner-release", *ASKED)
    )

    RELEASE: ClassVar[str] = "redis.call('DEL', KEYS[1]) return 1"


class RenewAnyones(TutorialLock):
    """``renew-anyones``: a renewal extends the key, even if another client holds the lock by then.

    EXPIRE asks for no owner. A client that lost the lock in a pause is told that it has another TTL, and works on.
    """

    hazards: ClassVar[tuple[Hazard, ...]] = broken(
        "renewed-anothers", "honest-renewal", under=("stall-renewal",), may=("honest-renewal", *ASKED)
    )

    RENEW: ClassVar[str] = "return redis.call('PEXPIRE', KEYS[1], ARGV[2])"


class IgnoredResult(TutorialLock):
    """``ignored-result``: the client sends SET NX, and does not look at the answer.

    ``redis.set(key, me, nx=True, px=ttl)`` returns None if another client holds the lock, and raises nothing.
    """

    hazards: ClassVar[tuple[Hazard, ...]] = broken("no-exclusion", *ASKED)

    ACQUIRE: ClassVar[str] = "redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) return 1"


class LongCall(TutorialLock):
    """``long-call``: the client never renews its lease, and does not look at the clock.

    That is good enough until the work under the lock contains a call that takes longer than the TTL, to a payment
    provider for instance. The lease ends during the call, and the holder goes on as if it still had the lock.
    """

    renewed: ClassVar[bool] = False
    hazards: ClassVar[tuple[Hazard, ...]] = (
        Hazard("holder-exclusion", ("long-call", "stall-holder"), "outlived-ttl"),
        *broken("outlived-ttl", "no-lost-update", under=("stall-holder",), may=("holder-exclusion", "no-lost-update")),
    )

    LOOKS_AT_CLOCK: ClassVar[bool] = False


class TtlTooShort(LongCall):
    """``ttl-too-short``: the TTL is shorter than the work, and the client neither renews nor looks at the clock.

    Two clients are inside even if nothing goes wrong: half a step of work takes longer than the lease lasts. In
    production this shows when the work grows, long after the TTL was chosen.
    """

    min_ttl: ClassVar[float] = 0.2
    pace: ClassVar[float] = 0.5
    hazards: ClassVar[tuple[Hazard, ...]] = broken("outlived-ttl", "holder-exclusion", "no-lost-update")


class GoesAhead(TutorialLock):
    """``goes-ahead``: when the lock service cannot be reached, the client goes ahead: "better twice than never".

    That may be what the work needs, but then it is not a lock: as soon as the network cuts a client off from the
    service while other clients can still reach it, two clients are inside.
    """

    hazards: ClassVar[tuple[Hazard, ...]] = broken(
        "went-ahead", *EXCLUSION, under=("cut-client-refuse", "cut-client-drop", "kill-server"), may=ASKED
    )

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """None only if another client certainly holds the lock. A grant that no server gave has no TTL."""
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
    """``client-clock-token``: the fencing token is the client's clock, in ns, when it began to ask for the lock.

    A client that began to wait early and got the lock late has a lower token than the holders before it, so the fence
    refuses the rightful holder. Here all clients even have the same clock; with different clocks it is worse. The lock
    itself must give the token: see Kleppmann, "How to do distributed locking" (2016).
    """

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
