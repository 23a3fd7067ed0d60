"""Clocks of Redis and PostgreSQL that jump, drift and strobe, as their clients see them."""

import itertools
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from infra.backends.answers import Health
from infra.cluster import clock_skew
from infra.cluster.clock_skew import Skew
from infra.docker import compose
from infra.errors import Failed
from infra.faults.target import Hit
from infra.network.topology import kind_of
from infra.own_environment import OwnEnvironment
from infra.tests.environments import target_of
from infra.tests.live import hurting
from infra.tests.live.hurting import Session, asked, await_, redis_at, session

pytestmark = pytest.mark.needs("redis", "postgres")


def quickly(ask: Callable[[], Any]) -> tuple[float, Any]:
    """(time of the answer, answer). Asks again until the time is known to 5 ms."""
    while True:
        asked = time.time()
        answer = ask()
        answered = time.time()
        if answered - asked < 0.01:
            return (asked + answered) / 2, answer


class Servers:
    """Redis and PostgreSQL of the environment, asked past the proxies."""

    def __init__(self, environment: OwnEnvironment) -> None:
        self.environment = environment
        self.nodes = environment.cluster("redis").nodes
        self.redis = [redis_at(node.endpoint) for node in self.nodes]

    def look(self) -> tuple[float, float]:
        """(moment, seconds by which redis1 was ahead of us then), as any client can ask redis1."""
        moment, (seconds, parts) = quickly(self.redis[0].time)
        return moment, float(seconds + parts / 1e6 - moment)

    def ahead(self) -> float:
        return self.look()[1]


@pytest.fixture
def servers(environment: OwnEnvironment) -> Iterator[Servers]:
    servers = Servers(environment)
    for redis in servers.redis:
        redis.flushall()
    yield servers
    environment.heal()


@contextmanager
def done(servers: Servers, fault: str, node: str = "redis1", **options: object) -> Iterator[Hit]:
    """Apply a fault to one node while the context lasts. Afterwards all clocks are right."""
    target = target_of(servers.environment, kind_of(node).name)
    with hurting.done(target, fault, nodes=[node], **options) as hit:
        yield hit
    assert all(abs(clock_skew.apart(told, Health("", ahead=0.0))) < 1e-9 for told in target.cluster.healths() if told)


class TestRedis:
    def test_a_60_s_key_vanishes_at_a_61_s_jump(self, servers: Servers) -> None:
        for redis in servers.redis[:2]:
            assert redis.set("lock", "first", nx=True, px=60_000)
            assert not redis.set("lock", "second", nx=True, px=60_000)
        with done(servers, "clock-jump-forward", seconds=61) as hit:
            assert hit.target == "redis1: 61 s forward"
            assert servers.redis[0].get("lock") is None
            assert servers.redis[0].set("lock", "second", nx=True, px=60_000)
            assert servers.redis[1].get("lock") == "first"  # only the clock of the first node is moved
            ahead = re.compile(r"redis1's clock is 6[01]\.\d s ahead")
            await_(lambda: ahead.fullmatch("; ".join(servers.environment.unclean())) is not None)
        assert 60_000 < servers.redis[0].pttl("lock") <= 121_000  # it was set while the clock was ahead

    def test_a_lock_lives_on_when_the_clock_jumps_back(self, servers: Servers) -> None:
        redis = servers.redis[0]
        taken, _ = quickly(lambda: redis.set("lock", "first", px=600_000))
        with done(servers, "clock-jump-back", seconds=30):
            assert redis.get("lock") == "first"
            assert not redis.set("lock", "second", nx=True)
            now, left = quickly(lambda: redis.pttl("lock"))
            assert left / 1000 == pytest.approx(600 + 30 - (now - taken), abs=0.02)
            assert redis.set("other", "first", px=25_000)
        assert redis.get("other") is None  # it was set while the clock was behind

    def test_a_ttl_runs_at_the_rate_of_a_drifting_clock(self, servers: Servers) -> None:
        redis, rate = servers.redis[0], 0.25
        with done(servers, "clock-drift", rate=rate):
            redis.set("lock", "first", px=60_000)
            began, left = quickly(lambda: redis.pttl("lock"))
            while time.time() < began + 0.5:
                pass
            now, less = quickly(lambda: redis.pttl("lock"))
            assert (left - less) / 1000 == pytest.approx(rate * (now - began), abs=0.05)

    def test_a_strobing_clock_goes_to_and_fro(self, servers: Servers) -> None:
        with done(servers, "clock-strobe", seconds=2.5, turn_ms=50):
            (skew,) = servers.nodes[0].skews()
            assert (skew.amplitude, skew.period) == (2.5, 0.1)
            told: list[float] = []

            def turned() -> bool:
                """Check that the clock is on the right side, or on either if it turns within the 5 ms of our error."""
                moment, ahead = servers.look()
                told.append(round(ahead, 1))
                turns = {skew.ahead(round((moment + late) * 1e9)) for late in (-0.01, 0.01)}
                assert told[-1] in turns
                return sum(one > 0 > other for one, other in itertools.pairwise(told)) >= 2

            await_(turned, every=0.0)
            assert {-2.5, 2.5} == set(told)

    def test_a_skew_survives_a_crash_and_may_change_while_the_node_is_down(self, servers: Servers) -> None:
        def restarted() -> float:
            node.let_go("killer")
            servers.environment.cluster("redis").await_ready()
            return servers.ahead()

        node = servers.nodes[0]
        node.skew(Skew(20.0), "mover")
        node.kill("killer")
        assert restarted() == pytest.approx(20.0, abs=0.1)
        node.kill("killer")
        node.let_go("mover")
        assert restarted() == pytest.approx(0.0, abs=0.1)
        node.kill("killer")
        node.skew(Skew(-20.0), "mover")
        assert restarted() == pytest.approx(-20.0, abs=0.1)

    def test_a_clock_is_seen_wrong_the_moment_a_paused_node_goes_on(self, servers: Servers) -> None:
        node = servers.nodes[0]
        node.pause("pauser")
        node.skew(Skew(20.0), "mover")
        with pytest.raises(Failed, match="redis1-1 is paused: its clock cannot be set"):
            clock_skew.write(servers.environment._client, compose.container(servers.environment.name, "redis1"), [])
        node.let_go("pauser")
        assert servers.ahead() == pytest.approx(20.0, abs=0.1)


class TestPostgres:
    def test_now_jumps_for_sessions_old_and_new(self, servers: Servers) -> None:
        ask = "SELECT extract(epoch FROM now())::float8, extract(epoch FROM clock_timestamp())::float8"

        def ahead(connection: Session) -> list[float]:
            now, told = quickly(lambda: connection.execute(ask).fetchone())
            return [round(moment - now, 1) for moment in told]

        with session(servers.environment) as old:
            assert ahead(old) == [0.0, 0.0]
            with done(servers, "clock-jump-forward", "postgres", seconds=3600):
                assert ahead(old) == [3600.0, 3600.0]
                with session(servers.environment) as new:
                    assert ahead(new) == [3600.0, 3600.0]
            assert ahead(old) == [0.0, 0.0]

    def test_monotonic_time_is_untouched(self, servers: Servers) -> None:
        servers.environment.node("postgres").skew(Skew(rate=50.0))
        with session(servers.environment) as connection:
            began = time.monotonic()
            told: Any = asked(connection, "EXPLAIN (ANALYZE, FORMAT JSON) SELECT pg_sleep(0.2)")
            took = time.monotonic() - began
        # pg_sleep looks at the wall clock twice before it sleeps, and so may sleep for a little less.
        assert 0 < told[0]["Execution Time"] / 1000 <= took


def test_an_image_without_a_movable_clock_says_so(environment: OwnEnvironment) -> None:
    container = compose.container(environment.name, "toxiproxy")
    assert not clock_skew.movable(environment._client, container)
    with pytest.raises(Failed, match="toxiproxy-1: its image has no movable clock"):
        clock_skew.write(environment._client, container, [Skew(1.0)])
    with pytest.raises(Failed, match="container nobody is gone"):
        clock_skew.movable(environment._client, "nobody")
