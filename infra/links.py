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

Every change is proven by asking Toxiproxy for the result. `active` is read from there, not remembered.

Toxiproxy needs some care (link.go and bandwidth.go of 2.12). To take a toxic away while it holds bytes for a connection
whose ends are gone blocks the proxy for 5 s a piece, so a held link is opened first and cleaned a moment later. To take
an earlier toxic of a chain away while a later one holds blocks it for good, so they go in the reverse of the order in
which they came. And to hold is a latency of a day, not a bandwidth of nothing: that one crashes the whole server when
its rate is changed in the wrong moment.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Final

from infra import star
from infra.machine import Unknown
from infra.star import GOD, Proxy
from infra.toxiproxy import Api, Change, ProxyState, Stream, Toxic


class Cut(StrEnum):
    """How a link is cut; see the module."""

    REFUSE = "refuse"
    DROP = "drop"
    HOLD = "hold"


_TOXIC: Final[Mapping[Cut, tuple[str, Mapping[str, int]]]] = {
    Cut.DROP: ("timeout", {"timeout": 0}),
    Cut.HOLD: ("latency", {"latency": 86_400_000, "jitter": 0}),
}
_OPEN: Final[Mapping[str, int]] = {"latency": 0, "jitter": 0}
"""What lets everything pass that HOLD held."""

_DRAIN: Final = 0.05
"""Seconds in which Toxiproxy forgets the connections that were dead when their held bytes were let go (measured: 1 ms).
It does not tell, so this cannot be awaited."""

_SAID: Final[Mapping[str, str]] = {_TOXIC[Cut.DROP][0]: "bytes dropped", _TOXIC[Cut.HOLD][0]: "bytes held"}
_STREAMS: Final[tuple[Stream, Stream]] = ("upstream", "downstream")
_CUTS: Final = {f"cut-{stream}" for stream in _STREAMS}
_REFUSED: Final = "refused"


class Links:
    """All links of an environment."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._proxies = {proxy.name: proxy for proxy in star.proxies() if proxy.source != star.client(GOD)}
        self._refused: set[str] = set()  # proxies that were cut by REFUSE
        self._dead: set[str] = set()  # nodes whose process was killed

    def ends(self) -> tuple[str, ...]:
        """The names of all ends."""
        return tuple(dict.fromkeys(end for pair in self.pairs() for end in pair))

    def pairs(self) -> tuple[tuple[str, str], ...]:
        """All ordered pairs (who dials, who listens)."""
        return tuple(dict.fromkeys((proxy.source, proxy.target) for proxy in self._proxies.values()))

    def cut(self, a: str, b: str, how: Cut) -> None:
        """Cut everything between two ends, both ways. Another kind of cut is healed first."""
        proxies = self._between(a, b)
        self._clear_for(how, proxies)
        if how is Cut.REFUSE:
            self._refused.update(proxy.name for proxy in proxies)
            self._api.apply(Change(proxy.name, enabled=False) for proxy in proxies)
        else:
            self._api.apply(Change(proxy.name, add=_toxics(how, _STREAMS)) for proxy in proxies)

    def block(self, a: str, b: str, how: Cut) -> None:
        """Stop the bytes from `a` to `b`; those from `b` to `a` still arrive.

        Raises ValueError for REFUSE: a connection is closed for both directions or for none.
        """
        if how is Cut.REFUSE:
            raise ValueError("one direction of a connection cannot be refused: drop or hold its bytes, or cut both")
        proxies = self._between(a, b)
        self._clear_for(how, proxies)
        streams: dict[str, Stream] = {p.name: "upstream" if p.source == a else "downstream" for p in proxies}
        self._api.apply(Change(name, add=_toxics(how, (stream,))) for name, stream in streams.items())

    def slow(self, a: str, b: str, latency_ms: int, jitter_ms: int = 0) -> None:
        """Delay the bytes of each direction, so that a round trip takes twice `latency_ms` longer.

        Slow a link before it is cut by HOLD, not after: a toxic that is added lets some of what is held slip through.
        """
        attributes = {"latency": latency_ms, "jitter": jitter_ms}
        toxics = tuple(Toxic(f"slow-{stream}", "latency", stream, attributes) for stream in _STREAMS)
        self._api.apply(Change(proxy.name, add=toxics) for proxy in self._between(a, b))

    def heal(self, a: str, b: str) -> None:
        """Undo everything between two ends. Idempotent."""
        self._heal(self._between(a, b))

    def heal_all(self) -> None:
        """Undo everything everywhere, and create the proxies anew that a restarted Toxiproxy forgot. Idempotent."""
        self._api.populate(star.proxies())
        self._heal(self._proxies.values())

    def bury(self, node: str) -> None:
        """Refuse connections to a node whose process was killed, as its machine would do.

        The address of a dead container is gone: whoever dials it waits until the neighbour table finds out.
        """
        self._dead.add(node)
        self._api.apply(Change(proxy.name, enabled=False) for proxy in self._proxies.values() if proxy.target == node)

    def revive(self, node: str) -> None:
        """Let connections to a node pass again, unless a cut refuses them. Idempotent."""
        self._dead.discard(node)
        self._api.apply(
            Change(proxy.name, enabled=proxy.name not in self._refused)
            for proxy in self._proxies.values()
            if proxy.target == node
        )

    def active(self) -> list[str]:
        """What is done to links now, a line per pair: `etcd1 <-> etcd2: bytes dropped`. [] when all is well."""
        state = self._api.state()
        effects: dict[tuple[str, str], set[str]] = defaultdict(set)
        for proxy in self._proxies.values():
            if proxy.name in state and proxy.target not in self._dead:
                for a, b, effect in _effects(proxy, state[proxy.name]):
                    effects[a, b].add(effect)
        lines = [f"proxy {name} is missing" for name in self._proxies if name not in state]
        for (a, b), found in effects.items():
            # A line for both directions where the same is done to both; then the first seen stands for it.
            back = effects.get((b, a), set())
            if both := found & back:
                lines.append(f"{a} <-> {b}: {', '.join(sorted(both))}")
                back -= both
            if one_way := found - both:
                lines.append(f"{a} -> {b}: {', '.join(sorted(one_way))}")
        return lines

    def _heal(self, proxies: Iterable[Proxy]) -> None:
        state = self._api.state()
        sick = [state[proxy.name] for proxy in proxies if proxy.name in state]
        sick = [proxy for proxy in sick if proxy.toxics or not proxy.enabled]
        opened = [
            Change(proxy.name, add=(replace(toxic, attributes=_OPEN),))
            for proxy in sick
            for toxic in proxy.toxics.values()
            if (toxic.type, toxic.attributes) == _TOXIC[Cut.HOLD]
        ]
        if opened:
            self._api.apply(opened)
            time.sleep(_DRAIN)
        self._refused.difference_update(proxy.name for proxy in sick)
        self._api.apply(
            Change(
                proxy.name,
                enabled=self._proxies[proxy.name].target not in self._dead,
                remove=tuple(reversed(list(proxy.toxics))),
            )
            for proxy in sick
        )

    def _clear_for(self, how: Cut, proxies: Sequence[Proxy]) -> None:
        """Heal those of the proxies that are cut in another way than `how`."""
        state = self._api.state()
        kind, _ = _TOXIC.get(how, (_REFUSED, {}))
        self._heal(
            proxy
            for proxy in proxies
            if (proxy.name in self._refused) != (how is Cut.REFUSE)
            or any(toxic.name in _CUTS and toxic.type != kind for toxic in state[proxy.name].toxics.values())
        )

    def _between(self, a: str, b: str) -> list[Proxy]:
        """The proxies between two ends, whoever dials. Raises Unknown with the list of what there is."""
        ends = self.ends()
        for end in (a, b):
            if end not in ends:
                raise Unknown(f"no end of a link is called {end!r}; there are {', '.join(ends)}")
        found = [proxy for proxy in self._proxies.values() if {proxy.source, proxy.target} == {a, b}]
        if not found:
            others = dict.fromkeys(y if x == a else x for x, y in self.pairs() if a in (x, y))
            raise Unknown(f"no link between {a} and {b}; those of {a} lead to {', '.join(others)}")
        return found


def _toxics(how: Cut, streams: Iterable[Stream]) -> tuple[Toxic, ...]:
    kind, attributes = _TOXIC[how]
    return tuple(Toxic(f"cut-{stream}", kind, stream, attributes) for stream in streams)


def _effects(proxy: Proxy, state: ProxyState) -> Iterable[tuple[str, str, str]]:
    """(from, to, what happens to the bytes) of one proxy."""
    if not state.enabled:
        yield proxy.source, proxy.target, _REFUSED
        yield proxy.target, proxy.source, _REFUSED
    for toxic in state.toxics.values():
        ends = (proxy.source, proxy.target) if toxic.stream == "upstream" else (proxy.target, proxy.source)
        if toxic.name in _CUTS:
            yield *ends, _SAID[toxic.type]
        elif toxic.type == "latency":
            yield *ends, f"slow by {toxic.attributes['latency']} ± {toxic.attributes['jitter']} ms"
        else:
            yield *ends, f"{toxic.type} {dict(toxic.attributes)}"
