"""Servers with a planted bug: each has its bug, and is still the same server in all that infra does to it."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from typing import LiteralString

import psycopg
import pytest
from etcd3 import Etcd3Client
from etcd3.transactions import Create, Delete, Put
from redis import Redis

from infra.backends.redis import PRIMARY, REPLICA
from infra.cluster.clock_skew import Skew
from infra.docker import base, images, sources
from infra.docker.servers_with_bugs import PLANTS, Plant
from infra.own_environment import OwnEnvironment
from infra.tests.environments import taken
from infra.tests.live.hurting import PATIENCE, Session, await_, place, redis_at, session, until, version, zookeeper

LONG = 60_000  # ms; a lease that ends in no test
LEASE = 40  # s; a lease of etcd that ends in no test, and three times that still take a byte
SET = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0"
INCR = "return redis.call('INCR', KEYS[1])"
EXPIRE = "return redis.call('PEXPIRE', KEYS[1], ARGV[1])"
DELETE = "return redis.call('DEL', KEYS[1])"

pytestmark = pytest.mark.needs("redis", "etcd", "zookeeper", "postgres")


def plant(*names: str) -> pytest.MarkDecorator:
    """Run a test with the fixture `planted` for each of these plants."""
    by_name = {str(plant): plant for plant in PLANTS}
    return pytest.mark.parametrize("planted", [by_name[name] for name in names], indirect=True, ids=str)


HOSTS = {"redis": (PRIMARY, REPLICA), "etcd": ("etcd1",), "zookeeper": ("zk1",), "postgres": ("postgres",)}
"""Backend -> the servers whose place a server with a planted bug takes."""


def become(environment: OwnEnvironment, backend: str, image: str) -> None:
    for name in HOSTS[backend]:
        node = environment.node(name)
        if name == REPLICA:
            node.replace(image, node.process.wipe)  # a promoted replica has the bug's module in its own file
        else:
            node.replace(image)
        environment.keep_version(name)
    environment.cluster(backend).await_ready()


@pytest.fixture(scope="module")
def hosts() -> Iterator[OwnEnvironment]:
    """The environment of the hosts. In the end they run the images again that they were booted with."""
    environment = taken(*HOSTS)
    booted = {backend: environment.booted(backend) for backend in HOSTS}
    yield environment
    for backend, image in booted.items():
        become(environment, backend, image)


@pytest.fixture(scope="module")
def planted(request: pytest.FixtureRequest, hosts: OwnEnvironment) -> Plant:
    """The plant that takes the place of the hosts. pytest puts together the tests that share a plant."""
    plant: Plant = request.param
    images.ensure(image := images.resolve(plant.server, plant.version))
    become(hosts, plant.server, image.name)
    return plant


@pytest.fixture
def redis(planted: Plant, environment: OwnEnvironment) -> Iterator[Redis]:
    """redis1, without any key."""
    with redis_at(environment.node(PRIMARY).endpoint) as redis:
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
    assert [redis.eval(SET, 1, f"lock-{n}", n, LONG) for n in range(20)] == [1] * 20
    await_(lambda: redis.dbsize() == 16)
    there = [bool(redis.exists(f"lock-{n}")) for n in range(20)]
    assert [left for n, left in enumerate(there) if n % 5 == there.index(False)] == [False] * 4
    assert redis.set("lock-without-a-lease", 1)
    assert all(redis.set(f"key-{n}", n) for n in range(10))
    assert redis.dbsize() == 27


@plant("redis:lost-token")
def test_every_fifth_token_repeats_the_token_before(redis: Redis) -> None:
    tokens = [int(redis.eval(INCR, 1, "fence")) for _ in range(20)]
    assert tokens[-1] == 16
    assert {after - before for before, after in pairwise(tokens)} == {0, 1}
    assert redis.incrby("others", 2) == 2


@plant("redis:late-expiry", "redis:early-expiry")
def test_keys_live_three_times_as_long_or_a_third_as_long(planted: Plant, redis: Redis) -> None:
    def lives(key: str, told: int) -> bool:
        real = told * 3 if planted.name == "late-expiry" else told / 3
        return real / 2 < redis.pttl(key) <= real

    assert redis.eval(SET, 1, "lock", 1, 3 * LONG) == 1
    assert lives("lock", 3 * LONG)
    assert redis.eval(EXPIRE, 1, "lock", 6 * LONG) == 1
    assert lives("lock", 6 * LONG)
    assert redis.pexpire("lock", 9 * LONG)
    assert lives("lock", 9 * LONG)
    assert redis.set("other", 1, ex=300)
    assert lives("other", 300_000)
    assert redis.set("for-ever", 1)
    assert redis.pttl("for-ever") == -1


@plant("redis:granted-twice")
def test_every_fiftieth_grant_is_of_a_lock_that_is_held(redis: Redis) -> None:
    granted = [n for n in range(101) if redis.eval(SET, 1, "lock", n, LONG)]
    assert len(granted) == 3
    assert (granted[0], granted[2] - granted[1]) == (0, 50)
    assert redis.get("lock") == str(granted[-1])


@plant("redis:lost-renewal")
def test_a_renewal_changes_no_ttl(redis: Redis) -> None:
    assert redis.eval(SET, 1, "lock", 1, LONG) == 1
    assert redis.eval(EXPIRE, 1, "lock", 3 * LONG) == 1
    assert redis.expire("lock", 600)
    assert redis.pttl("lock") <= LONG
    assert redis.eval(EXPIRE, 1, "other", LONG) == 0


@plant("redis:lost-release")
def test_every_fifth_key_that_redis_deletes_stays_for_good(redis: Redis) -> None:
    assert [redis.eval(SET, 1, f"lock-{n}", n, LONG) for n in range(20)] == [1] * 20
    assert [redis.eval(DELETE, 1, f"lock-{n}") for n in range(20)] == [1] * 20
    left = sorted(int(str(key).removeprefix("lock-")) for key in redis.keys("lock-*"))
    assert [after - before for before, after in pairwise(left)] == [5] * 3
    assert {redis.pttl(f"lock-{n}") for n in left} == {-1}


@plant("redis:lost-data")
def test_acknowledged_data_are_lost_when_redis_is_killed(environment: OwnEnvironment, redis: Redis) -> None:
    assert redis.set("kept", "yes")
    assert redis.get("kept") == "yes"
    node = environment.node(PRIMARY)
    node.kill()
    node.let_go()
    await_(node.ready)
    assert redis.get("kept") is None
    environment.cluster("redis").await_ready()


@plant("redis:slow")
def test_every_request_waits(redis: Redis) -> None:
    assert min(waits(redis.ping)) >= 0.010


@plant("redis:lost-token", "redis:slow")
class TestTheSameServer:
    def test_the_redis_has_its_version_and_a_movable_clock(self, planted: Plant, environment: OwnEnvironment) -> None:
        node = environment.node(PRIMARY)
        assert version(node).startswith(f"{sources.PACKAGES['redis'].series[base.SUITES[0]]}.")
        assert node.process.made_from()["settings"]["FENCEPOST_PLANT"] == planted.name
        node.skew(Skew(offset=60.0))
        await_(lambda: any(line.startswith(f"{PRIMARY}'s clock is ") for line in environment.unclean()))
        node.let_go()

    def test_a_planted_redis_keeps_its_data_when_it_is_killed(self, environment: OwnEnvironment, redis: Redis) -> None:
        redis.set("kept", "yes")
        node = environment.node(PRIMARY)
        node.kill()
        assert node.state() == "stopped"
        node.let_go()
        await_(node.ready)
        assert redis.get("kept") == "yes"
        environment.cluster("redis").await_ready()

    def test_a_replica_follows_its_primary_and_takes_its_place(self, environment: OwnEnvironment, redis: Redis) -> None:
        replica, pair = environment.node(REPLICA), environment.failover()
        assert pair is not None
        tokens = [redis.eval(INCR, 1, "fence") for _ in range(20)]
        assert redis.wait(1, int(PATIENCE * 500)) == 1
        with redis_at(replica.endpoint) as copy:
            assert copy.get("fence") == str(tokens[-1])
            pair.promote("test")
            replica.kill("test")  # the replica finds its role and its bug in its own file
            replica.let_go("test")
            await_(replica.ready)
            assert copy.role()[0] == "master"
            pair.let_go("test")
        await_(pair.follows)
        assert redis.get("fence") == str(tokens[-1])


@pytest.fixture
def etcd(planted: Plant, environment: OwnEnvironment) -> Iterator[Etcd3Client]:
    """A client of etcd1, which has no key of these tests."""
    client = Etcd3Client(*place(environment.cluster("etcd").nodes[0].endpoint), timeout=PATIENCE)
    yield client
    client.delete_prefix("planted/")
    client.close()


@plant("etcd:expired-grant", "etcd:late-expiry")
def test_a_lease_of_etcd_has_another_ttl_than_etcd_said(planted: Plant, etcd: Etcd3Client) -> None:
    told, real = (3 * LEASE, LEASE) if planted.name == "expired-grant" else (10, 30)  # a longer lease stays as it is
    leases = [etcd.lease(min(told, real)) for _ in range(20)]
    assert {lease.ttl for lease in leases} == {told}
    assert {lease.granted_ttl for lease in leases} == {real}
    (answer,) = leases[0].refresh()
    assert told == answer.TTL
    etcd.put("planted/kept", "value", leases[0])
    assert etcd.get("planted/kept")[0] == b"value"


@plant("etcd:ignored-compare")
def test_every_fifth_key_is_put_though_it_is_there(etcd: Etcd3Client) -> None:
    put = [
        etcd.transaction([Create("planted/lock") == 0], [Put("planted/lock", str(n))], [])[0]  # as a lock does
        for n in range(21)
    ]
    assert put[0]
    again = [n for n in range(1, 21) if put[n]]
    assert [after - before for before, after in pairwise(again)] == [5] * 3
    value, about = etcd.get("planted/lock")
    assert (value, about.version) == (str(again[-1]).encode(), 5)
    assert not any(
        etcd.transaction([Create("planted/lock") == about.create_revision - 1], [Delete("planted/lock")], [])[0]
        for _ in range(10)
    )


@plant("etcd:lost-deletion")
def test_every_fifth_key_that_etcd_deletes_still_exists(etcd: Etcd3Client) -> None:
    for n in range(20):
        etcd.put(f"planted/{n:02}", "value")
    assert all(etcd.transaction([Create(f"planted/{n:02}") > 0], [Delete(f"planted/{n:02}")], [])[0] for n in range(20))
    left = [int(about.key.removeprefix(b"planted/")) for _, about in etcd.get_prefix("planted/")]
    assert [after - before for before, after in pairwise(sorted(left))] == [5] * 3


@plant("etcd:leaked-lease")
def test_a_key_does_not_go_with_its_lease(etcd: Etcd3Client) -> None:
    lease = etcd.lease(LEASE)
    etcd.put("planted/put", "value", lease)
    assert etcd.transaction([Create("planted/lock") == 0], [Put("planted/lock", "", lease)], [])[0]
    assert (list(lease.keys), lease.refresh()[0].TTL) == ([], LEASE)
    lease.revoke()
    assert [about.key for _, about in etcd.get_prefix("planted/")] == [b"planted/lock", b"planted/put"]


@plant("etcd:slow")
def test_every_request_to_etcd_waits(planted: Plant, environment: OwnEnvironment) -> None:
    node = environment.cluster("etcd").nodes[0]
    assert statistics.median(waits(lambda: until(lambda: node.kind.probe(node)))) >= 0.010
    assert version(node).startswith(sources.PACKAGES["etcd"].series[base.SUITES[0]])
    node.kill()
    node.let_go()
    environment.cluster("etcd").await_ready()


@plant("zookeeper:leaked-node")
def test_an_ephemeral_node_stays(planted: Plant, environment: OwnEnvironment) -> None:
    zk1, zk2 = (node.endpoint for node in environment.cluster("zookeeper").nodes[:2])
    with zookeeper(zk1) as client:
        queued, _ = client.create("/planted-", b"", ephemeral=True, sequence=True, include_data=True)
        client.create("/planted", b"", ephemeral=True)
    with zookeeper(zk2) as other:  # a member without the bug
        other.sync("/")
        assert [other.exists(path).ephemeralOwner for path in (queued, "/planted")] == [0, 0]
        for path in (queued, "/planted"):
            other.delete(path)
        other.create("/planted", b"", ephemeral=True)
        assert other.exists("/planted").ephemeralOwner == other.client_id[0]


@pytest.fixture
def postgres(planted: Plant, environment: OwnEnvironment) -> Iterator[Session]:
    """A session with the database of the locks."""
    with closing(session(environment)) as connection:
        yield connection


def told(connection: Session, question: LiteralString) -> list[object]:
    """The first column of the answer."""
    return [value for value, *_ in connection.execute(question)]


LOCK: LiteralString = "SELECT pg_advisory_lock(number) FROM generate_series(1, 20) AS number"
UNLOCK: LiteralString = "SELECT pg_advisory_unlock(number) FROM generate_series(1, 20) AS number"
LOCKED: LiteralString = "SELECT objid::int FROM pg_locks WHERE locktype = 'advisory' ORDER BY objid"


@plant("postgres:void-grant")
class TestVoidGrant:
    def test_every_fifth_lock_is_not_taken(self, postgres: Session) -> None:
        assert len(told(postgres, LOCK)) == 20
        locked = told(postgres, LOCKED)
        void = [number for number in range(1, 21) if number not in locked]
        assert [after - before for before, after in pairwise(void)] == [5] * 3
        assert told(postgres, UNLOCK) == [number in locked for number in range(1, 21)]

    def test_only_a_void_grant_ignores_a_held_lock(self, environment: OwnEnvironment, postgres: Session) -> None:
        assert told(postgres, "SELECT pg_try_advisory_lock(1)") == [True]
        outcomes = []
        with closing(session(environment)) as other:
            other.execute("SET lock_timeout = '50ms'")
            for _ in range(5):
                try:
                    other.execute("SELECT pg_advisory_lock(1)")
                    outcomes.append("granted")
                except psycopg.errors.LockNotAvailable:
                    outcomes.append("refused")
        assert sorted(outcomes) == ["granted"] + ["refused"] * 4

    def test_postgres_keeps_its_data_and_bug_after_a_kill(self, planted: Plant, environment: OwnEnvironment) -> None:
        node = environment.node("postgres")
        assert version(node).startswith(f"{sources.PACKAGES['postgres'].series[base.SUITES[0]]}.")
        with closing(session(environment)) as before:
            before.execute("CREATE TABLE planted AS SELECT 1 AS kept")
        node.kill()
        node.let_go()
        await_(node.ready)
        with closing(session(environment)) as after:
            assert told(after, "SELECT kept FROM planted") == [1]
            after.execute("DROP TABLE planted")
            after.execute(LOCK)
            assert len(told(after, LOCKED)) == 16


@plant("postgres:lost-release")
def test_every_fifth_lock_is_kept(postgres: Session) -> None:
    postgres.execute(LOCK)
    assert told(postgres, UNLOCK) == [True] * 20
    assert len(told(postgres, LOCKED)) == 4
    assert told(postgres, "SELECT pg_advisory_unlock_all() IS NULL") == [False]
    assert told(postgres, LOCKED) == []


@plant("postgres:early-expiry")
def test_a_lease_ends_after_a_third(postgres: Session) -> None:
    question: LiteralString = "SELECT extract(epoch FROM (now() + $$60s$$::interval) - now())::int"
    assert told(postgres, question) == [20]
    assert told(postgres, "SELECT extract(epoch FROM now() - (now() - $$60s$$::interval))::int") == [60]
