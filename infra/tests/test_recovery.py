"""What does not come back by being started: nodes of another version, an etcd whose place was given away; and why."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from infra.backends import BACKENDS
from infra.backends.etcd import Etcd
from infra.cluster import node_repair
from infra.cluster.exit_reason import last_words
from infra.cluster.node_repair import DoesNotStart
from infra.docker import images
from infra.faults.all_faults import FAULTS
from infra.faults.servers import upgrades
from infra.network import topology

BOOTED, OTHER = "mine:1", "mine:2"


class Server:
    """A node as the recovery sees it. starts: the images that start on its data."""

    def __init__(self, name: str, image: str = OTHER, starts: tuple[str, ...] = (BOOTED, OTHER)) -> None:
        self.name, self.backend = name, topology.backend_of(name)
        self.runs, self.starts, self.running = image, starts, True
        self.address = (name, 1)
        self.done: list[str] = []
        self.process = self

    def image(self) -> str:
        return self.runs

    def version(self) -> str:
        return "17.11"

    def state(self) -> str:
        return "running" if self.running else "stopped"

    def wanted(self) -> str:
        return "running"

    def ready(self) -> bool:
        return self.running

    def wipe(self) -> None:
        assert not self.running
        self.done.append("wiped")

    def revive(self) -> None:
        self.running = True

    def remake(self, image: str) -> str:
        self.runs, self.running = image, image in self.starts
        if not self.running:
            raise DoesNotStart(f"{self.name} does not start as {image}")
        return ""


@pytest.fixture(autouse=True)
def _remade(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (node_repair, upgrades):
        monkeypatch.setattr(module, "remake", lambda node, image, links, clock: node.remake(image))


def give_back(*servers: Server) -> list[str]:
    booted = {server.name: BOOTED for server in servers if server.runs != BOOTED}
    return node_repair.give_back(*cast("Any", (servers, booted, None, None)))


def runs(*servers: Server) -> list[str]:
    assert all(server.running for server in servers)
    return [server.runs for server in servers]


class TestGiveBack:
    def test_who_can_becomes_what_he_was(self) -> None:
        servers = Server("redis1"), Server("redis2", BOOTED), Server("redis1-replica")
        assert give_back(*servers) == []
        assert runs(*servers) == [BOOTED] * 3

    def test_who_cannot_goes_on_and_says_why(self) -> None:
        servers = Server("redis1"), Server("redis2", starts=(OTHER,))
        assert give_back(*servers) == [f"redis2 does not start as {BOOTED}"]
        assert runs(*servers) == [BOOTED, OTHER]

    def test_a_replica_goes_where_its_primary_does(self) -> None:
        servers = Server("redis1", starts=(OTHER,)), Server("redis1-replica")
        assert len(give_back(*servers)) == 1
        assert runs(*servers) == [OTHER, OTHER]

    def test_an_etcd_among_those_that_are_as_they_were_gets_its_data_from_them(self) -> None:
        servers = Server("etcd1", BOOTED), Server("etcd2", starts=(OTHER,)), Server("etcd3", BOOTED)
        assert give_back(*servers) == []
        assert runs(*servers) == [BOOTED] * 3
        assert servers[1].done == ["wiped"]

    def test_etcds_that_all_moved_on_keep_their_data(self) -> None:
        servers = [Server(f"etcd{number}", starts=(OTHER,)) for number in (1, 2, 3)]
        assert len(give_back(*servers)) == 3
        assert runs(*servers) == [OTHER] * 3
        assert [server.done for server in servers] == [[], [], []]


class TestMend:
    @pytest.mark.parametrize(("lost", "others_run", "wiped"), [(True, 2, True), (False, 2, False), (True, 1, False)])
    def test_only_one_that_lost_its_place_is_wiped_and_only_by_a_majority(
        self, lost: bool, others_run: int, wiped: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        servers = [Server(f"etcd{number}") for number in (1, 2, 3)]
        for server in servers[others_run:]:
            server.running = False
        monkeypatch.setattr(Etcd, "lost_place", lambda _, others, member: lost and member == "etcd3")
        links, cluster = SimpleNamespace(bury=lambda _: None), SimpleNamespace(nodes=servers)
        clock = SimpleNamespace(wait=lambda seconds, until, every: until())
        node_repair.mend(*cast("Any", (servers[2], cluster, links, clock)))
        assert servers[2].running
        assert servers[2].done == (["wiped"] if wiped else [])


def test_a_roll_to_the_same_version_and_back_names_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "resolve", lambda backend, version: images.Image(backend, f"mine:{version}"))
    monkeypatch.setattr(images, "ensure", lambda _: None)
    environment = SimpleNamespace(booted=lambda _: BOOTED, keep_version=lambda _: None, failover=lambda: None)
    cluster = SimpleNamespace(nodes=[Server("postgres", BOOTED)], ready=lambda: True)
    clock = SimpleNamespace(now=lambda: 0, wait=lambda *_: True)
    target = SimpleNamespace(
        backend="postgres",
        kind=BACKENDS["postgres"],
        environment=environment,
        own=environment,
        cluster=cluster,
        links=None,
        clock=clock,
        patience=lambda seconds: seconds,
    )
    hits: list[str] = []
    for version in ("2", "1"):
        injection = FAULTS["roll-version"].make("postgres", {"version": version, "first": "follower", "members": 1})
        hits += [hit.target for hit in injection.apply(cast("Any", target))]
    assert hits == [f"postgres from 17.11 ({was}) to 17.11 ({now})" for was, now in ((BOOTED, OTHER), (OTHER, BOOTED))]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("1:M # WARNING|1:M * loading|1:M # Can't handle RDB 12|1:M # Error, aborted", "Can't handle RDB 12"),
        ("2026 C | membership: cluster cannot be downgraded", "membership: cluster cannot be downgraded"),
        ('{"level":"info","msg":"hello"}|{"level":"fatal","ts":"1","msg":"no downgrade","v":"3"}', "no downgrade"),
        ("2026 UTC [1] FATAL:  files of another version|2026 UTC [1] DETAIL:  By 17.", "files of another version"),
        ("one|the end", "the end"),
        ("", "it said nothing"),
    ],
)
def test_last_words(said: str, words: str) -> None:
    log = "".join(f"T {line}\n" for line in said.split("|") if line)
    assert last_words(log.encode()) == words
