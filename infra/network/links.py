"""Links: what lies between two ends of the star, and how it is cut, slowed and healed.

An end is a client group (`c1`), a node (`etcd2`) or `store`. A link of two nodes is several proxies, since each side
dials the other (ZooKeeper's for two purposes), and every connection carries bytes both ways. So the bytes from A to B
are the upstream of what A dialled and the downstream of what B dialled.

How a link is cut decides what its ends see, and what an operation on its way may still do:

    refuse  connections are closed at once, new ones are refused: everybody knows. Heal: only new connections.
    drop    bytes vanish, new connections open and stay silent. Heal: those connections are closed; what was
            dropped never arrives.
    hold    bytes are kept, new connections open and stay silent. Heal: connections live on and what was held
            arrives late, as after a real partition of a network that TCP survives.

Whatever is done is done in somebody's name (`by`), for several may do things to the same link at once: `lift` undoes
what one of them did, unless another wants it too (`link_state`). What another process did stays, unless it is what was
asked for here, and until `heal_all`.

Every change is proven by asking Toxiproxy for the result. `active` is read from there, not remembered.
"""

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from infra.errors import Failed, UnknownName
from infra.network import link_state, topology, toxics
from infra.network.link_state import REFUSED, Wishes
from infra.network.topology import GOD, Proxy
from infra.network.toxics import STREAMS, Cut, Impairment, Stream
from infra.network.toxiproxy_api import Api, ProxyChange, ProxyState

__all__ = ["BY_HAND", "Cut", "Links"]

BY_HAND: Final = "hand"
"""The key of whoever does something by hand; a fault has a key of its own."""

_DRAIN: Final = 0.05
"""Seconds in which Toxiproxy forgets the connections that were dead when their held bytes were let go (measured: 1 ms).
It does not tell, so this cannot be awaited."""


class Links:
    """All links of an environment. Safe to call from several threads, one after the other."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._all: tuple[Proxy, ...] = tuple(topology.proxies())
        self._proxies = _of_links(self._all)
        self._changing = threading.RLock()
        self._wishes = Wishes()
        self._due: set[str] = set()  # proxies that are yet to become what is wanted of them
        self._together = False
        self._ours: dict[str, set[str]] = defaultdict(set)  # proxy -> toxics that we put there
        self._closed: set[str] = set()  # proxies that we closed
        self._dead: set[str] = set()  # nodes whose process was killed

    def use(self, proxies: Iterable[Proxy]) -> None:
        """From now on have these proxies instead of the star's. Before anything is done to any of them."""
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
        """Cut everything between two ends, both ways, instead of what `by` cut there before."""
        with self._change(self._between(a, b)) as proxies:
            for proxy in proxies:
                self._wishes.drop(by, proxy.name, [REFUSED])
                if how is Cut.REFUSE:
                    self._wishes.drop(by, proxy.name, map(toxics.cut_name, STREAMS))
                    self._wishes.refuse(by, proxy.name)
                else:
                    for stream in STREAMS:
                        self._wishes.put(by, proxy.name, toxics.cut(how, stream))

    def block(self, a: str, b: str, how: Cut, by: str = BY_HAND) -> None:
        """Stop the bytes from `a` to `b`, instead of how `by` stopped them before; those from `b` to `a` still arrive.

        Raises ValueError for REFUSE: a connection is closed for both directions or for none.
        """
        if how is Cut.REFUSE:
            raise ValueError("one direction of a connection cannot be refused: drop or hold its bytes, or cut both")
        with self._change(self._between(a, b)) as proxies:
            for proxy in proxies:
                self._wishes.drop(by, proxy.name, [REFUSED])
                self._wishes.put(by, proxy.name, toxics.cut(how, _stream(proxy, a)))

    def impair(self, a: str, b: str, impairment: Impairment, by: str = BY_HAND) -> None:
        """Do this to the bytes from `a` to `b`, instead of what `by` did to them of the same kind before."""
        with self._change(self._between(a, b)) as proxies:
            for proxy in proxies:
                self._wishes.put(by, proxy.name, toxics.impairment(impairment, _stream(proxy, a), by))

    def lift(self, by: str) -> None:
        """Undo what `by` did, but for what another wants as well. Idempotent."""
        with self._changing:
            names = self._wishes.lift(by)
            with self._change(self._proxies[name] for name in names):
                pass

    def heal_all(self) -> None:
        """Undo everything everywhere, and create the proxies anew that a restarted Toxiproxy forgot. Idempotent."""
        self._api.populate(self._all)
        with self._changing:
            self._wishes = Wishes()
            self._due.update(self._proxies)
            self._settle(whole=True)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is done within this happens at once, at its end."""
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

        The address of a dead container is gone: whoever dials it waits until the neighbour table finds out.
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
                self._closed.update(proxy.name for proxy in proxies)  # whoever closed them

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
            # A line for both directions where the same is done to both; then the first seen stands for it.
            back = effects.get((b, a), set())
            if both := seen & back:
                lines.append(f"{a} <-> {b}: {', '.join(sorted(both))}")
                back -= both
            if one_way := seen - both:
                lines.append(f"{a} -> {b}: {', '.join(sorted(one_way))}")
        return lines

    @contextlib.contextmanager
    def _change(self, proxies: Iterable[Proxy]) -> Iterator[list[Proxy]]:
        """Note among the wishes what is wanted of these proxies; then it is done."""
        with self._changing:
            proxies = list(proxies)
            yield proxies
            self._due.update(proxy.name for proxy in proxies)
            if not self._together:
                self._settle()

    def _settle(self, *, whole: bool = False) -> None:
        """Bring what is due to what is wanted of it; what fails stays due. whole: whoever did what to it."""
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
        for name in self._due - shut:  # what is closed is left as it is until it opens again
            self._closed.discard(name)
            if not wanted[name].toxics:
                self._ours[name].clear()
        self._due.clear()

    def _leading_to(self, node: str) -> list[Proxy]:
        state = self._api.state()
        return [proxy for name, proxy in self._proxies.items() if name in state and self._node_at(state[name]) == node]

    def _node_at(self, state: ProxyState) -> str:
        """The node at its end, which after a failover is another than at first."""
        return next((proxy.target for proxy in self._all if proxy.upstream == state.upstream), state.name)

    def _between(self, a: str, b: str) -> list[Proxy]:
        """The proxies between two ends, whoever dials. Raises UnknownName with the list of what there is."""
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
    """By name; those of who judges are no links."""
    return {proxy.name: proxy for proxy in proxies if proxy.source != topology.client(GOD)}


def _stream(proxy: Proxy, a: str) -> Stream:
    """The direction of the bytes that come from `a`."""
    return "upstream" if proxy.source == a else "downstream"


def _effects(proxy: Proxy, state: ProxyState) -> Iterable[tuple[str, str, str]]:
    """(from, to, what happens to the bytes) of one proxy."""
    if not state.enabled:  # whatever else is on is without effect
        yield proxy.source, proxy.target, "refused"
        yield proxy.target, proxy.source, "refused"
        return
    for toxic in state.toxics.values():
        ends = (proxy.source, proxy.target) if toxic.stream == "upstream" else (proxy.target, proxy.source)
        yield *ends, toxics.words(toxic)
