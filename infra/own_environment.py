"""An environment whose clusters are containers of ours: it boots them, replaces their versions, and heals them.

environment = OwnEnvironment.start()
redis = environment.ensure("redis")
environment.links.cut("c1", "redis1", Cut.DROP)
...
environment.close()
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final, Self

from docker import DockerClient

from infra.backends import BACKENDS
from infra.backends.backend import Trait
from infra.cluster import clock_skew, container, frozen, node_repair
from infra.cluster.disk_sidecars import TOOLS, Disks
from infra.cluster.nodes import READY_WITHIN, Cluster, Node
from infra.cluster.virtual_address import Failover
from infra.docker import client as engine_client
from infra.docker import compose, images, machine
from infra.environment import Environment
from infra.errors import Failed
from infra.network import topology
from infra.waiting import at_once, comes_true


class OwnEnvironment(Environment):
    """See the module. Comes from `start` or, if another process started it, from `attach`."""

    ours = True

    def __init__(self, client: DockerClient, settings: compose.ComposeSettings) -> None:
        super().__init__(client, settings)
        self.disks: Final = Disks(client, settings.name, settings.owner)
        self._kept: dict[str, str] = {}
        self._failover: Failover | None = None

    # --- boot ---

    @classmethod
    def attach(cls, name: str) -> Self:
        """Take hold of an environment that another process made. Raises Failed when it is not there or not whole."""
        client = engine_client.connect()
        self = cls(client, compose.read(client, name))
        states = container.states(client, name)
        for backend in BACKENDS:
            if states.keys() >= {*self.kinds[backend].nodes}:
                self._clusters[backend] = self._cluster(backend, untouched=False)
        return self

    def ensure(self, backend: str, version: str | None = None) -> Cluster:
        """See `Environment`. Boots a cluster that is not there yet. Raises Failed also if another version runs."""
        self.boot({backend: version})
        return self.cluster(backend)

    def boot(self, wanted: Mapping[str, str | None]) -> None:
        """Do `ensure` for all these backends (backend -> version) at once, which is faster than one by one."""
        chosen = {backend: images.resolve(backend, version) for backend, version in wanted.items()}
        new = {topology.image_variable(backend): image.name for backend, image in chosen.items()}
        for backend, version in wanted.items():
            running = self._settings.images.get(variable := topology.image_variable(backend))
            if version and running and running != new[variable]:
                raise Failed(f"{self.name} runs {backend} of {running} and cannot have {new[variable]} as well")
        auxiliaries = [auxiliary for backend in wanted for auxiliary in BACKENDS[backend].auxiliaries]
        beside = [images.resolve(auxiliary.package.server) for auxiliary in auxiliaries if auxiliary.package]
        for image in (*chosen.values(), TOOLS, *beside):
            images.ensure(image)
        began = time.monotonic()
        with self._changing:
            # Backends that run keep their images.
            self._settings = replace(self._settings, images={**new, **self._settings.images})
            absent = [backend for backend in wanted if backend not in self._clusters]
            if absent:
                kinds = [self.kinds[backend] for backend in absent]
                compose.up(self._settings, [node for kind in kinds for node in kind.nodes if node not in kind.learners])
            self._clusters.update({backend: self._cluster(backend, untouched=True) for backend in absent})
        for backend in wanted:
            cluster, learners = self._clusters[backend], self.kinds[backend].learners
            if learners and backend in absent:
                self._join(cluster, learners)
            cluster.await_ready(partial(node_repair.mend, cluster=cluster) if learners else None)
            self._await_paths(*self.kinds[backend].nodes)
        if absent:
            machine.say(f"environment {self.name}: {', '.join(absent)} ready ({time.monotonic() - began:.1f} s)")

    # --- what is there ---

    def endpoints_of(self, node: str, group: int) -> str:
        if group not in topology.groups_of(node):
            raise KeyError(node)
        return self._reach.through(node, group)

    def failover(self) -> Failover | None:
        return self._failover

    def keep_version(self, node: str) -> None:
        """From now on, in this process, a node is meant to run the image that it runs now: no heal changes it back."""
        self._kept[node] = self.node(node).process.image()

    def booted(self, backend: str) -> str:
        """Name of the image that a cluster was booted with, even if its members run other images now."""
        return self._settings.images[topology.image_variable(backend)]

    # --- whole again ---

    def heal(self) -> None:
        """See `Environment`. Also heals disks (before nodes: none starts on a full one), a failover, then versions."""
        frozen.thaw(self.name)
        self.disks.clear_all()
        at_once(Node.heal, self._nodes())
        self.links.heal_all()
        if self._failover and self._failover.led_away():
            self._failover.fail_back()  # before versions: a replica of another version begins without data
        meant = {node: image for node, (_, image) in container.replaced(self._client, self.name, self._kept).items()}
        refused = [why for cluster in self.clusters.values() for why in node_repair.give_back(cluster.everybody, meant)]
        if self._failover:
            self._failover.fail_back()
        self._await_ready()
        if refused:
            raise Failed("; ".join(refused))

    def unclean(self) -> list[str]:
        with ThreadPoolExecutor(max_workers=4) as pool:
            links = pool.submit(self.links.active)
            store = pool.submit(self.store_health)
            states = pool.submit(container.states, self._client, self.name)
            replaced = pool.submit(container.replaced, self._client, self.name, self._kept)
            on_disks = pool.submit(self.disks.active)
            healths = [(cluster, cluster.all_healths()) for cluster in self.clusters.values()]
        lines = links.result() + on_disks.result() + frozen.active(self.name)
        lines += [f"{node} runs {runs}, not {meant}" for node, (runs, meant) in replaced.result().items()]
        for service in ("toxiproxy", topology.STORE, *(node.name for node in self._nodes())):
            if (state := states.result().get(service, "gone")) != "running":
                lines.append(f"{service} is {state}")
        for cluster, by_node in healths:
            lines += [f"{node.name} does not serve" for node, health in by_node.items() if not health]
            lines += [f"{node.name} refuses writes" for node, health in by_node.items() if health and health.refuses]
            lines += clock_skew.astray({node.name: health for node, health in by_node.items()}, store.result())
            members = [by_node[node] for node in cluster.nodes]
            if all(members) and not cluster.kind.whole(members):
                lines.append(f"{cluster.kind.name} has no leader that all members follow")
        if self._failover:
            lines += self._failover.unclean()
        return lines

    def _cluster(self, backend: str, *, untouched: bool) -> Cluster:
        kind = self.kinds[backend]

        def node(name: str) -> Node:
            process = container.Container(
                self._client,
                name,
                compose.container(self.name, name),
                lambda image: self._remake(name, image),
                lambda: self._empty(name),
                lambda: self.disks.free(name),
            )
            return Node(name, self._reach.past(name), self._login(kind), kind, process, self.links, untouched=untouched)

        cluster = Cluster(list(map(node, kind.members)), [node(auxiliary.name) for auxiliary in kind.auxiliaries])
        if roles := kind.replication:
            pair = cluster.nodes[0], cluster.auxiliaries[0]
            self._failover = Failover(self.links, self._api, roles, *pair, self._settings.slot)
        return cluster

    def _join(self, cluster: Cluster, learners: Sequence[str]) -> None:
        """Have the other members take these up, and start them."""
        there = [node for node in cluster.nodes if node.name not in learners]
        comes_true(lambda: all(node.ready() for node in there), READY_WITHIN)
        for node in learners:
            self._empty(node)
            self.node(node).process.start()

    def _remake(self, node: str, image: str) -> None:
        with self._changing:
            chosen = {**self._settings.images, topology.own_image_variable(node): image}
            self._settings = replace(self._settings, images=chosen)
            compose.replace(self._settings, node)

    def _empty(self, node: str) -> None:
        """Remove the data of a node that is down. See Trait.MEMBERSHIP: a new member starts on the empty disk."""
        kind = self.node(node).kind
        if kind.has(Trait.MEMBERSHIP):
            others = [other for other in self.cluster(kind.name).nodes if other.name != node]
            kind.replace_member(others, node)
            with self._changing:
                self._settings = replace(self._settings, existing=self._settings.existing | {node})
                compose.replace(self._settings, node, start=False)
        self.disks.wipe(node)
