"""Cuts between clients and nodes on real clusters, seen from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.faults.probe import QUESTIONS, Answer, answer
from infra.tests.environments import on
from infra.tests.live.hurting import Redis, ask_all, done, live, names, past

if TYPE_CHECKING:
    from infra.environment import Environment
    from infra.faults.target import Target


@on("redis")
@pytest.mark.parametrize(
    ("how", "during", "afterwards"),
    [
        ("refuse", Answer.CLOSED, Answer.CLOSED),  # everybody knows
        ("drop", Answer.SILENT, Answer.CLOSED),  # what was sent never arrives
        ("hold", Answer.SILENT, Answer.ANSWERED),  # it arrives late, and is answered
    ],
)
def test_a_group_of_clients_is_cut(target: Target, how: str, during: Answer, afterwards: Answer) -> None:
    node = target.cluster.nodes[0]
    ends = target.endpoints
    with live(ends["c2", node.name]) as connection, live(ends["c1", node.name]) as other:
        with done(target, f"cut-client-{how}", group="c2") as hit:
            assert hit.target == f"clients c2 from {', '.join(names(target))}"
            if how != "refuse":
                connection.sendall(QUESTIONS[target.backend])
            assert answer(connection) is during
            assert ask_all(target, "c2") == {during}
            assert ask_all(target, "c3") == {Answer.ANSWERED}
            assert past(target, node) is Answer.ANSWERED
        if how != "refuse":
            assert answer(connection) is afterwards
        other.sendall(QUESTIONS[target.backend])
        assert answer(other) is Answer.ANSWERED  # the links of others never felt it


@on("redis")
def test_a_held_write_lands_after_the_heal_and_a_dropped_one_never(environment: Environment, target: Target) -> None:
    past = Redis(environment.direct("redis")[0])
    for how, expected in (("hold", b"$4\r\nlate\r\n"), ("drop", b"$-1\r\n")):
        line = Redis(target.endpoints["c1", "redis1"])
        with done(target, f"cut-client-{how}", group="c1"):
            assert line.ask(f"SET test-{how} late", 0.3) is None
            assert past.ask(f"GET test-{how}") == b"$-1\r\n"
        line.listen()
        assert past.ask(f"GET test-{how}") == expected


@on("redis")
@pytest.mark.parametrize(("what", "applied"), [("requests", b":0\r\n"), ("replies", b":1\r\n")])
def test_bytes_are_lost_in_one_direction_only(
    environment: Environment, target: Target, what: str, applied: bytes
) -> None:
    past = Redis(environment.direct("redis")[1])
    line, other = (Redis(target.endpoints[group, "redis2"]) for group in ("c2", "c3"))
    with done(target, f"lose-{what}", group="c2"):
        assert line.ask(f"SET lost-{what} 1", 0.3) is None
        assert past.ask(f"EXISTS lost-{what}") == applied
        assert other.ask("PING") == b"+PONG\r\n"
    assert line.listen() == b""
    assert past.ask(f"EXISTS lost-{what}") == applied  # nothing arrives late
    assert Redis(target.endpoints["c2", "redis2"]).ask("PING") == b"+PONG\r\n"
