from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from infra import star
from infra.environment import Environment
from infra.links import Cut, Links
from infra.machine import Failed
from infra.toxics import Toxic
from infra.toxiproxy import Api, Change

SILENCE = 0.3
"""Seconds without an answer that prove silence; an answer through the proxy takes a millisecond."""


pytestmark = pytest.mark.needs("redis")


@pytest.fixture
def links(environment: Environment) -> Iterator[Links]:
    yield environment.links
    environment.links.heal_all()


class Line:
    """A plain Redis connection: one command, one line of answer."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=2)

    def ask(self, command: str, timeout: float = 2.0) -> bytes | None:
        """The answer; None for silence, b"" when the connection was closed."""
        self.socket.sendall(f"{command}\r\n".encode())
        return self.listen(timeout)

    def listen(self, timeout: float = 2.0) -> bytes | None:
        self.socket.settimeout(timeout)
        with contextlib.suppress(TimeoutError):
            return self.socket.recv(4096)
        return None


def ask(address: str, command: str) -> bytes | None:
    return Line(address).ask(command)


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{time.monotonic_ns()}"


class TestAgainstRedis:
    @pytest.mark.parametrize("how", [Cut.DROP, Cut.HOLD])
    def test_bytes_to_the_node_are_blocked(self, environment: Environment, links: Links, key: str, how: Cut) -> None:
        line = Line(environment.endpoints("redis", 1)[0])
        assert line.ask("PING") == b"+PONG\r\n"
        links.block("c1", "redis1", how)
        assert line.ask(f"SET {key} 1", SILENCE) is None
        assert ask(environment.direct("redis")[0], f"EXISTS {key}") == b":0\r\n"
        assert links.active() == [f"c1 -> redis1: bytes {'dropped' if how is Cut.DROP else 'held'}"]
        links.heal("c1", "redis1")
        assert line.listen() == (b"" if how is Cut.DROP else b"+OK\r\n")
        applied = b":0\r\n" if how is Cut.DROP else b":1\r\n"
        assert ask(environment.direct("redis")[0], f"EXISTS {key}") == applied

    @pytest.mark.parametrize("how", [Cut.DROP, Cut.HOLD])
    def test_answers_of_the_node_are_blocked(self, environment: Environment, links: Links, key: str, how: Cut) -> None:
        line = Line(environment.endpoints("redis", 1)[0])
        links.block("redis1", "c1", how)
        assert line.ask(f"SET {key} 1", SILENCE) is None
        assert ask(environment.direct("redis")[0], f"EXISTS {key}") == b":1\r\n"
        links.heal("redis1", "c1")
        assert line.listen() == (b"" if how is Cut.DROP else b"+OK\r\n")

    def test_refused_is_known_at_once(self, environment: Environment, links: Links) -> None:
        line = Line(environment.endpoints("redis", 1)[0])
        links.cut("c1", "redis1", Cut.REFUSE)
        assert line.listen() == b""
        with pytest.raises(ConnectionRefusedError):
            Line(environment.endpoints("redis", 1)[0])
        assert links.active() == ["c1 <-> redis1: refused"]

    def test_other_groups_and_nodes_go_on(self, environment: Environment, links: Links) -> None:
        links.cut("c1", "redis1", Cut.DROP)
        for address in (*environment.endpoints("redis", 2), *environment.endpoints("redis", 1)[1:]):
            assert ask(address, "PING") == b"+PONG\r\n"

    def test_one_kind_of_cut_replaces_another(self, environment: Environment, links: Links) -> None:
        for how in (Cut.REFUSE, Cut.HOLD, Cut.DROP, Cut.REFUSE, Cut.DROP, Cut.HOLD):
            links.cut("c1", "redis1", how)
            said = {"refuse": "refused", "drop": "bytes dropped", "hold": "bytes held"}[how]
            assert links.active() == [f"c1 <-> redis1: {said}"]
        assert Line(environment.endpoints("redis", 1)[0]).ask("PING", SILENCE) is None

    def test_slow_links(self, environment: Environment, links: Links) -> None:
        line = Line(environment.endpoints("redis", 1)[0])
        links.slow("c1", "redis1", 5000)
        links.slow("c1", "redis1", 50)  # an update: the connection lives on
        began = time.monotonic()
        assert line.ask("PING") == b"+PONG\r\n"
        assert 0.1 <= time.monotonic() - began < 10
        assert links.active() == ["c1 <-> redis1: slow by 50 ± 0 ms"]

    def test_what_somebody_else_did_is_seen_and_healed(self, environment: Environment, links: Links) -> None:
        api = Api(environment.endpoints("redis", 1)[0].partition(":")[0], star.API_PORT)
        toxic = Toxic("by-hand", "limit_data", "downstream", {"bytes": 9})
        api.apply([Change("c2-redis2", add=(toxic,))])
        assert links.active() == ["redis2 -> c2: ends after 9 bytes"]
        links.heal("c2", "redis2")
        assert links.active() == []

    def test_a_refused_change_raises(self, environment: Environment, links: Links) -> None:
        api = Api(environment.endpoints("redis", 1)[0].partition(":")[0], star.API_PORT)
        with pytest.raises(Failed, match="invalid toxic type"):
            api.apply([Change("c2-redis2", add=(Toxic("wrong", "no-such-toxic", "upstream", {}),))])
        with pytest.raises(Failed, match="no proxy nobody"):
            api.apply([Change("nobody", enabled=False)])
