"""What is special to some of the locks on ZooKeeper and etcd, against real servers."""

import time
from collections.abc import Mapping
from typing import Any, cast

import pytest

from checkers.row_format import Reason
from infra.access import OPEN
from infra.network.links import Cut
from suites.lock import NEVER, Grant, Guards, Indeterminate, LockClient, LockError, Refused, Session, Sweeps, Wakes
from suites.locks import etcd_v3lock
from suites.tests.bench import await_, granted, refusal
from suites.tests.live.lanes import LONG, TTL, Lane, Lanes, Steps, believes, ends, eventually, holds

pytestmark = pytest.mark.needs("zookeeper", "etcd")

V3LOCKS = ("etcd-v3lock", "etcd-v3lock-checked")


@holds(Lanes.cut, zookeeper=["zookeeper-reentrant"], etcd=["etcd-reentrant"])
def test_what_is_lost_is_not_acquired_again(lane: Lane) -> Steps:
    holder = lane.client(1, TTL)
    grant = eventually(lambda: holder.acquire(lane.key, 5))
    yield  # cut off
    await_(lambda: not believes(holder, grant))
    assert refusal(lambda: holder.acquire(lane.key, 0)) is Reason.UNAVAILABLE, "nobody was asked"


@holds(lambda _: time.sleep(1), zookeeper=["zookeeper", "zookeeper-parent-watch"], etcd=["etcd", "etcd-key"])
def test_of_a_queue_one_is_woken_and_of_a_herd_all_are(lane: Lane) -> Steps:
    herd = lane.lock.name in ("zookeeper-parent-watch", "etcd-key")
    holder, *waiters = (lane.client(group) for group in (1, 1, 2, 1, 2))
    grant = granted(holder.acquire(lane.key, 5))

    def turn(client: LockClient) -> Grant:
        got = granted(client.acquire(lane.key, LONG))
        time.sleep(0.3)  # in which all who wait begin to watch again
        client.release(got)
        return got

    futures = [lane.started(lambda waiter=waiter: turn(waiter)) for waiter in waiters]  # type: ignore[misc]
    yield  # a second passes: nobody can see from outside that all of them watch
    released = time.monotonic_ns()
    holder.release(grant)
    grants = [granted(future.result()) for future in futures]
    assert [got.sent < got.queued < released for got in grants] == [lane.lock.fair] * len(grants)
    wakes = sum(waiter.wakes for waiter in waiters if isinstance(waiter, Wakes))
    assert wakes > len(waiters) + 1 if herd else 0 < wakes <= len(waiters) + 1


@holds(zookeeper=["zookeeper"], etcd=["etcd"])
def test_data_change_only_under_a_grant(lane: Lane) -> None:
    guards = cast(Any, lane.lock)
    holder, other = cast(Any, lane.client(1)), cast(Any, lane.client(2))
    assert isinstance(holder, Guards)
    assert isinstance(holder, Sweeps)
    grant = granted(cast(LockClient, holder).acquire(lane.key, 5))
    assert tuple(holder.read(grant, lane.key) or ()) == (-1, ())
    assert holder.write(grant, lane.key, 7, [3, 7])
    assert holder.read(grant, lane.key) == (7, [3, 7])
    cast(LockClient, holder).release(grant)
    assert not holder.write(grant, lane.key, 8, [8])
    assert holder.read(grant, lane.key) is None
    later = granted(other.acquire(lane.key, 5))
    assert not holder.write(grant, lane.key, 9, [9])
    assert other.read(later, lane.key) == (7, [3, 7])
    other.release(later)
    endpoints = lane.environment.direct(lane.lock.backend)
    assert guards.final(endpoints, lane.key, OPEN) == (7, [3, 7])
    guards.sweep(endpoints, [lane.key], OPEN)
    assert guards.final(endpoints, lane.key, OPEN) == (-1, ())


@holds(Lanes.cut, Lanes.heal, zookeeper=["zookeeper"], etcd=["etcd"])
def test_data_of_a_holder_that_was_away_for_too_long_are_refused(lane: Lane) -> Steps:
    mine, other = cast(Any, lane.client(1, TTL)), cast(Any, lane.client(2))
    grant = granted(mine.acquire(lane.key, 5))
    yield  # cut off
    with pytest.raises(LockError):
        mine.write(grant, lane.key, 1, [1])
    later = granted(other.acquire(lane.key, LONG))
    assert other.write(later, lane.key, 2, [2])
    yield  # healed
    answers: list[object] = []

    def answered() -> bool:
        answers.append(ends(lambda: mine.write(grant, lane.key, 3, [3])))
        return not isinstance(answers[-1], LockError)

    await_(answered)
    assert answers[-1] is False
    assert other.read(later, lane.key) == (2, [2])


def test_a_follower_that_is_cut_off_is_no_sign_of_life(lanes: Lanes) -> None:
    """It answers reads and pings for as long as syncLimit lets it, while the leader lets the session expire."""
    lane = lanes.of("zookeeper")
    cluster = lane.environment.cluster("zookeeper")
    leader = cluster.leader()
    follower = next(node for node in cluster.nodes if node is not leader)
    mine = cast(Any, lane.lock).open((lane.endpoints(1)[follower.index],), TTL)
    grant = granted(mine.acquire(lane.key, 1))
    for node in cluster.nodes:
        if node is not follower:
            lane.environment.links.cut(follower.name, node.name, Cut.DROP)
    assert isinstance(ends(mine.keep_alive), Indeterminate)
    await_(lambda: time.monotonic_ns() > grant.expires)
    assert not believes(mine, grant)
    lanes.heal()
    mine.close()
    cluster.await_ready()


def leases_end(_: Lanes) -> None:
    """The server itself prolongs those who wait once."""
    time.sleep(2 * TTL + 1.5)


@holds(leases_end, etcd=["etcd", *V3LOCKS])
def test_a_waiter_whose_lease_died_is_not_granted_the_lock(lane: Lane) -> Steps:
    """Of etcd's own lock service since 3.5 (#11456)."""
    holder, waiter = lane.client(1), lane.client(2, TTL)
    grant = granted(holder.acquire(lane.key, 5))
    waiting = lane.waiting(lambda: waiter.acquire(lane.key, LONG))
    yield  # its lease ends
    holder.release(grant)
    assert refusal(waiting.result) is Reason.NOT_OWNER


@pytest.mark.needs("etcd", etcd="3.4")
def test_before_3_5_a_waiter_whose_lease_died_was_granted_the_lock_and_so_was_the_next(lanes: Lanes) -> None:
    """etcd #11456. Only its next keep-alive tells, or a look at the key after the grant."""

    def statement(lane: Lane) -> Steps:
        holder, waiter, third = lane.client(1), lane.client(2, TTL), lane.client(1)
        grant = granted(holder.acquire(lane.key, 5))
        waiting = lane.waiting(lambda: waiter.acquire(lane.key, LONG))
        yield  # its lease ends
        holder.release(grant)
        if lane.lock.name == "etcd-v3lock-checked":
            assert refusal(waiting.result) is Reason.NOT_OWNER
            assert "void" in str(waiting.exception())
            return
        void = granted(waiting.result())
        granted(third.acquire(lane.key, 5))
        assert isinstance(waiter, Session)
        assert believes(waiter, void)
        assert refusal(waiter.keep_alive) is Reason.NOT_OWNER
        assert not believes(waiter, void)

    lanes.check(V3LOCKS, statement, lambda: leases_end(lanes))


@holds(etcd=["etcd", "etcd-key", *V3LOCKS])
def test_an_acquire_on_a_lease_that_was_revoked_is_refused_and_names_it(lane: Lane) -> None:
    client = cast(Any, lane.client(1))
    lease = client.session
    client._etcd.call(lambda etcd: etcd.revoke_lease(lease))
    with pytest.raises(Refused) as refused:
        client.acquire(lane.key, 1)
    assert (refused.value.reason, refused.value.session) == (Reason.NOT_OWNER, lease)


def test_the_token_is_read_after_the_grant_and_none_says_void(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    lane = lanes.of("etcd-v3lock-checked")
    client, other = cast(Any, lane.client(1)), lane.client(2)
    grant = granted(client.acquire(lane.key, 5))
    _, about = client._etcd.call(lambda etcd: etcd.get(client._keys[grant.owner]))
    assert grant.token == about.create_revision
    client.release(grant)
    ask = etcd_v3lock.post

    def too_late(member: str, path: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
        """As of a server that has not noticed that the lease is gone."""
        answer = ask(member, path, body, timeout)
        client._etcd.call(lambda etcd: etcd.revoke_lease(body["lease"]))
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(etcd_v3lock, "post", too_late)
        assert refusal(lambda: client.acquire(lane.key, 5)) is Reason.NOT_OWNER
    other.release(granted(other.acquire(lane.key, 5)))


def test_after_one_error_nothing_is_kept_alive_and_nobody_notices(lanes: Lanes) -> None:
    lane = lanes.of("etcd-keepalive-dies")
    mine, other = lane.client(1, TTL), lane.client(2, lock="etcd")
    assert isinstance(mine, Session)
    grant = granted(mine.acquire(lane.key, 5))
    assert grant.expires == NEVER
    mine.keep_alive()
    lanes.cut()
    with pytest.raises(Indeterminate):
        mine.keep_alive()
    lanes.heal()
    assert refusal(mine.keep_alive) is Reason.UNAVAILABLE
    other.release(granted(other.acquire(lane.key, LONG)))
    assert believes(mine, grant)


def test_kazoo_believes_in_what_is_lost_and_says_that_it_released_it(lanes: Lanes) -> None:
    lane = lanes.of("kazoo-lock")
    mine, other = lane.client(1, TTL), lane.client(2, lock="zookeeper")
    grant = granted(mine.acquire(lane.key, 5))
    lanes.cut()
    heir = lane.client(2)
    heir.release(granted(heir.acquire(lane.key, LONG)))
    assert believes(mine, grant)
    lanes.heal()
    zookeeper = cast(Any, mine)._session.zk
    await_(lambda: (zookeeper.client_id or (grant.session,))[0] != grant.session)
    zookeeper.sync("/")  # the connection works, under a session of its own
    assert believes(mine, grant)
    mine.release(grant)  # what is gone is called released
    other.release(granted(other.acquire(lane.key, 5)))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_answers_in_another_order_end_a_session_and_not_the_client(lanes: Lanes) -> None:
    """kazoo #254: its thread ends with them."""
    lane = lanes.of("zookeeper")
    mine = lane.client()
    grant = granted(mine.acquire(lane.key, 5))
    session = cast(Any, mine)._session
    out_of_order = session.zk.handler.async_result()
    session.zk._pending.append((None, out_of_order, -99))
    with pytest.raises(Indeterminate):
        cast(Session, mine).keep_alive()
    assert isinstance(out_of_order.exception, RuntimeError)
    assert refusal(lambda: mine.renew(grant)) is Reason.UNAVAILABLE  # the server has not said that it is over
    assert not believes(mine, grant)
    assert isinstance(ends(lambda: mine.acquire(lane.key, 0)), LockError)  # what was held is still in the queue
    await_(lambda: session.zk.connected)
    mine.release(grant)
    mine.release(eventually(lambda: mine.acquire(lane.key, 5)))
    with pytest.raises(Indeterminate, match="xids"):
        session.ask(lambda: out_of_order)
