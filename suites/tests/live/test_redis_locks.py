"""What is special to one of the locks on Redis, against real servers."""

import time
from functools import partial
from typing import Any

import pytest

from checkers.row_format import Reason
from checkers.tests.build import there
from infra.backends.redis import PRIMARY, REPLICA, connect
from infra.network.links import Cut
from suites.lock import NEVER, Grant, Indeterminate, LockClient, Shares, now
from suites.locks import redis_fair, redis_wait
from suites.locks.redis_fair import PATIENCE
from suites.tests.bench import SOON, await_, granted, refusal
from suites.tests.live.lanes import EXPIRY, LONG, TTL, Lane, Lanes, Steps, got, released
from suites.tests.live.patience import HASTY, Anew, all_of

pytestmark = pytest.mark.needs("redis")


def test_the_watchdogs_client_does_not_look_at_the_clock(lanes: Lanes) -> None:
    lane = lanes.of("redis-watchdog")
    assert granted(lane.client().acquire(lane.key, SOON)).expires == NEVER


class TestFair:
    def test_waiting_clients_are_served_in_order_of_asking(self, lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
        patience = 4 * PATIENCE
        monkeypatch.setattr(redis_fair, "PATIENCE", patience)

        def statement(lane: Lane) -> None:
            holder = lane.client()
            grant = granted(holder.acquire(lane.key, SOON))
            grants: list[Grant] = []

            def wait_and_pass_on(client: LockClient) -> Grant:
                grants.append(mine := granted(client.acquire(lane.key, SOON)))
                client.release(mine)
                return mine

            waiting = []
            for number in range(4):
                client = lane.client(1 + number % 3)
                waiting.append(lane.started(partial(wait_and_pass_on, client)))
                await_(lambda: queue_length(lane) == len(waiting))
                await_signs(lane)  # it asks again, so it knows that it is in the queue
            await_signs(lane, patience)  # a waiter that goes on asking keeps its place
            assert refusal(lambda: holder.acquire(lane.key, 0)) is Reason.HELD
            holder.release(grant)
            order = [granted(each) for each in all_of(waiting)]
            places = ask(lane, "GET", f"fencepost:{{{lane.key}}}:places")
            if places != str(1 + len(waiting)):  # the holder had the first
                raise Anew("one that did not ask for so long has lost its place")
            assert grants == order
            assert [one.queued for one in grants] == sorted(one.queued for one in grants)
            assert [one.token for one in grants] == sorted(one.token or 0 for one in grants)

        lanes.check(("redis-fair",), statement)

    def test_a_waiter_that_died_keeps_nobody_out_for_long(self, lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
        lane = lanes.of("redis-fair")
        dead, holder, other = (lane.client(group, hasty=group == 1) for group in (1, 2, 3))
        grant = granted(holder.acquire(lane.key, SOON))
        lanes.lose_replies()
        with pytest.raises(Indeterminate):
            dead.acquire(lane.key, SOON)
        await_(lambda: queue_length(lane) == 1)
        holder.release(grant)
        with monkeypatch.context() as patient:
            patient.setattr(redis_fair, "PATIENCE", LONG)  # the queue waits for the dead, however slow the test is
            assert refusal(lambda: other.acquire(lane.key, 0)) is Reason.DENIED
        other.release(granted(other.acquire(lane.key, PATIENCE + EXPIRY)))
        assert queue_length(lane) == 0

    def test_a_waiter_that_stood_still_has_lost_its_place(self, lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
        lane = lanes.of("redis-fair")
        holder, other = lane.client(1), lane.client(2)
        grant = granted(holder.acquire(lane.key, SOON))
        returned: list[int] = []

        def stand_still(_deadline: int) -> bool:
            time.sleep(PATIENCE + 0.1)
            holder.release(grant)
            returned.append(now())
            return True

        monkeypatch.setattr(redis_fair, "pause_until", stand_still)
        mine = granted(other.acquire(lane.key, SOON))
        assert mine.queued > returned[0]
        assert mine.token == (grant.token or 0) + 1


def queue_length(lane: Lane) -> int:
    return int(ask(lane, "ZCARD", f"fencepost:{{{lane.key}}}:queue"))


def await_signs(lane: Lane, later: float = 0.0) -> None:
    """Wait until all in the queue have given a sign of life, more than `later` seconds from now."""
    signs = f"fencepost:{{{lane.key}}}:signs"
    seconds, micros = map(int, ask(lane, "TIME"))
    least = seconds * 1000 + micros // 1000 + round(later * 1000)
    await_(lambda: ask(lane, "ZCOUNT", signs, "-inf", least) == 0)


def ask(lane: Lane, *words: object) -> Any:
    with connect(lane.environment.node(PRIMARY).endpoint, SOON) as redis:
        return redis.execute_command(*words)


class TestWait:
    def test_without_a_replica_nothing_is_granted_nor_left(self, lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
        lane = lanes.of("redis-wait")
        mine = lane.client()
        mine.release(granted(mine.acquire(lane.key, SOON)))
        lane.environment.links.cut(REPLICA, PRIMARY, Cut.DROP)
        monkeypatch.setattr(redis_wait, "CONFIRM", HASTY)
        assert refusal(lambda: mine.acquire(lane.key, SOON)) is Reason.UNAVAILABLE
        assert ask(lane, "EXISTS", f"fencepost:{{{lane.key}}}") == 0, "it was not given back"
        lanes.heal()
        await_(there(lane.environment.failover()).follows)

    def test_a_grant_survives_the_failover_to_its_replica(self, lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
        lane = lanes.of("redis-wait")
        pair = there(lane.environment.failover())
        mine, other = lane.client(1), lane.client(2)
        grant = granted(mine.acquire(lane.key, SOON))
        lane.environment.links.cut(REPLICA, PRIMARY, Cut.DROP)
        pair.promote("test")
        try:
            assert refusal(lambda: other.acquire(lane.key, 0)) is Reason.HELD
            mine.release(grant)
            with monkeypatch.context() as patched:
                patched.setattr(redis_wait, "CONFIRM", HASTY)
                unconfirmed = refusal(lambda: other.acquire(lane.key, 0))
            assert unconfirmed is Reason.UNAVAILABLE, "the promoted one has no replica"
        finally:
            lanes.heal()
            pair.let_go("test")
        await_(pair.follows)
        assert (granted(other.acquire(lane.key, SOON)).token or 0) > (grant.token or 0) > 0


def test_a_dead_reader_keeps_no_writer_out_beyond_its_ttl(lanes: Lanes) -> None:
    lane = lanes.of("redis-rw")
    reader, writer = lane.client(1, TTL), lane.client(2)
    assert isinstance(reader, Shares)
    grant = granted(reader.acquire_shared(lane.key, 0))
    granted(writer.acquire(lane.key, TTL + EXPIRY))
    assert now() >= grant.expires
    assert refusal(lambda: reader.renew(grant)) is Reason.NOT_OWNER


def test_a_writer_that_gave_up_keeps_no_reader_out(lanes: Lanes) -> None:
    lane = lanes.of("redis-rw")
    reader, other, writer = lane.client(1), lane.client(2), lane.client(3)
    assert isinstance(reader, Shares)
    assert isinstance(other, Shares)
    granted(reader.acquire_shared(lane.key, 0))
    assert writer.acquire(lane.key, 0.2) is None
    other.release(granted(other.acquire_shared(lane.key, 0)))
    assert refusal(lambda: writer.acquire(lane.key, 0)) is Reason.HELD
    granted(other.acquire_shared(lane.key, 0))


def test_an_inner_acquire_of_a_lost_lock_is_refused(lanes: Lanes) -> None:
    lane = lanes.of("redis-reentrant")
    holder, other = lane.client(1, TTL), lane.client(2)
    outer = granted(holder.acquire(lane.key, 0))
    stolen = granted(other.acquire(lane.key, TTL + EXPIRY))
    assert refusal(lambda: holder.acquire(lane.key, SOON)) is Reason.NOT_OWNER
    assert refusal(lambda: holder.release(outer)) is Reason.NOT_OWNER
    other.release(stolen)
    mine = granted(holder.acquire(lane.key, 0))
    assert mine.owner != outer.owner
    assert released(holder, mine) or now() >= mine.expires


class TestRedlock:
    def test_redlock_on_three_nodes_asks_no_others_and_one_may_be_unreachable(self, lanes: Lanes) -> None:
        lane = lanes.of("redlock-3")
        mine, other = lane.client(1), lane.client(2)
        for node in ("redis1", "redis4", "redis5"):
            lane.environment.links.cut("c1", node, Cut.REFUSE)
        mine.release(granted(mine.acquire(lane.key, SOON)))
        lane.environment.links.cut("c1", "redis2", Cut.REFUSE)
        assert refusal(lambda: mine.acquire(lane.key, SOON)) is Reason.UNAVAILABLE
        other.release(granted(other.acquire(lane.key, SOON)))

    def test_only_unchecked_redlock_counts_a_lease_from_late_answers(self, lanes: Lanes) -> None:
        """One node stands still; all five have been asked."""
        node = lanes.environment.node(PRIMARY)
        ttl = 4 * TTL  # the four other nodes answer within it

        def statement(lane: Lane) -> Steps:
            late = lane.lock_name == "redlock-unchecked"
            mine, other = lane.client(1, ttl, hasty=not late), lane.client(2)
            await_(lambda: got(mine, lane.key))
            yield  # it is paused
            asked = lane.started(lambda: mine.acquire(lane.key, 0.1))
            yield  # it goes on after a TTL
            grant = asked.result()
            if grant is None:
                raise Anew("the others have not answered in time")
            assert (grant.expires > grant.sent + grant.ttl) == late
            granted(other.acquire(lane.key, ttl + EXPIRY))

        def go_on() -> None:
            time.sleep(ttl + 0.2)  # the lease itself must end
            node.let_go("test")

        try:
            lanes.check(("redlock-unchecked", "redlock"), statement, lambda: node.pause("test"), go_on)
        finally:
            node.let_go("test")

    def test_a_node_that_restarted_has_no_vote_for_a_ttl(self, lanes: Lanes) -> None:
        lane = lanes.of("redlock-delayed-restart")
        mine = lane.client(1, TTL)
        await_(lambda: got(mine, f"{lane.key}/votes"))
        nodes = lane.environment.cluster("redis").nodes[:3]
        for node in nodes:
            node.kill("test")
        restarted = time.monotonic()
        for node in nodes:
            node.let_go("test")
        await_(lambda: got(mine, lane.key))
        assert time.monotonic() - restarted >= TTL
        lane.environment.cluster("redis").await_ready()
