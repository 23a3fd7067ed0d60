"""Faults at every boundary between two requests of a verb: at each message of the verb, one after another.

Races between clients occur between two requests, and a verb has few requests, so all boundaries can be tried. Nearly
every concurrency bug needs at most two preemptions (Musuvathi and Qadeer, "Iterative context bounding for systematic
testing of multithreaded programs", PLDI 2007). Messages are counted, so a boundary is hit exactly, and again in every
run, whatever the client library is.

All pairs of workers go through the messages side by side (`infra.faults.workers.walks`). To find bugs that need two
preemptions, one client is frozen at a message, and meanwhile another is frozen at each message of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from infra.faults.fault import Fault, FaultInjection, Need, OnNodes, OnWorkers, always
from infra.faults.gate_scripts import GateTrap, Script, run_scripts
from infra.faults.target import Action, Hit, Kind, Target, Verb, Victim
from infra.faults.workers.crash_points import crash_one
from infra.faults.workers.holder_faults import INTRUDES_WITHIN, NEEDS, SETTLED_WITHIN
from infra.faults.workers.walks import MOST, Pair, Side, lease_over, noted, others_of, pairs_of

WORKLOAD: Final = "pairs"
"""The workload whose lanes are struck: see `Fault.workload`."""
PASSES_WITHIN: Final = 0.3
"""TTLs within which another worker has held and released, if it can do so at all."""
CAUGHT_WITHIN: Final = 4.0
"""Seconds for all pairs to come to a message, when the pairs wait for each other."""
LASTS: Final = 40.0
"""Seconds for the whole fault: a boundary takes a TTL and what a server adds to the TTL."""
TWO_LAST: Final = 150.0
"""Seconds for the whole fault when two clients are frozen: a lock has up to 200 pairs of boundaries."""
TWO: Final = "at-every-two-requests-freeze"

Deed = Callable[[GateTrap, Victim], Script]


@dataclass(frozen=True, slots=True)
class AtEveryMessage(OnWorkers):
    """Strike at every message. side: requests or answers. deed: what is done after a worker is caught at a message."""

    doing: str
    action: Action
    deed: Deed
    side: Side = "answer"
    verbs: tuple[Verb, ...] = ("acquire", "renew", "release")

    def describe(self) -> str:
        return self.doing

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when every pair of every lane is through, or too much time has passed."""
        pairs = [pair for pair in pairs_of(target) if pair.walk.verb in self.verbs]
        run_scripts(target, list(map(self._walk, pairs)), LASTS)
        return noted(target, pairs)

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
    """Freeze one of a pair at each message of the pair's verb, the other at each of its own, in all combinations."""

    def describe(self) -> str:
        return "freeze a client at every message of every verb, and another at every message of its own meanwhile,"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when every pair of every lane is through, or too much time has passed."""
        pairs = pairs_of(target)
        run_scripts(target, list(map(self._walk, pairs)), TWO_LAST)
        hits = noted(target, pairs)
        for lane in target.actors.lanes():
            mine = [pair for pair in pairs if pair.trap.lane == lane]
            tries, both = sum(pair.tries for pair in mine), sum(pair.both for pair in mine)
            target.actors.note(lane, "two at once", tries, range(1, both + 1))
        return hits

    def _walk(self, pair: Pair) -> Script:
        for number in range(pair.walk.first, MOST + 1, pair.walk.step):
            for verb, of_another in _of_another(pair):
                first = yield from pair.catch(number, "answer", "freeze")
                if first is None:
                    return
                try:
                    yield from self._another(pair, first, verb, of_another)
                finally:
                    pair.trap.thaw_all()

    def _another(self, pair: Pair, first: Victim, verb: Verb, number: int) -> Script:
        """Catch the second worker. Then the first ends its operation, a worker may get in, and the second goes on."""
        pair.tries += 1
        second = yield from pair.catch_another(first, verb, number)
        if second is not None:
            pair.both += 1
        yield from pair.trap.settle(first, SETTLED_WITHIN)
        if second is not None:
            yield from pair.trap.pause(INTRUDES_WITHIN)
            yield from pair.trap.settle(second, SETTLED_WITHIN)


def _of_another(pair: Pair) -> Iterator[tuple[Verb, int]]:
    """Each message that each verb is known to have when its turn comes; the first message of a verb in any case."""
    verbs: list[Verb] = ["acquire", "release"]
    verbs += ["renew"] * (pair.walk.verb == "renew")  # in other pairs nobody holds long enough to renew
    for verb in verbs:
        number = 1
        while number <= max(pair.length(verb), 1):
            yield verb, number
            number += 1


@dataclass(frozen=True, slots=True)
class CrashAtEveryMessage(OnWorkers, OnNodes):
    """Freeze all pairs at the same message, crash one server, then go on to the next message."""

    def describe(self) -> str:
        return "kill the server that leads (or redis1) at every message of every verb, and start it again"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when no pair comes to a further message."""
        pairs, crashes = pairs_of(target), []
        going = list(pairs)
        for number in range(1, MOST + 1):
            due = [pair for pair in going if (number - pair.walk.first) % pair.walk.step == 0]
            run_scripts(target, [pair.catch(number, "answer", "freeze") for pair in due], CAUGHT_WITHIN)
            going = [pair for pair in going if pair not in due or number in pair.hit]
            if any(number in pair.hit for pair in due):
                crashes.append(crash_one(target))
            run_scripts(target, [_go_on(pair.trap) for pair in due], target.actors.ttl)
        return [*crashes, *noted(target, pairs)]


def _go_on(trap: GateTrap) -> Script:
    """Thaw all, and wait until the worker that was caught last has ended what it was doing."""
    trap.thaw_all()
    victim = trap.last
    if victim is not None:
        yield from trap.wait(SETTLED_WITHIN, lambda: trap.target.actors.settled(victim))


def _another(trap: GateTrap, victim: Victim) -> Script:
    """Wait until the other workers have the lock and are stalled with it, but no longer than a lease takes to end."""
    clock = trap.target.clock
    deadline = lease_over(trap)
    for _ in trap.among[1:]:
        yield from trap.catch_unless(lambda: clock.now() > deadline, "after-acquire", "stall", key=victim.key)


def _until_another_holds(trap: GateTrap, victim: Victim) -> Script:
    """Another worker gets the lock, at the latest when the lease is over. Then the victim goes on, later the other."""
    yield from _another(trap, victim)
    yield from trap.settle(victim, SETTLED_WITHIN)
    yield from trap.pause(INTRUDES_WITHIN)


def _until_another_was_there(trap: GateTrap, victim: Victim) -> Script:
    """Another worker acquires and releases, if it can. Then the victim goes on."""
    actors, others = trap.target.actors, others_of(trap, victim)
    before = actors.rounds(trap.lane, others, "acquire")
    within = PASSES_WITHIN * actors.ttl
    yield from trap.wait(within, lambda: actors.rounds(trap.lane, others, "acquire") > before)
    yield from trap.settle(victim, SETTLED_WITHIN)


def _until_freed(trap: GateTrap, victim: Victim) -> Script:
    """Another worker gets the lock of the dead worker in the end, and a new worker replaces the dead one."""
    yield from _another(trap, victim)
    trap.target.actors.revive(trap.lane)


def _until_settled(trap: GateTrap, victim: Victim) -> Script:
    """The victim goes on as it can. The next worker may find what the victim left behind."""
    yield from trap.settle(victim, trap.target.actors.ttl)
    yield from trap.pause(INTRUDES_WITHIN)


def _until_given_up(trap: GateTrap, victim: Victim) -> Script:
    """The victim gives up and asks for something else. Then the answer comes that it waited for before."""
    yield from trap.pause(INTRUDES_WITHIN)
    yield from _until_settled(trap, victim)


def _fault(
    name: str, kind: Kind, summary: str, injection: FaultInjection, how: str, sees: str, *needs: Need, **more: Any
) -> Fault:
    return Fault(
        f"at-every-{name}",
        kind,
        summary,
        always(injection),
        needs=(*NEEDS, "tap", *needs),
        how=how,
        sees=sees,
        workload=WORKLOAD,
        **more,
    )


BETWEEN_REQUESTS: Final = (
    _fault(
        "request-freeze",
        "freeze",
        "a client is frozen at every message that it gets in a verb, until another holds",
        AtEveryMessage(
            "freeze a client at every message of every verb, until another holds,", "freeze", _until_another_holds
        ),
        "SIGSTOP when the n-th message is on its way to it (a tap between client and link)",
        "what it sends after that comes when its lease is over",
    ),
    _fault(
        "request-kill",
        "kill",
        "a client is killed at every message that it gets in a verb",
        AtEveryMessage("kill a client at every message of every verb", "kill", _until_freed),
        "SIGKILL when the n-th message is on its way to it (a tap between client and link)",
        "its successor waits until the lease ends",
    ),
    _fault(
        "request-lose",
        "cut",
        "every message that a client gets in a verb is lost once",
        AtEveryMessage("lose every message of every verb once", "lose", _until_settled),
        "nothing on that connection is passed on from the n-th message to the end of the verb, then it is reset; so is "
        "the connection on which the verb's next request comes, in its place (a tap)",
        "no answer: what it asked for may have happened, and what it asks for next has not",
    ),
    _fault(
        "request-late",
        "slow",
        "every request of a client in a verb arrives when its lease is over once",
        AtEveryMessage(
            "hold up every request of every verb, until another holds,", "late", _until_another_holds, "request"
        ),
        "the n-th request is held and delivered later (a tap between client and link)",
        "no answer in time; what it asked for happens later",
    ),
    _fault(
        "request-reset",
        "reset",
        "a client's connection is reset at every message that it gets in a verb",
        AtEveryMessage("reset the connection at every message of every verb", "reset", _until_settled),
        "RST in place of the n-th message (a tap between client and link)",
        "the connection ends, and it connects anew",
    ),
    _fault(
        "request-pass",
        "freeze",
        "at every message that a client gets in a verb, another acquires and releases first",
        AtEveryMessage(
            "freeze a client at every message of every verb, until another has held and released,",
            "freeze",
            _until_another_was_there,
        ),
        "SIGSTOP when the n-th message is on its way to it (a tap between client and link), for less than a TTL",
        "what it knows of the lock is old",
    ),
    _fault(
        "request-cancel",
        "slow",
        "who waits for a lock is told to give up at every message that it gets",
        AtEveryMessage(
            "have a client give up at every message of every acquire", "cancel", _until_given_up, verbs=("acquire",)
        ),
        "the client's own way to give up, while the n-th message to it is held (a tap between client and link)",
        "the answer to what it has given up comes when it has asked for something else",
        strikes="cancel",
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
