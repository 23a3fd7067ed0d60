"""``redis-wait``: the lock on one Redis node, granted only when the node's replica has it as well.

This is ``redis`` with WAIT 1 (https://redis.io/docs/latest/commands/wait/) after the SET, on the same connection. If
the replica does not confirm within `CONFIRM` seconds, the lock is given back and the acquire is refused. So nobody gets
the lock while the replica is away, or after it was promoted and has none of its own.

What its authors claim of WAIT: it makes it much less likely that a failover loses the write, but does not make Redis a
strongly consistent store. A failover to this one replica keeps every grant and its token. It loses what nobody waits
for, above all renewals: a lease may be over before its acknowledged end. An empty primary empties its replica, too.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from redis import exceptions

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from suites.lock import Grant, Indeterminate, Refused, new_owner, now
from suites.locks.lease_claims import HAZARDS, LOSSES, besides
from suites.locks.polling import polled
from suites.locks.redis_node import RedisNode
from suites.locks.redis_single import BY_THE_CLOCK, NODE, RedisLock

CONFIRM: Final = 0.15
"""Seconds that the replica has to confirm; an acquire may take longer by this time."""

_UNASKED: Final = ("fenced-store", "no-lost-update")

_BY_LOSS: Final = (
    # The counter goes back only if the primary lost its data: the replica has every token that was granted. Attempts
    # that no replica confirmed have counted it up again by the time of the first grant.
    Hazard("token-order", ("wipe-server",), "state-lost", certain=False, nodes=NODE),
    *(
        Hazard(name, LOSSES, "state-lost", certain=False, nodes=NODE)
        for name in ("server-exclusion", "holder-exclusion", "honest-belief", "honest-renewal")
    ),
)


class _Primary(RedisNode):
    """A node of which only one thread asks for confirmations. `written` keeps the connection until WAIT is answered."""

    _kept: Any = None

    def written(self, script: str, keys: Sequence[str], *arguments: int) -> tuple[int, int]:
        """(the script's answer, how many replicas have what it wrote). A script that answers 0 wrote nothing: (0, 0).

        Raises Refused if nothing was written, else Indeterminate.
        """
        reply = self.send(script, keys, *arguments)
        self._kept = reply.connection
        try:
            answer = reply.receive(self.timeout)
            if not answer:
                return 0, 0
            try:
                self._kept.send_command("WAIT", 1, int(CONFIRM * 1000), check_health=False)
            except (exceptions.ConnectionError, exceptions.TimeoutError) as error:
                raise Indeterminate(f"{self.endpoint}: {error}") from error
            return answer, reply.receive(CONFIRM + self.timeout)
        finally:
            kept, self._kept = self._kept, None
            self.done(kept)

    def done(self, connection: Any) -> None:
        """The connection is free again, unless `written` keeps it."""
        if connection is not self._kept:
            super().done(connection)


class RedisWait(RedisLock):
    name: ClassVar[str] = "redis-wait"
    min_ttl: ClassVar[float] = 1.0  # so that a hold lasts from when the replica falls behind to its promotion
    # The replica has to come back as well.
    bounds: ClassVar[Mapping[str, float]] = {**RedisLock.bounds, "recovery": 5.0, "fail-fast": 2.5}
    # Only a long hold still lasts when the replica, to which nobody has talked for a while, is promoted.
    lanes: ClassVar[tuple[str, ...]] = ("work/unfenced", "leader/unfenced")
    claims: ClassVar[tuple[Claim, ...]] = (
        *besides(_UNASKED, RedisLock.claims),
        Claim("token-order", under=("promote-replica",)),
    )
    hazards: ClassVar[tuple[Hazard, ...]] = (*besides(_UNASKED, (*HAZARDS, *BY_THE_CLOCK)), *_BY_LOSS)

    NODE: ClassVar[type[RedisNode]] = _Primary

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """Raises Refused(UNAVAILABLE) where the replica did not confirm in time and the lock was given back."""
        node, owner = self._node, new_owner()
        assert isinstance(node, _Primary)

        def attempt() -> Grant | None:
            sent = now()
            token, confirmed = node.written(self.ACQUIRE, self._keys(name), owner, self._ms)
            if not token:
                return None
            grant = self._granted(name, owner, token, sent)
            if not confirmed or now() >= grant.expires:
                self._give_back(grant)
            return grant

        return polled(attempt, timeout)

    def _give_back(self, grant: Grant) -> None:
        """Raises Refused, or Indeterminate where the lock may be left behind."""
        try:
            self._call(self.RELEASE, grant.name, grant.owner)
        except Refused as refusal:
            raise Indeterminate(f"not confirmed, and not given back: {refusal}") from refusal
        raise Refused(Reason.UNAVAILABLE, f"no replica confirmed it within {CONFIRM} s")
