"""Walks: pairs of workers go through the messages of a verb, one after another, and are caught at each.

Each pair of workers has a lock to itself. Two pairs go through the messages of an acquire that seldom has to wait, two
through an acquire that mostly waits, one through a release, and one through a renewal. A pair stops when the verb has
ended often enough without having a message of the next number. A tap between each worker and its links counts messages
(`suites.worker.message_tap`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast

from infra.faults.gate_scripts import Catching, GateTrap, Script, catch_within, hits_of
from infra.faults.target import Action, Gate, Hit, Target, Verb, Victim
from infra.faults.workers.holder_faults import FREED_WITHIN, SETTLED_WITHIN

MOST: Final = 8
"""The most messages of a verb that are tried: a client that polls has endless messages, each like the one before."""
RARE: Final = 0.1
"""A message that a smaller part of the waiting verbs has is due to chance."""
MOSTLY: Final = 0.75
"""A message that a smaller part of the other verbs has is due to a wait after all, usually for a caught worker."""
ROUNDS: Final = 5
"""After so many rounds of each worker without a message of a number, no such message is expected any more. If the verb
has never had such an answer, rounds before it was waited for count as well."""
TIMES: Final = 3
"""After so many stays of each holder and rounds of the waiter, no such message is expected in the verbs that wait."""
STAYS: Final = 0.5
"""Seconds for which a holder stays, so that another waits for it."""


@dataclass(frozen=True, slots=True)
class Walk:
    """Which messages a pair goes through."""

    what: str  # what notes call the verb
    verb: Verb
    first: int = 1  # the number of the first message
    step: int = 1  # from one message to the next
    waits: bool = False  # whether the verb is to wait for a holder


WALKS: Final = (
    Walk("acquire at once", "acquire", 1, 2),
    Walk("acquire at once", "acquire", 2, 2),
    Walk("acquire after waiting", "acquire", 1, 2, waits=True),
    Walk("acquire after waiting", "acquire", 2, 2, waits=True),
    Walk("release", "release"),
    Walk("renew", "renew"),
)
"""One walk for each pair, in order. The workers of the first two pairs are to rest for long, so they seldom wait."""

Side = Literal["request", "answer"]


class Pair:
    """Two workers of a lane that have a lock to themselves, on their walk through the messages of a verb."""

    def __init__(self, target: Target, lane: str, walk: Walk, workers: tuple[int, ...]) -> None:
        self.walk = walk
        self.trap = GateTrap(lane, target, target.clock.now(), workers)
        self.hit: set[int] = set()  # the messages at which one of them was caught
        self._catches = 0  # how often one of them was caught
        self._begun = self._count(walk.verb)[0]  # how many verbs of this kind had begun when the walk began
        self.tries = 0  # how often another worker was expected at a message of its own, while one was caught
        self.both = 0  # how often that other worker came
        *holders, waiter = workers
        self._holders = [self.trap.only((holder,)) for holder in holders]
        self._waiter = self.trap.only((waiter,))
        self._stays = 0  # how often a holder has stayed, while the waiter was to be caught

    def messages(self, hit: Collection[int]) -> int:
        """How many messages the walk's verb has, up to `MOST`. hit: those at which a pair of this walk was caught."""
        if self.walk.waits:
            return max([self.length(self.walk.verb, RARE), *hit])
        number = self.length(self.walk.verb, MOSTLY)
        while number + 1 in hit:
            number += 1
        return number

    def length(self, verb: Verb, part: float = 0.5) -> int:
        """How many messages the verb had so far in at least this part of its occurrences."""
        counts = self._count(verb)
        return sum(count > 0 and count >= counts[0] * part for count in counts[:MOST])

    def catch(self, number: int, side: Side, action: Action) -> Catching:
        """Catch the first worker that comes to the message of this number. None: the verb does not have so many."""
        gate = _gate(self.walk.verb, side)
        trap = self._waiter if self.walk.waits else self.trap
        actors = trap.target.actors
        before = actors.rounds(trap.lane, trap.among, self.walk.verb)

        self._stays = 0
        deadline = trap.target.clock.now() + int(catch_within(actors.ttl) * 1e9)

        def over() -> bool:
            if trap.target.clock.now() > deadline:
                return True
            ended = actors.rounds(trap.lane, trap.among, self.walk.verb) - before
            if self.walk.waits:
                return ended >= TIMES and self._stays >= TIMES * len(self._holders)
            return ended >= ROUNDS * len(trap.among) or (side == "answer" and self._never_had(number))

        catching = trap.catch_unless(over, gate, action, verb=self.walk.verb, message=number)
        stays = [self._stay(holder) for holder in self._holders if self.walk.waits]
        victim = yield from _beside(catching, stays)
        if victim is not None:
            self.hit.add(number)
            self._catches += 1
        return victim

    def _count(self, verb: Verb) -> Sequence[int]:
        return self.trap.target.actors.messages(self.trap.lane, self.trap.among, verb)

    def _never_had(self, number: int) -> bool:
        """Whether the verb has ended often enough without such a message since the walk began. Not counted: one verb of
        each worker, which may still go on, and one of each for every catch, which may have cut it short.
        """
        counts = self._count(self.walk.verb)
        return not counts[number - 1] and (
            counts[0] - self._begun >= (ROUNDS + 1 + self._catches) * len(self.trap.among)
        )

    def catch_another(self, first: Victim, verb: Verb, number: int) -> Catching:
        """Catch another worker at this message. None: it does not come before the first's lock may be another's."""
        trap = self.trap.only(others_of(self.trap, first))
        actors, clock = trap.target.actors, trap.target.clock
        before = actors.rounds(trap.lane, trap.among, verb)
        deadline = lease_over(trap)

        def over() -> bool:
            ended = actors.rounds(trap.lane, trap.among, verb) - before
            return clock.now() > deadline or ended >= ROUNDS * len(trap.among)

        victim = yield from trap.catch_unless(over, _gate(verb, "answer"), "freeze", verb=verb, message=number)
        self._catches += victim is not None
        return victim

    def _stay(self, trap: GateTrap) -> Script:
        """Stall a holder for `STAYS` s, again and again: meanwhile waiters poll often, and learn of each release."""
        while True:
            holder = yield from trap.catch("after-acquire", "stall")
            try:
                yield from trap.pause(STAYS)
                self._stays += 1
            finally:
                trap.thaw(holder)


def _beside(catching: Catching, meanwhile: Sequence[Script]) -> Catching:
    """The result of `catching`. The scripts go on meanwhile, and are ended with it."""
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
    return cast(Gate, f"at-renewal-{side}" if verb == "renew" else f"at-{side}")


def pairs_of(target: Target) -> list[Pair]:
    return [
        Pair(target, lane, walk, workers)
        for lane in target.actors.lanes()
        for walk, workers in zip(WALKS, target.actors.pairs(lane), strict=False)
    ]


def noted(target: Target, pairs: Sequence[Pair]) -> list[Hit]:
    """Let every worker go on, and note for each verb how many messages it has and at which it was hit."""
    for pair in pairs:
        pair.trap.thaw_all()
    for lane, what in dict.fromkeys((pair.trap.lane, pair.walk.what) for pair in pairs):
        mine = [pair for pair in pairs if (pair.trap.lane, pair.walk.what) == (lane, what)]
        hit = {number for pair in mine for number in pair.hit}
        messages = max(pair.messages(hit) for pair in mine)
        target.actors.note(lane, what, messages, sorted(number for number in hit if number <= messages))
    return hits_of([pair.trap for pair in pairs])


def lease_over(trap: GateTrap) -> int:
    """ns; by when a lease that nobody renews has ended, and another has had the time to get the lock."""
    return trap.target.clock.now() + int((trap.target.actors.ttl + FREED_WITHIN + SETTLED_WITHIN) * 1e9)


def others_of(trap: GateTrap, victim: Victim) -> tuple[int, ...]:
    """The numbers of the other workers that share the victim's lock."""
    workers = sum(map(len, trap.target.actors.pairs(trap.lane)))
    return tuple(number for number in trap.among if number != victim.process % workers)
