"""Faults that replace members by another version on the same data, as in an upgrade.

Only the new version itself can tell whether it starts on the data of another: if it refuses, its last words are told.
`Replace` is undone as far as possible: a server that cannot go back stays as it is, and the environment is not clean.
`Roll` is not undone: a member is meant to keep its new version. PostgreSQL takes the data of another major version by
dump and restore (`Migration`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from infra.backends.backend import Trait
from infra.cluster.node_repair import DoesNotStart, remake
from infra.cluster.nodes import Node
from infra.cluster.virtual_address import Failover
from infra.docker import images
from infra.errors import Failed
from infra.faults.fault import HEALED_WITHIN, LOOK_EVERY, Fault, FaultInjection, leader
from infra.faults.fault_options import FOLLOWER, LEADER, Option, Options, Site, choice, must, number, one_of
from infra.faults.servers.strikes import named
from infra.faults.target import Hit, Target

Order = Literal["leader", "follower"]  # which member goes first

ROLLED: Final = "version"
REFUSED: Final = "restart"
"""Kinds of hits: for a member that went over, and for one that refused and was only restarted in its old version."""
AGREED_WITHIN: Final = 30.0
"""Seconds within which members agree on the version that all of them are up to; measured: 2-5."""


@dataclass(frozen=True, slots=True)
class Replace(FaultInjection):
    """Replace one node by another version. version: see `infra.docker.images.resolve`."""

    node: str
    version: str
    _former: list[tuple[str, str]] = field(default_factory=list, compare=False, repr=False)
    """(node, its former image) of every node that was replaced, in that order."""

    def describe(self) -> str:
        return f"replace {self.node} by version {self.version}, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the version that the node reports. [] while another fault wants the node down or paused."""
        node = leader(target) if self.node == LEADER else target.node(self.node)
        image = images.resolve(target.backend, self.version)
        images.ensure(image)
        pair = _pair_of(target, node)
        concerned = [pair.replica, node] if pair else [node]
        if any(server.wanted() != "running" for server in concerned) or (pair and pair.led_away()):
            return []
        if node.process.image() == image.name:
            raise Failed(f"{node.name} runs {image.name} already")
        before, was = node.version(), node.process.image()
        begun = target.clock.now()
        how = ""
        # The replica first: it can read what an older primary sends, but not what a newer primary sends.
        for server in concerned:
            self._former.append((server.name, server.process.image()))
            try:
                how = remake(server, image.name)
            except DoesNotStart:
                self.heal(target)
                raise
        remark = f"{_change(node, before, was)} {how}".rstrip() + (f", and so {concerned[0].name}" if pair else "")
        return [Hit(ROLLED, f"{node.name} {remark}", begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        """Bring back the former version if it starts on the data as they are now; else leave the node as it is."""
        while self._former:
            name, former = self._former[-1]
            node = target.environment.node(name)
            now = node.process.image()
            if now != former:
                try:
                    remake(node, former)
                except DoesNotStart:
                    remake(node, now)
            self._former.pop()


@dataclass(frozen=True, slots=True)
class Roll(FaultInjection):
    """Members go over to a version one after another, each at work again before the next. All of it is in `apply`.

    members: how many of those that do not have the version yet. first: whether the leader goes first or last. lead: the
    leader in words; if there is none, the node with the single-node locks stands for it. version: see
    `infra.docker.images.resolve`.
    """

    version: str
    first: Order
    members: int
    lead: str

    def describe(self) -> str:
        many = "a member" if self.members == 1 else f"{self.members} members, one after another,"
        place = "first" if self.first == LEADER else "last"
        return f"replace {many} by version {self.version}, {self.lead} {place}, and"

    def apply(self, target: Target) -> Sequence[Hit]:
        """A hit for each member, proven by the version that the member reports. The first that refuses is the last, and
        stays as it was, if the roll is to the version that they were booted with; else its DoesNotStart is raised.

        When all members have gone over, they agree on the version (Trait.COMMON_VERSION) before this returns.
        """
        image = images.resolve(target.backend, self.version)
        images.ensure(image)
        hits: list[Hit] = []
        while len(hits) < self.members and (waiting := _others(target, image.name)):
            hits.append(self._roll(target, waiting, image.name))
            if hits[-1].kind == REFUSED:
                return hits
        if target.kind.has(Trait.COMMON_VERSION) and not _others(target, image.name):
            _await_agreement(target)
        return hits

    def _roll(self, target: Target, waiting: Sequence[Node], image: str) -> Hit:
        leads = leader(target) if target.kind.has(Trait.LEADER) else target.cluster.nodes[0]
        node = min(waiting, key=lambda member: (member is leads) == (self.first == "follower"))
        name = named(node, LEADER if node is leads and target.kind.has(Trait.LEADER) else "")
        begun = target.clock.now()
        try:
            remark = _go_over(target, node, image)
        except DoesNotStart as refused:
            if image != target.own.booted(target.backend):
                raise
            hit = Hit(REFUSED, f"{name} stays {node.version()}: {refused}", begun, target.clock.now())
        else:
            hit = Hit(ROLLED, f"{name} {remark}", begun, target.clock.now())
        if not target.clock.wait(target.patience(HEALED_WITHIN), target.cluster.ready, LOOK_EVERY):
            if target.alone:
                raise Failed(f"{hit.target}, but {target.backend} does not get ready")
            return replace(hit, healing=hit.applied)
        return replace(hit, healing=hit.applied, healed=target.clock.now())


def _pair_of(target: Target, node: Node) -> Failover | None:
    """The node and its replica, if the node is a primary with one."""
    pair = target.environment.failover()
    return pair if pair and pair.primary is node else None


def _others(target: Target, image: str) -> list[Node]:
    """Members that run another image, in order, without those that another fault wants down or paused."""
    return [node for node in target.cluster.nodes if node.process.image() != image and node.wanted() == "running"]


def _go_over(target: Target, node: Node, image: str) -> str:
    """Start another image on a member's data, and for its replica. From then on both are meant to run that image.

    Returns the outcome in words. Raises DoesNotStart, with its last words: then both run again what they ran before.
    """
    before, was = node.version(), node.process.image()
    pair = _pair_of(target, node)
    concerned = [pair.replica, node] if pair else [node]
    if image == target.own.booted(target.backend):
        concerned.reverse()  # a replica can read what an older primary sends, but not what a newer one sends
    how = ""
    for done, server in enumerate(concerned, 1):
        try:
            how = remake(server, image)
        except DoesNotStart:
            for replaced in reversed(concerned[:done]):
                remake(replaced, was)
            raise
    for server in concerned:
        target.own.keep_version(server.name)
    return f"{_change(node, before, was)} {how}".rstrip() + (f", and so {pair.replica.name}" if pair else "")


def _change(node: Node, before: str, was: str) -> str:
    """The change of version in words, with the images if both versions are the same. was: the image before."""
    now = node.version()
    return f"from {before} to {now}" if now != before else f"from {before} ({was}) to {now} ({node.process.image()})"


def _await_agreement(target: Target) -> None:
    def agreed() -> bool:
        series = {node.version().rpartition(".")[0] for node in target.cluster.nodes}
        agreed_on = {target.kind.agreed_version(node).rpartition(".")[0] for node in target.cluster.nodes}
        return len(series) == 1 and agreed_on == series

    if not target.clock.wait(AGREED_WITHIN, agreed, LOOK_EVERY):
        raise Failed(f"the members of {target.backend} do not agree on their version within {AGREED_WITHIN:.0f} s")


def _is_version(value: Any, _: Site, __: Options) -> str:
    must(isinstance(value, str) and value, "be a text like 3.5")
    return str(value)


_VERSION: Final = Option("version", _is_version)

VERSIONS: Final = (
    Fault(
        "replace-version",
        "version",
        "a member is replaced by another version on the same data",
        lambda _, node, version: Replace(node, version),
        (one_of("node", lambda site: (*((LEADER,) if site.has(Trait.LEADER) else ()), *site.members)), _VERSION),
        planned="needs a version: name it in a plan, or by hand with --set node=NODE --set version=VERSION",
        needs=("version",),
        how="an orderly end, then a container of another image on the same volume",
        sees="as when a server is restarted",
    ),
    Fault(
        "roll-version",
        "version",
        "members become another version for good, one after another, on the same data",
        lambda site, version, first, members: Roll(
            version, first, members, "the leader" if site.has(Trait.LEADER) else site.members[0]
        ),
        (
            _VERSION,
            choice("first", (LEADER, FOLLOWER)),
            number("members", 1, lambda site: len(site.members), what="a number"),
        ),
        planned="needs a version, and cannot be undone: --from and --to do it",
        lasting=True,
        needs=("version",),
        how="an orderly end, then a container of another image on the same volume, for each",
        sees="as restart-rolling",
    ),
)
