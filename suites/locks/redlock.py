"""``redlock``: a lock on a majority of independent Redis nodes.

Redlock as in https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ (antirez): a client sends SET NX
PX to all nodes, with a small timeout each. It holds if a majority agreed and TTL - elapsed - drift is still positive.
It releases everywhere, also after a failed attempt, and waits for a random time before the next one. As that page
advises, it asks all nodes at the same time by multiplexing. It extends a lock by extending it on a majority.

What its authors claim: exclusion while a majority is up, clocks run at nearly one rate, and nodes that crash keep their
locks (fsync always) or stay away for a TTL. It has no fencing token: owners are random, and independent nodes have no
common order. Votes can split, so a failed attempt is no evidence of a holder: it is ``denied``, never ``held``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from checkers.claims import Claim, Hazard
from checkers.row_format import Reason
from infra.access import OPEN, Access
from suites.lock import Declarations, Grant, Indeterminate, LockError, Refused, new_owner, now
from suites.locks.lease_claims import CLAIMS, HAZARDS, LOSSES
from suites.locks.polling import pause_until
from suites.locks.redis_node import DRIFT, GRAIN, RELEASE, RENEW, TAKE, RedisNode, Reply, validity
from suites.locks.redis_single import SELDOM

REQUEST: Final = 0.2
"""Seconds; bounds the answers of all nodes together. A call returns within its timeout plus twice this, and as much
again for each node to which a connection has to be made anew and is not refused."""
POLL: Final = (0.1, 0.3)
"""Seconds before the next attempt, at random, so that contenders fall out of step. Redlock's libraries wait as long."""
# A call takes two rounds, each with a connect to every node and one wait for all answers.
_BOUNDS: Final = {"recovery": 4.0, "crash-release": 0.8, "honest-belief": 0.0, "fail-fast": 3.0, "hand-over": 1.5}

BY_ONE_NODE: Final = tuple(
    # A clock that is set, or a node that comes back without its data (the page above, "Performance, crash recovery and
    # fsync"; Kleppmann 2016 for clocks), takes a vote from a holder. That frees the lock only if the holder had no vote
    # to spare, which is rare: all nodes are asked, and mostly all agree.
    Hazard(name, (fault,), mechanism, stores=stores, certain=False)
    for fault, mechanism in (
        ("clock-jump-forward", "expired-by-jump"),
        ("clock-jump-back", "expired-by-return"),
        ("clock-strobe", "expired-by-drift"),
        ("clock-drift", "expired-by-drift"),
        ("wipe-server", "state-lost"),
        ("promote-replica", "state-lost"),
    )
    for name, stores, _ in (*SELDOM, ("no-lost-update", ("unfenced",), False))
)


@dataclass(frozen=True, slots=True)
class Votes:
    """Sets of nodes (by index): who said yes, who said no, who was not asked, and whose answer was lost.

    why: one of the errors.
    """

    yes: frozenset[int]
    no: frozenset[int]
    unasked: frozenset[int]
    unknown: frozenset[int]
    why: str


class Redlock(Declarations):
    backend: ClassVar[str] = "redis"
    lease: ClassVar[str] = "quorum"
    drift: ClassVar[float] = DRIFT
    grain: ClassVar[float] = GRAIN
    min_ttl: ClassVar[float] = 0.8
    nodes: ClassVar[tuple[str, ...]] = ("redis*",)
    bounds: ClassVar[Mapping[str, float]] = _BOUNDS
    claims: ClassVar[tuple[Claim, ...]] = (
        *CLAIMS,
        Claim("recovery", under=LOSSES),
        Claim("owner-release"),
        Claim("no-lost-update", stores=("compare-owner",)),
    )
    hazards: ClassVar[tuple[Hazard, ...]] = HAZARDS + BY_ONE_NODE

    ACQUIRE: ClassVar[str] = TAKE
    REQUEST: ClassVar[float] = REQUEST

    def __init__(self, nodes: Sequence[RedisNode], ttl: float) -> None:
        self._nodes = tuple(nodes)
        self._quorum = len(nodes) // 2 + 1
        self._ttl = ttl

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float, access: Access = OPEN) -> Self:
        """Raises Refused unless a majority answers."""
        client = cls([RedisNode(endpoint, cls.REQUEST, access) for endpoint in endpoints], ttl)
        answered = client._ask("return 1", "", 0)
        if len(answered.yes) < client._quorum:
            raise Refused(Reason.UNAVAILABLE, f"{len(answered.yes)} of {len(endpoints)} nodes answer: {answered.why}")
        return client

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """None only if every node confirmed that nothing of any attempt is left, else Indeterminate."""
        deadline = now() + int(timeout * 1e9)
        clean = True
        while True:
            owner = new_owner()  # one for each attempt: a late release of the last must not hit the next
            sent = now()
            votes = self._ask(self.ACQUIRE, name, owner, self._ms)
            expires = self._expires(sent)
            if len(votes.yes) >= self._quorum and now() < expires:
                return Grant(name, owner, None, sent, int(self._ttl * 1e9), expires)
            clean &= self._withdraw(name, owner, votes)
            if len(votes.yes) + len(votes.unknown) >= self._quorum and votes.unknown:
                raise Indeterminate(f"{len(votes.unknown)} nodes did not answer")
            hopeless = len(votes.unasked) > len(self._nodes) - self._quorum
            if hopeless or timeout == 0 or not pause_until(deadline, POLL):
                break
        if not clean:
            raise Indeterminate("keys of a failed attempt are left on some nodes until they expire")
        if hopeless:
            raise Refused(Reason.UNAVAILABLE, f"{len(votes.unasked)} nodes cannot be reached")
        if timeout == 0:
            raise Refused(Reason.DENIED, f"{len(votes.yes)} of {len(self._nodes)} votes")
        return None

    def renew(self, grant: Grant) -> None:
        """The lock stays held if a majority extends it. It is certainly over once no majority can extend it."""
        self._majority(self._ask(RENEW, grant.name, grant.owner, self._ms))

    def release(self, grant: Grant) -> None:
        """Delete on all nodes. Certainly released if a majority had it and gave it up; in doubt if only a part did.

        In doubt even if a majority no longer had it: the keys of the others may have kept another client out.
        """
        votes = self._ask(RELEASE, grant.name, grant.owner)
        if 0 < len(votes.yes) < self._quorum:
            raise Indeterminate(f"only {len(votes.yes)} nodes gave it up, so it may be free for others or not")
        self._majority(votes)

    def close(self) -> None:
        """Hang up; a lock that is still held ends with its TTL."""
        for node in self._nodes:
            node.close()

    def _expires(self, sent: int) -> int:
        """When the client must stop believing, if it began to ask at `sent` (both in ns)."""
        return sent + validity(self._ttl)

    @property
    def _ms(self) -> int:
        return int(self._ttl * 1000)

    def _majority(self, votes: Votes) -> None:
        if len(votes.yes) >= self._quorum:
            return
        if len(votes.yes) + len(votes.unknown) >= self._quorum:
            raise Indeterminate(f"{len(votes.yes)} nodes agreed, {len(votes.unknown)} did not answer")
        reason = Reason.NOT_OWNER if len(votes.no) >= self._quorum else Reason.UNAVAILABLE
        raise Refused(reason, f"{len(votes.yes)} nodes agreed, {len(votes.no)} refused")

    def _withdraw(self, name: str, owner: int, votes: Votes) -> bool:
        """Release the key of an attempt on all nodes. Returns whether the attempt certainly left no key.

        If the answer to the SET was lost, only a release that found the key proves it: the SET may arrive later.
        """
        released = self._ask(RELEASE, name, owner)
        return votes.unknown <= released.yes and votes.yes <= released.yes | released.no

    def _ask(self, script: str, name: str, *arguments: int) -> Votes:
        """Send to all nodes, then collect what arrives within `REQUEST` seconds."""
        waiting: dict[int, Reply] = {}
        answers: dict[int, int | LockError] = {}
        for index, node in enumerate(self._nodes):
            try:
                waiting[index] = node.send(script, (f"fencepost:redlock:{name}",), *arguments)
            except LockError as error:
                answers[index] = error
        deadline = now() + int(self.REQUEST * 1e9)
        for index, reply in waiting.items():
            try:
                answers[index] = reply.receive(max(deadline - now(), 0) / 1e9)
            except LockError as error:
                answers[index] = error
        return Votes(
            yes=frozenset(i for i, answer in answers.items() if isinstance(answer, int) and answer),
            no=frozenset(i for i, answer in answers.items() if answer == 0),
            unasked=frozenset(i for i, answer in answers.items() if isinstance(answer, Refused)),
            unknown=frozenset(i for i, answer in answers.items() if isinstance(answer, Indeterminate)),
            why=next((str(answer) for answer in answers.values() if isinstance(answer, LockError)), ""),
        )
