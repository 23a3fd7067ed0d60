"""What does not come back by being started: nodes of another version, an etcd whose place was given away."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from infra import commands, images, members, recovery, star
from infra.environment import Environment
from infra.failover import connect
from infra.faults.target import MonotonicClock
from infra.machine import Failed
from infra.members import replace_member
from infra.recovery import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from infra.nodes import Node

BOOTED, OTHER = "mine:1", "mine:2"


class Server:
    """A node as the recovery sees it. starts: the images that start on its data."""

    def __init__(self, name: str, image: str = OTHER, starts: tuple[str, ...] = (BOOTED, OTHER)) -> None:
        self.name, self.backend = name, star.backend_of(name)
        self.runs, self.starts, self.running = image, starts, True
        self.address = (name, 1)
        self.done: list[str] = []

    def image(self) -> str:
        return self.runs

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

    def remake(self, image: str) -> None:
        self.runs, self.running = image, image in self.starts
        if not self.running:
            raise Refused(f"{self.name} does not start as {image}")


@pytest.fixture(autouse=True)
def _remade(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if not request.node.get_closest_marker("docker"):
        monkeypatch.setattr(recovery, "remake", lambda node, image, links, clock: node.remake(image))


def give_back(*servers: Server) -> list[str]:
    booted = {server.name: BOOTED for server in servers if server.runs != BOOTED}
    return recovery.give_back(cast("Any", servers), booted, cast("Any", None), cast("Any", None))


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
        monkeypatch.setattr(members, "lost_place", lambda others, peer: lost and peer == "http://etcd3:2383")
        links = SimpleNamespace(bury=lambda _: None)
        clock = SimpleNamespace(wait=lambda seconds, until, every: until())
        cluster = SimpleNamespace(nodes=servers)
        recovery.mend(cast("Any", servers[2]), cast("Any", cluster), cast("Any", links), cast("Any", clock))
        assert servers[2].running
        assert servers[2].done == (["wiped"] if wiped else [])


@pytest.fixture(scope="module")
def environment() -> Iterator[Environment]:
    """One whose Redis is old."""
    environment = Environment.start()
    environment.boot({"etcd": None, "redis": "7.0"})
    yield environment
    environment.close()


@pytest.mark.docker
class TestHeal:
    def test_a_member_that_was_replaced_but_not_wiped(self, environment: Environment) -> None:
        node = environment.node("etcd2")
        node.kill()
        others = [environment.node(name).address for name in ("etcd1", "etcd3")]
        assert not members.lost_place(others, star.peer_url("etcd2"))
        replace_member(others, star.peer_url("etcd2"))
        assert members.lost_place(others, star.peer_url("etcd2"))
        environment.heal()
        assert environment.unclean() == []
        assert not members.lost_place(others, star.peer_url("etcd2"))

    def test_a_member_of_an_older_version_that_died(self, environment: Environment) -> None:
        node, older = environment.node("etcd2"), images.resolve("etcd", "3.4")
        images.ensure(older)
        _await(lambda: members.agreed(node.address).startswith("3.5"))  # below, an older one is welcome
        node.replace(older.name)
        _await_end(node)
        assert commands.heal(["--env", environment.name]) == 0
        assert environment.unclean() == []

    def test_another_version_goes_where_the_data_allow_it(self, environment: Environment) -> None:
        node = environment.node("redis2")
        recovery.remake(node, "fencepost/redis:trixie", environment.links, MonotonicClock())
        _write(node, "kept", "yes")
        assert commands.heal(["--env", environment.name]) == 0
        assert environment.unclean() == []
        assert node.version().startswith("7.0")
        with connect(node.address) as redis:
            assert redis.get("kept") == "yes"

    def test_where_they_do_not_it_says_why_and_what_to_do(self, environment: Environment) -> None:
        node = environment.node("redis3")
        recovery.remake(node, "fencepost/redis:trixie", environment.links, MonotonicClock())
        _write(node, "kept", "yes")
        with connect(node.address) as redis:
            redis.bgrewriteaof()
            deadline = time.monotonic() + 30
            while (told := redis.info("persistence"))["aof_rewrite_in_progress"] or not told["aof_rewrites"]:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        with pytest.raises(Failed, match=r"Can't handle RDB format .*python -m infra down --env fp-"):
            commands.heal(["--env", environment.name])
        assert environment.unclean() == ["redis3 runs fencepost/redis:trixie, not fencepost/redis:bookworm"]
        with connect(node.address) as redis:
            assert redis.get("kept") == "yes"


def _write(node: Node, key: str, value: str) -> None:
    with connect(node.address) as redis:
        redis.set(key, value)


def _await_end(node: Node) -> None:
    _await(lambda: node.state() == "stopped", lambda: node.logs().decode()[-3000:])


def _await(condition: Callable[[], bool], why: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)
