"""Links on a real Toxiproxy, with Redis at their ends, and what faults make of them, seen from outside."""

import time
from collections.abc import Iterator

import pytest

from infra.backends import BACKENDS
from infra.errors import Failed
from infra.faults.link_question import LinkAnswer
from infra.faults.target import Target
from infra.network import topology
from infra.network.links import Cut, Links
from infra.network.toxics import Toxic
from infra.network.toxiproxy_api import Api, ProxyChange
from infra.own_environment import OwnEnvironment
from infra.tests.environments import on
from infra.tests.live.hurting import Redis, ask_all, await_, done, live, names, past

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
        assert past.ask(f"EXISTS {key}") == (b":0\r\n" if a == "c1" else b":1\r\n")
        assert links.active() == [f"{a} -> {b}: bytes {'dropped' if how is Cut.DROP else 'held'}"]
        links.heal(a, b)
        assert line.listen() == (b"" if how is Cut.DROP else b"+OK\r\n")
        assert past.ask(f"EXISTS {key}") == (b":0\r\n" if (a, how) == ("c1", Cut.DROP) else b":1\r\n")

    def test_one_kind_of_cut_replaces_another(self, environment: OwnEnvironment, links: Links) -> None:
        for how in (Cut.REFUSE, Cut.HOLD, Cut.DROP, Cut.REFUSE, Cut.DROP, Cut.HOLD):
            links.cut("c1", "redis1", how)
            said = {"refuse": "refused", "drop": "bytes dropped", "hold": "bytes held"}[how]
            assert links.active() == [f"c1 <-> redis1: {said}"]
        assert Redis(environment.endpoints("redis", 1)[0]).ask("PING", 0.3) is None

    def test_what_somebody_else_did_is_seen_and_healed(self, environment: OwnEnvironment, links: Links) -> None:
        api = Api(environment.endpoints("redis", 1)[0].partition(":")[0], topology.API_PORT)
        toxic = Toxic("by-hand", "limit_data", "downstream", {"bytes": 9})
        api.apply([ProxyChange("c2-redis2", add=(toxic,))])
        assert links.active() == ["redis2 -> c2: ends after 9 bytes"]
        links.heal("c2", "redis2")
        assert links.active() == []

    def test_a_refused_change_raises(self, environment: OwnEnvironment, links: Links) -> None:
        api = Api(environment.endpoints("redis", 1)[0].partition(":")[0], topology.API_PORT)
        with pytest.raises(Failed, match="invalid toxic type"):
            api.apply([ProxyChange("c2-redis2", add=(Toxic("wrong", "no-such-toxic", "upstream", {}),))])
        with pytest.raises(Failed, match="no proxy nobody"):
            api.apply([ProxyChange("nobody", enabled=False)])

    def test_what_was_held_is_let_go_into_what_another_makes_of_it(
        self, environment: OwnEnvironment, links: Links, key: str
    ) -> None:
        """A request that was held arrives when that is healed; its reply is lost, for that is another's doing."""
        line, past = Redis(environment.endpoints("redis", 1)[0]), Redis(environment.direct("redis")[0])
        links.cut("c1", "redis1", Cut.HOLD, "one")
        links.block("redis1", "c1", Cut.DROP, "other")
        assert line.ask(f"SET {key} 1", 0.3) is None
        assert past.ask(f"EXISTS {key}") == b":0\r\n"
        links.lift("one")
        await_(lambda: past.ask(f"EXISTS {key}") == b":1\r\n")


@on("redis")
@pytest.mark.parametrize(
    ("how", "during", "afterwards"),
    [
        ("refuse", LinkAnswer.CLOSED, LinkAnswer.CLOSED),  # everybody knows
        ("drop", LinkAnswer.SILENT, LinkAnswer.CLOSED),  # what was sent never arrives
        ("hold", LinkAnswer.SILENT, LinkAnswer.ANSWERED),  # it arrives late, and is answered
    ],
)
def test_a_group_of_clients_is_cut(target: Target, how: str, during: LinkAnswer, afterwards: LinkAnswer) -> None:
    node = target.cluster.nodes[0]
    ends = target.endpoints
    with live(ends["c2", node.name]) as connection, live(ends["c1", node.name]) as other:
        with done(target, f"cut-client-{how}", group="c2") as hit:
            assert hit.target == f"clients c2 from {', '.join(names(target))}"
            if how != "refuse":
                connection.sendall(BACKENDS[target.backend].question)
            assert target.prober.answer(connection) is during
            assert ask_all(target, "c2") == {during}
            assert ask_all(target, "c3") == {LinkAnswer.ANSWERED}
            assert past(target, node) is LinkAnswer.ANSWERED
        if how != "refuse":
            assert target.prober.answer(connection) is afterwards
        other.sendall(BACKENDS[target.backend].question)
        assert target.prober.answer(other) is LinkAnswer.ANSWERED  # the links of others never felt it
