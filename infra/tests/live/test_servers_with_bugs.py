"""Servers with a bug planted in them: each has its bug, and is the same server in all that infra does to it."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from etcd3 import Etcd3Client
from redis import Redis

from infra.backends import BACKENDS
from infra.backends.redis import PRIMARY, REPLICA, connect
from infra.cluster.clock_skew import Skew
from infra.docker import images, sources
from infra.docker.servers_with_bugs import PLANTS, Plant
from infra.own_environment import OwnEnvironment
from infra.tests.environments import taken
from infra.tests.live.hurting import await_

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WITHIN = 30.0
"""Seconds for what takes fractions of one."""
LONG = 60_000
"""ms; a lease that ends in no test."""
SET = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0"
INCR = "return redis.call('INCR', KEYS[1])"

pytestmark = pytest.mark.needs("redis", "etcd")


def plant(*names: str) -> pytest.MarkDecorator:
    """The fixture `planted` with each of these."""
    by_name = {str(plant): plant for plant in PLANTS}
    return pytest.mark.parametrize("planted", [by_name[name] for name in names], indirect=True, ids=str)


HOSTS = {"redis": (PRIMARY, REPLICA), "etcd": ("etcd1",)}
"""Backend -> servers that others take for some of theirs."""


def become(environment: OwnEnvironment, backend: str, image: str) -> None:
    for name in HOSTS[backend]:
        node = environment.node(name)
        node.kill()
        if name == REPLICA:
            node.wipe()  # once promoted it has the bug's module in its own file
        node.replace(image)
        node.let_go()
        environment.keep_version(name)
    environment.cluster(backend).await_ready()


@pytest.fixture(scope="module")
def hosts() -> Iterator[OwnEnvironment]:
    """They are what they were when all is over."""
    environment = taken(*HOSTS)
    booted = {backend: environment.booted(backend) for backend in HOSTS}
    yield environment
    for backend, image in booted.items():
        become(environment, backend, image)


@pytest.fixture(scope="module")
def planted(request: pytest.FixtureRequest, hosts: OwnEnvironment) -> Plant:
    """In the place of the hosts. pytest puts together the tests that have a plant in common."""
    plant: Plant = request.param
    images.ensure(plant.image)
    become(hosts, plant.server, plant.image.name)
    return plant


@pytest.fixture
def redis(planted: Plant, environment: OwnEnvironment) -> Iterator[Redis]:
    """redis1, without any key."""
    with connect(environment.node(PRIMARY).address) as redis:
        redis.flushall()
        yield redis


def waits(ask: Callable[[], object]) -> list[float]:
    """The seconds that each of twenty questions takes."""
    moments = [time.monotonic()]
    for _ in range(20):
        assert ask()
        moments.append(time.monotonic())
    return [after - before for before, after in pairwise(moments)]


@plant("redis:expired-grant")
def test_every_fifth_grant_is_over_at_once(redis: Redis) -> None:
    granted = [redis.eval(SET, 1, f"lock-{n}", n, LONG) for n in range(20)]
    assert granted == [1] * 20
    await_(lambda: redis.dbsize() == 16)
    there = [bool(redis.exists(f"lock-{n}")) for n in range(20)]
    assert [left for n, left in enumerate(there) if n % 5 == there.index(False)] == [False] * 4
    assert redis.set("lock-without-a-lease", 1)
    assert all(redis.set(f"key-{n}", n) for n in range(10))
    assert redis.dbsize() == 27


@plant("redis:lost-token")
def test_every_fifth_token_is_the_one_before(redis: Redis) -> None:
    tokens = [int(redis.eval(INCR, 1, "fence")) for _ in range(20)]
    assert tokens[-1] == 16
    assert {after - before for before, after in pairwise(tokens)} == {0, 1}
    assert redis.incrby("others", 2) == 2


@plant("redis:late-expiry")
def test_what_is_set_lives_three_times_as_long(redis: Redis) -> None:
    assert redis.eval(SET, 1, "lock", 1, LONG) == 1
    assert 2 * LONG < redis.pttl("lock") <= 3 * LONG
    assert redis.pexpire("lock", 2 * LONG)
    assert 5 * LONG < redis.pttl("lock") <= 6 * LONG
    assert redis.set("other", 1, ex=10)
    assert 20_000 < redis.pttl("other") <= 30_000
    assert redis.set("for-ever", 1)
    assert redis.pttl("for-ever") == -1


@plant("redis:slow")
def test_every_request_waits(redis: Redis) -> None:
    assert min(waits(redis.ping)) >= 0.010


@plant("redis:lost-token", "redis:slow")
class TestTheSameServer:
    def test_it_is_the_version_that_it_was_made_from(self, planted: Plant, environment: OwnEnvironment) -> None:
        series = sources.CARRIED["redis"][PLANTS[0].image.suite or ""]
        assert environment.node(PRIMARY).version().startswith(f"{series}.")
        assert environment.node(PRIMARY).process.made_from()["settings"]["FENCEPOST_PLANT"] == planted.name

    def test_its_clock_can_be_moved(self, planted: Plant, environment: OwnEnvironment) -> None:
        node = environment.node(PRIMARY)
        node.skew(Skew(offset=60.0))
        assert any(line.startswith(f"{PRIMARY}'s clock is ") for line in environment.unclean())
        node.let_go()

    def test_it_keeps_its_data_and_its_bug_when_it_is_killed(self, environment: OwnEnvironment, redis: Redis) -> None:
        redis.set("kept", "yes")
        node = environment.node(PRIMARY)
        node.kill()
        assert node.state() == "stopped"
        node.let_go()
        await_(node.ready)
        assert redis.get("kept") == "yes"
        environment.cluster("redis").await_ready()

    def test_its_replica_follows_it_and_takes_its_place(self, environment: OwnEnvironment, redis: Redis) -> None:
        replica, pair = environment.node(REPLICA), environment.failover()
        assert pair is not None
        tokens = [redis.eval(INCR, 1, "fence") for _ in range(20)]
        assert redis.wait(1, int(WITHIN * 1000)) == 1
        with connect(replica.address) as copy:
            assert copy.get("fence") == str(tokens[-1])
            pair.promote("test")
            replica.kill("test")  # which finds its role, and its bug, in its own file
            replica.let_go("test")
            await_(replica.ready)
            assert copy.role()[0] == "master"
            pair.let_go("test")
        await_(pair.follows)
        assert redis.get("fence") == str(tokens[-1])


@plant("etcd:expired-grant", "etcd:late-expiry")
def test_a_lease_of_etcd_is_not_what_was_said(planted: Plant, environment: OwnEnvironment) -> None:
    told, real = (6, 2) if planted.name == "expired-grant" else (2, 6)
    node = environment.cluster("etcd").nodes[0]
    client = Etcd3Client(*node.address, timeout=WITHIN)
    leases = [client.lease(2) for _ in range(20)]
    assert {lease.ttl for lease in leases} == {told}
    assert {lease.granted_ttl for lease in leases} == {real}
    (answer,) = leases[0].refresh()
    assert told == answer.TTL
    client.put("kept", "value", leases[0])
    assert client.get("kept")[0] == b"value"
    client.close()


@plant("etcd:slow")
def test_every_request_to_etcd_waits(planted: Plant, environment: OwnEnvironment) -> None:
    """Its status, over HTTP."""
    node = environment.cluster("etcd").nodes[0]
    assert statistics.median(waits(lambda: BACKENDS["etcd"].probe(*node.address))) >= 0.010
    told = BACKENDS["etcd"].probe(*node.address)
    assert told is not None
    assert told.version.startswith(sources.CARRIED["etcd"][PLANTS[0].image.suite or ""])
    node.kill()
    node.let_go()
    environment.cluster("etcd").await_ready()
