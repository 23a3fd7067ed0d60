"""``redis-wait``: the lock on one Redis node, granted only when the node's replica has it as well.

This is ``redis`` with WAIT 1 (https://redis.io/docs/latest/commands/wait/) after the SET, on the same connection. If
the replica does not confirm within `CONFIRM` seconds, the lock is given back and the acquire is refused. So nobody gets
the lock while the replica is away, or after it was promoted and has none of its own.

What its authors claim of WAIT: it makes it much less likely that a failover loses the write, but does not make Redis a
strongly consistent store. A failover to this one replica keeps every grant and its token. It loses what nobody waits
for, above all renewals: a lease may be over before its acknowledged end. An empty primary empties its replica, too.
"""

from collections.abc import Mapping
from typing import ClassVar, Final

from redis import exceptions

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from suites.lock import Grant, Indeterminate, Refused, new_owner, now
from suites.locks.lease_claims import EXCLUSION, HAZARDS, LOSSES, besides, may_break
from suites.locks.polling import polled
from suites.locks.redis_single import BY_THE_CLOCK, NODE, RedisLock

CONFIRM: Final = 0.15
"""Seconds that the replica has to confirm; an acquire may take longer by this time."""

_UNASKED: Final = ("fenced-store", "no-lost-update")

_BY_LOSS: Final = (
    # The counter goes back only if the primary lost its data: the replica has every token that was granted. Attempts
    # that no replica confirmed have counted it up again by the time of the first grant.
    Hazard("token-order", ("wipe-server",), "state-lost", nodes=NODE, certain=False),
    *may_break((*EXCLUSION, "honest-belief", "honest-renewal"), LOSSES, "state-lost", nodes=NODE),
)


class RedisWait(RedisLock):
    min_ttl: ClassVar[float] = 1.0  # so that a hold lasts from when the replica falls behind to its promotion
    # The replica has to come back as well.
    bounds: ClassVar[Mapping[str, float]] = {**RedisLock.bounds, "recovery": 5.0, "fail-fast": 2.5}
    # Only a long hold still lasts when the replica, to which nobody has talked for a while, is promoted.
    lanes: ClassVar[tuple[str, ...]] = ("work/unfenced", "leader/unfenced", "beside/unfenced")
    claims: ClassVar[tuple[Claim, ...]] = (
        *besides(_UNASKED, RedisLock.claims),
        Claim("token-order", under=("promote-replica",)),
    )
    hazards: ClassVar[tuple[Hazard, ...]] = (*besides(_UNASKED, (*HAZARDS, *BY_THE_CLOCK)), *_BY_LOSS)

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Raises Refused(UNAVAILABLE) where the replica did not confirm in time and the lock was given back."""
        owner = new_owner()

        def attempt() -> Grant | None:
            sent = now()
            token, confirmed = self._confirmed(name, owner)
            if not token:
                return None
            grant = self._granted(name, owner, token, sent)
            if not confirmed or now() >= grant.expires:
                self._give_back(grant)
            return grant

        return polled(attempt, timeout)

    def _confirmed(self, name: str, owner: int) -> tuple[int, int]:
        """(what `ACQUIRE` answers, how many replicas have what it wrote). If it answers 0, it wrote nothing: (0, 0).

        Raises Refused if nothing was written, else Indeterminate.
        """
        node = self._node
        reply = node.send(self.ACQUIRE, self._keys(name), owner, self._ms)
        try:
            token = reply.read(node.timeout)
            if not token:
                return 0, 0
            try:
                reply.connection.send_command("WAIT", 1, int(CONFIRM * 1000), check_health=False)
                return token, reply.read(CONFIRM + node.timeout)
            except (exceptions.ConnectionError, exceptions.TimeoutError, Refused) as error:
                raise Indeterminate(f"{node.endpoint} has granted it, and WAIT failed: {error}") from error
        finally:
            node.done(reply.connection)

    def _give_back(self, grant: Grant) -> None:
        """Raises Refused, or Indeterminate where the lock may be left behind."""
        try:
            self._call(self.RELEASE, grant.name, grant.owner)
        except Refused as refusal:
            raise Indeterminate(f"not confirmed, and not given back: {refusal}") from refusal
        raise Refused(Reason.UNAVAILABLE, f"no replica confirmed it within {CONFIRM} s")
