"""Faults that come and go by themselves: connections that are reset, and a node whose links flap.

The whole fault happens in `apply`, with a Hit for each time. Nothing of it stays on afterwards.
"""

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

from infra.backends.backend import Trait
from infra.errors import Failed
from infra.faults import link_proof
from infra.faults.fault import PROVEN_WITHIN, Fault, OnWorkers
from infra.faults.fault_options import ALL_GROUPS, Options, Site, choice, number, one_of, within
from infra.faults.gate_scripts import hits_of, let_go, stall_writers
from infra.faults.link_probe import LinkAnswer
from infra.faults.links.cuts import HOW, OnClientLinks
from infra.faults.target import Hit, Target
from infra.network.links import Cut
from infra.network.toxics import RESET

RESETTING: Final = 0.2
"""Seconds in which any byte that passes ends its connection. After that, idle connections are ended as well."""
BETWEEN: Final = 0.4
"""Seconds from one time to the next."""
DIALLED: Final = 0.05
"""Seconds in which Toxiproxy, having accepted a connection, dials the server; it does not tell (measured: 1 ms)."""
DOWN: Final = 0.3
"""Seconds for which a link is down; the proof takes most of them."""
MOST: Final = 10
"""The most times that a fault is repeated; about three are drawn."""


@dataclass(frozen=True, slots=True)
class ResetConnections(OnWorkers, OnClientLinks):
    """Reset every connection that clients have open, so many times.

    Each time, what one group of clients asks for is still done: only the answer ends the connection. So that this hits
    a write where the lock service keeps the data, a worker that is about to write is stalled until then.
    """

    times: int

    def describe(self) -> str:
        return f"reset all connections of clients{_often(self.times)}"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by connections of our own through each of the links, which end without an answer."""
        pairs = target.client_links
        hits = []
        for time in range(self.times):
            if time:
                target.clock.sleep(BETWEEN)
            hits += self._once(target, pairs, ALL_GROUPS[time % len(ALL_GROUPS)])
        return hits

    def _once(self, target: Target, pairs: Sequence[tuple[str, str]], unanswered: str) -> list[Hit]:
        """unanswered: the group whose requests are done."""
        traps = stall_writers(target, unanswered)
        with ExitStack() as stack:
            ours = _connections(target, pairs, stack)
            begun = target.clock.now()
            with target.links.together():
                for group, node in pairs:
                    if group != unanswered:
                        target.links.impair(group, node, RESET, target.by)
                        target.links.impair(node, group, RESET, target.by)
            with target.links.together():  # last, so that no keep-alive ends the connection before the write does
                for node in target.members:
                    target.links.impair(node, unanswered, RESET, target.by)
            let_go(traps)
            for connection in ours:
                with suppress(OSError):  # closed already; that is looked at below
                    connection.sendall(target.prober.backend.question)
            target.clock.sleep(RESETTING)
            with target.links.together():
                for group, node in pairs:
                    target.links.cut(group, node, Cut.REFUSE, target.by)
            # The connection is closed, whatever else was done to the link before.
            if any(target.prober.answer(connection) is not LinkAnswer.CLOSED for connection in ours):
                raise Failed("all connections of clients are reset, but one of ours lives on")
        applied = target.clock.now()
        self.heal(target)
        words = f"all connections of clients to {target.backend}"
        return [Hit("reset", words, begun, applied, applied, target.clock.now()), *hits_of(traps)]


@dataclass(frozen=True, slots=True)
class Flap(OnClientLinks):
    """Cut and heal all links of a node, to clients and peers, so many times."""

    node: str
    how: Cut
    times: int

    def describe(self) -> str:
        return f"let all links of {self.node} flap ({self.how}){_often(self.times)}"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Each time is proven by questions through the links of the clients, down and up."""
        there_are = target.links.pairs()
        ends = dict.fromkeys(a if b == self.node else b for a, b in there_are if self.node in (a, b))
        clients = [(group, self.node) for group in ALL_GROUPS]
        hits = []
        for time in range(self.times):
            if time:
                target.clock.sleep(BETWEEN)
            begun = target.clock.now()
            with target.links.together():
                for end in ends:
                    target.links.cut(end, self.node, self.how, target.by)
            link_proof.await_cut(target, clients, link_proof.SHOWS[self.how])
            applied = target.clock.now()
            target.clock.sleep(max(DOWN - (applied - begun) / 1e9, 0.0))
            healing = target.clock.now()
            self.heal(target)
            hits.append(Hit("cut", f"{self.node} from everybody", begun, applied, healing, target.clock.now()))
        return hits


def _connections(target: Target, pairs: Sequence[tuple[str, str]], stack: ExitStack) -> list[socket.socket]:
    """A patient connection through each link. A link that accepts none raises Failed, or is skipped beside a fault."""
    connections = []
    for pair in pairs:
        try:
            connections.append(stack.enter_context(target.prober.connect(target.endpoints[pair], PROVEN_WITHIN)))
        except OSError as error:
            if target.alone:
                raise Failed(f"no connection of {pair[0]} to {pair[1]} could be made: {error}") from error
    target.clock.sleep(DIALLED)
    return connections


def _often(times: int) -> str:
    return "" if times == 1 else f", {times} times"


def _node(rng: random.Random, site: Site, _: Options) -> str:
    names = site.members
    return names[0] if site.has(Trait.FIRST_NODE) else rng.choice(names)


RESETS: Final = (
    Fault(
        "reset-connections",
        "reset",
        "whatever clients have open is reset, once or a few times",
        lambda _, times: ResetConnections(times),
        (number("times", 1, MOST, within((1, 3))),),
        needs=("client-links",),
        how=f"Toxiproxy: reset_peer for {RESETTING} s, then proxies disabled for a moment",
        sees="connections end in the middle of what they do: a request is lost or, for one group of clients, its reply",
    ),
    Fault(
        "flap-links",
        "cut",
        "all links of a node, to clients and peers, go and come back a few times",
        lambda _, node, how, times: Flap(node, Cut(how), times),
        (
            one_of("node", lambda site: site.members, _node),
            choice("how", (Cut.DROP, Cut.HOLD)),
            number("times", 1, MOST, within((2, 4))),
        ),
        needs=("client-links",),
        how=f"{HOW[Cut.DROP]}, or held; {DOWN} s down, {BETWEEN} s up",
        sees="silence, again and again, too short for an election or a lease to end",
    ),
)
