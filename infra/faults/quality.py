"""Links that work badly: slow, narrow, in slices, or late to end. All of a backend's, of clients and of peers.

Each is proven by the time that a question through every link of a client takes.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from infra.faults import fault, probe, proof
from infra.faults.fault import Fault, Options
from infra.faults.links import CUT_FOR, heal_clients
from infra.faults.probe import Answer
from infra.faults.target import Hit, Kind, Target
from infra.toxics import Bandwidth, Delay, Impairment, LateEnd, Slices

LATENCIES: Final = (20, 60)
"""ms each way, least and most: a round trip of 40-150 ms stays below every election and request timeout."""

RATES: Final = (20, 60)
"""kB/s each way, least and most: a heartbeat of etcd's takes 5-15 ms, a backlog of 100 kB 2-5 s."""

SLICES: Final = (20, 60)
"""Bytes, least and most: a request is 2-20 of them."""

SLICE_US: Final = (200, 1000)
"""Microseconds between two slices, least and most."""

ENDS: Final = (500, 1500)
"""ms, least and most, by which the end of a connection is late."""

LONG: Final = 4000
"""Bytes of the question that proves how wide a link is, or how it is sliced."""


@dataclass(frozen=True, slots=True)
class Impair:
    """Every link, both ways.

    doing  for people: "slow all links by 40 ± 10 ms each way".
    least  seconds that a question takes then, by `ask`.
    ask    (backend, `host:port`, patience in seconds) -> what became of a question, and the seconds that it took.
    """

    kind: Kind
    what: Impairment
    doing: str
    least: float
    ask: Callable[[str, str, float], tuple[Answer, float]]

    def describe(self) -> str:
        return self.doing

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the time that a question takes through each link of the clients."""
        begun = target.clock.now()
        with target.links.together():
            for a, b in (*peer_pairs(target), *client_pairs(target)):
                target.links.impair(a, b, self.what, target.by)
                target.links.impair(b, a, self.what, target.by)
        proof.await_slow(
            target,
            client_pairs(target),
            self.least,
            lambda endpoint, patience: self.ask(target.backend, endpoint, patience),
        )
        return [Hit(self.kind, f"all links of {target.backend}", begun, target.clock.now())]

    def heal(self, target: Target) -> None:
        """Proven by questions through each link of the clients."""
        heal_clients(target, client_pairs(target))


def client_pairs(target: Target) -> list[tuple[str, str]]:
    """Every (group, node)."""
    return [(group, node.name) for group in target.groups for node in target.cluster.nodes]


def peer_pairs(target: Target) -> list[tuple[str, str]]:
    """Every two nodes that talk to each other, once."""
    there_are = set(target.links.pairs())
    nodes = [node.name for node in target.cluster.nodes]
    return [(a, b) for a in nodes for b in nodes if a < b and (a, b) in there_are]


def slow_links() -> Fault:
    """Every byte comes later."""

    def make(_: str, options: Options) -> Impair:
        latency, jitter = _numbers(options, latency_ms=(0, 10_000), jitter_ms=(0, 10_000))
        if jitter > latency:
            raise ValueError("jitter_ms: must not be more than latency_ms")
        doing = f"slow all links by {latency} ± {jitter} ms each way"
        return Impair("slow", Delay(latency, jitter), doing, 2 * (latency - jitter) / 1000, probe.timed)

    def choose(rng: random.Random, _: str) -> Options:
        latency = rng.randint(*LATENCIES)
        return {"latency_ms": latency, "jitter_ms": latency // 4}

    return _fault(
        "slow-links", "every link of the backend becomes slow", make, choose, "latency", "every answer comes later"
    )


def throttle_links() -> Fault:
    """So many bytes in a second and no more."""

    def make(_: str, options: Options) -> Impair:
        (rate,) = _numbers(options, rate_kb=(1, 1000))
        least = LONG / 1000 / rate  # a kB is 1000 bytes
        return Impair("slow", Bandwidth(rate), f"let {rate} kB/s through all links each way", least, _ask_long)

    def choose(rng: random.Random, _: str) -> Options:
        return {"rate_kb": rng.randint(*RATES)}

    return _fault(
        "throttle-links",
        "every link of the backend becomes narrow",
        make,
        choose,
        "bandwidth",
        "answers come the later the more is asked",
    )


def slice_links() -> Fault:
    """Bytes arrive in small pieces."""

    def make(_: str, options: Options) -> Impair:
        size, pause = _numbers(options, bytes=(1, 10_000), pause_us=(0, 100_000))
        least = max(LONG // size - 1, 0) * pause / 1e6
        doing = f"cut all bytes into pieces of at most {size}, one every {pause} us,"
        return Impair("slow", Slices(size, 0, pause), doing, least, _ask_long)

    def choose(rng: random.Random, _: str) -> Options:
        return {"bytes": rng.randint(*SLICES), "pause_us": rng.randint(*SLICE_US)}

    return _fault(
        "slice-links",
        "what passes any link of the backend arrives in small pieces",
        make,
        choose,
        "slicer",
        "answers come in pieces, and later",
    )


def slow_close() -> Fault:
    """Connections end late."""

    def make(_: str, options: Options) -> Impair:
        (late,) = _numbers(options, late_ms=(0, 60_000))
        doing = f"let the end of every connection arrive {late} ms late"
        return Impair("slow", LateEnd(late), doing, late / 1000, probe.timed_end)

    def choose(rng: random.Random, _: str) -> Options:
        return {"late_ms": rng.randint(*ENDS)}

    return _fault(
        "slow-close",
        "the end of a connection arrives late, through any link of the backend",
        make,
        choose,
        "slow_close",
        "connections of the dead linger, and so may what they hold",
    )


def _ask_long(backend: str, endpoint: str, patience: float) -> tuple[Answer, float]:
    return probe.timed(backend, endpoint, patience, LONG)


def _fault(
    name: str,
    summary: str,
    make: Callable[[str, Options], Impair],
    choose: Callable[[random.Random, str], Options],
    toxic: str,
    sees: str,
) -> Fault:
    return Fault(
        name,
        "slow",
        summary,
        make,
        choose=choose,
        seconds=CUT_FOR,
        needs=frozenset({"client-links"}),
        how=f"Toxiproxy: {toxic}, both directions",
        sees=sees,
    )


def _numbers(options: Options, **bounds: tuple[int, int]) -> list[int]:
    """Whole numbers by these names, each between bounds. Raises ValueError."""
    fault.only(options, *bounds)
    return [checked_number(options, name, *bound) for name, bound in bounds.items()]


def checked_number(options: Mapping[str, object], name: str, least: int, most: int) -> int:
    """A whole number. Raises ValueError."""
    value = options[name]
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name}: must be a whole number from {least} to {most}, not {value!r}")
    return value
