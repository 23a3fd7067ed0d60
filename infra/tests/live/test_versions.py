"""Members run another version on the same data, for a time or for good; or a version does not start on the data.

PostgreSQL goes to another major version with all its data, or keeps its version and says why. A version to which all
data have gone over cannot be undone, so later tests in this file begin with what earlier tests left.
"""

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Self

import psycopg
import pytest

from infra import commands
from infra.backends import BACKENDS
from infra.backends.postgres import BOUNCER, Postgres
from infra.backends.redis import PRIMARY, REPLICA
from infra.cluster.node_repair import DoesNotStart, remake
from infra.docker import images
from infra.errors import Failed
from infra.faults.fault import FaultInjection
from infra.faults.plan import Plan, Step
from infra.faults.runner import Record, Runner
from infra.faults.target import Hit, Target
from infra.own_environment import OwnEnvironment
from infra.tests.environments import await_unclean, target_of
from infra.tests.live import hurting
from infra.tests.live.hurting import asked, await_, await_kept, insist, keep, kept, leader_hit, reign, session, version

SOON = 5.0  # seconds for a login that is tried again
OLD = {"etcd": "3.4", "zookeeper": "3.8", "redis": "7.0", "postgres": "15"}


@pytest.fixture(scope="module")
def old() -> Iterator[OwnEnvironment]:
    environment = OwnEnvironment.start()
    environment.boot(OLD)
    yield environment
    environment.close()


def injection_of(backend: str, node: str, version: str) -> FaultInjection:
    return Step("replace-version", 0.0, 0.0, {"node": node, "version": version}).injection(backend)


def applied(target: Target, injection: FaultInjection) -> Hit:
    (hit,) = injection.apply(target)
    assert hit.kind == "version"
    assert hit.begun < hit.applied
    return hit


def rolled(target: Target, *steps: tuple[str, str, int]) -> list[Record]:
    """The records of these steps, each (version, which member is first, how many members)."""
    plan = [
        Step("roll-version", 0.0, 0.0, {"version": version, "first": first, "members": count})
        for version, first, count in steps
    ]
    runner = Runner(Plan("p", target.backend, 1, tuple(plan)), target)
    runner.cycle()
    return list(runner.records)


def series(environment: OwnEnvironment, *nodes: str) -> list[str]:
    return [version(environment.node(node)).rpartition(".")[0] for node in nodes]


def test_a_replaced_etcd_is_seen_by_all_and_comes_back(old: OwnEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    target = target_of(old, "etcd")
    keep(target, "before")
    before = reign(target)
    injection = injection_of("etcd", "leader", "3.5")
    hit = applied(target, injection)
    leader = leader_hit(target, hit, before)
    assert hit.target.startswith(f"{leader.name} from 3.4.")
    assert " to 3.5." in hit.target
    meant = {node.name: "3.5" if node is leader else "3.4" for node in target.cluster.nodes}
    assert series(old, *meant) == list(meant.values())
    await_(target.cluster.ready)
    await_kept(target, "before")
    since = insist(partial(target.kind.held, leader, bool)).last
    assert len({insist(partial(target.kind.held, node, bool, since)).whole for node in target.cluster.nodes}) == 1
    other = OwnEnvironment.attach(old.name)
    for each in (old, other):
        await_unclean(each, f"{leader.name} runs fencepost/etcd:trixie, not fencepost/etcd:bookworm")
    assert {name: told[:3] for name, told in hurting.versions(other.cluster("etcd")).items()} == meant

    def shows() -> bool:
        commands.status(old.name)
        status = capsys.readouterr().out
        return (status.count("running, 3.4."), status.count("running, 3.5.")) == (2, 1)

    await_(shows)
    injection.heal(target)  # the others may go back as long as one member is old
    injection.heal(target)
    assert series(old, *meant) == ["3.4"] * 3
    await_unclean(old)


def test_a_replaced_leader_of_zookeeper_keeps_its_data_there_and_back(old: OwnEnvironment) -> None:
    target = target_of(old, "zookeeper")
    keep(target, "before")
    before = reign(target)
    injection = injection_of("zookeeper", "leader", "3.9")
    leader = leader_hit(target, applied(target, injection), before)
    for wanted in ("3.9", "3.8"):
        await_(target.cluster.ready)
        assert version(leader).startswith(wanted)
        await_(lambda: kept(target, leader) == "before")
        injection.heal(target)


def test_redis1_and_its_replica_are_rolled_together_both_ways(old: OwnEnvironment) -> None:
    target, pair = target_of(old, "redis"), old.failover()
    assert pair
    keep(target, "before")
    for wanted in ("8.0", "7.0"):
        (record,) = rolled(target, (wanted, "leader", 1))
        assert record.target.startswith(f"{PRIMARY} from ")
        assert record.target.endswith(f", and so {REPLICA}")
        assert series(old, PRIMARY, REPLICA, "redis2") == [wanted, wanted, "7.0"]
        await_(pair.follows)
        for name in (PRIMARY, REPLICA):
            await_(lambda name=name: kept(target, old.node(name)) == "before")  # type: ignore[misc]
        old.heal()  # a heal does not undo a roll
        await_unclean(old)
        assert series(old, PRIMARY) == [wanted]
    assert rolled(target, ("7.0", "leader", 5)) == []


def test_a_server_that_is_paused_is_not_replaced(old: OwnEnvironment) -> None:
    target = target_of(old, "redis")
    target.node("redis3").pause("another")
    assert injection_of("redis", "redis3", "8.0").apply(target) == []
    target.node("redis3").let_go("another")


def test_redis_can_go_back_until_it_has_rewritten_its_file(old: OwnEnvironment) -> None:
    target, node = target_of(old, "redis"), old.node("redis2")
    injection = injection_of("redis", node.name, "8.0")
    applied(target, injection)
    assert version(node).startswith("8.0.")
    keep(target, "while it was new")
    commands.heal(old.name)
    assert version(node).startswith("7.0.")
    assert kept(target, node) == "while it was new"
    await_unclean(old)

    applied(target, injection)
    with hurting.redis_at(node.endpoint) as redis:
        redis.bgrewriteaof()
        await_(lambda: redis.info("persistence")["aof_rewrites"] > 0)
        await_(lambda: not redis.info("persistence")["aof_rewrite_in_progress"])
    with pytest.raises(Failed, match=r"Can't handle RDB format .*python -m infra down --env fp-"):
        commands.heal(old.name)
    assert version(node).startswith("8.0.")
    assert kept(target, node) == "while it was new"
    await_unclean(old, "redis2 runs fencepost/redis:trixie, not fencepost/redis:bookworm")
    old.keep_version(node.name)


def test_etcd_goes_back_from_half_way_and_not_from_the_end(old: OwnEnvironment) -> None:
    target = target_of(old, "etcd")
    keep(target, "before")
    before = reign(target)
    (first,) = rolled(target, ("3.5", "leader", 1))
    leader = leader_hit(target, first, before)
    assert first.target.startswith(f"{leader.name} (leader) from 3.4.")
    assert series(old, leader.name) == ["3.5"]
    old.heal()
    await_unclean(old)
    assert series(old, leader.name) == ["3.5"]
    assert [record.kind for record in rolled(target, ("3.4", "follower", 3))] == ["version"]
    assert series(old, *target.members) == ["3.4"] * 3

    before = reign(target)
    follower = next(node for node in target.cluster.nodes if node is not before.leader)
    replaced = injection_of("etcd", follower.name, "3.5")
    applied(target, replaced)
    await_(target.cluster.ready)
    records = rolled(target, ("3.5", "follower", 3))
    assert [record.kind for record in records] == ["version"] * 2
    if any("(leader)" in record.target for record in records):
        assert records[-1].target.split()[1] == "(leader)"
    else:  # the member that was replaced has been elected meanwhile
        assert reign(target).term > before.term
    assert series(old, *target.members) == ["3.5"] * 3
    await_(lambda: BACKENDS["etcd"].agreed_version(old.node("etcd1")).startswith("3.5."))
    await_kept(target, "before")

    (refused,) = rolled(target, ("3.4", "follower", 3))
    assert refused.kind == "restart"
    assert " stays 3.5." in refused.target
    assert "does not start as fencepost/etcd:bookworm" in refused.target
    assert "cannot be downgraded" in refused.target
    replaced.heal(target)
    await_(target.cluster.ready)
    assert series(old, *target.members) == ["3.5"] * 3
    await_unclean(old, f"{follower.name} runs fencepost/etcd:trixie, not fencepost/etcd:bookworm")
    await_kept(target, "before")
    old.keep_version(follower.name)


MADE = """
DROP SCHEMA IF EXISTS fencepost CASCADE;
DROP ROLE IF EXISTS guest;
CREATE ROLE guest LOGIN PASSWORD 'guest';
CREATE SCHEMA fencepost;
CREATE TABLE fencepost.leases (name text PRIMARY KEY, owner bigint, token bigint NOT NULL);
CREATE SEQUENCE fencepost.tokens;
GRANT USAGE ON SCHEMA fencepost TO guest;
GRANT SELECT ON fencepost.leases TO guest;
INSERT INTO fencepost.leases VALUES ('k', 1, 41);
SELECT nextval('fencepost.tokens') FROM generate_series(1, 41);
"""


RUINED = """
restore() {
    set +e
    install -d -o postgres -m 700 "$work/next"
    as initdb -D "$work/next" --username=postgres >/dev/null
    echo "nonsense = 1" >>"$work/next/postgresql.conf"
    mv "$data" "$work/was"
    mv "$work/next" "$data"
}
"""


def answer(environment: OwnEnvironment, question: str, user: str = "postgres") -> object:
    with session(environment, user=user) as connection:
        return asked(connection, question)


def bounced(environment: OwnEnvironment) -> bool:
    """Whether a client gets an answer through PgBouncer."""
    try:
        with session(environment, environment.endpoints_of(BOUNCER, 1), patience=SOON) as connection:
            return asked(connection, "SELECT 1") == 1
    except psycopg.OperationalError:
        return False


def left(environment: OwnEnvironment) -> list[str]:
    """The dumps and the former data that are left on the disk."""
    return [path for path in environment.disks.files("postgres") if path.startswith("carry")]


class Hammer:
    """A client that writes through the links all the time, and remembers what was acknowledged."""

    def __init__(self, environment: OwnEnvironment) -> None:
        self.acknowledged: list[int] = []
        self._environment = environment
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        await_(lambda: len(self.acknowledged) > 20)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        at = self._environment.endpoints("postgres", 1)[0]
        while not self._ended.is_set():
            try:
                with session(self._environment, at, patience=SOON) as connection:
                    while not self._ended.is_set():
                        number = asked(connection, "INSERT INTO written VALUES (DEFAULT) RETURNING number")
                        self.acknowledged.append(int(str(number)))
            except psycopg.OperationalError:
                self._ended.wait(0.05)


def test_postgres_is_unchanged_if_the_new_version_fails(old: OwnEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(old, "postgres")
    with session(old) as connection:
        connection.execute(MADE)
        connection.execute("CREATE EXTENSION adminpack")  # the new version does not have it
    injection = injection_of("postgres", "postgres", "17")
    with pytest.raises(DoesNotStart, match='extension "adminpack" is not available'):
        injection.apply(target)
    assert version(old.node("postgres")).startswith("15.")
    await_unclean(old)
    assert answer(old, "SELECT nextval('fencepost.tokens')") == 42
    assert left(old) == []

    # A version that takes all data, and then does not start.
    with session(old) as connection:
        connection.execute("DROP EXTENSION adminpack")
    monkeypatch.setattr(Postgres, "migration", replace(Postgres.migration, script=Postgres.migration.script + RUINED))
    image = images.resolve("postgres", "17")
    node = old.node("postgres")
    with pytest.raises(
        DoesNotStart, match=r"does not start as fencepost/postgres:trixie on its data: .*contains errors"
    ):
        remake(node, image.name)
    remake(node, "fencepost/postgres:bookworm")
    assert answer(old, "SELECT nextval('fencepost.tokens')") == 43
    assert left(old) == []


def test_postgres_goes_up_with_all_data_but_no_sessions_and_cannot_go_back(old: OwnEnvironment) -> None:
    target, node = target_of(old, "postgres"), old.node("postgres")
    with session(old) as connection:
        connection.execute(MADE)
        connection.execute("CREATE TABLE written (number bigserial)")
    holder = session(old, old.endpoints("postgres", 2)[0])
    holder.execute("SELECT pg_advisory_lock(1)")
    await_(lambda: bounced(old))

    with Hammer(old) as hammer:
        hit = applied(target, injection_of("postgres", "postgres", "17"))
        before = len(hammer.acknowledged)
        await_(lambda: len(hammer.acknowledged) > before + 20)
    told = hit.target.split()
    assert told[:2] == ["postgres", "from"]
    assert (told[2][:3], told[3], told[4][:3], " ".join(told[5:])) == ("15.", "to", "17.", Postgres.migration.how)
    assert answer(old, "SELECT token FROM fencepost.leases WHERE name = 'k'", "guest") == 41
    assert answer(old, "SELECT nextval('fencepost.tokens')") == 42
    assert answer(old, "SELECT count(*) FROM fencepost.leases", "guest") == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        answer(old, "DELETE FROM fencepost.leases RETURNING 1", "guest")
    assert len(set(hammer.acknowledged)) == len(hammer.acknowledged), "the sequence did not go back"
    with session(old) as connection:
        written = {int(str(row[0])) for row in connection.execute("SELECT number FROM written")}
    assert set(hammer.acknowledged) <= written, "nothing that was acknowledged is lost"
    assert answer(old, "SELECT pg_try_advisory_lock(1)") is True
    with pytest.raises(psycopg.OperationalError):
        holder.execute("SELECT 1")
    await_(lambda: bounced(old))
    assert left(old) == []

    with pytest.raises(DoesNotStart, match='unrecognized configuration parameter "transaction_timeout"') as refused:
        injection_of("postgres", "postgres", "15").apply(target)
    assert str(refused.value).startswith(
        f"postgres does not go over {Postgres.migration.how}: fencepost/postgres:bookworm: "
    )
    assert version(node).startswith("17.")
    assert answer(old, "SELECT nextval('fencepost.tokens')") == 43
    await_unclean(old, "postgres runs fencepost/postgres:trixie, not fencepost/postgres:bookworm")
    assert left(old) == []
    await_(lambda: bounced(old))
