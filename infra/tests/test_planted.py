"""Servers with a bug planted in them: each has its bug, and is the same server in all that infra does to it."""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from etcd3 import Etcd3Client
from redis import Redis, RedisError

from infra import clocks, failover, images, planted, probes, sources
from infra.clocks import Skew
from infra.environment import Environment
from infra.images import resolve, spelled
from infra.planted import PLANTS, Plant
from infra.star import MEMBERS, PRIMARY, REPLICA
from infra.tests.fakes import commands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WITHIN = 30.0
"""Seconds for what takes fractions of one."""
LONG = 60_000
"""ms; a lease that ends in no test."""
SET = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0"
INCR = "return redis.call('INCR', KEYS[1])"

NAMES = [str(plant) for plant in PLANTS]
on_redis = pytest.mark.parametrize(
    "environment", [plant for plant in PLANTS if plant.server == "redis"], indirect=True, ids=str
)


def one(name: str) -> pytest.MarkDecorator:
    """The fixture `environment` with this plant."""
    return pytest.mark.parametrize("environment", [PLANTS[NAMES.index(name)]], indirect=True, ids=str)


@pytest.fixture(scope="module")
def environment(request: pytest.FixtureRequest) -> Iterator[Environment]:
    """Its only cluster runs a plant. pytest puts together the tests that have one in common."""
    plant: Plant = request.param
    images.ensure(plant.image)
    environment = Environment.start()
    environment.boot(dict([spelled(plant.spelling)]))
    yield environment
    environment.close()


@pytest.fixture
def redis(environment: Environment) -> Iterator[Redis]:
    """redis1, without any key."""
    with failover.connect(environment.node(PRIMARY).address) as redis:
        redis.flushall()
        yield redis


def await_(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- without the engine ---


def test_each_is_an_image_of_its_own_that_is_made_where_it_is_asked_for() -> None:
    assert len({images.digest(plant.image) for plant in PLANTS}) == len(PLANTS)
    for plant in PLANTS:
        backend, version = spelled(plant.spelling)
        assert resolve(backend, version) == plant.image
        assert backend in MEMBERS


def test_they_are_listed_with_what_to_ask_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert planted.main([]) == 0
    told = capsys.readouterr().out
    assert all(plant.bug in told and f"--to {plant.spelling}\n" in told for plant in PLANTS)


def test_what_is_named_is_built(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    made: list[str] = []
    monkeypatch.setattr(images, "ensure", lambda image, say: made.append(image.name))
    assert planted.main(["--build", "redis:slow"]) == 0
    assert capsys.readouterr().out == "redis=image:fencepost/planted-redis:slow\n"
    assert planted.main(["--build"]) == 0
    assert made == ["fencepost/planted-redis:slow", *(plant.image.name for plant in PLANTS)]
    with pytest.raises(SystemExit):
        planted.main(["--build", "redis:fast"])


def test_one_is_made_anew_when_its_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted server of yesterday beside a server of today would be two regressions in one."""
    image = PLANTS[0].image
    made_by = images.digest(image)
    commands(monkeypatch, {"docker image inspect": f"{made_by} sha256:base\n", "docker image ls": "sha256:base\n"})
    assert images.is_current(image)
    digest = images.digest
    monkeypatch.setattr(images, "digest", lambda one: "other" if one.recipe == "redis" else digest(one))
    assert not images.is_current(image)


# --- with it ---


@pytest.mark.docker
@one("redis:expired-grant")
def test_every_fifth_grant_is_over_at_once(redis: Redis) -> None:
    granted = [redis.eval(SET, 1, f"lock-{n}", n, LONG) for n in range(20)]
    assert granted == [1] * 20
    await_(lambda: redis.dbsize() == 16)
    there = [bool(redis.exists(f"lock-{n}")) for n in range(20)]
    assert [left for n, left in enumerate(there) if n % 5 == there.index(False)] == [False] * 4
    assert redis.set("lock-without-a-lease", 1)
    assert all(redis.set(f"key-{n}", n) for n in range(10))
    assert redis.dbsize() == 27


@pytest.mark.docker
@one("redis:lost-token")
def test_every_fifth_token_is_the_one_before(redis: Redis) -> None:
    tokens = [int(redis.eval(INCR, 1, "fence")) for _ in range(20)]
    assert tokens[-1] == 16
    assert {after - before for before, after in pairwise(tokens)} == {0, 1}
    assert redis.incrby("others", 2) == 2


@pytest.mark.docker
@one("redis:late-expiry")
def test_what_is_set_lives_three_times_as_long(redis: Redis) -> None:
    assert redis.eval(SET, 1, "lock", 1, LONG) == 1
    assert 2 * LONG < redis.pttl("lock") <= 3 * LONG
    assert redis.pexpire("lock", 2 * LONG)
    assert 5 * LONG < redis.pttl("lock") <= 6 * LONG
    assert redis.set("other", 1, ex=10)
    assert 20_000 < redis.pttl("other") <= 30_000
    assert redis.set("for-ever", 1)
    assert redis.pttl("for-ever") == -1


@pytest.mark.docker
@one("redis:slow")
def test_every_request_waits(redis: Redis) -> None:
    times = []
    for _ in range(20):
        before = time.monotonic()
        redis.ping()
        times.append(time.monotonic() - before)
    assert min(times) >= 0.010


@pytest.mark.docker
@on_redis
class TestTheSameServer:
    def test_it_is_the_version_that_it_was_made_from(self, environment: Environment) -> None:
        series = sources.CARRIED["redis"][PLANTS[0].image.suite or ""]
        told = environment.cluster("redis").versions()
        assert all(version.startswith(f"{series}.") for version in told.values())
        assert environment.node(PRIMARY).made_from()["settings"]["FENCEPOST_PLANT"]

    def test_its_clock_can_be_moved(self, environment: Environment) -> None:
        node = environment.node(PRIMARY)
        node.skew(Skew(offset=60.0))
        right = environment.store_health()
        told = node.health()
        assert told is not None
        assert right is not None
        assert clocks.apart(told, right) > 50
        node.let_go()
        assert environment.unclean() == []

    def test_it_keeps_its_data_and_its_bug_when_it_is_killed(self, environment: Environment, redis: Redis) -> None:
        redis.set("kept", "yes")
        node = environment.node(PRIMARY)
        node.kill()
        with pytest.raises(RedisError):
            redis.ping()
        node.let_go()
        await_(node.ready)
        assert redis.get("kept") == "yes"
        environment.cluster("redis").await_ready()
        assert environment.unclean() == []

    def test_its_replica_follows_it_and_takes_its_place(self, environment: Environment, redis: Redis) -> None:
        replica, pair = environment.node(REPLICA), environment.failover()
        assert pair is not None
        tokens = [redis.eval(INCR, 1, "fence") for _ in range(20)]
        assert redis.wait(1, int(WITHIN * 1000)) == 1
        with failover.connect(replica.address) as copy:
            assert copy.get("fence") == str(tokens[-1])
            pair.promote("test")
            replica.kill("test")  # which finds its role, and its bug, in its own file
            replica.let_go("test")
            await_(replica.ready)
            assert copy.role()[0] == "master"
            pair.let_go("test")
        await_(pair.follows)
        assert redis.get("fence") == str(tokens[-1])
        assert environment.unclean() == []


@pytest.mark.docker
@pytest.mark.parametrize(
    ("environment", "told", "real"),
    [(PLANTS[NAMES.index("etcd:expired-grant")], 6, 2), (PLANTS[NAMES.index("etcd:late-expiry")], 2, 6)],
    indirect=["environment"],
    ids=str,
)
def test_a_lease_of_etcd_is_not_what_was_said(environment: Environment, told: int, real: int) -> None:
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
    assert environment.unclean() == []


@pytest.mark.docker
@one("etcd:slow")
def test_every_request_to_etcd_waits(environment: Environment) -> None:
    """Its status, over HTTP."""
    times = []
    node = environment.cluster("etcd").nodes[0]
    for _ in range(20):
        before = time.monotonic()
        told = probes.etcd(*node.address)
        times.append(time.monotonic() - before)
        assert told is not None
        assert told.version.startswith(sources.CARRIED["etcd"][PLANTS[0].image.suite or ""])
    assert statistics.median(times) >= 0.010
    node.kill()
    node.let_go()
    environment.cluster("etcd").await_ready()
    assert environment.unclean() == []
