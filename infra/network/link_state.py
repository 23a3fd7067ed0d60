"""What each key wants of the links, and the changes that lead there. Pure, no I/O.

Faults overlap, and so do their links. Each wish is stored under the key of the fault that has it. A proxy gets the
union of all wishes, so an effect that two faults want ends when neither wants it. `transition` brings a proxy from its
present state to the wanted one, with the care that Toxiproxy needs (link.go, bandwidth.go and proxy.go of 2.12):

- Removing a toxic while bytes wait for a connection whose ends are gone blocks its proxy for 5 s per piece. So a toxic
  that keeps bytes is opened first, and removed a moment later. If a closed proxy has toxics, it is created anew when it
  opens again, since all of its connections are dead.
- A toxic cannot be removed while a later one of its chain is busy. So a chain changes like a stack: toxics are removed
  from its end down to the first difference, and then added.
- Adding a toxic lets a piece of what the last toxic holds slip through. So a cut is always the last toxic. While it
  stays, nothing else changes in its direction: no byte passes there, so no other effect could be seen. A second kind of
  cut, like any other change of that direction, waits until the first cut is lifted.
- Changing the rate of a bandwidth toxic may crash the whole server, so only delays are changed in place.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from infra.network import toxics
from infra.network.toxics import STREAMS, Cut, Stream, Toxic
from infra.network.toxiproxy_api import ProxyChange, ProxyState

REFUSED: Final = "refused"  # the name of the wish that a proxy be closed. Every other wish has the name of its toxic.


@dataclass(frozen=True, slots=True)
class Wanted:
    """All wishes for a proxy together."""

    refused: bool = False  # whether the proxy shall be closed
    # In the order in which they were wished. Two may want different cuts of the same direction.
    toxics: tuple[Toxic, ...] = ()


class Wishes:
    """What each key wants of each proxy. Not for two threads at once."""

    def __init__(self) -> None:
        self._wishes: dict[str, dict[tuple[str, str], Toxic | None]] = {}  # key -> (proxy, name) -> toxic; None: refuse

    def refuse(self, by: str, proxy: str) -> None:
        """`by` wants the proxy closed."""
        self._wishes.setdefault(by, {})[proxy, REFUSED] = None

    def put(self, by: str, proxy: str, toxic: Toxic) -> None:
        """`by` wants this toxic; it replaces the toxic of the same name that `by` wanted before."""
        self._wishes.setdefault(by, {})[proxy, toxic.name] = toxic

    def drop(self, by: str, proxy: str, names: Iterable[str]) -> None:
        """Drop the wishes of `by` that have these names."""
        for name in names:
            self._wishes.get(by, {}).pop((proxy, name), None)

    def lift(self, by: str) -> set[str]:
        """Drop all wishes of `by`; returns the proxies that the wishes were for."""
        return {proxy for proxy, _ in self._wishes.pop(by, {})}

    def wanted(self, proxy: str) -> Wanted:
        """The union of the wishes for a proxy."""
        here = [(name, toxic) for his in self._wishes.values() for (of, name), toxic in his.items() if of == proxy]
        return Wanted(any(name == REFUSED for name, _ in here), tuple(toxic for _, toxic in here if toxic))


Transition = tuple[tuple[Toxic, ...], ProxyChange]
"""The steps of a proxy to its wanted state: open these toxics, wait a moment, make the change."""


def transition(
    state: ProxyState, wanted: Wanted, *, enabled: bool | None, ours: Collection[str] | None
) -> Transition | None:
    """The steps from a proxy's state to the wanted one; None when it is there. Two arguments decide where no wish does:

    enabled  whether connections pass; None leaves that as it is.
    ours     the names of the toxics to remove; other toxics belong to another process and stay. None: remove all.
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
    """Whether a toxic can be changed into another one in place."""
    return now == then or (
        (now.name, now.type) == (then.name, then.type) and toxics.keeps(now) and not toxics.is_cut(now)
    )
