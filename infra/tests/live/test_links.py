"""Links on a real Toxiproxy, mostly with Redis at their ends: cut, slow, narrow, late to end, and reset."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from infra.errors import Failed
from infra.faults.all_faults import FAULTS
from infra.faults.target import Target
from infra.network import topology, toxics
from infra.network.links import Cut, Links
from infra.network.toxics import MOST_MS, Toxic
from infra.network.toxiproxy_api import Api, ProxyChange
from infra.own_environment import OwnEnvironment
from infra.tests.environments import on
from infra.tests.live.hurting import Redis, await_, done, redis_at

pytestmark = pytest.mark.needs("redis")


@pytest.fixture
def links(environment: OwnEnvironment) -> Iterator[Links]:
    yield environment.links
    environment.links.heal_all()


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{time.monotonic_ns()}"


class TestAgainstRedis:
    @pytest.mark.parametrize("how", [Cut.DROP, Cut.HOLD])
    @pytest.mark.parametrize(("a", "b"), [("c1", "redis1"), ("redis1", "c1")])
    def test_bytes_of_one_direction_are_blocked(
        self, environment: OwnEnvironment, links: Links, key: str, a: str, b: str, how: Cut
    ) -> None:
        line, past = Redis(environment.endpoints("redis", 1)[0]), Redis(environment.direct("redis")[0])
        assert line.ask("PING") == b"+PONG\r\n"
        links.block(a, b, how)
        assert line.ask(f"SET {key} 1", 0.3) is None
        if a == "c1":
            assert past.ask(f"EXISTS {key}") == b":0\r\n"
        else:
            await_(lambda: past.ask(f"EXISTS {key}") == b":1\r\n")
        assert links.active() == [f"{a} -> {b}: bytes {'dropped' if how is Cut.DROP else 'held'}"]
        links.heal_all()
        assert line.listen() == (b"" if how is Cut.DROP else b"+OK\r\n")
        assert past.ask(f"EXISTS {key}") == (b":0\r\n" if (a, how) == ("c1", Cut.DROP) else b":1\r\n")

    def test_a_refused_change_raises(self, environment: OwnEnvironment, links: Links) -> None:
        api = Api(f"{environment.endpoints('redis', 1)[0].partition(':')[0]}:{topology.API_PORT}")
        with pytest.raises(Failed, match="invalid toxic type"):
            api.apply([ProxyChange("c2-redis2", add=(Toxic("wrong", "no-such-toxic", "upstream", {}),))])
        with pytest.raises(Failed, match="no proxy nobody"):
            api.apply([ProxyChange("nobody", enabled=False)])

    def test_held_bytes_arrive_despite_another_cut(self, environment: OwnEnvironment, links: Links, key: str) -> None:
        """A held request arrives when the hold is lifted. Its reply is lost, because another key drops replies."""
        line, past = Redis(environment.endpoints("redis", 1)[0]), Redis(environment.direct("redis")[0])
        links.cut("c1", "redis1", Cut.HOLD, "one")
        links.block("redis1", "c1", Cut.DROP, "other")
        assert line.ask(f"SET {key} 1", 0.3) is None
        assert past.ask(f"EXISTS {key}") == b":0\r\n"
        links.lift("one")
        await_(lambda: past.ask(f"EXISTS {key}") == b":1\r\n")


@on("redis", "etcd")
def test_links_are_slow_and_narrow_as_long_as_a_fault_is_on(target: Target) -> None:
    for name in ("slow-links", "throttle-links"):
        with done(target, name):
            assert len(target.links.active()) >= len(target.client_links)
            await_(target.cluster.ready)


@on("redis")
def test_answers_come_in_pieces(target: Target) -> None:
    line = Redis(target.endpoints["c1", "redis2"])
    line.ask("SET long " + "x" * 400)
    with done(target, "slice-links", bytes=50, pause_us=20_000):
        began = time.monotonic()
        received = len(line.ask("GET long") or b"")
        while received <= 400:
            piece = line.listen()
            assert piece
            received += len(piece)
        assert time.monotonic() - began >= 0.12, "eight pieces, with a pause after each"
    assert len(Redis(target.endpoints["c1", "redis2"]).ask("GET long") or b"") > 400


@on("redis")
def test_the_server_learns_late_that_a_client_is_gone(links: Links, target: Target) -> None:
    watch = redis_at(target.node("redis1").endpoint)

    def leave(name: str, group: str = "c1") -> None:
        line = Redis(target.endpoints[group, "redis1"])
        assert line.ask(f"CLIENT SETNAME {name}") == b"+OK\r\n"
        line.socket.close()

    def there(name: str) -> bool:
        return any(client["name"] == name for client in watch.client_list())

    # An hour, so that the end of the connection has not come yet whenever we look.
    links.impair("c1", "redis1", toxics.late_end(MOST_MS), "an hour")
    leave("lingers")
    leave("goes", "c2")
    await_(lambda: not there("goes"))
    assert there("lingers")
    links.lift("an hour")
    with done(target, "slow-close", late_ms=600):
        leave("goes-late")
        await_(lambda: not there("goes-late"))
    leave("goes-at-last")
    await_(lambda: not there("goes-at-last"))


@on("redis")
def test_a_client_that_asks_all_the_time_is_reset_in_the_middle(environment: OwnEnvironment, target: Target) -> None:
    counted = ended = 0
    line = Redis(target.endpoints["c1", "redis1"])
    while counted < 10:
        assert line.ask("INCR counted")
        counted += 1
    with ThreadPoolExecutor(1) as pool:
        injection = FAULTS["reset-connections"].make(target.backend, {"times": 3})
        going_on = pool.submit(injection.apply, target)
        while not going_on.done():
            try:
                line = Redis(target.endpoints["c1", "redis1"])
                while line.ask("INCR counted") and not going_on.done():
                    counted += 1
            except OSError:
                continue
            finally:
                ended += 1
        injection.heal(target)
        assert len(going_on.result()) == 3
    assert ended >= 3
    done_by_server = int((Redis(environment.direct("redis")[0]).ask("INCR counted") or b"")[1:]) - 1
    assert counted <= done_by_server <= counted + ended
    assert Redis(target.endpoints["c1", "redis1"]).ask("PING") == b"+PONG\r\n"
