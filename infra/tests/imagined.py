"""An imagined star: our nodes, links and faults on engines, a Toxiproxy and servers that only remember their state."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from infra.access import OPEN
from infra.backends import BACKENDS, shaped
from infra.backends.answers import Health, ServerRefused, Written
from infra.backends.backend import Backend, Server, Trait
from infra.backends.etcd import Etcd
from infra.backends.postgres import Postgres
from infra.backends.redis import Redis
from infra.cluster import clock_skew
from infra.cluster.container import Container
from infra.cluster.disk_sidecars import STALL
from infra.cluster.nodes import Cluster, Node
from infra.faults.fault_options import ALL_GROUPS
from infra.faults.link_probe import LinkAnswer, Prober
from infra.faults.target import Target
from infra.network import topology, toxics
from infra.network.links import Links
from infra.network.toxiproxy_api import Api, ProxyChange, ProxyState
from infra.tests.simulated import Lane, World, a_lane


class Toxiproxy(Api):
    """Toxiproxy with its pitfalls: a connection is always up, and bytes always wait in a toxic that keeps bytes."""

    def __init__(self, kinds: Mapping[str, Backend] = BACKENDS) -> None:
        self.proxies: dict[str, ProxyState] = {}
        self.populate(topology.proxies(kinds))

    def populate(self, proxies: Iterable[topology.Proxy]) -> None:
        for proxy in proxies:
            self.proxies.setdefault(proxy.name, ProxyState(proxy.name, proxy.listen, proxy.upstream, enabled=True))

    def state(self) -> dict[str, ProxyState]:
        return dict(self.proxies)

    def apply(self, changes: Iterable[ProxyChange]) -> None:
        for change in changes:
            now = self.proxies[change.proxy]
            if change.anew:
                now = ProxyState(now.name, now.listen, now.upstream, enabled=False)
            chains = dict(now.toxics)
            for name in change.remove:
                toxic = chains[name]
                assert now.enabled, "dead connections block its removal"
                assert toxic == self._last(chains, toxic.stream), f"{name} goes from under another"
                assert not toxics.keeps(toxic) or toxic == toxics.opened(toxic), f"{name} keeps bytes"
                del chains[name]
            for toxic in change.add:
                last = self._last(chains, toxic.stream)
                if toxic.name in chains:
                    assert toxics.keeps(toxic), f"{toxic.type} is changed in place"
                elif now.enabled and last:
                    assert not toxics.is_cut(last), f"{toxic.name} comes behind a cut"
                chains[toxic.name] = toxic
            enabled = now.enabled if change.enabled is None else change.enabled
            self.proxies[change.proxy] = replace(now, enabled=enabled, toxics=chains)

    @staticmethod
    def _last(chains: dict[str, toxics.Toxic], stream: str) -> toxics.Toxic | None:
        return next((toxic for toxic in reversed(chains.values()) if toxic.stream == stream), None)


class Engine:
    """One container, which changes its state by Docker's rules."""

    def __init__(self) -> None:
        self.status = "running"
        self.log: list[str] = []
        self.skews: list[clock_skew.Skew] = []
        self.refuses = False
        self.forgets = True  # whether it takes writes again after a restart
        self.error = ""  # why it could not be started

    def inspect_container(self, _: str) -> dict[str, Any]:
        ended = {"FinishedAt": "2026-01-01T00:00:07.123456789Z", "ExitCode": 2, "OOMKilled": False}
        return {"State": {"Status": self.status, "Error": self.error, **ended}, "Config": {"Image": "mine:1"}}

    def info(self) -> dict[str, str]:
        return {"SystemTime": "2026-01-01T02:00:09.2+02:00"}

    def logs(self, _: str, *, timestamps: bool, since: float = 0.0) -> bytes:
        assert timestamps
        return b"T panic: torn\n" if 1767225602 < since < 1767225603 else b""

    def _become(self, status: str, name: str, legal_from: str = "running") -> None:
        assert self.status == legal_from, f"{name} while {self.status}"
        self.status = status
        self.log.append(name)

    def pause(self, _: str) -> None:
        self._become("paused", "pause")

    def unpause(self, _: str) -> None:
        self._become("running", "unpause", legal_from="paused")

    def kill(self, _: str, signal: str) -> None:
        assert signal == "SIGKILL"
        self._become("exited", "kill")

    def stop(self, _: str, timeout: int) -> None:
        assert timeout
        self._become("exited", "stop")

    def wait(self, _: str, timeout: int) -> None:
        assert timeout
        assert self.status == "exited"

    def start(self, _: str) -> None:
        self._become("running", "start", legal_from="exited")
        self.refuses &= not self.forgets


def engines_have_clocks(patch: pytest.MonkeyPatch) -> None:
    """Let each engine remember what its clock is set to."""

    def write(client: Any, container: str, skews: Sequence[clock_skew.Skew]) -> None:
        assert client.api.status != "paused", f"{container} cannot be told anything"
        client.api.skews = list(skews)

    patch.setattr(clock_skew, "write", write)
    patch.setattr(clock_skew, "movable", lambda client, container: True)


@dataclass
class Disks:
    """(node, key that wants it) -> what is done to the node's disk: seconds of delay, "stalled" or "full"."""

    done: dict[tuple[str, str], float | str] = field(default_factory=dict)

    def slow(self, node: str, seconds: float, by: str) -> None:
        self.done[node, by] = "stalled" if seconds >= STALL else seconds

    def fill(self, node: str, by: str) -> None:
        self.done[node, by] = "full"

    def room(self, node: str) -> int:
        return 0 if "full" in self.of(node) else 1

    def of(self, node: str) -> list[float | str]:
        return [what for (name, _), what in self.done.items() if name == node]

    def clear(self, by: str) -> None:
        self.done = {key: what for key, what in self.done.items() if key[1] != by}


class Star:
    """One backend, maybe in a shape (`etcd=five`), and lanes of workers. `unclean`: what differs from the start."""

    def __init__(self, backend: str, *lanes: Lane) -> None:
        backend, _, shape = backend.partition("=")
        kinds = shaped({backend: shape})
        self.world = World(list(lanes) or [a_lane("a", 0, 0, 0), a_lane("b", 0, 1, 0, 1)])
        self.toxiproxy = Toxiproxy(kinds)
        self.links = Links(self.toxiproxy, kinds)
        self.disks = Disks()
        self.engines = {name: Engine() for name in kinds[backend].members}
        self.backend, self.kind = backend, kinds[backend]
        vars(self.kind)["probe"] = lambda server: self.health(server.name)
        self.leads, self.term = self.kind.members[0], 1
        self.asked_to_hand_over = 0  # the leader does it each second time
        self.cluster = Cluster(list(map(self._node, self.engines)))
        self._between: dict[frozenset[str], list[str]] = {}
        for proxy in topology.proxies(kinds):
            self._between.setdefault(frozenset((proxy.source, proxy.target)), []).append(proxy.name)

    def _node(self, name: str) -> Node:
        client = cast("Any", SimpleNamespace(api=self.engines[name]))
        nothing: Any = lambda *_: None  # noqa: E731
        process = Container(client, name, name, nothing, nothing, nothing)
        return Node(name, f"{name}:0", OPEN, self.kind, process, self.links, untouched=True)

    def target(self, by: str, *, alone: bool) -> Target:
        endpoints = {(group, name): f"{group}:{name}" for group in ALL_GROUPS for name in (*self.engines, "store")}
        environment = SimpleNamespace(disks=self.disks, failover=lambda: None, links=self.links)
        environment.store_health = lambda: Health("", ahead=0.0)
        return Target(
            cast("Any", environment), self.cluster, endpoints, self.world, self.world,
            ImaginedProber(self), cast("Any", ImaginedWrites(self)), by, alone, ImaginedProber(self),
        )  # fmt: skip

    def unclean(self) -> list[str]:
        nodes = {f"{name} is {engine.status}" for name, engine in self.engines.items() if engine.status != "running"}
        moved = {f"{name}'s clock is moved: {engine.skews}" for name, engine in self.engines.items() if engine.skews}
        disks = {f"{name}'s disk: {what}" for (name, _), what in self.disks.done.items()}
        every = (worker for lane in self.world.all_lanes for worker in lane.workers)
        workers = {f"{worker.process} is caught: {worker.hurt}" for worker in every if worker.hurt}
        refusing = {f"{name} refuses writes" for name, engine in self.engines.items() if engine.refuses}
        return [*self.links.active(), *sorted(nodes | moved | disks | workers | refusing)]

    def now(self) -> int:
        """ns; the real wall clock plus the simulated time, so that simulated waits count."""
        return time.time_ns() + self.world.now()

    def health(self, name: str) -> Health | None:
        engine = self.engines[name]
        if engine.status != "running":
            return None
        ahead = clock_skew.ahead(engine.skews, self.now())
        if not BACKENDS[self.backend].has(Trait.LEADER):
            return Health("1", ahead=ahead)
        self._elect()
        if self.leads not in self._heard_by(name):
            return None
        if self.backend == "zookeeper":
            role = "leader" if name == self.leads else "observer" if name in self.kind.observers else "follower"
            return Health("1", self.term, leader=role)
        return Health("1", self.term, name, self.leads)

    def _elect(self) -> None:
        voters = [node.name for node in self.cluster.voters]
        able = [name for name in voters if 2 * len(self._heard_by(name).intersection(voters)) > len(voters)]
        if self.backend == "etcd":
            able = [name for name in able if "stalled" not in self.disks.of(name)]
        if self.leads not in able:
            self.leads = able[0] if able else ""
            self.term += 1

    def _heard_by(self, name: str) -> set[str]:
        """The running members that reach this one in both directions, itself included; none if it is down or full."""
        if self.engines[name].status != "running" or "full" in self.disks.of(name):
            return set()
        running = (other for other, engine in self.engines.items() if engine.status == "running")
        return {other for other in running if other == name or self._passes(name, other)}

    def _passes(self, a: str, b: str) -> bool:
        return all(self._come_to(proxy, 0)[0] is LinkAnswer.ANSWERED for proxy in self._between[frozenset((a, b))])

    def _come_to(self, proxy: str, size: int) -> tuple[LinkAnswer, float]:
        """The answer to a question through a proxy, and the seconds that it takes."""
        state = self.toxiproxy.proxies[proxy]
        if not state.enabled or any(toxic.type == "reset_peer" for toxic in state.toxics.values()):
            return LinkAnswer.CLOSED, 0.0
        if any(map(toxics.is_cut, state.toxics.values())):
            return LinkAnswer.SILENT, 0.0
        return LinkAnswer.ANSWERED, sum(_delay(toxic, size) for toxic in state.toxics.values())

    def ask(self, endpoint: str, size: int = 0) -> tuple[LinkAnswer, float]:
        """Ask through a link, "c1:redis1", or past all links, "redis1:0"."""
        group, _, name = endpoint.partition(":")
        engine = self.engines.get(group if name == "0" else name, Engine())
        if engine.status == "exited":
            return LinkAnswer.CLOSED, 0.0
        answer = (LinkAnswer.ANSWERED, 0.0) if name == "0" else self._come_to(f"{group}-{name}", size)
        return (LinkAnswer.SILENT, 0.0) if answer[0] is LinkAnswer.ANSWERED and engine.status == "paused" else answer

    def write(self, name: str) -> Written:
        engine, done = self.engines[name], self.disks.of(name)
        if engine.status == "exited" or "full" in done:
            if BACKENDS[self.backend].has(Trait.ENDS_WHEN_FULL) and engine.status == "running":
                engine.status = "exited"  # it cannot write
            return Written("refused", 0.0)
        if engine.refuses:
            return Written("refused", 0.0)
        silent = engine.status == "paused" or "stalled" in done
        return Written("silent" if silent else "kept", sum(what for what in done if isinstance(what, float)))


class ImaginedWrites:
    """One write a millisecond, whether or not a server answers."""

    def __init__(self, star: Star) -> None:
        self._star = star

    @property
    def made(self) -> int:
        return self._star.world.now() // 1_000_000

    def going_on(self, rate: float) -> AbstractContextManager[None]:
        assert rate > 0
        return nullcontext()


BUSY = 2.0  # seconds for which the machine may stand still


class ImaginedProber(Prober):
    star: Star

    def __init__(self, star: Star) -> None:
        super().__init__(BACKENDS[star.backend])
        object.__setattr__(self, "star", star)

    def timed(
        self, endpoint: str, patience: float, size: int = 0, *, to_the_end: bool = False
    ) -> tuple[LinkAnswer, float]:
        answer, seconds = self.star.ask(endpoint, size)
        if not to_the_end:
            return answer, seconds
        late = self.star.toxiproxy.proxies[endpoint.replace(":", "-")].toxics.values()
        return answer, seconds + sum(toxic.attributes["delay"] / 1000 for toxic in late if toxic.type == "slow_close")

    def connect(self, endpoint: str, patience: float = 0.0) -> Any:
        if self.ask(endpoint) is LinkAnswer.CLOSED:
            raise ConnectionRefusedError(endpoint)
        return nullcontext(SimpleNamespace(endpoint=endpoint, sendall=lambda _: None, patience=patience))

    def answer(self, connection: Any) -> LinkAnswer:
        return self.ask(connection.endpoint) if connection.patience > BUSY else LinkAnswer.SILENT

    def ask_all(self, endpoints: Sequence[str], patience: float = 0.0) -> list[LinkAnswer]:
        return [self.ask(endpoint, patience) for endpoint in endpoints]


@contextmanager
def imagined(backend: str, *lanes: Lane) -> Iterator[Star]:
    """A star. While the context lasts, faults ask the star instead of real servers."""
    star = Star(backend, *lanes)

    def hand_over(_: Etcd, leader: Server, successor: Health) -> None:
        star.asked_to_hand_over += 1
        if star.asked_to_hand_over % 2 == 0 and leader.name == star.leads in star._heard_by(successor.me):
            star.leads, star.term = successor.me, star.term + 1

    def refuse_writes(_: Backend, server: Server, *, refuse: bool) -> None:
        star.engines[server.name].refuses = refuse

    def maintain(_: Backend, server: Server) -> str:
        if star.write(server.name).outcome != "kept":
            raise ServerRefused("not now")
        return "done"

    with pytest.MonkeyPatch.context() as patch:
        engines_have_clocks(patch)
        patch.setattr("infra.network.links._DRAIN", 0.0)
        patch.setattr(Backend, "write", lambda _, server, *__, **___: star.write(server.name))
        patch.setattr(Etcd, "hand_over", hand_over)
        for kind in (Redis, Etcd, Postgres):
            patch.setattr(kind, "refuse_writes", refuse_writes)
            patch.setattr(kind, "maintain", maintain)
        patch.setattr("infra.faults.servers.clocks.time", SimpleNamespace(time_ns=star.now))
        try:
            yield star
        finally:
            star.cluster.close()


def _delay(toxic: toxics.Toxic, size: int) -> float:
    of: Mapping[str, int] = toxic.attributes
    match toxic.type:
        case "latency":
            return (of["latency"] - of["jitter"]) / 1000
        case "bandwidth":
            return size / 1000 / of["rate"]
        case "slicer":
            return size // of["average_size"] * of["delay"] / 1e6
    return 0.0
