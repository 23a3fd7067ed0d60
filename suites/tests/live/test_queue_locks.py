"""What is special to some of the locks on ZooKeeper and etcd, against real servers."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

import pytest
from kazoo.exceptions import KazooException

from checkers.row_format import Reason
from infra.access import OPEN
from infra.cluster.nodes import Node
from infra.network.links import Cut
from suites.lock import NEVER, Grant, Guards, Indeterminate, LockClient, LockError, Refused, Session, Sweeps, Wakes, now
from suites.locks import etcd, etcd_single_key, etcd_v3lock
from suites.locks.zookeeper import QueueNode, Wake
from suites.tests.bench import SOON, await_, granted, refusal
from suites.tests.live.lanes import LONG, TTL, Lane, Lanes, Steps, believes, ends, eventually, holds
from suites.tests.live.patience import Anew, all_of, lasts, unless_late, was_sent

pytestmark = pytest.mark.needs("zookeeper", "etcd")

V3LOCKS = ("etcd-v3lock", "etcd-v3lock-checked")


@holds(Lanes.cut, zookeeper=["zookeeper-reentrant"], etcd=["etcd-reentrant"])
def test_a_reentrant_lock_that_was_lost_is_not_acquired_again(lane: Lane) -> Steps:
    holder = lane.client(1, TTL)
    grant = eventually(lambda: holder.acquire(lane.key, SOON))
    yield  # cut off
    await_(lambda: not believes(holder, grant))
    assert refusal(lambda: holder.acquire(lane.key, 0)) is Reason.UNAVAILABLE, "nobody was asked"


def noting(client: Any) -> list[int]:
    """An entry each time that the client begins to watch: the queue's length; on etcd, the revision to watch from."""
    noted: list[int] = []
    if client.backend == "etcd":
        await_deletion = client._etcd.await_deletion

        def watch(key: bytes, end: bytes, revision: int, timeout: float) -> bool:
            noted.append(revision)
            return bool(await_deletion(key, end, revision, timeout))

        client._etcd.await_deletion = watch
        return noted
    before, behind, seen = client._before, client._behind, list[int]()

    def look(mine: str, queue: Sequence[str]) -> str | None:
        seen.append(len(queue))
        answer: str | None = before(mine, queue)
        return answer

    def has_to_wait(place: QueueNode, wake: Wake) -> bool:
        if waits := bool(behind(place, wake)):
            noted.append(seen[-1])
        return waits

    client._before, client._behind = look, has_to_wait
    return noted


def test_a_release_wakes_one_client_of_a_queue_and_all_of_a_herd(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    def statement(lane: Lane) -> None:
        herd = lane.lock_name in ("zookeeper-parent-watch", "etcd-key")
        holder, *waiters = (lane.client(group) for group in (1, 1, 2, 1, 2))
        waiting = {waiter: noting(waiter) for waiter in waiters}

        def all_watch(got: Grant) -> bool:
            """Whether all waiters have begun to watch while this grant is held."""
            if lane.lock.backend == "etcd":
                return all(noted and noted[-1] > (got.token or 0) for noted in list(waiting.values()))
            return all(noted and noted[-1] == len(waiting) + 1 for noted in list(waiting.values()))

        def ready(got: Grant) -> bool:
            """Whether all waiters watch. In a queue, a waiter goes on watching while others come and go."""
            return all_watch(got) if herd else all(waiting.values())

        def turn(waiter: LockClient) -> Grant:
            got = granted(waiter.acquire(lane.key, LONG))
            del waiting[waiter]
            await_(lambda: ready(got))
            waiter.release(got)
            return got

        grant = granted(holder.acquire(lane.key, SOON))
        futures = [lane.started(partial(turn, waiter)) for waiter in waiters]
        await_(lambda: ready(grant) or any(future.done() for future in futures))
        let_go = now()
        holder.release(grant)
        grants = [granted(got) for got in all_of(futures)]
        assert [got.sent < got.queued < let_go for got in grants] == [lane.lock.fair] * len(grants)
        wakes = sum(waiter.wakes for waiter in waiters if isinstance(waiter, Wakes))
        assert wakes > len(waiters) + 1 if herd else 0 < wakes <= len(waiters) + 1

    for module in (etcd, etcd_single_key):  # clients wait until they are woken
        monkeypatch.setattr(module, "LOOK", LONG)
    lanes.check(("zookeeper", "zookeeper-parent-watch", "etcd", "etcd-key"), statement)


@holds(zookeeper=["zookeeper"], etcd=["etcd"])
def test_data_change_only_under_a_grant(lane: Lane) -> None:
    guards = cast(Any, lane.lock)
    holder, other = cast(Any, lane.client(1)), cast(Any, lane.client(2))
    assert isinstance(holder, Guards)
    assert isinstance(holder, Sweeps)
    grant = granted(cast(LockClient, holder).acquire(lane.key, SOON))
    assert tuple(holder.read(grant, lane.key) or ()) == (-1, ())
    assert holder.write(grant, lane.key, 7, [3, 7])
    assert holder.read(grant, lane.key) == (7, [3, 7])
    cast(LockClient, holder).release(grant)
    assert not holder.write(grant, lane.key, 8, [8])
    assert holder.read(grant, lane.key) is None
    later = granted(other.acquire(lane.key, SOON))
    assert not holder.write(grant, lane.key, 9, [9])
    assert other.read(later, lane.key) == (7, [3, 7])
    other.release(later)
    endpoints = lane.environment.direct(lane.lock.backend)
    assert guards.final(endpoints, lane.key, OPEN) == (7, [3, 7])
    guards.sweep(endpoints, [lane.key], OPEN)
    assert guards.final(endpoints, lane.key, OPEN) == (-1, ())


@holds(Lanes.cut, Lanes.heal, zookeeper=["zookeeper"], etcd=["etcd"])
def test_a_write_of_a_holder_that_was_cut_off_for_too_long_is_refused(lane: Lane) -> Steps:
    mine, other = cast(Any, lane.client(1, TTL, hasty=True)), cast(Any, lane.client(2))
    grant = eventually(lambda: mine.acquire(lane.key, SOON))
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
    """The follower answers reads and pings as long as syncLimit lets it, while the leader lets the session expire."""
    cluster, links = lanes.environment.cluster("zookeeper"), lanes.environment.links
    followers: list[Node] = []

    def statement(lane: Lane) -> Steps:
        cluster.await_ready()
        leader = cluster.leader()
        followers.append(next(node for node in cluster.nodes if node is not leader))
        mine = lane.client(1, TTL, only=cluster.nodes.index(followers[-1]))
        grant = eventually(lambda: mine.acquire(lane.key, SOON))
        yield  # the follower is cut off
        outcome = was_sent(ends(cast(Session, mine).keep_alive))
        if isinstance(outcome, Refused) and lane.interrupted:
            raise Anew("its session was over before")
        assert isinstance(outcome, Indeterminate)
        await_(lambda: now() > grant.expires)
        assert not believes(mine, grant)

    def cut_off() -> None:
        with links.together():
            for node in cluster.nodes:
                if followers and node is not followers[-1]:
                    links.cut(followers[-1].name, node.name, Cut.DROP)

    lanes.check(("zookeeper",), statement, cut_off)
    lanes.heal()
    cluster.await_ready()


def revoke(client: Any) -> None:
    """End the client's lease, and so its place in the queue, as the TTL would, which is long enough for any stall."""
    client._etcd.call(lambda etcd: etcd.revoke_lease(client.session))


@holds(etcd=["etcd", *V3LOCKS])
def test_a_waiter_whose_lease_died_is_not_granted_the_lock(lane: Lane) -> None:
    """etcd's own lock service does so only since 3.5 (#11456)."""
    holder, waiter = lane.client(1), lane.client(2)
    grant = granted(holder.acquire(lane.key, SOON))
    waiting = lane.waiting(lambda: waiter.acquire(lane.key, LONG))
    revoke(waiter)
    holder.release(grant)
    assert refusal(waiting.result) is Reason.NOT_OWNER


@pytest.mark.needs("etcd", etcd="3.4")
def test_etcd_before_3_5_grants_a_waiter_whose_lease_died_and_the_next_one_too(lanes: Lanes) -> None:
    """etcd #11456. The waiter learns of it only by its next keep-alive, or by a look at its key after the grant."""

    def statement(lane: Lane) -> None:
        holder, waiter, third = (lane.client(group) for group in (1, 2, 1))
        grant = granted(holder.acquire(lane.key, SOON))
        waiting = lane.waiting(lambda: waiter.acquire(lane.key, LONG))
        revoke(waiter)
        holder.release(grant)
        if lane.lock_name == "etcd-v3lock-checked":
            assert refusal(waiting.result) is Reason.NOT_OWNER
            assert "void" in str(waiting.exception())
            return
        void = granted(waiting.result())
        granted(third.acquire(lane.key, SOON))
        assert isinstance(waiter, Session)
        assert believes(waiter, void)
        assert refusal(waiter.keep_alive) is Reason.NOT_OWNER
        assert not believes(waiter, void)

    lanes.check(V3LOCKS, statement)


@holds(etcd=["etcd", "etcd-key", *V3LOCKS])
def test_an_acquire_on_a_revoked_lease_is_refused_and_the_refusal_names_the_lease(lane: Lane) -> None:
    client = lane.client(1)
    lease = cast(Session, client).session
    revoke(client)
    with pytest.raises(Refused) as refused:
        client.acquire(lane.key, SOON)
    assert (refused.value.reason, refused.value.session) == (Reason.NOT_OWNER, lease)


def test_a_token_is_read_after_a_grant_and_a_lost_key_is_refused(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = etcd_v3lock.post

    def statement(lane: Lane) -> None:
        client, other = cast(Any, lane.client(1)), lane.client(2)
        grant = granted(client.acquire(lane.key, SOON))
        _, about = client._etcd.call(lambda etcd: etcd.get(client._keys[grant.owner]))
        assert grant.token == about.create_revision
        client.release(grant)

        def too_late(member: str, path: str, body: Mapping[str, Any], timeout: float) -> Mapping[str, Any]:
            """Answer like a server that has not noticed that the lease is gone."""
            answer = ask(member, path, body, timeout)
            client._etcd.call(lambda etcd: etcd.revoke_lease(body["lease"]))
            return answer

        with monkeypatch.context() as patched:
            patched.setattr(etcd_v3lock, "post", too_late)
            assert refusal(lambda: client.acquire(lane.key, SOON)) is Reason.NOT_OWNER
        other.release(granted(other.acquire(lane.key, SOON)))

    lanes.check(("etcd-v3lock-checked",), statement)


@holds(Lanes.cut, Lanes.heal, etcd=["etcd-keepalive-dies"])
def test_after_one_error_nothing_is_kept_alive_and_nobody_notices(lane: Lane) -> Steps:
    begun = now()
    mine = lane.client(1, TTL)
    assert isinstance(mine, Session)
    with unless_late(begun + lasts(lane.lock, TTL)):
        grant = granted(mine.acquire(lane.key, SOON))
        mine.keep_alive()
    assert grant.expires == NEVER
    other = lane.client(2, lock="etcd")
    yield  # cut off
    with pytest.raises(Indeterminate):
        mine.keep_alive()
    yield  # healed
    assert refusal(mine.keep_alive) is Reason.UNAVAILABLE
    other.release(granted(other.acquire(lane.key, LONG)))
    assert believes(mine, grant)


@holds(Lanes.cut, Lanes.heal, zookeeper=["kazoo-lock"])
def test_kazoo_believes_in_a_lost_lock_and_reports_its_release(lane: Lane) -> Steps:
    mine, other = lane.client(1, TTL), lane.client(2, lock="zookeeper")
    grant = granted(mine.acquire(lane.key, SOON))
    yield  # cut off
    heir = lane.client(2)
    heir.release(granted(heir.acquire(lane.key, LONG)))
    assert believes(mine, grant)
    yield  # healed
    zookeeper = cast(Any, mine)._session.zk
    await_(lambda: (zookeeper.client_id or (grant.session,))[0] != grant.session)

    def works() -> bool:
        with suppress(KazooException):
            zookeeper.sync("/")
            return True
        return False

    await_(works)  # the connection works, in a new session
    assert believes(mine, grant)
    mine.release(grant)  # it reports the release of a lock that is gone
    other.release(granted(other.acquire(lane.key, SOON)))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_answers_in_another_order_end_a_session_and_not_the_client(lanes: Lanes) -> None:
    """kazoo #254: such answers end kazoo's thread."""

    def statement(lane: Lane) -> Steps:
        mine = lane.client()
        grant = granted(mine.acquire(lane.key, SOON))
        yield  # from now on its connection is interrupted
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
        mine.release(eventually(lambda: mine.acquire(lane.key, SOON)))
        with pytest.raises(Indeterminate, match="xids"):
            session.ask(lambda: out_of_order)

    lanes.check(("zookeeper",), statement, lambda: None)
