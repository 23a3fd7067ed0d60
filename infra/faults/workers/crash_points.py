"""Faults at the one moment that matters: just after a worker has acquired, or between two requests of its release.

After an acquire, a holder of each lane is stalled before it does anything under its grant. Then the link is cut, or the
server crashes, and only then the holder goes on. Its renewal goes on all the while, as far as it still can. In a
release, the holder is frozen while it waits for the server's answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from infra.backends.backend import Trait
from infra.errors import Failed
from infra.faults import fault, link_proof
from infra.faults.fault import HEALED_WITHIN, LOOK_EVERY, SPANS, Fault, OnNodes, OnWorkers
from infra.faults.fault_options import LEADER, choice, number, within
from infra.faults.gate_scripts import GateTrap, Script, catch, catch_within, hits_of, let_go, run_traps
from infra.faults.links.cuts import CutClients, OnClientLinks
from infra.faults.servers.strikes import end, named
from infra.faults.target import Hit, Target
from infra.faults.workers.holder_faults import INTRUDES_WITHIN, NEEDS, SETTLED_WITHIN
from infra.network.links import Cut
from infra.network.toxics import delay

ANSWERS: Final = (80, 120)
"""ms by which answers come later while a release is awaited, least and most: time enough to freeze the worker."""


@dataclass(frozen=True, slots=True)
class CutHolder(OnWorkers, OnClientLinks):
    """Cut the client group of the holder that is caught first; in the other lanes catch a holder of the same group."""

    how: Cut

    def describe(self) -> str:
        return f"cut the clients of a holder from all nodes ({self.how}), just after its acquire,"

    def apply(self, target: Target) -> Sequence[Hit]:
        """The cut is proven by questions. The holders go on after that, and no earlier."""
        groups: list[str] = []

        def script(trap: GateTrap) -> Script:
            while True:
                holder = yield from trap.catch("after-acquire", "stall", group=groups[0] if groups else "")
                if not groups:
                    groups.append(holder.group)
                if holder.group == groups[0]:
                    return
                trap.thaw(holder)

        traps = run_traps(target, script, catch_within(target.actors.ttl))
        if not groups:
            return []
        cuts = CutClients.all_from(self.how, groups[:1], target.members).apply(target)
        let_go(traps)
        stalls = [replace(hit, target=f"{hit.target} ({groups[0]})") for hit in hits_of(traps)]
        words = "whose workers have just acquired"
        return [*(replace(hit, target=f"{hit.target}, {words}") for hit in cuts), *stalls]


@dataclass(frozen=True, slots=True)
class CrashAfterAcquire(OnWorkers, OnNodes):
    """The leader, or the first server, is killed and started again in `apply`, before the holders do anything."""

    def describe(self) -> str:
        return "kill the server that leads (or redis1) when a holder of every lane has acquired, and start it again"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Returns when the server serves again and the holders go on."""
        traps = run_traps(target, catch("after-acquire", "stall"), catch_within(target.actors.ttl))
        if not hits_of(traps):
            return []
        crash = crash_one(target)
        let_go(traps)
        return [crash, *hits_of(traps)]


def crash_one(target: Target) -> Hit:
    """Kill the leader, or the first server, and start it again; returns when it serves. Raises Failed."""
    leads = target.kind.has(Trait.LEADER)
    node = fault.leader(target) if leads else target.node(target.members[0])
    begun = target.clock.now()
    end(target, node)
    applied = target.clock.now()
    node.let_go(target.by)
    patience = target.patience(HEALED_WITHIN)
    if not target.clock.wait(patience, node.ready, LOOK_EVERY) and target.alone:
        raise Failed(f"{node.name} was killed and started again, but does not serve within {patience:.0f} s")
    words = named(node, LEADER if leads else "")
    return Hit("kill", f"{words}, between two operations", begun, applied, applied, target.clock.now())


@dataclass(frozen=True, slots=True)
class LateRelease(OnWorkers, OnClientLinks):
    """A release whose lease ends between its two halves, as when a client first looks whether the lock is its own and
    then deletes it. A release that is a single request is over before its client is frozen.

    All answers come later. In each lane a worker is frozen when its release has been asked for and not yet answered.
    The worker that gets the lock next is stalled, while its renewal goes on, until the first was thawed and has ended
    its release, and then for as long as a third worker needs to get in, if it can. All of it happens in `apply`.
    """

    latency: int

    def describe(self) -> str:
        return (
            f"freeze a worker of every lane in its release, answers being {self.latency} ms late, until another holds"
        )

    def apply(self, target: Target) -> Sequence[Hit]:
        """The delay is proven by questions. Returns when every lane is through, or too much time has passed."""
        ttl, begun = target.actors.ttl, target.clock.now()
        pairs = target.client_links
        with target.links.together():
            for group, node in pairs:
                target.links.impair(node, group, delay(self.latency), target.by)
        link_proof.await_slow(target, pairs, self.latency / 1000)
        slow = Hit("slow", f"all answers of {target.backend}", begun, target.clock.now())

        def script(trap: GateTrap) -> Script:
            try:
                first = yield from trap.catch("before-release", "freeze", seconds=self.latency / 2000)
                yield from trap.catch("after-acquire", "stall", key=first.key)
                yield from trap.settle(first, SETTLED_WITHIN)
                yield from trap.pause(INTRUDES_WITHIN)
            finally:
                trap.thaw_all()

        return [slow, *hits_of(run_traps(target, script, catch_within(ttl) + 1.5 * ttl))]


CUT_HOLDER: Final = Fault(
    "cut-holder",
    "cut",
    "a worker of every lane loses all nodes just after its acquire",
    lambda _, how: CutHolder(Cut(how)),
    (choice("how", (Cut.DROP, Cut.HOLD)),),  # not refuse: the client must not be told
    spans=SPANS,
    needs=(*NEEDS, "client-links"),
    how="its main thread waits until its group is cut (Toxiproxy: bytes dropped or held)",
    sees="it can neither renew nor release; what it sends is lost, or comes late",
)

CRASH_AFTER_ACQUIRE: Final = Fault(
    "crash-after-acquire",
    "kill",
    "the leader, or redis1, crashes between a worker's acquire and what it does next",
    fault.always(CrashAfterAcquire()),
    needs=(*NEEDS, "kill"),
    how="its main thread waits while the server is killed (SIGKILL) and started again",
    sees="some requests fail; what was granted stays granted",
)

LATE_RELEASE: Final = Fault(
    "late-release",
    "freeze",
    "a worker of every lane is frozen between its release and the answer to it, until its successor holds",
    lambda _, latency_ms: LateRelease(latency_ms),
    (number("latency_ms", 20, 1000, within(ANSWERS)),),
    needs=(*NEEDS, "client-links"),
    how="SIGSTOP while it waits for an answer (Toxiproxy: latency), a stall for its successor",
    sees="what it asks for after that answer comes when its lease is over",
)
