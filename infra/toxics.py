"""What can be done to the bytes of a link: each as a toxic of Toxiproxy's, and in words.

    cut         nothing passes: dropped or held (refusing is no toxic, it closes the proxy itself)
    Delay       everything comes later
    Impairment  bandwidth, slices, ends that come late, resets, an end after so many bytes

All of them concern one direction of a proxy. A cut goes by the same name whoever wants it; any other toxic carries the
key of who wants it in its name, so that several may be on at once.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Final, Literal, Protocol

Stream = Literal["upstream", "downstream"]
"""Direction of bytes as Toxiproxy names it: upstream runs from who dialled to who listens."""

STREAMS: Final[tuple[Stream, Stream]] = ("upstream", "downstream")

MOST_MS: Final = 3_600_000
"""Longest delay in ms; HOLD is a longer one."""


class Cut(StrEnum):
    """How a link is cut; see `infra.links`."""

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


class Impairment(Protocol):
    """Something that is done to bytes without stopping them all."""

    @property
    def type(self) -> str:
        """As Toxiproxy calls it."""

    @property
    def attributes(self) -> Mapping[str, int]:
        """As Toxiproxy wants them."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Every byte comes `ms` later, give or take `jitter_ms`."""

    type: ClassVar[str] = "latency"
    ms: int
    jitter_ms: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if not 0 <= self.jitter_ms <= self.ms <= MOST_MS:
            raise ValueError(f"a delay is 0 to {MOST_MS} ms and its jitter not more, not {self.ms} ± {self.jitter_ms}")

    @property
    def attributes(self) -> Mapping[str, int]:
        return {"latency": self.ms, "jitter": self.jitter_ms}


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """At most `rate` kB pass in a second. Never 0: that crashes the whole server when the toxic goes."""

    type: ClassVar[str] = "bandwidth"
    rate: int

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.rate < 1:
            raise ValueError(f"a bandwidth is at least 1 kB/s, not {self.rate}; to stop everything is to hold")

    @property
    def attributes(self) -> Mapping[str, int]:
        return {"rate": self.rate}


@dataclass(frozen=True, slots=True)
class Slices:
    """Bytes arrive in pieces of about `size` (give or take `variation`, which is less), one every `delay_us`."""

    type: ClassVar[str] = "slicer"
    size: int
    variation: int = 0
    delay_us: int = 0

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if not (0 <= self.variation < self.size and self.delay_us >= 0):
            raise ValueError(f"slices have a size of 1 or more and a smaller variation, not {self}")

    @property
    def attributes(self) -> Mapping[str, int]:
        return {"average_size": self.size, "size_variation": self.variation, "delay": self.delay_us}


@dataclass(frozen=True, slots=True)
class LateEnd:
    """The end of a connection arrives `ms` late."""

    type: ClassVar[str] = "slow_close"
    ms: int

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if not 0 <= self.ms <= MOST_MS:
            raise ValueError(f"an end is 0 to {MOST_MS} ms late, not {self.ms}")

    @property
    def attributes(self) -> Mapping[str, int]:
        return {"delay": self.ms}


@dataclass(frozen=True, slots=True)
class Reset:
    """Instead of the next byte, the connection ends: at once, whatever else is under way."""

    type: ClassVar[str] = "reset_peer"

    @property
    def attributes(self) -> Mapping[str, int]:
        return {"timeout": 0}


@dataclass(frozen=True, slots=True)
class Limit:
    """So many bytes of a connection pass, then it ends."""

    type: ClassVar[str] = "limit_data"
    bytes: int

    def __post_init__(self) -> None:
        """Raises ValueError."""
        if self.bytes < 0:
            raise ValueError(f"a limit is a number of bytes, not {self.bytes}")

    @property
    def attributes(self) -> Mapping[str, int]:
        return {"bytes": self.bytes}


_CUT: Final[Mapping[Cut, tuple[str, Mapping[str, int]]]] = {
    Cut.DROP: ("timeout", {"timeout": 0}),
    Cut.HOLD: ("latency", {"latency": 86_400_000, "jitter": 0}),
}
_OPEN: Final[Mapping[str, int]] = {"latency": 0, "jitter": 0}
"""What lets everything pass that a delay kept."""


def cut_name(stream: Stream) -> str:
    """The name of the toxic of any cut."""
    return f"cut-{stream}"


def cut(how: Cut, stream: Stream) -> Toxic:
    """The toxic of a cut; KeyError for REFUSE, which is none."""
    kind, attributes = _CUT[how]
    return Toxic(cut_name(stream), kind, stream, attributes)


def impairment(what: Impairment, stream: Stream, by: str) -> Toxic:
    """The toxic of an impairment that `by` wants: one of each kind for a key and a direction."""
    return Toxic(f"{what.type}-{stream}.{_plain(by)}", what.type, stream, what.attributes)


def is_cut(toxic: Toxic) -> bool:
    """Whether it is one of `cut`."""
    return toxic.name == cut_name(toxic.stream)


def keeps(toxic: Toxic) -> bool:
    """Whether it keeps bytes back in a buffer, so that they are to be let go before it is taken away."""
    return toxic.type == Delay.type


def opened(toxic: Toxic) -> Toxic:
    """The same when it lets go what it kept."""
    return replace(toxic, attributes=_OPEN)


def said(toxic: Toxic) -> str:
    """For people: "bytes held"."""
    of = toxic.attributes
    match toxic.type:
        case "timeout" if of == _CUT[Cut.DROP][1]:
            return "bytes dropped"
        case "latency" if of == _CUT[Cut.HOLD][1]:
            return "bytes held"
        case "latency":
            return f"slow by {of['latency']} ± {of['jitter']} ms"
        case "bandwidth":
            return f"at most {of['rate']} kB/s"
        case "slicer":
            return f"in pieces of {of['average_size']} ± {of['size_variation']} bytes, {of['delay']} us each"
        case "slow_close":
            return f"ends {of['delay']} ms late"
        case "reset_peer":
            return "connections reset"
        case "limit_data":
            return f"ends after {of['bytes']} bytes"
    return f"{toxic.type} {dict(of)}"


def _plain(by: str) -> str:
    """A key as part of a name that can stand in a URL; different keys stay different."""
    return re.sub(r"[^A-Za-z0-9.-]", lambda found: f"_{ord(found[0]):x}_", by)
