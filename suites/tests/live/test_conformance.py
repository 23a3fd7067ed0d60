"""What every lock of a backend promises, on real servers, through the links of the star, all locks at once.

Things are done to the clients of group 1; the clients of group 2 are left alone.
"""

import itertools
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

import pytest

from checkers.row_format import Reason
from infra.network.links import Cut
from suites.lock import NEVER, Believes, Grant, Indeterminate, LockClient, LockError, Refused, Session, now
from suites.locks import registry
from suites.locks.etcd_v3lock import EtcdV3Lock
from suites.tests.bench import SOON, await_, granted, refusal
from suites.tests.live import lanes as side_by_side
from suites.tests.live.lanes import EXPIRY, LONG, TTL, Lane, Lanes, Steps, believes, ends, eventually, got, holds, keep
from suites.tests.live.patience import Anew, all_of, lasts, unless_late, was_sent


def without(locks: Iterable[str], *names: str) -> tuple[str, ...]:
    return tuple(name for name in locks if name not in names)


REDIS: Final = without(registry.FAMILIES["Redis"], "redis-semaphore")
ZOOKEEPER: Final = (*without(registry.FAMILIES["ZooKeeper"], "zookeeper-semaphore"), "zookeeper-parent-watch")
ETCD: Final = without(registry.FAMILIES["etcd"], "etcd-semaphore")
POSTGRES: Final = without(registry.FAMILIES["PostgreSQL"], "postgres-bouncer", "postgres-semaphore")
SESSIONS: Final = without(POSTGRES, "postgres-lease")  # locks of PostgreSQL that no TTL ends
FIRST: Final = ("redis", "redlock", "zookeeper", "etcd")  # all others are variations of these
UNPROMISED: Final = ("zookeeper-rw", "zookeeper-parent-watch", "etcd-rw", "etcd-keepalive-dies")
"""Locks whose grants have tokens, but which promise nothing about these tokens."""
RESTARTED: Final = "redlock-delayed-restart"  # its nodes have no vote until a TTL has passed since they started
UNCHECKED: Final = "redlock-unchecked"  # it counts its lease from the answers, however late they are


def held(lane: Lane) -> Reason:
    """Why a try is refused while another client holds. Votes of Redlock's nodes do not prove that anybody holds."""
    return Reason.DENIED if lane.lock_name.startswith("redlock") else Reason.HELD


def client(lane: Lane, group: int = 1, ttl: float = TTL, *, kept: bool = False) -> LockClient:
    """A client whose nodes all vote."""
    made = lane.client(group, TTL if lane.lock_name == RESTARTED else ttl, kept=kept)
    if lane.lock_name == RESTARTED:
        await_(lambda: got(made, f"{lane.key}/votes"))
    return made


def rises(earlier: Grant, later: Grant) -> None:
    assert later.owner != earlier.owner
    if earlier.token is not None and later.token is not None:
        assert later.token > earlier.token


@holds(redis=without(REDIS, RESTARTED), zookeeper=ZOOKEEPER, etcd=ETCD, postgres=POSTGRES)
def test_one_client_holds_at_a_time_and_a_waiting_client_is_next(lane: Lane) -> None:
    holder, other, third = (lane.client(group) for group in (1, 2, 3))
    grant = granted(holder.acquire(lane.key, SOON))
    assert (grant.token is not None) == (lane.lock.tokens or lane.lock_name in UNPROMISED)
    assert refusal(lambda: other.acquire(lane.key, 0)) is held(lane)
    for _ in range(3):
        assert other.acquire(lane.key, 0.05) is None
    keep(holder, grant)
    if isinstance(holder, Believes):
        assert holder.belief(grant)
    waiting = lane.waiting(lambda: other.acquire(lane.key, LONG))
    holder.release(grant)
    later = granted(waiting.result())
    rises(grant, later)
    assert refusal(lambda: holder.release(grant)) is Reason.NOT_OWNER
    assert refusal(lambda: holder.acquire(lane.key, 0)) is held(lane)
    other.release(later)
    at_once = SOON if issubclass(lane.lock, EtcdV3Lock) else 0  # its service knows no try, and may take its time
    third.release(granted(third.acquire(lane.key, at_once)))  # the client that timed out has left nothing
    holder.release(granted(holder.acquire(lane.key, SOON)))


@holds(redis=without(REDIS, RESTARTED), zookeeper=ZOOKEEPER, etcd=ETCD, postgres=POSTGRES)
def test_only_one_of_two_busy_clients_is_inside_and_tokens_rise(lane: Lane) -> None:
    inside: list[int] = []
    tokens: list[int | None] = []

    def work(client: LockClient) -> None:
        for _ in range(10):
            grant = granted(client.acquire(lane.key, LONG))
            inside.append(grant.owner)
            assert inside == [grant.owner]
            tokens.append(grant.token)
            time.sleep(0.001)
            inside.clear()
            client.release(grant)

    clients = [lane.client(1), lane.client(2)]
    with ThreadPoolExecutor(2) as pool:
        all_of([pool.submit(work, client) for client in clients])
    assert len(tokens) == 20
    if lane.lock.tokens:
        assert all(a is not None and b is not None and a < b for a, b in itertools.pairwise(tokens))
    elif lane.lock_name not in UNPROMISED:
        assert set(tokens) == {None}


@holds(**{backend: [f"{backend}-semaphore"] for backend in ("redis", "zookeeper", "etcd", "postgres")})
def test_a_semaphore_has_as_many_holders_as_permits(lane: Lane) -> None:
    *holders, last = (lane.client(1 + number % 3) for number in range(lane.lock.permits + 1))
    grants = [granted(holder.acquire(lane.key, SOON)) for holder in holders]
    assert refusal(lambda: last.acquire(lane.key, 0)) is Reason.HELD
    assert last.acquire(lane.key, 0.1) is None
    for holder, grant in zip(holders, grants, strict=True):
        keep(holder, grant)
    waiting = lane.waiting(lambda: last.acquire(lane.key, LONG))
    holders[1].release(grants[1])  # not the first holder
    later = granted(waiting.result())
    assert refusal(lambda: holders[1].acquire(lane.key, 0)) is Reason.HELD
    assert refusal(lambda: holders[1].release(grants[1])) is Reason.NOT_OWNER
    holders[0].release(grants[0])
    last.release(later)


def kept_out(reader: Any, key: str) -> bool:
    try:
        reader.release(granted(reader.acquire_shared(key, 0)))
    except Refused as refused:
        return refused.reason is Reason.HELD
    return False


@holds(**{backend: [f"{backend}-rw"] for backend in ("redis", "zookeeper", "etcd", "postgres")})
def test_readers_share_and_a_writer_excludes_everybody(lane: Lane) -> None:
    one, other, writer, late = (cast(Any, lane.client(group)) for group in (1, 2, 3, 2))
    first, second = (granted(reader.acquire_shared(lane.key, SOON)) for reader in (one, other))
    assert refusal(lambda: writer.acquire(lane.key, 0)) is Reason.HELD
    waiting = lane.waiting(lambda: writer.acquire(lane.key, LONG))
    if lane.lock.backend != "postgres":  # PostgreSQL does not promise that a writer comes before later readers
        await_(lambda: kept_out(late, lane.key))  # Redis forgets a writer that does not ask for a tenth of a second
    keep(one, first)
    one.release(first)
    assert refusal(lambda: one.release(first)) is Reason.NOT_OWNER
    assert refusal(lambda: late.acquire(lane.key, 0)) is Reason.HELD
    assert not waiting.done()
    other.release(second)
    written = granted(waiting.result())
    keep(writer, written)
    assert refusal(lambda: one.acquire_shared(lane.key, 0)) is Reason.HELD
    behind = lane.waiting(lambda: late.acquire_shared(lane.key, LONG))
    writer.release(written)
    late.release(granted(behind.result()))


@holds(**{backend: [f"{backend}-reentrant"] for backend in ("redis", "zookeeper", "etcd", "postgres")})
def test_a_reentrant_lock_is_given_back_as_often_as_it_was_taken(lane: Lane) -> None:
    holder, other = lane.client(1), lane.client(2)
    outer, inner = (granted(holder.acquire(lane.key, SOON)) for _ in range(2))
    assert (inner.owner, inner.token) == (outer.owner, outer.token)
    assert inner.expires > outer.expires or inner.expires == NEVER or isinstance(holder, Session)
    holder.release(inner)
    assert refusal(lambda: other.acquire(lane.key, 0)) is Reason.HELD
    keep(holder, outer)
    if isinstance(holder, Believes):
        assert holder.belief(outer)
    holder.release(outer)
    rises(outer, granted(other.acquire(lane.key, SOON)))
    assert refusal(lambda: holder.release(outer)) is Reason.NOT_OWNER


@holds(redis=without(REDIS, RESTARTED, UNCHECKED), zookeeper=ZOOKEEPER, etcd=ETCD)
def test_a_grant_says_when_it_ends(lane: Lane) -> None:
    client = lane.client(1, LONG, kept=True)
    before = now()
    grant = granted(client.acquire(lane.key, SOON))
    assert before <= grant.sent < now()
    assert grant.sent < grant.expires
    assert grant.ttl == pytest.approx(LONG * 1e9)
    if isinstance(client, Session):
        assert grant.expires == NEVER or grant.expires <= now() + grant.ttl
        assert grant.session == client.session != 0
        assert client.opened < grant.sent
    else:
        assert grant.expires == NEVER or grant.expires < grant.sent + grant.ttl
    client.release(grant)


@holds(redis=REDIS, zookeeper=ZOOKEEPER, etcd=ETCD, postgres=["postgres-lease"])
def test_a_lock_that_is_renewed_is_held_beyond_its_ttl(lane: Lane) -> None:
    holder, other = client(lane), client(lane, 2, LONG, kept=True)
    grant = eventually(lambda: holder.acquire(lane.key, SOON))
    extended = holder.opened if isinstance(holder, Session) else grant.sent
    until = now() + round(1.3 * TTL * 1e9)
    while extended < until:
        time.sleep(TTL / 5)
        sent = now()
        with unless_late(extended + lasts(lane.lock, TTL)):
            keep(holder, grant)
        extended = sent
        with unless_late(extended + lasts(lane.lock, TTL)):
            assert refusal(lambda: other.acquire(lane.key, 0)) is held(lane)
            if isinstance(holder, Believes):
                assert holder.belief(grant)
    with unless_late(extended + lasts(lane.lock, TTL)):
        holder.release(grant)
    if not isinstance(holder, Session):
        assert refusal(lambda: holder.renew(grant)) is Reason.NOT_OWNER
    rises(grant, granted(other.acquire(lane.key, SOON)))


@holds(redis=[*REDIS, "redis-semaphore"], etcd=[*ETCD, "etcd-semaphore"], postgres=["postgres-lease"])
def test_a_lock_that_is_not_renewed_is_free_after_its_ttl_and_not_before(lane: Lane) -> None:
    dead, other = client(lane), client(lane, 2, LONG, kept=True)
    grants = [eventually(lambda: dead.acquire(lane.key, SOON)) for _ in range(1 if dead.reentrant else dead.permits)]
    if len({grant.session for grant in grants}) > 1:
        raise Anew("the session ended between two grants")
    begun = dead.opened if isinstance(dead, Session) else grants[0].sent
    later = granted(other.acquire(lane.key, TTL + EXPIRY))
    assert now() >= begun + lasts(lane.lock, TTL)
    for grant in grants:
        rises(grant, later)
    assert refusal(lambda: keep(dead, grants[0])) is Reason.NOT_OWNER
    if isinstance(dead, Believes) and grants[0].expires != NEVER:
        assert not dead.belief(grants[0])
    with unless_late(later.expires):
        other.release(later)


@pytest.mark.needs("redis", "zookeeper", "etcd")
@pytest.mark.parametrize("how", Cut)
def test_a_holder_that_is_cut_off_loses_its_lock_and_comes_back(lanes: Lanes, how: Cut) -> None:
    def statement(lane: Lane) -> Steps:
        mine, other = lane.client(1, TTL, kept=True, hasty=True), lane.client(2, kept=True)
        grant = eventually(lambda: mine.acquire(lane.key, SOON))
        yield  # cut off
        assert isinstance(ends(lambda: keep(mine, grant)), LockError)
        assert isinstance(ends(lambda: mine.acquire(f"{lane.key}/2", 0.1)), LockError)
        later = eventually(lambda: other.acquire(lane.key, TTL + EXPIRY))
        assert now() >= grant.expires, "the server gave it away before its client had to stop"
        if isinstance(mine, Believes):
            assert not mine.belief(grant)
        rises(grant, later)
        assert isinstance(ends(lambda: mine.release(grant)), LockError)
        other.release(later)
        yield  # healed

        def comes_back() -> bool:
            """Whether the client holds again. It does, unless the machine stalls for a TTL."""
            again = eventually(lambda: mine.acquire(lane.key, SOON))
            rises(later, again)
            believed = not isinstance(mine, Believes) or mine.belief(again)
            assert refusal(lambda: side_by_side.until_answered(lambda: mine.release(grant))) is Reason.NOT_OWNER
            return side_by_side.released(mine, again) and believed

        await_(comes_back)

    lanes.check(FIRST, statement, lambda: lanes.cut(how), lanes.heal)


@holds(Lanes.lose_replies, Lanes.heal, redis=REDIS, zookeeper=["zookeeper"], etcd=["etcd"])
def test_a_lost_answer_is_unknown_and_leaves_nobody_waiting(lane: Lane) -> Steps:
    ttl = TTL if lane.lock.backend == "redis" else 10 * TTL  # no session must end before its client has asked
    mine, other = client(lane, 1, ttl, kept=True), client(lane, 2, LONG, kept=True)
    await_(lambda: got(mine, lane.key))
    yield  # replies are lost
    assert isinstance(was_sent(ends(lambda: mine.acquire(lane.key, 0.1))), Indeterminate)
    yield  # healed
    later = eventually(lambda: other.acquire(lane.key, ttl + EXPIRY))
    with unless_late(later.expires):
        other.release(later)
    await_(lambda: got(mine, lane.key))


@pytest.mark.needs("redis", "zookeeper", "etcd", "postgres")
def test_opening_a_client_without_a_server_is_refused(lanes: Lanes) -> None:
    def statement(lane: Lane) -> Steps:
        yield  # cut off
        refused = ends(lambda: lane.opened(1, TTL))
        assert isinstance(refused, Refused)
        assert refused.reason is Reason.UNAVAILABLE

    lanes.check((*FIRST, "postgres-session"), statement, lambda: lanes.cut(Cut.REFUSE))


@holds(postgres=SESSIONS)
def test_a_closed_client_leaves_nothing(lane: Lane) -> None:
    mine, other = lane.client(1), lane.client(2)
    grant = granted(mine.acquire(lane.key, SOON))
    mine.close()
    rises(grant, granted(other.acquire(lane.key, SOON)))


@holds(Lanes.terminate, postgres=SESSIONS)
def test_nobody_tells_the_holder_that_its_session_is_over(lane: Lane) -> Steps:
    mine, other = lane.client(1), lane.client(2)
    grant = granted(mine.acquire(lane.key, SOON))
    yield  # all sessions are terminated
    later = eventually(lambda: other.acquire(lane.key, SOON))
    assert believes(mine, grant)
    with pytest.raises(Indeterminate):
        mine.renew(grant)
    assert not believes(mine, grant)
    assert refusal(lambda: mine.release(grant)) is Reason.NOT_OWNER
    assert refusal(lambda: mine.acquire(lane.key, 0)) is Reason.HELD  # in a new session
    assert believes(other, later)


@holds(Lanes.cut, Lanes.heal, postgres=POSTGRES)
def test_no_call_hangs_when_its_client_is_cut_off(lane: Lane) -> Steps:
    mine, other = lane.client(1, TTL), lane.client(1, TTL)
    grant = granted(mine.acquire(lane.key, SOON))
    yield  # cut off
    acquiring = lane.started(lambda: ends(lambda: other.acquire(lane.key, 0.2)))
    assert isinstance(ends(lambda: mine.renew(grant)), Indeterminate)
    assert isinstance(ends(lambda: mine.release(grant)), LockError)
    assert isinstance(acquiring.result(), LockError)
    yield  # healed
    eventually(lambda: mine.acquire(lane.key, SOON))


@holds(Lanes.cut, postgres=("postgres-session", "postgres-xact"))
def test_a_session_that_is_cut_off_holds_until_its_client_hangs_up(lane: Lane) -> Steps:
    """The proxy swallows every byte, but passes on the hang-up of a client that gives up an unanswered request."""
    mine, other = lane.client(1), lane.client(2)
    grant = granted(mine.acquire(lane.key, SOON))
    yield  # cut off
    assert other.acquire(lane.key, 1.0) is None
    assert believes(mine, grant)
    with pytest.raises(Indeterminate):
        mine.renew(grant)
    assert not believes(mine, grant)
    granted(other.acquire(lane.key, SOON))


@holds(
    lambda lanes: lanes.environment.node("postgres").kill(),
    lambda lanes: lanes.environment.node("postgres").heal(),
    postgres=POSTGRES,
)
def test_a_restart_keeps_a_row_and_no_advisory_lock(lane: Lane) -> Steps:
    mine = lane.client(1, TTL)
    grant = granted(mine.acquire(lane.key, SOON))
    yield  # the server is killed
    for verb in (mine.renew, mine.release):
        with pytest.raises(LockError):
            verb(grant)
    yield  # it is back
    later = eventually(lambda: mine.acquire(lane.key, SOON))
    assert (later.token is None) == (grant.token is None)
    rises(grant, later)
