"""An environment for clusters that are not ours: we run the store, and the proxies between clusters and workers.

Every client group reaches every node through a proxy of its own, so all faults on client links, on links to the store
and on workers are possible here too. Only the user's hooks act on the nodes themselves; their effect is proven from
outside. We send a cluster only the locks' operations on their keys, and questions that a node answers about itself.
"""

import ipaddress
import itertools
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Self

from infra.access import Access
from infra.backends import BACKENDS
from infra.cluster import container
from infra.cluster.clock_skew import Skew
from infra.cluster.nodes import Cluster, Node
from infra.docker import machine
from infra.environment import Environment
from infra.errors import Failed
from infra.faults.link_probe import LinkAnswer, Prober
from infra.network import topology
from infra.network.topology import GROUPS, STORE, Proxy
from infra.target import external_cluster
from infra.target.external_cluster import External
from infra.target.hooks import Hooks
from infra.waiting import at_once, comes_true

GATEWAY: Final = 1
"""Last byte of this machine's own address on the bridge of the clients."""
DESKTOP: Final = "host.docker.internal"
"""The name of this machine in a container, where the engine runs in a virtual machine."""
SHOWS_WITHIN: Final = 10.0
"""Seconds after a hook ended until its effect must show: the node is silent, or answers again."""
STARTS_WITHIN: Final = 60.0
"""Seconds after the hook `start` ended until the node must answer."""
REACHED_WITHIN: Final = 3.0
"""Seconds for a node's first answer through a proxy."""


class HookedServer(container.ServerProcess):
    """A server that is not ours, controlled by hooks. Its `state` is what we last had done to it; nobody asks it."""

    def __init__(self, name: str, hooks: Hooks, places: Mapping[str, str], answers: Callable[[], bool]) -> None:
        """places: placeholder in commands of hooks -> its value. answers: whether it answers, asked past the links."""
        self._name = name
        self._hooks = hooks
        self._places = places
        self._answers = answers
        self._done: container.State = "running"
        self._unsure = False
        """Whether a hook failed, or showed no effect in time: it may have worked all the same."""

    def state(self) -> container.State:
        return self._done

    def start(self) -> None:
        self._undo("start", STARTS_WITHIN)

    def pause(self) -> None:
        self._do("pause", "paused")

    def resume(self) -> None:
        self._undo("resume", SHOWS_WITHIN)

    def end(self, *, orderly: bool) -> None:
        self._do("stop" if orderly else "kill", "stopped")

    def wipe(self) -> None:
        self._hooks.run("wipe", self._places)

    def remake(self, image: str) -> None:  # noqa: ARG002
        raise Failed(f"{self._name}: the version of a target is not ours to change")

    def set_clock(self, skews: Sequence[Skew]) -> None:  # noqa: ARG002
        raise Failed(f"{self._name}: the clock of a target is not ours to set")

    def _do(self, verb: str, state: container.State) -> None:
        """Run a hook and await its effect. A hook that fails may have worked, so it counts as done until undone."""
        self._done, self._unsure = state, True
        self._hooks.run(verb, self._places)
        self._await(verb, answers=False, within=SHOWS_WITHIN)
        self._unsure = False

    def _undo(self, verb: str, within: float) -> None:
        """Run a hook that undoes. If it fails and an earlier one is in doubt, it counts as done if the node answers."""
        try:
            self._hooks.run(verb, self._places)
        except Failed:
            if not (self._unsure and comes_true(self._answers, within)):
                raise
        self._unsure = True
        self._await(verb, answers=True, within=within)
        self._done, self._unsure = "running", False

    def _await(self, verb: str, *, answers: bool, within: float) -> None:
        """Wait until the server answers, or no longer answers. Raises Failed."""
        if not comes_true(lambda: self._answers() is answers, within):
            how = "does not answer" if answers else "still answers"
            raise Failed(f"{self._name}: hook {verb} ended well, but after {within:.0f} s it {how}")


class ExternalEnvironment(Environment):
    """See the module. Made by `beside`."""

    ours = False

    _externals: Mapping[str, External] = MappingProxyType({})
    _ports: Mapping[str, int] = MappingProxyType({})
    _hooks: Hooks

    @classmethod
    def beside(cls, externals: Mapping[str, External], hooks: Hooks) -> Self:
        """Start Toxiproxy and the store, with links to these clusters. `ensure` checks that a cluster is there."""
        self = cls.start()
        with ExitStack() as undo:
            undo.callback(self.close)
            self._adopt(externals, hooks)
            undo.pop_all()
        return self

    def ensure(self, backend: str, version: str | None = None) -> Cluster:  # noqa: ARG002
        """See `Environment.ensure`. Takes the named cluster in any version. Raises Failed, naming what is not there."""
        with self._changing:
            if backend not in self._externals:
                raise Failed(f"there is no --target {backend}=..., and what is not named is left alone")
            if backend not in self._clusters:
                began = time.monotonic()
                given = self._externals[backend]
                external_cluster.check(given)
                access = self._access(given)
                self._await_reached(given, access)
                self._clusters[backend] = Cluster([self._node(given, index, access) for index in range(len(given))])
                machine.say(f"environment {self.name}: {backend} is reached ({time.monotonic() - began:.1f} s)")
        return self._clusters[backend]

    def endpoints_of(self, node: str, group: int) -> str:
        return self._reach.listens(_listener(self._ports[node], group))

    def unclean(self) -> list[str]:
        lines = self.links.active()
        states = container.states(self._client, self.name)
        for service in ("toxiproxy", STORE):
            if (state := states.get(service, "gone")) != "running":
                lines.append(f"{service} is {state}")
        for backend, cluster in self.clusters.items():
            healths = cluster.all_healths()
            lines += [f"{node.name} is {node.state()}" for node in cluster.nodes if node.state() != "running"]
            lines += [f"{node.name} does not serve" for node, health in healths.items() if not health]
            if all(healths.values()) and not cluster.ready():
                lines.append(f"{backend} has no leader that all members follow")
        return lines

    def close(self, *, threads: bool = True) -> None:
        """Heal the nodes first: a hook may have paused servers, and those outlive the environment."""
        with ExitStack() as stack:
            stack.callback(super().close, threads=threads)
            for node in self._nodes():
                stack.callback(node.heal)

    def _adopt(self, externals: Mapping[str, External], hooks: Hooks) -> None:
        self._externals, self._hooks = externals, hooks
        names = [name for given in externals.values() for name in given.names]
        of_store = topology.listener(STORE, GROUPS[0]) - _listener(0, GROUPS[0])
        self._ports = dict(zip(names, (number for number in itertools.count(1) if number != of_store), strict=False))
        try:
            for node, group in itertools.product(self._ports, GROUPS):
                self.endpoints_of(node, group)
        except KeyError as error:
            raise Failed(f"{len(self._ports)} nodes are more than ports can be published for here") from error
        self.links.use([*(proxy for proxy in topology.proxies() if proxy.target == STORE), *self._proxies()])

    def _access(self, given: External) -> Access:
        """How the endpoints of a cluster let us in, with the names of the servers behind them."""
        names: dict[str, str] = {}
        for index, (host, _) in enumerate(given.addresses):
            server = given.server(index)
            ways = [self.endpoints_of(server.name, group) for group in GROUPS]
            names |= dict.fromkeys([server.endpoint, *ways], host)
        return replace(given.access, names=names)

    def _node(self, given: External, index: int, access: Access) -> Node:
        (host, port), server, kind = given.addresses[index], given.server(index), BACKENDS[given.backend]
        places = {"node": host, "port": str(port), "name": server.name, "backend": given.backend}
        prober = Prober(kind, access)

        def answers() -> bool:
            return prober.ask(server.endpoint) is LinkAnswer.ANSWERED

        process = HookedServer(server.name, self._hooks, places, answers)
        return Node(server.name, server.endpoint, access, kind, process, self.links, untouched=True)

    def _proxies(self) -> Iterator[Proxy]:
        for given in self._externals.values():
            for name, (host, port) in zip(given.names, given.addresses, strict=True):
                upstream = external_cluster.endpoint(self._seen_from_container(host, port), port)
                for group in GROUPS:
                    listen = f"via-ctl:{_listener(self._ports[name], group)}"
                    yield Proxy(f"{topology.client(group)}-{name}", topology.client(group), name, listen, upstream)

    def _seen_from_container(self, host: str, port: int) -> str:
        """The address by which Toxiproxy's container reaches a host. The loopback of the container is its own."""
        address = min(_addresses(host, port), key=lambda address: (address.version, address))
        if not (address.is_loopback or address.is_unspecified):
            return str(address)
        return topology.address(self._settings.slot, GATEWAY) if sys.platform == "linux" else DESKTOP

    def _await_reached(self, given: External, access: Access) -> None:
        """Wait until every node answers through every group's link. Raises Failed, naming a node that does not."""
        prober = Prober(BACKENDS[given.backend], access)

        def reached(where: str) -> bool:
            return comes_true(lambda: prober.ask(where, 1.0) is LinkAnswer.ANSWERED, REACHED_WITHIN)

        for group in GROUPS:
            ways = [self.endpoints_of(name, group) for name in given.names]
            for index, answered in enumerate(at_once(reached, ways, 8)):
                if not answered:
                    raise Failed(self._unreached(given, index))

    def _unreached(self, given: External, index: int) -> str:
        host, port = given.addresses[index]
        seen = self._seen_from_container(host, port)
        as_what = f" as {external_cluster.endpoint(seen, port)}" if seen != host else ""
        own = seen != host and any(address.is_loopback for address in _addresses(host, port))
        advice = "; let it listen on more than the loopback address" if own else ""
        return f"{given.where(index)} answers here, but Toxiproxy's container cannot reach it{as_what}{advice}"


def _listener(number: int, group: int) -> int:
    """The port on which Toxiproxy takes a client group's connections to the n-th node; see `topology.listener`."""
    return topology.listener(topology.NODES[0], group) - 1 + number


def _addresses(host: str, port: int) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """All addresses of a host. Raises gaierror."""
    return {ipaddress.ip_address(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
