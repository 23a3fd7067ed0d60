"""The clocks of nodes: how far, and in which way, a clock is wrong.

Our images preload a shim (`infra/images/clock/clock.c`) into every process in the container. The shim adds what a small
file says to the time of day; monotonic time stays real. `write` changes that file while servers read it, and the change
is in effect for all of them at once; in a container that is down, from the moment when it starts. The shim itself
computes drift and strobe from the real wall clock, so nothing outside has to keep them up.
"""

import io
import math
import struct
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from docker import DockerClient

from infra.backends.answers import Health
from infra.docker.client import execute, failing
from infra.errors import Failed

LABEL: Final = "fencepost.clock"
"""Label of an image, and so of its containers: the path of the file that moves the clock."""
TOLERANCE: Final = 0.25
"""Seconds by which two right clocks may seem to differ, besides the time that their answers took."""
MOST: Final = 8
"""The most skews of one clock at the same time."""
FAR: Final = 365 * 86400.0
"""Seconds: the furthest that a clock is moved. A year is in the range of everything that stores times."""
FASTEST: Final = 100.0
"""The highest rate: the clock goes 100 minutes in a real minute."""

_SKEW: Final = struct.Struct("=qdqqq")
_SLOTS: Final = 64
_SLOT: Final = 8 + MOST * _SKEW.size
_SIZE: Final = 1024  # bytes of the file: `struct setting` in clock.c

# The first byte tells which slot is valid: fill the other one, then change the byte. The lock keeps writers apart.
_WRITE: Final = f"""\
set -eu
exec 9<>"$1"
flock 9
turn=$(od -A n -t u1 -N 1 "$1")
next=$(((turn + 1) % 256))
printf "$2" | dd of="$1" bs=8 seek=$((({_SLOTS} + next % 2 * {_SLOT}) / 8)) conv=notrunc status=none
printf "\\\\$(printf %03o $next)" 1<>"$1"
"""


@dataclass(frozen=True, slots=True)
class Skew:
    """One way in which a clock is wrong; several add up. Raises ValueError("field: what is wrong")."""

    offset: float = 0.0  # seconds ahead; negative: behind
    rate: float = 1.0  # seconds that pass on it in a real second: 2.0 is twice as fast, 0.5 half as fast, 1.0 right
    amplitude: float = 0.0  # strobe: the clock is so many seconds ahead and so many behind by turns, ...
    period: float = 0.0  # ... one turn of each within so many seconds. Both fields are 0, or neither
    # When drift and strobe begin, in ns of this machine's real wall clock; the engine's is assumed to agree.
    since: int = field(default_factory=time.time_ns)

    def __post_init__(self) -> None:
        if not -FAR <= self.offset <= FAR:
            raise ValueError(f"offset: must be seconds from {-FAR:.0f} to {FAR:.0f}, not {self.offset!r}")
        if not 0.0 <= self.rate <= FASTEST:
            raise ValueError(f"rate: must be from 0 to {FASTEST:.0f}, not {self.rate!r}")
        if not 0.0 <= self.amplitude <= FAR:
            raise ValueError(f"amplitude: must be seconds from 0 to {FAR:.0f}, not {self.amplitude!r}")
        if not (self.period == 0.0 or 0.001 <= self.period < math.inf):
            raise ValueError(f"period: must be 0, or seconds from 0.001, not {self.period!r}")
        if bool(self.period) != bool(self.amplitude):
            raise ValueError("period: goes with an amplitude, and an amplitude with a period")

    def ahead(self, now: int) -> float:
        """Seconds by which the clock is ahead at a moment (ns of the real wall clock); as `ahead` in clock.c."""
        passed = now - self.since
        strobe = 0.0
        if self.period:
            strobe = -self.amplitude if passed // _ns(self.period / 2) % 2 else self.amplitude
        return self.offset + (self.rate - 1.0) * passed / 1e9 + strobe


def ahead(skews: Sequence[Skew], now: int) -> float:
    """Seconds by which a clock that is wrong in all these ways is ahead at a moment (ns of the real wall clock)."""
    return sum(skew.ahead(now) for skew in skews)


def astray(healths: Mapping[str, Health | None], right: Health | None) -> list[str]:
    """A line for each node whose clock is wrong. right: the health of a node whose clock is right.

    This machine's clock is not asked: the engine may run in a virtual machine with another clock.
    """
    return [
        f"{node}'s clock is {abs(wrong):.1f} s {'ahead' if wrong > 0 else 'behind'}"
        for node, health in healths.items()
        if health and right and (wrong := apart(health, right))
    ]


def apart(health: Health, right: Health, by: float = 0.0, tolerance: float = TOLERANCE) -> float:
    """Seconds by which a clock is ahead of a right one beyond `by`, which it should be; 0.0 when that is not sure."""
    if health.ahead is None or right.ahead is None:
        return 0.0
    wrong = health.ahead - right.ahead - by
    return wrong if abs(wrong) > tolerance + health.unsure + right.unsure else 0.0


def movable(client: DockerClient, container: str) -> bool:
    """Whether its image has a clock that can be moved; a user's own image has none. Raises Failed when it is gone."""
    return _place(_inspect(client, container)) is not None


def in_image(client: DockerClient, image: str) -> bool:
    """As `movable`, for the containers of an image, by its name. Raises Failed when the image is not here."""
    with failing(f"image {image}"):
        return LABEL in client.images.get(image).labels


def write(client: DockerClient, container: str, skews: Sequence[Skew]) -> None:
    """Set the clock of a container that runs or is down to the sum of these skews; none: to the real time.

    It is in effect when this returns. Raises Failed when the image has no movable clock, when the container is gone,
    and when it is paused: nothing can be executed in it, so its clock has to wait until it goes on.
    """
    state = _inspect(client, container)
    place = _place(state)
    if place is None:
        raise Failed(f"{container}: its image has no movable clock")
    if state["State"]["Status"] == "paused":
        raise Failed(f"{container} is paused: its clock cannot be set")
    with failing(f"{container}: its clock could not be set", f"container {container} is gone"):
        if state["State"]["Running"]:
            status, output = execute(client, container, command(place, skews), user="root")
            if status != 0:
                raise Failed(f"{container}: its clock could not be set ({status}): {output.strip()}")
        else:
            _write_stopped(client, container, PurePosixPath(place), content(skews))


def content(skews: Sequence[Skew]) -> bytes:
    """The whole file for these skews, for a clock that nobody reads. Raises Failed if they are too many."""
    return (bytes(_SLOTS) + _slot(skews)).ljust(_SIZE, b"\0")


def command(place: str, skews: Sequence[Skew]) -> list[str]:
    """The command that writes these skews to the file at `place` while others read it. Raises Failed if too many."""
    octal = "".join(f"\\{byte:03o}" for byte in _slot(skews))
    return ["sh", "-c", _WRITE, "sh", place, octal]


def _slot(skews: Sequence[Skew]) -> bytes:
    if len(skews) > MOST:
        raise Failed(f"a clock can be wrong in {MOST} ways at once, not in {len(skews)}")
    packed = [
        _SKEW.pack(_ns(skew.offset), skew.rate - 1.0, skew.since, _ns(skew.amplitude), _ns(skew.period / 2))
        for skew in skews
    ]
    return struct.pack("=q", len(skews)) + b"".join(packed)


def _write_stopped(client: DockerClient, container: str, place: PurePosixPath, content: bytes) -> None:
    """Replace the file: no process maps it any more."""
    file = tarfile.TarInfo(place.name)
    file.size, file.mode, file.mtime = len(content), 0o666, int(time.time())
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(file, io.BytesIO(content))
    client.api.put_archive(container, str(place.parent), archive.getvalue())


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _place(inspected: dict[str, Any]) -> str | None:
    return (inspected["Config"]["Labels"] or {}).get(LABEL) or None


def _inspect(client: DockerClient, container: str) -> dict[str, Any]:
    with failing(container, f"container {container} is gone"):
        return dict(client.api.inspect_container(container))
