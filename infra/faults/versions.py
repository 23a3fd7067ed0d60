"""A member is replaced by one of another version, on the same data, as in an upgrade.

Whether a version starts on the data of another is for itself to say: where it refuses, its own last words are told. On
the way back too: a server that cannot return stays what it is, and the environment is not clean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infra import images
from infra.faults import fault
from infra.faults.fault import LEADERS, Fault
from infra.faults.servers import LEADER
from infra.faults.target import Hit
from infra.machine import Failed
from infra.recovery import Refused, remake
from infra.star import MEMBERS, PRIMARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.faults.fault import Options
    from infra.faults.target import Target


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
                remake(one, image.name, target.links, target.clock)
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
                    remake(node, former, target.links, target.clock)
                except Refused:
                    remake(node, now, target.links, target.clock)
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
        planned="needs a version: name it in a plan, or by hand with --set node=NODE --set version=VERSION",
        needs=frozenset({"version"}),
        how="an orderly end, then a container of another image on the same volume",
        sees="as when a server is restarted",
    )
