"""What tests of faults on real clusters have in common."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from infra.faults import fault
from infra.faults.all_faults import FAULTS
from infra.faults.link_question import LinkAnswer
from infra.faults.plan import compile_plan
from infra.faults.target import Hit, Target
from infra.waiting import comes_true

ELECTING = ("etcd", "zookeeper")

SILENCE = 1.0  # seconds without a byte that count as silence: more than a busy machine stalls
PATIENCE = 10.0  # seconds for an answer that must come
COMES_WITHIN = 40.0  # seconds for anything awaited, on whatever machine


def await_(condition: Callable[[], bool], why: Callable[[], str] = str) -> None:
    """What takes fractions of a second, or a few. why: asked when it does not come."""
    assert comes_true(condition, COMES_WITHIN), why()


@contextmanager
def done(target: Target, name: str, **options: object) -> Iterator[Hit]:
    """The one hit of a fault, as long as it lasts; afterwards all is whole, if no other is on."""
    step = compile_plan([name], 1, target.backend, ttl=1.0).steps[0]
    injection = replace(step, options={**step.options, **options}).injection(target.backend)
    try:
        hits = injection.apply(target)
        assert hits[0].kind == FAULTS[name].kind
        assert hits[0].begun < hits[0].applied
        yield hits[0]
    finally:
        injection.heal(target)
        injection.heal(target)  # idempotent
    if target.alone:
        fault.await_whole(target)


def ask(target: Target, group: str, node: str) -> LinkAnswer:
    return target.prober.ask(target.endpoints[group, node], SILENCE)


def ask_all(target: Target, group: str) -> set[LinkAnswer]:
    """Through all links of a group, at once."""
    return set(target.prober.ask_all([target.endpoints[group, node] for node in names(target)], SILENCE))


def place(endpoint: str) -> tuple[str, int]:
    """Of `host:port`."""
    host, _, port = endpoint.rpartition(":")
    return host, int(port)


def live(endpoint: str) -> socket.socket:
    """A connection through a link, up at both ends."""
    connection = socket.create_connection(place(endpoint), timeout=0.5)
    time.sleep(0.05)  # Toxiproxy dials on after it has accepted, and says nothing about it
    return connection


class Redis:
    """A plain connection: one command, one answer."""

    def __init__(self, endpoint: str) -> None:
        self.socket = live(endpoint)

    def ask(self, command: str, patience: float = PATIENCE) -> bytes | None:
        """None for silence, b"" when the connection has ended."""
        self.socket.sendall(f"{command}\r\n".encode())
        return self.listen(patience)

    def listen(self, patience: float = PATIENCE) -> bytes | None:
        self.socket.settimeout(patience)
        try:
            return self.socket.recv(4096)
        except TimeoutError:
            return None
        except ConnectionError:
            return b""


def names(target: Target) -> list[str]:
    return [node.name for node in target.cluster.nodes]
