"""Faults that degrade all links of a backend, of clients and of peers: slow, narrow, in slices, or late to end.

Each fault is proven by the time that a question takes through every link of a client.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from infra.faults import link_proof
from infra.faults.fault import SPANS, Fault
from infra.faults.fault_options import number, within
from infra.faults.links.cuts import OnClientLinks
from infra.faults.target import Hit, Target
from infra.network import toxics

LATENCIES: Final = (20, 60)
"""ms each way, least and most: a round trip of 40-150 ms stays below every election and request timeout."""
RATES: Final = (20, 60)
"""kB/s each way, least and most: a heartbeat of etcd's takes 5-15 ms, a backlog of 100 kB 2-5 s."""
SLICES: Final = (20, 60)
"""Bytes of a slice, least and most: a request is 2-20 slices."""
SLICE_US: Final = (200, 1000)
"""Microseconds between two slices, least and most."""
ENDS: Final = (500, 1500)
"""ms, least and most, by which the end of a connection is late."""
LONG: Final = 4000
"""Bytes of the question that proves how wide a link is, or how it is sliced."""


@dataclass(frozen=True, slots=True)
class Impair(OnClientLinks):
    """Impair every link, in both directions."""

    what: toxics.Impairment
    doing: str  # for people: "slow all links by 40 ± 10 ms each way"
    least: float  # the fewest seconds that a question takes then; its size, to_the_end: see `Prober.timed`
    size: int = 0
    to_the_end: bool = False

    def describe(self) -> str:
        return self.doing

    def apply(self, target: Target) -> Sequence[Hit]:
        """Proven by the time that a question takes through each link of the clients."""
        begun = target.clock.now()
        with target.links.together():
            peers = (pair for pair in itertools.combinations(target.members, 2) if pair in target.links.pairs())
            for a, b in (*peers, *target.client_links):
                target.links.impair(a, b, self.what, target.by)
                target.links.impair(b, a, self.what, target.by)
        link_proof.await_slow(target, target.client_links, self.least, self.size, to_the_end=self.to_the_end)
        return [Hit("slow", f"all links of {target.backend}", begun, target.clock.now())]


def _slow(_: str, latency_ms: int, jitter_ms: int) -> Impair:
    if jitter_ms > latency_ms:
        raise ValueError("jitter_ms: must not be more than latency_ms")
    doing = f"slow all links by {latency_ms} ± {jitter_ms} ms each way"
    return Impair(toxics.delay(latency_ms, jitter_ms), doing, 2 * (latency_ms - jitter_ms) / 1000)


def _throttle(_: str, rate_kb: int) -> Impair:
    least = LONG / 1000 / rate_kb  # a kB is 1000 bytes
    return Impair(toxics.bandwidth(rate_kb), f"let {rate_kb} kB/s through all links each way", least, LONG)


def _slice(_: str, bytes: int, pause_us: int) -> Impair:
    least = max(LONG // bytes - 1, 0) * pause_us / 1e6
    doing = f"cut all bytes into pieces of at most {bytes}, one every {pause_us} us,"
    return Impair(toxics.slices(bytes, pause_us), doing, least, LONG)


def _close_late(_: str, late_ms: int) -> Impair:
    doing = f"let the end of every connection arrive {late_ms} ms late"
    return Impair(toxics.late_end(late_ms), doing, late_ms / 1000, to_the_end=True)


_OF_LINKS: Final = partial(Fault, kind="slow", spans=SPANS, needs=("client-links",))

QUALITY: Final = (
    _OF_LINKS(
        "slow-links",
        summary="every link of the backend becomes slow",
        inject=_slow,
        options=(
            number("latency_ms", 0, 10_000, within(LATENCIES)),
            number("jitter_ms", 0, 10_000, lambda _, __, options: options["latency_ms"] // 4),
        ),
        how="Toxiproxy: latency, both directions",
        sees="every answer comes later",
    ),
    _OF_LINKS(
        "throttle-links",
        summary="every link of the backend becomes narrow",
        inject=_throttle,
        options=(number("rate_kb", 1, 1000, within(RATES)),),
        how="Toxiproxy: bandwidth, both directions",
        sees="answers come the later the more is asked",
    ),
    _OF_LINKS(
        "slice-links",
        summary="what passes any link of the backend arrives in small pieces",
        inject=_slice,
        options=(number("bytes", 1, 10_000, within(SLICES)), number("pause_us", 0, 100_000, within(SLICE_US))),
        how="Toxiproxy: slicer, both directions",
        sees="answers come in pieces, and later",
    ),
    _OF_LINKS(
        "slow-close",
        summary="the end of a connection arrives late, through any link of the backend",
        inject=_close_late,
        options=(number("late_ms", 0, 60_000, within(ENDS)),),
        how="Toxiproxy: slow_close, both directions",
        sees="connections of the dead linger, and so may what they hold",
    ),
)
