"""One environment: Toxiproxy, the fenced store, and the backends that were asked for.

    environment = Environment.start()
    redis = environment.ensure("redis")
    environment.links.cut("c1", "redis1", Cut.DROP)
    ...
    environment.close()

It is removed at `close`, when the process exits or is asked to terminate, and otherwise by the next `start` of
anybody. Several may stand side by side. All verbs may be called from several threads.
"""

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Self

from docker import DockerClient

from infra import client as engine_client
from infra import (
    clocks,
    compose,
    container,
    frozen,
    images,
    lifetime,
    machine,
    owner,
    reaper,
    recovery,
    slots,
    star,
)
from infra.access import OPEN, Access
from infra.backends import BACKENDS
from infra.backends import STORE as STORE_KIND
from infra.backends.backend import Backend, Health, Probe, Trait
from infra.compose import Settings
from infra.container import Container
from infra.disks import TOOLS, Disks
from infra.failover import Failover
from infra.faults.target import MonotonicClock
from infra.links import Links
from infra.machine import Failed, Say, Unknown
from infra.nodes import READY_WITHIN, Cluster, Node
from infra.reach import Reach, needs_published
from infra.slots import Taken
from infra.star import GROUPS, STORE
from infra.toxiproxy import Api
from infra.waiting import comes_true

__all__ = ["GROUPS", "Environment"]

STORE_VERSION: Final = "17"
"""The series of the store's server, whatever versions are under test."""


class Environment:
    """A star that runs. Made by `start` or, when another process made it, by `attach`.

    ours  whether its clusters are; see `infra.beside` for those of others.
    """

    ours = True

    def __init__(self, client: DockerClient, settings: Settings) -> None:
        """Not for callers: starts nothing. Toxiproxy's container must be there."""
        self.name: Final = settings.name
        self.owner: Final = settings.owner
        self.password: Final = settings.password
        self._client = client
        self._settings = settings
        self._changing = threading.Lock()
        self._clusters: dict[str, Cluster] = {}
        self._kept: dict[str, str] = {}
        self._reach = Reach.to(client, settings)
        self._api = Api(*self._reach.api())
        self.links: Final = Links(self._api)
        self.disks: Final = Disks(client, settings.name, settings.owner)
        self._failover: Failover | None = None

    # --- from nothing to ready, and back ---

    @classmethod
    def start(cls, *, name: str | None = None, say: Say = machine.say, keep: bool = False) -> Self:
        """Bring up Toxiproxy and the store; the backends come with `ensure`. Removes what dead owners left.

        With `keep` the environment outlives this process. Raises NotPossible without an engine and Failed when
        something goes wrong; then nothing is left behind.
        """
        client = engine_client.connect()
        reaper.reap(client, say)
        if name == "":
            raise Unknown("an environment needs a name")
        name = name or f"fp-{os.getpid()}-{secrets.token_hex(2)}"
        if any(found.name == name for found in reaper.find(client)):
            raise Failed(f"there is an environment {name} already (python -m infra status)")
        wanted = {
            "TOXIPROXY_IMAGE": images.resolve("toxiproxy", say=say),
            "STORE_IMAGE": images.resolve(STORE_KIND.name, STORE_VERSION, say=say),
        }
        for image in wanted.values():
            images.ensure(image, say)
        label = owner.KEPT if keep else owner.this_process()
        chosen = {variable: image.name for variable, image in wanted.items()}
        settings = Settings(name, 0, label, secrets.token_urlsafe(18), chosen, needs_published(client))
        began = time.monotonic()
        lifetime.exit_when_asked()
        with _undone_on_error(client, name):
            self = cls(client, _up_in_free_slot(client, settings))
            _await("toxiproxy", self._api.answers)
            self._api.populate(star.proxies())
            self._await_paths(STORE)
        if not keep:
            lifetime.at_exit(lambda: self._close(threads=False))
        say(f"environment {name}: links and store are ready ({time.monotonic() - began:.1f} s)")
        return self

    @classmethod
    def attach(cls, name: str) -> Self:
        """Take hold of an environment that another process made. Raises Failed when it is not there or not whole."""
        client = engine_client.connect()
        self = cls(client, compose.read(client, name))
        states = container.states(client, name)
        for backend in BACKENDS:
            if all(node in states for node in star.nodes_of(backend)):
                self._clusters[backend] = self._cluster(backend, untouched=False)
        return self

    def ensure(self, backend: str, version: str | None = None, say: Say = machine.say) -> Cluster:
        """The cluster of a backend, booted if it is not there yet; returns when every member serves.

        version: see `infra.images.resolve`. Raises Unknown for what does not exist, Failed when another version of
        it runs or it does not get ready.
        """
        self.boot({backend: version}, say)
        return self.cluster(backend)

    def boot(self, wanted: Mapping[str, str | None], say: Say = machine.say) -> None:
        """Have all these backends (backend -> version) at once, which is faster than one by one; like `ensure`."""
        chosen = {backend: images.resolve(backend, version, say) for backend, version in wanted.items()}
        new = {star.image_variable(backend): image.name for backend, image in chosen.items()}
        for backend, version in wanted.items():
            running = self._settings.images.get(variable := star.image_variable(backend))
            if version and running and running != new[variable]:
                raise Failed(f"{self.name} runs {backend} of {running} and cannot have {new[variable]} as well")
        auxiliaries = [auxiliary for backend in wanted for auxiliary in BACKENDS[backend].auxiliaries]
        beside = [images.resolve(auxiliary.package.server, say=say) for auxiliary in auxiliaries if auxiliary.package]
        for image in (*chosen.values(), TOOLS, *beside):
            images.ensure(image, say)
        began = time.monotonic()
        with self._changing:
            # What runs stays as it is.
            self._settings = replace(self._settings, images={**new, **self._settings.images})
            absent = [backend for backend in wanted if backend not in self._clusters]
            if absent:
                compose.up(self._settings, [node for backend in absent for node in star.nodes_of(backend)])
            self._clusters.update({backend: self._cluster(backend, untouched=True) for backend in absent})
        for backend in wanted:
            self._clusters[backend].await_ready(READY_WITHIN)
            self._await_paths(*star.nodes_of(backend))
        if absent:
            say(f"environment {self.name}: {', '.join(absent)} ready ({time.monotonic() - began:.1f} s)")

    def close(self) -> None:
        """Remove containers, networks and volumes. Idempotent. Raises Failed when something withstands."""
        self._close(threads=True)

    # --- what is there ---

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """The clusters that were booted, by backend."""
        return MappingProxyType(self._clusters)

    def cluster(self, backend: str) -> Cluster:
        """A cluster that was booted; KeyError otherwise."""
        return self._clusters[backend]

    def node(self, name: str) -> Node:
        """A node of a cluster that was booted; raises Unknown with the list of those otherwise."""
        there = {node.name: node for node in self._nodes()}
        if name not in there:
            raise Unknown(f"no node {name!r} in {self.name}; there are {', '.join(there)}")
        return there[name]

    def endpoints(self, backend: str, group: int) -> tuple[str, ...]:
        """`host:port` of every node in order, through the links of a client group."""
        return tuple("{}:{}".format(*self._reach.through(node, group)) for node in star.MEMBERS[backend])

    def direct(self, backend: str) -> tuple[str, ...]:
        """`host:port` of every node in order, by a way that no fault touches."""
        return tuple("{}:{}".format(*self._reach.past(node)) for node in star.MEMBERS[backend])

    def endpoints_of(self, node: str, group: int) -> str:
        """`host:port` of one node, an auxiliary too, through the links of a client group; KeyError if it has none."""
        if group not in star.groups_of(node):
            raise KeyError(node)
        return "{}:{}".format(*self._reach.through(node, group))

    def access(self, backend: str) -> Access:
        """How the endpoints of a backend let clients in."""
        return self._login(BACKENDS[backend])

    def keep_version(self, node: str) -> None:
        """From now on, in this process, what a node runs is what it is meant to be: nothing brings it back."""
        self._kept[node] = self.node(node).image()

    def booted(self, backend: str) -> str:
        """Name of the image that a cluster was booted with, whichever its members run by now."""
        return self._settings.images[star.image_variable(backend)]

    def failover(self) -> Failover | None:
        """A primary and its replica, where a backend that has them was booted."""
        return self._failover

    def store_dsn(self, group: int | None) -> str:
        """Where the store is for a client group, or, for None, by a way that no fault touches."""
        host, port = self._reach.past(STORE) if group is None else self._reach.through(STORE, group)
        return f"postgresql://{STORE_KIND.user}:{self.password}@{host}:{port}/fencepost"

    def store_health(self) -> Health | None:
        """What the store says of itself. No fault touches it, so its clock is the engine's own."""
        return self._probe(STORE)(*self._reach.past(STORE))

    def heal(self) -> None:
        """Undo every fault, whoever did it: disks, nodes, links, a failover, versions, and wait until all is ready.

        In this order, because a node does not start on a full disk, and because Toxiproxy cannot be told anything about
        a link while it waits for the node at its end. Raises Failed for what cannot be undone.
        """
        frozen.thaw(self.name)
        self.disks.clear_all()
        if everybody := self._nodes():
            with ThreadPoolExecutor(max_workers=len(everybody)) as pool:
                list(pool.map(Node.heal, everybody))
        self.links.heal_all()
        if self._failover and self._failover.led_away():
            self._failover.fail_back()  # first: a replica of another version begins with nothing
        refused = self._give_back()
        if self._failover:
            self._failover.fail_back()
        for cluster in self.clusters.values():
            cluster.await_ready(
                mend=lambda node, cluster=cluster: recovery.mend(node, cluster, self.links, MonotonicClock())  # type: ignore[misc]
            )
        if refused:
            raise Failed("; ".join(refused))

    def made_from(self) -> dict[str, dict[str, Any]]:
        """Toxiproxy and the store, which are in every environment; see `ServerProcess.made_from`. Raises Failed."""
        services = ("toxiproxy", STORE)
        return {name: container.made_from(self._client, compose.container(self.name, name)) for name in services}

    def logs(self, service: str) -> bytes:
        """What a node, the store or Toxiproxy wrote, with times. Raises Unknown with the list of what there is."""
        there = container.states(self._client, self.name)
        if service not in there:
            raise Unknown(f"{service!r} does not run in {self.name}; there are {', '.join(sorted(there))}")
        said: bytes = self._client.api.logs(compose.container(self.name, service), timestamps=True)
        return said

    def unclean(self) -> list[str]:
        """Everything that is not as at the start, a line each: links, containers, members. [] proves that all is."""
        with ThreadPoolExecutor(max_workers=4) as pool:
            links = pool.submit(self.links.active)
            store = pool.submit(self.store_health)
            states = pool.submit(container.states, self._client, self.name)
            replaced = pool.submit(container.replaced, self._client, self.name, self._kept)
            on_disks = pool.submit(self.disks.active)
            healths = {backend: cluster.all_healths() for backend, cluster in self.clusters.items()}
        found = links.result() + on_disks.result() + frozen.active(self.name)
        found += [f"{node} runs {runs}, not {meant}" for node, (runs, meant) in replaced.result().items()]
        for service in ("toxiproxy", STORE, *(node.name for node in self._nodes())):
            if (state := states.result().get(service, "gone")) != "running":
                found.append(f"{service} is {state}")
        for backend, (members, auxiliaries) in healths.items():
            everybody = dict(zip(star.nodes_of(backend), (*members, *auxiliaries), strict=True))
            found += [f"{node} does not serve" for node, health in everybody.items() if not health]
            found += clocks.astray(everybody, store.result())
            if all(members) and not BACKENDS[backend].whole(members):
                found.append(f"{backend} has no leader that all members follow")
        if self._failover:
            found += self._failover.unclean()
        return found

    def _nodes(self) -> list[Node]:
        return [node for cluster in self.clusters.values() for node in (*cluster.nodes, *cluster.auxiliaries)]

    def _close(self, *, threads: bool) -> None:
        for cluster in self._clusters.values():
            cluster.close()
        self._api.close()
        reaper.remove(self._client, self.name, threads=threads)

    def _cluster(self, backend: str, *, untouched: bool) -> Cluster:
        def node(name: str) -> Node:
            process = Container(
                self._client,
                name,
                compose.container(self.name, name),
                lambda image: self._remake(name, image),
                lambda: self._empty(name),
                lambda: self.disks.free(name),
            )
            return Node(self.links, name, self._reach.past(name), self._probe(name), process, untouched=untouched)

        cluster = Cluster(
            [node(name) for name in star.MEMBERS[backend]], [node(name) for name in star.AUXILIARIES[backend]]
        )
        if roles := BACKENDS[backend].replication:
            pair = cluster.nodes[0], cluster.auxiliaries[0]
            self._failover = Failover(self.links, self._api, roles, *pair, self._settings.slot)
        return cluster

    def _await_paths(self, *members: str) -> None:
        """Wait until every node answers past the proxies and through those of every client group."""
        ways = {
            f"{node} through {star.client(group)}": (self._probe(node), *self._reach.through(node, group))
            for node in members
            for group in star.groups_of(node)
        }
        ways |= {node: (self._probe(node), *self._reach.past(node)) for node in members}

        with ThreadPoolExecutor(max_workers=8) as pool:
            list(pool.map(lambda way: _await(way, lambda: ways[way][0](*ways[way][1:]) is not None), ways))

    def _probe(self, node: str) -> Probe:
        kind = star.kind_of(node)
        ask, access = kind.probe_of(node), self._login(kind)
        return lambda host, port: ask(host, port, access)

    def _login(self, kind: Backend) -> Access:
        return Access(user=kind.user, password=self.password) if kind.user else OPEN

    def _remake(self, node: str, image: str) -> None:
        with self._changing:
            chosen = {**self._settings.images, star.own_image_variable(node): image}
            self._settings = replace(self._settings, images=chosen)
            compose.replace(self._settings, node)

    def _give_back(self) -> list[str]:
        """The versions that everybody is meant to be, where they start on the data; else why not, a line each."""
        meant = {node: image for node, (_, image) in container.replaced(self._client, self.name, self._kept).items()}
        return [
            why
            for cluster in self.clusters.values()
            for why in recovery.give_back((*cluster.nodes, *cluster.auxiliaries), meant, self.links, MonotonicClock())
        ]

    def _empty(self, node: str) -> None:
        """Remove the data of a node that is down. See Trait.MEMBERSHIP: a new member starts on the empty disk."""
        backend = star.kind_of(node)
        if backend.has(Trait.MEMBERSHIP):
            backend.replace_member([self._reach.past(other) for other in backend.members if other != node], node)
            with self._changing:
                self._settings = replace(self._settings, existing=self._settings.existing | {node})
                compose.renew(self._settings, node)
        self.disks.wipe(node)


def _up_in_free_slot(client: DockerClient, settings: Settings) -> Settings:
    """Start Toxiproxy and the store in the first slot that is free; returns the settings with that slot."""
    with slots.free(client) as free:
        for slot in free:
            try:
                compose.up(replace(settings, slot=slot), ["toxiproxy", STORE])
            except Taken:
                reaper.remove(client, settings.name)
            else:
                return replace(settings, slot=slot)
    raise AssertionError("slots.free yields or raises")


@contextlib.contextmanager
def _undone_on_error(client: DockerClient, name: str) -> Iterator[None]:
    """Leave nothing of an environment behind when its start fails, or is interrupted."""
    try:
        yield
    except BaseException:
        reaper.remove(client, name)
        raise


def _await(what: str, is_so: Callable[[], bool]) -> None:
    if not comes_true(is_so, READY_WITHIN):
        raise Failed(f"{what} does not answer within {READY_WITHIN:.0f} s")
