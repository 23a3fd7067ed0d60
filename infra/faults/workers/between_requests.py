"""Faults at every boundary between two requests of a verb: at each message that passes in it, one after another.

Races of clients live between two requests, and a verb has few of them, so that all can be tried: nearly every bug of
concurrency needs at most two preemptions (Musuvathi and Qadeer, "Iterative context bounding for systematic testing of
multithreaded programs", PLDI 2007). A tap between each worker and its links counts messages (`suites.worker.tap`), so a
boundary is hit exactly, and again in every run, whatever the client library is.

The workers have their locks in pairs. One pair goes through the messages of an acquire that seldom has to wait, two
through those of one that mostly waits, one through those of a release, and one through those of a renewal, until the
verb has ended often enough without having that many. All pairs do so side by side. Bugs that need two preemptions are
looked for in the same way: while one client is frozen at a message, another is frozen at each of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from infra.faults import fault
from infra.faults.fault import Fault, FaultInjection, Need, OnWorkers, OnWorkersAndNodes
from infra.faults.gate_scripts import Catching, GateTrap, Script, catch_within, hits_of, run_scripts
from infra.faults.target import Action, Gate, Hit, Kind, TappedActors, Target, Verb, Victim
from infra.faults.workers.crash_points import crash_one
from infra.faults.workers.holders import FREED_WITHIN, NEEDS, SETTLED_WITHIN

WORKLOAD: Final = "pairs"
"""The workload whose lanes are struck: see `Fault.workload`."""
MOST: Final = 8
"""Messages of a verb that are tried: a client that polls has no end of them, and each is like the one before."""
RARE: Final = 10
"""What fewer than one of so many verbs that wait have is chance."""
ROUNDS: Final = 5
"""How many rounds a worker ends, after which no verb of its is expected to have more messages."""
TIMES: Final = 3
"""How often a holder has stayed for a while, likewise of those who wait for it."""
INTRUDES_WITHIN: Final = 0.25
"""Seconds within which somebody gets in, if what came late has freed what was another's."""
PASSES_WITHIN: Final = 0.3
"""TTLs within which another has held and released, if it can do so at all."""
STAYS: Final = 0.5
"""Seconds for which a holder stays, so that another waits for it."""
CAUGHT_WITHIN: Final = 4.0
"""Seconds for all pairs to come to a message, where they wait for each other."""
LASTS: Final = 40.0
"""Seconds for all of it: a boundary takes a TTL and what a server adds to that."""
TWO_LAST: Final = 150.0
"""Seconds for all of it where two are frozen: a lock has up to 200 pairs of boundaries."""
TWO: Final = "at-every-two-requests-freeze"


@dataclass(frozen=True, slots=True)
class Walk:
    """Which messages a pair goes through.

    what         how the verb is called.
    first, step  the numbers of its messages.
    waits        whether it is to wait for a holder.
    """

    what: str
    verb: Verb
    first: int = 1
    step: int = 1
    waits: bool = False


WALKS: Final = (
    Walk("acquire at once", "acquire"),
    Walk("acquire after waiting", "acquire", 1, 2, waits=True),
    Walk("acquire after waiting", "acquire", 2, 2, waits=True),
    Walk("release", "release"),
    Walk("renew", "renew"),
)
"""One for each pair, in their order: those of the first are to rest for long, so that it seldom waits."""

Deed = Callable[[GateTrap, Victim], Script]
Side = Literal["request", "answer"]


def _actors(target: Target) -> TappedActors:
    return cast(TappedActors, target.actors)


class Pair:
    """Two workers of a lane that have a lock to themselves, on their walk through the messages of a verb."""

    def __init__(self, target: Target, lane: str, walk: Walk, workers: tuple[int, ...]) -> None:
        self.walk = walk
        self.trap = GateTrap(lane, target, target.clock.now(), workers)
        self.hit: list[int] = []
        """The messages at which one of them was caught."""
        self.tries = 0
        """How often another was expected at a message of its own, while one was caught."""
        self.both: list[int] = []
        """The tries in which it came."""
        *holders, waiter = workers
        self._holders = [self.trap.only((holder,)) for holder in holders]
        self._waiter = self.trap.only((waiter,))
        self._stays = 0
        """How often a holder has stayed, while the waiter was to be caught."""

    @property
    def messages(self) -> int:
        """How many such a verb has, up to `MOST`: as many as every second one or, where it waits, as every tenth, and
        those that were hit.
        """
        return max([self.length(self.walk.verb, RARE if self.walk.waits else 2), *self.hit])

    def length(self, verb: Verb, rare: int = 2) -> int:
        """How many messages at least one of `rare` such verbs had so far."""
        counts = _actors(self.trap.target).messages(self.trap.lane, self.trap.among, verb)
        return sum(count > 0 and count >= counts[0] / rare for count in counts[:MOST])

    def catch(self, number: int, side: Side, action: Action) -> Catching:
        """Whoever comes first to the message of this number, None where a verb does not have so many."""
        gate = _gate(self.walk.verb, side)
        trap = self._waiter if self.walk.waits else self.trap
        actors = _actors(trap.target)
        before = actors.rounds(trap.lane, trap.among, self.walk.verb)

        self._stays = 0
        deadline = trap.target.clock.now() + int(catch_within(actors.ttl) * 1e9)

        def over() -> bool:
            if trap.target.clock.now() > deadline:
                return True
            if self.walk.waits:
                return self._stays >= TIMES * len(self._holders)
            return actors.rounds(trap.lane, trap.among, self.walk.verb) >= before + ROUNDS * len(trap.among)

        catching = trap.catch_unless(over, gate, action, verb=self.walk.verb, message=number)
        stays = [self._stay(holder) for holder in self._holders if self.walk.waits]
        victim = yield from _beside(catching, stays)
        if victim is not None and number not in self.hit:
            self.hit.append(number)
        return victim

    def catch_another(self, first: Victim, verb: Verb, number: int) -> Catching:
        """Another at the message of this number, None where it does not come there before the lease of the first has
        ended and somebody had time to get it.
        """
        trap = self.trap.only(_others(self.trap, first))
        actors, clock = _actors(trap.target), trap.target.clock
        before = actors.rounds(trap.lane, trap.among, verb)
        deadline = _lease_over(trap)

        def over() -> bool:
            ended = actors.rounds(trap.lane, trap.among, verb) - before
            return clock.now() > deadline or ended >= ROUNDS * len(trap.among)

        return trap.catch_unless(over, _gate(verb, "answer"), "freeze", verb=verb, message=number)

    def _stay(self, trap: GateTrap) -> Script:
        """A holder stays for a while, again and again: who polls asks often then, and is told of each release."""
        while True:
            holder = yield from trap.catch("after-acquire", "stall")
            try:
                yield from trap.wait(STAYS, lambda: False)
                self._stays += 1
            finally:
                trap.thaw(holder)


def _beside(catching: Catching, meanwhile: Sequence[Script]) -> Catching:
    """The result of the first, while the others go on; they are ended then."""
    try:
        while True:
            try:
                next(catching)
            except StopIteration as ended:
                caught: Victim | None = ended.value
                return caught
            for script in meanwhile:
                next(script, None)
            yield
    finally:
        catching.close()
        for script in meanwhile:
            script.close()


def _gate(verb: Verb, side: Side) -> Gate:
    return (_OF_RENEWALS if verb == "renew" else _OF_OTHERS)[side]


_OF_RENEWALS: Final[dict[Side, Gate]] = {"request": "at-renewal-request", "answer": "at-renewal-answer"}
_OF_OTHERS: Final[dict[Side, Gate]] = {"request": "at-request", "answer": "at-answer"}


def _pairs(target: Target) -> list[Pair]:
    """All of them, of all lanes."""
    return [
        Pair(target, lane, walk, workers)
        for lane in target.actors.lanes()
        for walk, workers in zip(WALKS, _actors(target).pairs(lane), strict=False)
    ]


def _noted(target: Target, pairs: Sequence[Pair]) -> list[Hit]:
    """Let everybody go on, and note for each verb how many messages it has and at which it was hit."""
    for pair in pairs:
        pair.trap.thaw_all()
    for lane, what in dict.fromkeys((pair.trap.lane, pair.walk.what) for pair in pairs):
        mine = [pair for pair in pairs if (pair.trap.lane, pair.walk.what) == (lane, what)]
        messages = max(pair.messages for pair in mine)
        _actors(target).note(lane, what, messages, sorted(number for pair in mine for number in pair.hit))
    return hits_of([pair.trap for pair in pairs])


@dataclass(frozen=True, slots=True)
class AtEveryMessage(OnWorkers):
    """side: whether it strikes requests or answers. deed: what is done after somebody was caught there."""

    doing: str
    side: Side
    action: Action
    deed: Deed

    def describe(self) -> str:
        return self.doing

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when every pair of every lane is through, or too much time has passed."""
        pairs = _pairs(target)
        run_scripts(target, list(map(self._walk, pairs)), LASTS)
        return _noted(target, pairs)

    def _walk(self, pair: Pair) -> Script:
        for number in range(pair.walk.first, MOST + 1, pair.walk.step):
            victim = yield from pair.catch(number, self.side, self.action)
            if victim is None:
                return
            try:
                yield from self.deed(pair.trap, victim)
            finally:
                pair.trap.thaw_all()


@dataclass(frozen=True, slots=True)
class AtEveryTwoMessages(OnWorkers):
    """One of a pair at each message of the pair's verb, and the other at each of its own, in all combinations."""

    def describe(self) -> str:
        return "freeze a client at every message of every verb, and another at every message of its own meanwhile,"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when every pair of every lane is through, or too much time has passed."""
        pairs = _pairs(target)
        run_scripts(target, list(map(self._walk, pairs)), TWO_LAST)
        hits = _noted(target, pairs)
        for lane in target.actors.lanes():
            mine = [pair for pair in pairs if pair.trap.lane == lane]
            tries, both = sum(pair.tries for pair in mine), sum(len(pair.both) for pair in mine)
            _actors(target).note(lane, "two at once", tries, range(1, both + 1))
        return hits

    def _walk(self, pair: Pair) -> Script:
        verbs: list[Verb] = ["acquire", "release"]
        verbs += ["renew"] * (pair.walk.verb == "renew")  # elsewhere nobody holds for long enough to renew
        for number in range(pair.walk.first, MOST + 1, pair.walk.step):
            for verb in verbs:
                for other in range(1, MOST + 1):
                    if other > max(pair.length(verb), 1):
                        break
                    first = yield from pair.catch(number, "answer", "freeze")
                    if first is None:
                        return
                    try:
                        yield from self._another(pair, first, verb, other)
                    finally:
                        pair.trap.thaw_all()

    def _another(self, pair: Pair, first: Victim, verb: Verb, number: int) -> Script:
        """The second is caught; the first ends what it was at, and somebody may get in; then the second goes on."""
        trap, settled = pair.trap, _actors(pair.trap.target).settled
        pair.tries += 1
        second = yield from pair.catch_another(first, verb, number)
        if second is not None:
            pair.both.append(pair.tries)
        trap.thaw(first)
        yield from trap.wait(SETTLED_WITHIN, lambda: settled(first))
        if second is not None:
            yield from trap.wait(INTRUDES_WITHIN, lambda: False)
            trap.thaw(second)
            yield from trap.wait(SETTLED_WITHIN, lambda: settled(second))


@dataclass(frozen=True, slots=True)
class CrashAtEveryMessage(OnWorkersAndNodes):
    """All pairs at the same message, one server, and then all at the next."""

    def describe(self) -> str:
        return "kill the server that leads (or redis1) at every message of every verb, and start it again"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when no pair comes to a further message."""
        pairs, crashes = _pairs(target), []
        going = list(pairs)
        for number in range(1, MOST + 1):
            due = [pair for pair in going if (number - pair.walk.first) % pair.walk.step == 0]
            run_scripts(target, [pair.catch(number, "answer", "freeze") for pair in due], CAUGHT_WITHIN)
            going = [pair for pair in going if pair not in due or number in pair.hit]
            if any(number in pair.hit for pair in due):
                crashes.append(crash_one(target))
            run_scripts(target, [_go_on(pair.trap) for pair in due], target.actors.ttl)
        return [*crashes, *_noted(target, pairs)]


def _go_on(trap: GateTrap) -> Script:
    """Until whoever was caught last has ended what it was at."""
    trap.thaw_all()
    victim = trap.last
    if victim is not None:
        yield from trap.wait(SETTLED_WITHIN, lambda: trap.target.actors.settled(victim))


def _lease_over(trap: GateTrap) -> int:
    """ns; by when a lease that nobody renews has ended, and another has had the time to get the lock."""
    return trap.target.clock.now() + int((trap.target.actors.ttl + FREED_WITHIN + SETTLED_WITHIN) * 1e9)


def _others(trap: GateTrap, victim: Victim) -> tuple[int, ...]:
    """The numbers of the workers that share the victim's lock."""
    workers = sum(map(len, _actors(trap.target).pairs(trap.lane)))
    return tuple(number for number in trap.among if number != victim.process % workers)


def _another(trap: GateTrap, victim: Victim) -> Script:
    """Until the others have the lock, and are stalled with it; no longer than a lease takes to end."""
    clock = trap.target.clock
    deadline = _lease_over(trap)
    for _ in trap.among[1:]:
        yield from trap.catch_unless(lambda: clock.now() > deadline, "after-acquire", "stall", key=victim.key)


def _until_another_holds(trap: GateTrap, victim: Victim) -> Script:
    """Another gets the lock, when the lease is over at the latest; then the victim goes on, and later the other."""
    yield from _another(trap, victim)
    trap.thaw(victim)
    yield from trap.wait(SETTLED_WITHIN, lambda: trap.target.actors.settled(victim))
    yield from trap.wait(INTRUDES_WITHIN, lambda: False)


def _until_another_was_there(trap: GateTrap, victim: Victim) -> Script:
    """Another acquires and releases, if it can; then the victim goes on."""
    actors, others = _actors(trap.target), _others(trap, victim)
    before = actors.rounds(trap.lane, others, "acquire")
    within = PASSES_WITHIN * actors.ttl
    yield from trap.wait(within, lambda: actors.rounds(trap.lane, others, "acquire") > before)
    trap.thaw(victim)
    yield from trap.wait(SETTLED_WITHIN, lambda: actors.settled(victim))


def _until_freed(trap: GateTrap, victim: Victim) -> Script:
    """The lock of one that died is another's in the end, and somebody takes its place."""
    yield from _another(trap, victim)
    _actors(trap.target).revive(trap.lane)


def _until_settled(trap: GateTrap, victim: Victim) -> Script:
    """It goes on as it can; what it left behind may be found by the next."""
    trap.thaw(victim)
    yield from trap.wait(trap.target.actors.ttl, lambda: trap.target.actors.settled(victim))
    yield from trap.wait(INTRUDES_WITHIN, lambda: False)


def _fault(name: str, kind: Kind, summary: str, injection: FaultInjection, how: str, sees: str, *needs: Need) -> Fault:
    return Fault(
        f"at-every-{name}",
        kind,
        summary,
        fault.always(injection),
        needs=(*NEEDS, "tap", *needs),
        how=how,
        sees=sees,
        workload=WORKLOAD,
    )


BETWEEN_REQUESTS: Final = (
    _fault(
        "request-freeze",
        "freeze",
        "a client is frozen at every message that it gets in a verb, until another holds",
        AtEveryMessage(
            "freeze a client at every message of every verb, until another holds,",
            "answer",
            "freeze",
            _until_another_holds,
        ),
        "SIGSTOP when the n-th message is on its way to it (a tap between client and link)",
        "what it sends after that comes when its lease is over",
    ),
    _fault(
        "request-kill",
        "kill",
        "a client is killed at every message that it gets in a verb",
        AtEveryMessage("kill a client at every message of every verb", "answer", "kill", _until_freed),
        "SIGKILL when the n-th message is on its way to it (a tap between client and link)",
        "its successor waits until the lease ends",
    ),
    _fault(
        "request-lose",
        "cut",
        "every message that a client gets in a verb is lost once",
        AtEveryMessage("lose every message of every verb once", "answer", "lose", _until_settled),
        "nothing is passed on from the n-th message on (a tap between client and link)",
        "no answer: what it asked for may have happened",
    ),
    _fault(
        "request-late",
        "slow",
        "every request of a client in a verb arrives when its lease is over once",
        AtEveryMessage(
            "hold up every request of every verb, until another holds,", "request", "late", _until_another_holds
        ),
        "the n-th request is held and delivered later (a tap between client and link)",
        "no answer in time; what it asked for happens later",
    ),
    _fault(
        "request-reset",
        "reset",
        "a client's connection is reset at every message that it gets in a verb",
        AtEveryMessage("reset the connection at every message of every verb", "answer", "reset", _until_settled),
        "RST in place of the n-th message (a tap between client and link)",
        "the connection ends, and it connects anew",
    ),
    _fault(
        "request-pass",
        "freeze",
        "at every message that a client gets in a verb, another acquires and releases first",
        AtEveryMessage(
            "freeze a client at every message of every verb, until another has held and released,",
            "answer",
            "freeze",
            _until_another_was_there,
        ),
        "SIGSTOP when the n-th message is on its way to it (a tap between client and link), for less than a TTL",
        "what it knows of the lock is old",
    ),
    _fault(
        "request-crash",
        "kill",
        "the leader, or redis1, crashes at every message that a client gets in a verb",
        CrashAtEveryMessage(),
        "SIGSTOP when the n-th message is on its way to a client, while the server is killed and started again",
        "what it was told comes from before the crash",
        "kill",
    ),
    _fault(
        "two-requests-freeze",
        "freeze",
        "a client is frozen at every message that it gets in a verb, and meanwhile another at every one of its own",
        AtEveryTwoMessages(),
        "SIGSTOP when the n-th message is on its way to the one, and the m-th to the other (a tap before each)",
        "what either sends after that comes when much has happened",
    ),
)
