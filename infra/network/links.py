"""Links: what lies between two ends of the star, and how it is cut, slowed and healed.

An end is a client group (`c1`), a node (`etcd2`) or `store`. A link of two nodes is several proxies, since each side
dials the other (in ZooKeeper for two purposes), and every connection carries bytes both ways. So the bytes from A to B
are the upstream of the connections that A dialled, and the downstream of those that B dialled.

How a link is cut decides what its ends see, and what an operation on its way may still do: infra/README.md has a table.

Every change is stored under a key (`by`), since several faults may change the same link at once. `lift` undoes the
changes of one key, except those that another key wants too (`link_state`). A change that another process made stays
until `heal_all`, unless the same change was asked for here.

Every change is proven by asking Toxiproxy for the result. `active` asks Toxiproxy too; it does not rely on memory.
"""

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from infra.backends import BACKENDS
from infra.backends.backend import Backend
from infra.errors import Failed, UnknownName
from infra.network import link_state, topology, toxics
from infra.network.topology import GOD, Proxy
from infra.network.toxics import STREAMS, Cut, Impairment, Stream
from infra.network.toxiproxy_api import Api, ProxyChange, ProxyState

__all__ = ["BY_HAND", "Cut", "Links"]

BY_HAND: Final = "hand"
"""The key of changes that are made by hand; every fault has a key of its own."""
_DRAIN: Final = 0.05
"""Seconds in which Toxiproxy forgets connections that were dead when their held bytes were released (measured: 1 ms).
It does not report this, so we cannot wait for it."""


class Links:
    """All links of an environment. Several threads may call it; their calls run one after the other."""

    def __init__(self, api: Api, kinds: Mapping[str, Backend] = BACKENDS) -> None:
        self._api = api
        self._all: tuple[Proxy, ...] = tuple(topology.proxies(kinds))
        self._proxies = _of_links(self._all)
        self._changing = threading.RLock()
        self._wishes = link_state.Wishes()
        self._due: set[str] = set()  # proxies that are not in their wanted state yet
        self._together = False
        self._ours: dict[str, set[str]] = defaultdict(set)  # proxy -> toxics that we put there
        self._closed: set[str] = set()  # proxies that we closed
        self._dead: set[str] = set()  # nodes whose process was killed

    def use(self, proxies: Iterable[Proxy]) -> None:
        """Use these proxies instead of the star's from now on. Call this before any change to a proxy."""
        with self._changing:
            self._all = tuple(proxies)
            self._proxies = _of_links(self._all)
            self._api.have(self._all)

    def ends(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(end for pair in self.pairs() for end in pair))

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All ordered pairs (who dials, who listens)."""
        return tuple(dict.fromkeys((proxy.source, proxy.target) for proxy in self._proxies.values()))

    def cut(self, a: str, b: str, how: Cut, by: str = BY_HAND) -> None:
        """Cut everything between two ends, both ways. The cut replaces what `by` cut there before."""
        with self._change(self._between(a, b)) as proxies:
            for proxy in proxies:
                self._wishes.drop(by, proxy.name, [link_state.REFUSED])
                if how is Cut.REFUSE:
                    self._wishes.drop(by, proxy.name, map(toxics.cut_name, STREAMS))
                    self._wishes.refuse(by, proxy.name)
                else:
                    for stream in STREAMS:
                        self._wishes.put(by, proxy.name, toxics.cut(how, stream))

    def block(self, a: str, b: str, how: Cut, by: str = BY_HAND) -> None:
        """Stop the bytes from `a` to `b`, in place of an earlier stop by `by`. Bytes from `b` to `a` still arrive.

        Raises ValueError for REFUSE: a connection is closed for both directions or for none.
        """
        if how is Cut.REFUSE:
            raise ValueError("one direction of a connection cannot be refused: drop or hold its bytes, or cut both")
        with self._change(self._between(a, b)) as proxies:
            for proxy in proxies:
                self._wishes.drop(by, proxy.name, [link_state.REFUSED])
                self._wishes.put(by, proxy.name, toxics.cut(how, _stream(proxy, a)))

    def impair(self, a: str, b: str, impairment: Impairment, by: str = BY_HAND) -> None:
        """Impair the bytes from `a` to `b`. This replaces an impairment of the same kind that `by` made before."""
        with self._change(self._between(a, b)) as proxies:
            for proxy in proxies:
                self._wishes.put(by, proxy.name, toxics.impairment(impairment, _stream(proxy, a), by))

    def lift(self, by: str) -> None:
        """Undo what `by` did, except what another key wants as well. Idempotent."""
        with self._changing:
            names = self._wishes.lift(by)
            with self._change(self._proxies[name] for name in names):
                pass

    def heal_all(self) -> None:
        """Undo everything everywhere, and create the proxies anew that a restarted Toxiproxy forgot. Idempotent."""
        self._api.populate(self._all)
        with self._changing:
            self._wishes = link_state.Wishes()
            self._due.update(self._proxies)
            self._settle(whole=True)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Collect the changes of the block, and make all of them at once at its end."""
        with self._changing:
            outer, self._together = self._together, True
            try:
                yield
            finally:
                self._together = outer
            if not outer:
                self._settle()

    def bury(self, node: str) -> None:
        """Refuse connections to a node whose process was killed, as its machine would do.

        The address of a dead container is gone: a connection to it would wait until the neighbour table finds out.
        """
        with self._changing:
            self._dead.add(node)
            with self._change(self._leading_to(node)):
                pass

    def revive(self, node: str) -> None:
        """Let connections to a node pass again, unless a cut refuses them. Idempotent."""
        with self._changing:
            self._dead.discard(node)
            with self._change(self._leading_to(node)) as proxies:
                self._closed.update(proxy.name for proxy in proxies)  # also those that another process closed

    def active(self) -> list[str]:
        """What is done to links now, a line per pair: `etcd1 <-> etcd2: bytes dropped`. [] when all is well."""
        state = self._api.state()
        effects: dict[tuple[str, str], set[str]] = defaultdict(set)
        for proxy in self._proxies.values():
            if proxy.name in state and self._node_at(state[proxy.name]) not in self._dead:
                for a, b, effect in _effects(proxy, state[proxy.name]):
                    effects[a, b].add(effect)
        lines = [f"proxy {name} is missing" for name in self._proxies if name not in state]
        for (a, b), seen in effects.items():
            # If both directions have an effect, one line tells it for both, under the direction that was seen first.
            back = effects.get((b, a), set())
            if both := seen & back:
                lines.append(f"{a} <-> {b}: {', '.join(sorted(both))}")
                back -= both
            if one_way := seen - both:
                lines.append(f"{a} -> {b}: {', '.join(sorted(one_way))}")
        return lines

    @contextlib.contextmanager
    def _change(self, proxies: Iterable[Proxy]) -> Iterator[list[Proxy]]:
        """The block records wishes for these proxies; after it, the proxies are brought to their wanted state."""
        with self._changing:
            proxies = list(proxies)
            yield proxies
            self._due.update(proxy.name for proxy in proxies)
            if not self._together:
                self._settle()

    def _settle(self, *, whole: bool = False) -> None:
        """Bring due proxies to their wanted state; on an error they stay due. whole: undo changes by others, too."""
        if not self._due:
            return
        state = self._api.state()
        if absent := sorted(self._due - state.keys()):
            raise Failed(f"toxiproxy has no proxy {', '.join(absent)}: was it restarted?")
        wanted = {name: self._wishes.wanted(name) for name in self._due}
        dead = {name for name in self._due if self._node_at(state[name]) in self._dead}
        for name in self._due:
            self._ours[name].update(toxic.name for toxic in wanted[name].toxics)
        shut = dead | {name for name in self._due if wanted[name].refused}
        self._closed |= shut
        transitions = []
        for name in self._due:
            enabled = False if name in dead else True if whole or name in self._closed else None
            ours = None if whole else self._ours[name]
            if transition := link_state.transition(state[name], wanted[name], enabled=enabled, ours=ours):
                transitions.append(transition)
        if opened := [ProxyChange(change.proxy, add=kept) for kept, change in transitions if kept]:
            self._api.apply(opened)
            time.sleep(_DRAIN)
        if transitions:
            self._api.apply(change for _, change in transitions)
        for name in self._due - shut:  # a closed proxy is left as it is until it opens again
            self._closed.discard(name)
            if not wanted[name].toxics:
                self._ours[name].clear()
        self._due.clear()

    def _leading_to(self, node: str) -> list[Proxy]:
        state = self._api.state()
        return [proxy for name, proxy in self._proxies.items() if name in state and self._node_at(state[name]) == node]

    def _node_at(self, state: ProxyState) -> str:
        """The node that a proxy leads to; after a failover that is another node than at first."""
        return next((proxy.target for proxy in self._all if proxy.upstream == state.upstream), state.name)

    def _between(self, a: str, b: str) -> list[Proxy]:
        """The proxies between two ends, whichever end dials. Raises UnknownName with the list of what there is."""
        ends = self.ends()
        for end in (a, b):
            if end not in ends:
                raise UnknownName(f"no end of a link is called {end!r}; there are {', '.join(ends)}")
        proxies = [proxy for proxy in self._proxies.values() if {proxy.source, proxy.target} == {a, b}]
        if not proxies:
            others = dict.fromkeys(y if x == a else x for x, y in self.pairs() if a in (x, y))
            raise UnknownName(f"no link between {a} and {b}; those of {a} lead to {', '.join(others)}")
        return proxies


def _of_links(proxies: Iterable[Proxy]) -> dict[str, Proxy]:
    """The proxies that are links, by name. The proxies for judges are no links."""
    return {proxy.name: proxy for proxy in proxies if proxy.source != topology.client(GOD)}


def _stream(proxy: Proxy, a: str) -> Stream:
    """The direction of the bytes that come from `a`."""
    return "upstream" if proxy.source == a else "downstream"


def _effects(proxy: Proxy, state: ProxyState) -> Iterable[tuple[str, str, str]]:
    """(from, to, what happens to the bytes) of one proxy."""
    if not state.enabled:  # then no toxic has an effect
        yield proxy.source, proxy.target, "refused"
        yield proxy.target, proxy.source, "refused"
        return
    for toxic in state.toxics.values():
        ends = (proxy.source, proxy.target) if toxic.stream == "upstream" else (proxy.target, proxy.source)
        yield *ends, toxics.words(toxic)
