from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
import redis as redis_client
from kazoo.client import KazooClient
from redis.backoff import NoBackoff
from redis.retry import Retry

from infra import nodes
from infra.environment import BACKENDS, GROUPS, Environment
from infra.links import Cut
from infra.machine import Failed, Unknown
from infra.nodes import Cluster, Node
from infra.tests.live.keeping import etcd

ELECTED_WITHIN = 30.0
"""Seconds; it measures one to three, and up to nine when ZooKeeper's first choice of a leader falls through."""


pytestmark = pytest.mark.needs(*BACKENDS)


@pytest.fixture
def healed(environment: Environment) -> Iterator[Environment]:
    yield environment
    environment.heal()


class TestEnvironment:
    def test_all_is_ready(self, environment: Environment) -> None:
        assert environment.unclean() == []
        assert {backend: len(cluster.nodes) for backend, cluster in environment.clusters.items()} == {
            "redis": 5,
            "zookeeper": 3,
            "etcd": 3,
            "postgres": 1,
        }
        for backend, cluster in environment.clusters.items():
            assert cluster.ready()
            assert set(cluster.versions()) == {node.name for node in cluster.nodes}
            assert (cluster.leader() is None) == (backend in ("redis", "postgres"))

    def test_what_runs_is_taken_as_it_is(self, environment: Environment) -> None:
        assert environment.ensure("redis") is environment.cluster("redis")

    def test_one_version_of_a_backend(self, environment: Environment) -> None:
        with pytest.raises(Failed, match="cannot have fencepost/redis:bookworm as well"):
            environment.ensure("redis", "7.0")

    def test_unknown_names_are_told_with_what_there_is(self, environment: Environment) -> None:
        with pytest.raises(Unknown, match="there are redis, zookeeper"):
            environment.ensure("mysql")
        with pytest.raises(Unknown, match="there are redis1"):
            environment.node("redis9")
        with pytest.raises(Unknown, match=r"etcd1.*toxiproxy"):
            environment.logs("nobody")
        with pytest.raises(KeyError):
            environment.cluster("mysql")

    def test_the_store_answers_every_group(self, environment: Environment) -> None:
        for group in (None, *GROUPS):
            with psycopg.connect(environment.store_dsn(group)) as connection:
                row = connection.execute("SHOW fsync").fetchone()
                assert row == ("off",)

    def test_another_process_can_take_hold_of_it(self, healed: Environment) -> None:
        other = Environment.attach(healed.name)
        assert other.clusters.keys() == healed.clusters.keys()
        assert other.store_dsn(2) == healed.store_dsn(2)
        other.links.cut("c2", "etcd1", Cut.DROP)
        assert healed.links.active() == ["c2 <-> etcd1: bytes dropped"]

    def test_everything_unclean_is_told(self, healed: Environment) -> None:
        # Two followers, who have nothing to say to each other: one that does not hear its leader would not serve.
        leader = healed.cluster("etcd").leader()
        one, other = (node.name for node in healed.cluster("etcd").nodes if node is not leader)
        healed.links.block(one, other, Cut.HOLD)
        healed.node("redis2").pause()
        healed.node("redis4").kill()
        assert healed.unclean() == [
            f"{one} -> {other}: bytes held",
            "redis2 is paused",
            "redis4 is stopped",
            "redis2 does not serve",
            "redis4 does not serve",
        ]

    def test_logs(self, environment: Environment) -> None:
        assert b"Ready to accept connections" in environment.node("redis1").logs()
        assert b"database system is ready" in environment.logs("store")


class TestNodes:
    def test_a_paused_node_is_silent_and_then_goes_on(self, healed: Environment) -> None:
        node = healed.node("redis3")
        client = _redis(healed.endpoints("redis", 1)[2], timeout=5)
        client.set("paused", "before")
        node.pause()
        node.pause()
        assert node.state() == "paused"
        assert not node.ready()
        answers: list[object] = []
        asking = threading.Thread(target=lambda: answers.append(client.get("paused")))
        asking.start()
        asking.join(0.3)
        assert answers == []
        node.let_go()
        node.let_go()
        asking.join(5)
        assert answers == [b"before"]
        assert node.state() == "running"

    def test_a_killed_redis_refuses_and_keeps_its_data(self, healed: Environment) -> None:
        node = healed.node("redis2")
        _redis(healed.endpoints("redis", 1)[1]).set("kept", "yes")
        node.kill()
        node.kill()
        assert node.state() == "stopped"
        assert not node.ready()
        with pytest.raises(redis_client.ConnectionError, match="refused"):
            _redis(healed.endpoints("redis", 1)[1]).ping()
        healed.links.heal_all()  # does not bring the dead back
        with pytest.raises(redis_client.ConnectionError, match="refused"):
            _redis(healed.endpoints("redis", 1)[1]).ping()
        node.let_go()
        healed.cluster("redis").await_ready()
        assert _redis(healed.endpoints("redis", 1)[1]).get("kept") == b"yes"

    def test_a_cut_outlasts_the_death_of_its_node(self, healed: Environment) -> None:
        healed.links.cut("c1", "redis2", Cut.REFUSE)
        healed.node("redis2").kill()
        healed.node("redis2").let_go()
        healed.cluster("redis").await_ready()
        assert healed.links.active() == ["c1 <-> redis2: refused"]
        assert _redis(healed.endpoints("redis", 2)[1]).ping()

    def test_a_paused_node_can_be_killed(self, healed: Environment) -> None:
        healed.node("redis1").pause()
        healed.node("redis1").kill()
        assert healed.node("redis1").state() == "stopped"

    def test_killed_members_keep_their_data(self, healed: Environment) -> None:
        zookeeper = KazooClient(hosts=",".join(healed.endpoints("zookeeper", 1)), timeout=4)
        zookeeper.start()
        zookeeper.create("/kept", b"yes")
        zookeeper.stop()
        zookeeper.close()
        etcd(healed.direct("etcd")[0], "kv/put", key="kept", value="yes")
        victims = [healed.node(name) for name in ("zk1", "zk2", "etcd1", "etcd2")]
        for victim in victims:
            victim.kill()
        for backend in ("zookeeper", "etcd"):
            _await_leader(healed.cluster(backend), lambda leader: leader is None)
        for victim in victims:
            victim.let_go()
        for backend in ("zookeeper", "etcd"):
            healed.cluster(backend).await_ready()
        found = etcd(healed.direct("etcd")[1], "kv/range", key="kept")
        assert found["kvs"][0]["value"] == base64.b64encode(b"yes").decode()
        zookeeper = KazooClient(hosts=healed.direct("zookeeper")[0], timeout=4)
        zookeeper.start()
        assert zookeeper.get("/kept")[0] == b"yes"
        zookeeper.stop()
        zookeeper.close()

    @pytest.mark.parametrize("backend", ["zookeeper", "etcd"])
    def test_the_leader_is_who_the_majority_follows(self, healed: Environment, backend: str) -> None:
        cluster = healed.cluster(backend)
        old = cluster.leader()
        assert old
        for other in cluster.nodes:
            if other is not old:
                healed.links.cut(old.name, other.name, Cut.DROP)
        new = _await_leader(cluster, lambda leader: leader not in (None, old))
        assert not cluster.ready()
        assert {str(cluster.leader()) for _ in range(20)} == {str(new)}
        healed.links.heal_all()
        cluster.await_ready()


def _await_leader(cluster: Cluster, wanted: Callable[[Node | None], bool]) -> Node | None:
    """The first answer to "who leads" that is as wanted."""
    deadline = time.monotonic() + ELECTED_WITHIN
    while not wanted(leader := cluster.leader()):
        assert time.monotonic() < deadline, f"{cluster.backend} is led by {leader}"
        time.sleep(nodes.POLL)
    return leader


def _redis(address: str, timeout: float = 2.0) -> redis_client.Redis:
    host, _, port = address.rpartition(":")
    return redis_client.Redis(host=host, port=int(port), socket_timeout=timeout, retry=Retry(NoBackoff(), 0))
