"""`python -m infra versions`: what can be had here, where from, and how to ask for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from infra.backends import BACKENDS
from infra.docker import base, machine, sources
from infra.docker.images import STANDS_FOR
from infra.docker.machine import Say
from infra.docker.sources import CARRIED, WHERE, Had
from infra.errors import NotPossible, Trouble

SERVERS: Final = [server for server in CARRIED if STANDS_FOR.get(server, server) in BACKENDS]
"""Whose version can be chosen, who stands for a backend behind it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A version that can be had here.

    server  a backend, or another server for one.
    source  see `sources.WHERE`.
    series  what gives this version as well, empty where that gives another.
    """

    server: str
    version: str
    source: str
    series: str = ""

    @property
    def spellings(self) -> str:
        """What to write behind --version-of."""
        return ", ".join(f"{self.server}={version}" for version in (self.series, self.version) if version)


def offers(had: Mapping[str, Had]) -> Iterator[Offer]:
    """had: what each source that could be asked has. What is looked for first stands first, the default at the top."""
    for server in SERVERS:
        offered: list[Offer] = []
        for source in sources.of(server):
            for version in had.get(source, {}).get(server, ()):
                if version not in (offer.version for offer in offered):
                    offered.append(Offer(server, version, source, _series(server, version, source, offered)))
        yield from offered


def _series(server: str, version: str, source: str, before: Sequence[Offer]) -> str:
    """3.5 for 3.5.16, unless who asks for 3.5 gets another: a stable suite's, or one of those before it."""
    series = version.rpartition(".")[0]
    stable = [suite for suite, its in CARRIED[server].items() if its == series]
    taken = stable != [source] if stable else any(f"{offer.version}.".startswith(f"{series}.") for offer in before)
    return "" if taken else series


def main(say: Say = machine.say) -> int:
    """A line for each version. Makes what is asked: the base images of Debian's stable releases.

    Raises NotPossible when no source could be asked.
    """
    had: dict[str, Had] = {}
    silent: dict[str, str] = {}
    for source in WHERE:
        try:
            had[source] = sources.ask(source, say)
        except Trouble as trouble:
            silent[source] = str(trouble)
    if had:
        print(f"{'backend':<10} {'version':<14} {'from':<16} --version-of")
        for offer in offers(had):
            backend = STANDS_FOR.get(offer.server, offer.server)
            version = offer.version if backend == offer.server else f"{offer.server} {offer.version}"
            note = "  (the default)" if (offer.server, offer.source) == (backend, base.SUITES[0]) else ""
            print(f"{backend:<10} {version:<14} {WHERE[offer.source]:<16} {offer.spellings}{note}")
        print(f"{'any':<10} {'your own':<14} {'an image':<16} {next(iter(BACKENDS))}=image:NAME")
    for source, why in silent.items():
        say(f"{WHERE[source]} could not be asked: {why}")
    if not had:
        raise NotPossible("no source of versions could be asked")
    return 0
