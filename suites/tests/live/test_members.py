"""All members of a real service hold the same of the locks, until one member is made to lose something."""

from contextlib import closing
from dataclasses import replace

import pytest

from checkers.check import check
from checkers.tests.build import FACTS, Book
from infra.backends import BACKENDS
from infra.backends.backend import Backend, Server
from infra.backends.redis import PRIMARY, REPLICA
from infra.background_writes import BackgroundWrites
from infra.environment import Environment
from infra.tests.live.hurting import PATIENCE, await_, redis_at
from suites.lanes.lane import lane_named
from suites.lock import Grant
from suites.tests.live.lanes import eventually
from suites.trial import members
from suites.trial.lane_history import RunningLane

pytestmark = pytest.mark.usefixtures("patient")
LANES = {name: f"{name}/register/unfenced" for name in ("etcd", "zookeeper")} | {"redis": "redis/set/fence-writes"}
ON = {name: pytest.param(name, marks=pytest.mark.needs(name)) for name in LANES}


def lane_of(backend: str, key: str) -> RunningLane:
    return RunningLane(lane_named(LANES[backend]), (key,))


def writes_of(environment: Environment, backend: str) -> BackgroundWrites:
    return BackgroundWrites(BACKENDS[backend], environment.cluster(backend).nodes)


def looked(environment: Environment, lane: RunningLane, writes: BackgroundWrites | None = None) -> members.Look:
    writes = writes or writes_of(environment, lane.lane.backend)
    return members.look(environment, lane.lane.backend, [lane], writes, quiet=True)[lane.lane.name]


def kinds(look: members.Look, grant: Grant | None = None) -> list[str]:
    """The kinds of violations that a look shows, if the lock was granted just before the look and is held for long."""
    book = Book(ttl=10**12)
    book.facts = replace(FACTS, looks=(look,), ttl=10**12)
    token = {} if grant is None or grant.token is None else {"token": grant.token}
    book.acquire(1, 2, 1, sent=look[0].asked - 1, **token)
    (result,) = check(book.history(), ["members-agree"])
    return [violation.kind for violation in result.violations]


@pytest.mark.parametrize("backend", ON.values())
def test_all_members_hold_a_grant_until_it_is_released(environment: Environment, backend: str) -> None:
    lane = lane_of(backend, f"agreed.{backend}")
    with closing(lane.lane.lock.open(environment.direct(backend), 30.0)) as client:
        grant = eventually(lambda: client.acquire(lane.keys[0], 5.0))
        held = looked(environment, lane)
        first, *others = BACKENDS[backend].copies
        assert [contents.member for contents in held] == [first, *others, first]
        assert all(contents.entries for contents in held), held
        assert {contents.whole for contents in held[1:]} != {""} or backend != "etcd"
        assert kinds(held, grant) == [], held
        if backend != "redis":  # it does not number its changes
            assert grant.token in {entry.created for entry in held[-1].entries}
            without = tuple(replace(contents, entries=()) for contents in held)
            assert set(kinds((*held[:1], *without[1:2], *held[2:]), grant)) == {"members-differ", "grant-not-kept"}
        client.release(grant)
    assert kinds(looked(environment, lane)) == []


@pytest.mark.needs("redis")
def test_a_live_key_that_is_missing_on_the_replica_is_always_reported(environment: Environment) -> None:
    primary, replica = (redis_at(environment.node(node).endpoint) for node in (PRIMARY, REPLICA))
    replica.config_set("replica-read-only", "no")
    try:
        for number in range(10):
            lane = lane_of("redis", f"planted.{number}")
            with closing(lane.lane.lock.open(environment.direct("redis"), 30.0)) as client:
                assert client.acquire(lane.keys[0], 5.0)
                (name,) = [name for name in primary.keys(f"*planted.{number}*") if primary.ttl(name) > 0]
                await_(lambda name=name: bool(replica.exists(name)))  # type: ignore[misc]
                assert kinds(looked(environment, lane)) == []
                assert replica.delete(name) == 1
                assert kinds(looked(environment, lane)) == ["members-differ"]
    finally:
        replica.config_set("replica-read-only", "yes")


@pytest.mark.needs("etcd")
def test_while_clients_go_on_only_members_of_services_that_number_changes_are_asked(environment: Environment) -> None:
    writes = {name: writes_of(environment, name) for name in ("redis", "etcd")}
    assert members.look(environment, "redis", [lane_of("redis", "k")], writes["redis"], quiet=False) == {}
    (look,) = members.look(environment, "etcd", [lane_of("etcd", "k")], writes["etcd"], quiet=False).values()
    assert all(contents.last > 0 for contents in look)


@pytest.mark.parametrize("backend", [ON["etcd"], ON["zookeeper"]])
def test_members_hold_what_was_written_beside_the_locks_though_one_was_killed(
    environment: Environment, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane, writes, kind = lane_of(backend, "beside"), writes_of(environment, backend), BACKENDS[backend]
    first, second, *_ = environment.cluster(backend).nodes
    with writes.going_on(400.0):
        await_(lambda: False in list(writes.known.values()))  # the first keys are removed
        second.kill()
        written = writes.made
        await_(lambda: writes.made > written + 100)
        second.heal()
    environment.cluster(backend).await_ready()
    held = looked(environment, lane, writes)
    assert {each.member: (each.lost, each.undead) for each in held} == dict.fromkeys(kind.copies, ((), ()))
    assert min(contents.beside for contents in held) > 100
    assert kinds(held) == [], held

    kept = next(name for name, there in writes.known.items() if there)
    gone = next(name for name, there in writes.known.items() if there is False)
    written_there = kind.written

    def damaged(_: Backend, server: Server) -> frozenset[str]:
        names = written_there(server)
        return names - {kept} | {gone} if server is first else names

    with monkeypatch.context() as patch:
        patch.setattr(type(kind), "written", damaged)
        assert kinds(looked(environment, lane, writes)) == ["removed-write-kept", "write-not-kept"]
    monkeypatch.setattr("infra.background_writes.ANSWERED_WITHIN", PATIENCE)
    writes.clear()
    assert not kind.written(second)
