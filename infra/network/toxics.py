"""The effects on the bytes of a link: each as a toxic of Toxiproxy, and in words.

    cut         nothing passes: dropped or held (refusing is no toxic, it closes the proxy itself)
    Impairment  a delay, a bandwidth, slices, ends that come late, resets

Each of them concerns one direction of a proxy. A cut has the same name for every key. The name of any other toxic
contains the key that wants it, so that several toxics of one kind may be on at once.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal

Stream = Literal["upstream", "downstream"]
"""Direction of bytes as Toxiproxy names it: upstream runs from the side that dialled to the side that listens."""

STREAMS: Final[tuple[Stream, Stream]] = ("upstream", "downstream")

MOST_MS: Final = 3_600_000  # longest delay of an impairment in ms; Cut.HOLD is a longer delay


class Cut(StrEnum):
    """How a link is cut; infra/README.md says what its ends see."""

    REFUSE = "refuse"
    DROP = "drop"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Toxic:
    """What is done to the bytes of one direction of a proxy."""

    name: str
    type: str
    stream: Stream
    attributes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Impairment:
    """An effect on bytes that does not stop them all: its type and its attributes, as Toxiproxy names them."""

    type: str
    attributes: Mapping[str, int]


def delay(ms: int, jitter_ms: int = 0) -> Impairment:
    """Every byte comes `ms` later, give or take `jitter_ms`. Raises ValueError."""
    if not 0 <= jitter_ms <= ms <= MOST_MS:
        raise ValueError(f"a delay is 0 to {MOST_MS} ms and its jitter not more, not {ms} ± {jitter_ms}")
    return Impairment("latency", {"latency": ms, "jitter": jitter_ms})


def bandwidth(rate: int) -> Impairment:
    """At most `rate` kB pass in a second. 0 would crash the server when the toxic is removed. Raises ValueError."""
    if rate < 1:
        raise ValueError(f"a bandwidth is at least 1 kB/s, not {rate}; to stop everything is to hold")
    return Impairment("bandwidth", {"rate": rate})


def slices(size: int, delay_us: int) -> Impairment:
    """Bytes arrive in pieces of `size` at most, one every `delay_us`. Raises ValueError."""
    if size < 1 or delay_us < 0:
        raise ValueError(f"slices have a size of 1 or more, not {size}, and come later, not after {delay_us} us")
    return Impairment("slicer", {"average_size": size, "size_variation": 0, "delay": delay_us})


def late_end(ms: int) -> Impairment:
    """The end of a connection arrives `ms` late. Raises ValueError."""
    if not 0 <= ms <= MOST_MS:
        raise ValueError(f"an end is 0 to {MOST_MS} ms late, not {ms}")
    return Impairment("slow_close", {"delay": ms})


RESET: Final = Impairment("reset_peer", {"timeout": 0})
"""The connection ends at once, in place of the next byte, whatever else is under way."""

_WORDS: Final[Mapping[str, str]] = {
    "latency": "slow by {latency} ± {jitter} ms",
    "bandwidth": "at most {rate} kB/s",
    "slicer": "in pieces of {average_size} ± {size_variation} bytes, {delay} us each",
    "slow_close": "ends {delay} ms late",
    "reset_peer": "connections reset",
    "limit_data": "ends after {bytes} bytes",
}
"""Type of a toxic -> its words for people."""

_CUT: Final[Mapping[Cut, tuple[str, Mapping[str, int]]]] = {
    Cut.DROP: ("timeout", {"timeout": 0}),
    Cut.HOLD: ("latency", {"latency": 86_400_000, "jitter": 0}),
}


def cut_name(stream: Stream) -> str:
    """The name of a cut's toxic, which is the same for all cuts of a direction."""
    return f"cut-{stream}"


def cut(how: Cut, stream: Stream) -> Toxic:
    """The toxic of a cut; KeyError for REFUSE, which has no toxic."""
    kind, attributes = _CUT[how]
    return Toxic(cut_name(stream), kind, stream, attributes)


def impairment(what: Impairment, stream: Stream, by: str) -> Toxic:
    """The toxic of an impairment that `by` wants. A key has one toxic of each kind and direction."""
    # So the key can stand in a URL, and different keys stay different.
    plain = re.sub(r"[^A-Za-z0-9.-]", lambda match: f"_{ord(match[0]):x}_", by)
    return Toxic(f"{what.type}-{stream}.{plain}", what.type, stream, what.attributes)


def is_cut(toxic: Toxic) -> bool:
    return toxic.name == cut_name(toxic.stream)


def keeps(toxic: Toxic) -> bool:
    """Whether a toxic keeps bytes in a buffer, so that they must be released before the toxic is removed."""
    return toxic.type == "latency"


def opened(toxic: Toxic) -> Toxic:
    """The toxic with a delay of 0, with which it releases the bytes that it kept."""
    return replace(toxic, attributes={"latency": 0, "jitter": 0})


def words(toxic: Toxic) -> str:
    """A toxic in words for people: "bytes held"."""
    for how, word in ((Cut.DROP, "bytes dropped"), (Cut.HOLD, "bytes held")):
        if _CUT[how] == (toxic.type, toxic.attributes):
            return word
    if template := _WORDS.get(toxic.type):
        return template.format(**toxic.attributes)
    return f"{toxic.type} {dict(toxic.attributes)}"
