"""A member is replaced by one of another version, on the same data, as in an upgrade.

Whether a version starts on the data of another is for itself to say: where it refuses, its own last words are told. On
the way back too: a server that cannot return stays what it is, and the environment is not clean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from infra import images
from infra.faults import fault
from infra.faults.fault import LEADERS, LOOK_EVERY, Fault
from infra.faults.servers import LEADER
from infra.faults.target import Hit
from infra.machine import Failed
from infra.nodes import READY_WITHIN
from infra.star import MEMBERS, PRIMARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.faults.fault import Options
    from infra.faults.target import Target
    from infra.nodes import Node

BURIED_WITHIN: Final = 40.0
"""Seconds until the links of a node that ended by itself refuse."""

_FATAL: Final = re.compile(
    rb'"level":"(?:fatal|panic)".*?"msg":"(?P<json>[^"]*)"|.*(?:FATAL: |ERROR |panic: | [CFE] \| | # )(?P<text>.*)'
)
"""A line in which a server says why it ends: etcd's, PostgreSQL's, ZooKeeper's, Redis'."""


class Refused(Failed):
    """A version does not start on the data that is there."""


@dataclass(frozen=True, slots=True)
class Replace:
    """One node by another version. version: see `infra.images.resolve`."""

    node: str
    version: str
    _former: list[tuple[str, str]] = field(default_factory=list, compare=False, repr=False)
    """(node, the image that it had) of everything that was replaced, in that order."""

    def describe(self) -> str:
        """See `Injury`."""
        return f"replace {self.node} by version {self.version}, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the version that it says it is. [] while another fault wants the node down or paused."""
        node = fault.leader(target) if self.node == LEADER else target.node(self.node)
        image = images.resolve(target.backend, self.version)
        images.ensure(image)
        pair = target.environment.failover() if node.name == PRIMARY else None
        concerned = [pair.replica, node] if pair else [node]
        if any(one.wanted() != "running" for one in concerned) or (pair and pair.led_away()):
            return []
        if node.image() == image.name:
            raise Failed(f"{node.name} runs {image.name} already")
        before = node.version()
        begun = target.clock.now()
        # A replica first: it can read what an older primary sends, not what a newer one does.
        for one in concerned:
            self._former.append((one.name, one.image()))
            try:
                _replace(target, one, image.name)
            except Refused:
                self.heal(target)
                raise
        remark = f"{before} to {node.version()}" + (f", and so {concerned[0].name}" if pair else "")
        return [Hit("version", f"{node.name} from {remark}", begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        """Bring back the former version where it starts on what the data have become; else leave all as it is."""
        while self._former:
            name, former = self._former[-1]
            node = target.environment.node(name)
            now = node.image()
            if now != former:
                try:
                    _replace(target, node, former)
                except Refused:
                    _replace(target, node, now)
            self._former.pop()


def replace_version() -> Fault:
    """Any member."""

    def make(backend: str, options: Options) -> Replace:
        fault.only(options, "node", "version")
        known = (LEADER, *MEMBERS[backend]) if backend in LEADERS else MEMBERS[backend]
        node, version = options["node"], options["version"]
        if node not in known:
            raise ValueError(f"node: must be one of {', '.join(known)}, not {node!r}")
        if not isinstance(version, str) or not version:
            raise ValueError(f"version: must be a text like 3.5, not {version!r}")
        return Replace(node, version)

    return Fault(
        "replace-version",
        "version",
        "a member is replaced by another version on the same data",
        make,
        planned="needs a version: name it in a plan",
        needs=frozenset({"version"}),
        how="an orderly end, then a container of another image on the same volume",
        sees="as when a server is restarted",
    )


def _replace(target: Target, node: Node, image: str) -> None:
    """Returns when it serves. Raises Refused with its last words when it ends, Failed when it does not get ready."""
    node.replace(image)

    def decided() -> bool:
        return node.ready() or node.state() == "stopped"

    target.clock.wait(READY_WITHIN, decided, LOOK_EVERY)
    if node.state() == "stopped":
        _bury(target, node)
        raise Refused(f"{node.name} does not start as {image} on its data: {_last_words(node.logs())}")
    if not node.ready():
        raise Failed(f"{node.name} does not serve as {image} within {READY_WITHIN:.0f} s")


def _bury(target: Target, node: Node) -> None:
    """Refuse connections to a node that ended by itself, which takes as long as Toxiproxy dials its address: 3-30 s."""

    def buried() -> bool:
        try:
            target.links.bury(node.name)
        except Failed:
            return False
        return True

    if not target.clock.wait(BURIED_WITHIN, buried, LOOK_EVERY):
        raise Failed(f"links to {node.name}, which ended, cannot be closed within {BURIED_WITHIN:.0f} s")


def _last_words(said: bytes) -> str:
    """Why it ended: the first of the last lines that sound like it, else the last line. said: with times."""
    lines = [line.partition(b" ")[2] for line in said.splitlines() if line.strip()]
    words = lines[-1] if lines else b"it said nothing"
    told = False
    for line in reversed(lines):
        if found := _FATAL.search(line):
            words, told = found["json"] or found["text"], True
        elif told:
            break
    return words.decode(errors="replace").strip()
