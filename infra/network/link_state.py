"""Who wants what of the links, and how to get there. Pure, no I/O.

Faults overlap, and so do their links. Each wish stands under the key of who has it; what is done to a proxy is the
union of the wishes, and what two want goes when neither wants it any more. `transition` leads a proxy from what it is
to what it shall be, with the care that Toxiproxy needs (link.go, bandwidth.go and proxy.go of 2.12):

- A toxic that is taken away while bytes wait for a connection whose ends are gone blocks its proxy for 5 s a piece, so
  what keeps bytes is opened first and taken away a moment later; and a proxy that is to be opened again after it was
  closed is made anew where it has toxics, for all of its connections are dead.
- A toxic cannot be taken away while a later one of its chain is busy, so a chain is changed like a stack: from its end
  down to the first difference, and up again.
- A toxic that is added lets a piece of what the last one holds slip through. So a cut is always the last, and as long
  as it stays nothing else of its direction changes: where no byte passes nothing else could be seen anyway. A second
  kind of cut waits until the first is lifted, as everything else of that direction does.
- A change of a bandwidth's rate may crash the whole server: only delays are changed in place.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from infra.network import toxics
from infra.network.toxics import STREAMS, Cut, Stream, Toxic
from infra.network.toxiproxy_api import ProxyChange, ProxyState

REFUSED: Final = "refused"
"""The name of the wish that a proxy be closed; the others go by the names of their toxics."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What all together want of a proxy."""

    refused: bool = False  # that it be closed
    # In the order in which they were wished. Two may want different cuts of the same direction.
    toxics: tuple[Toxic, ...] = ()


class Wishes:
    """Who wants what of which proxy. Not for two threads at once."""

    def __init__(self) -> None:
        self._wishes: dict[str, dict[tuple[str, str], Toxic | None]] = {}  # key -> (proxy, name) -> toxic; None: refuse

    def refuse(self, by: str, proxy: str) -> None:
        """`by` wants the proxy closed."""
        self._wishes.setdefault(by, {})[proxy, REFUSED] = None

    def put(self, by: str, proxy: str, toxic: Toxic) -> None:
        """`by` wants the toxic, instead of what it wanted by this name before."""
        self._wishes.setdefault(by, {})[proxy, toxic.name] = toxic

    def drop(self, by: str, proxy: str, names: Iterable[str]) -> None:
        """`by` no longer wants what goes by these names."""
        for name in names:
            self._wishes.get(by, {}).pop((proxy, name), None)

    def lift(self, by: str) -> set[str]:
        """`by` no longer wants anything; the proxies of which it wanted something."""
        return {proxy for proxy, _ in self._wishes.pop(by, {})}

    def wanted(self, proxy: str) -> Wanted:
        """The union of the wishes."""
        here = [(name, toxic) for his in self._wishes.values() for (of, name), toxic in his.items() if of == proxy]
        return Wanted(any(name == REFUSED for name, _ in here), tuple(toxic for _, toxic in here if toxic))


Transition = tuple[tuple[Toxic, ...], ProxyChange]
"""The way of a proxy to what is wanted of it: open these toxics, wait a moment, make the change."""


def transition(
    state: ProxyState, wanted: Wanted, *, enabled: bool | None, ours: Collection[str] | None
) -> Transition | None:
    """From what a proxy is to what it shall be; None when it is there. The rest is for where nobody wants anything:

    enabled  whether connections pass; None leaves that as it is.
    ours     the names of toxics that go; the others are another process's and stay. None: all go.
    """
    if wanted.refused or enabled is False:
        return ((), ProxyChange(state.name, enabled=False)) if state.enabled else None
    chains = {stream: _chain(state, stream, wanted, ours) for stream in STREAMS}
    if not state.enabled:
        desired = tuple(toxic for chain in chains.values() for toxic in chain)
        if not enabled and tuple(state.toxics.values()) == desired:
            return None
        return (), ProxyChange(state.name, bool(enabled), add=desired, anew=bool(state.toxics))
    kept: list[Toxic] = []
    remove: list[str] = []
    add: list[Toxic] = []
    for stream, chain in chains.items():
        now = _now(state, stream)
        stays = next((n for n, (a, b) in enumerate(zip(now, chain, strict=False)) if not _fits(a, b)), len(now))
        stays = min(stays, len(chain))
        kept += [toxic for toxic in now[stays:] if toxics.keeps(toxic)]
        remove += [toxic.name for toxic in reversed(now[stays:])]
        add += [then for was, then in zip(now[:stays], chain, strict=False) if was != then]
        add += chain[stays:]
    if not (remove or add):
        return None
    return tuple(map(toxics.opened, kept)), ProxyChange(state.name, remove=tuple(remove), add=tuple(add))


def _chain(state: ProxyState, stream: Stream, wanted: Wanted, ours: Collection[str] | None) -> list[Toxic]:
    """The toxics that a direction shall have, in order."""
    now = _now(state, stream)
    wishes = [toxic for toxic in wanted.toxics if toxic.stream == stream]
    cuts = [toxic for toxic in wishes if toxics.is_cut(toxic)]
    others = {toxic.name: toxic for toxic in wishes if not toxics.is_cut(toxic)}
    stay = [toxic for toxic in now if ours is not None and toxic.name not in ours]
    standing = [toxic for toxic in now if toxics.is_cut(toxic)]
    if state.enabled and any(cut in (cuts or stay) for cut in standing):
        return now
    chain = [others.pop(toxic.name, toxic) for toxic in now if toxic.name in others or toxic in stay]
    chain = [toxic for toxic in chain if not toxics.is_cut(toxic)] + list(others.values())
    # What was dropped is lost, so to drop is the stronger wish of the two.
    drop = toxics.cut(Cut.DROP, stream)
    return chain + ([drop] if drop in cuts else (cuts or [toxic for toxic in standing if toxic in stay])[:1])


def _now(state: ProxyState, stream: Stream) -> list[Toxic]:
    return [toxic for toxic in state.toxics.values() if toxic.stream == stream]


def _fits(now: Toxic, then: Toxic) -> bool:
    """Whether the one can become the other where it stands."""
    return now == then or (
        (now.name, now.type) == (then.name, then.type) and toxics.keeps(now) and not toxics.is_cut(now)
    )
