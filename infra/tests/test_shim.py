"""Skews of clocks, and the shim that applies them to a process, without a container."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from checkers.tests.build import cases, there
from infra.backends.answers import Health
from infra.cluster import clock_skew
from infra.cluster.clock_skew import Skew
from infra.docker import images
from infra.errors import Failed

SECOND = 1_000_000_000
TELL = """
import ctypes, json, sys, time
libc = ctypes.CDLL(None)
class Pair(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("parts", ctypes.c_long)]
def of_day():
    pair = Pair()
    assert libc.gettimeofday(ctypes.byref(pair), None) == 0
    return pair.seconds + pair.parts / 1e6
def timespec():
    pair = Pair()
    assert libc.timespec_get(ctypes.byref(pair), 1) == 1
    return pair.seconds + pair.parts / 1e9
libc.time.restype = ctypes.c_long
for line in sys.stdin:
    print(json.dumps({
        "realtime": time.clock_gettime(time.CLOCK_REALTIME), "coarse": time.clock_gettime(5),
        "tai": time.clock_gettime(time.CLOCK_TAI), "of_day": of_day(), "time": libc.time(None), "timespec": timespec(),
        "monotonic": time.clock_gettime(time.CLOCK_MONOTONIC), "boot": time.clock_gettime(time.CLOCK_BOOTTIME),
    }), flush=True)
"""


@cases(
    "options, wrong",
    ({"offset": float("nan")}, "offset: must be seconds"), ({"offset": 1e9}, "offset: must be seconds"),
    ({"rate": -0.1}, "rate: must be from 0 to 100"), ({"rate": float("nan")}, "rate: must be"),
    ({"amplitude": -1.0, "period": 1.0}, "amplitude: must be seconds"),
    ({"amplitude": 1.0}, "period: goes with an amplitude"), ({"period": 1.0}, "period: goes with an amplitude"),
    ({"amplitude": 1.0, "period": 0.0001}, "period: must be 0, or seconds from"),
    ({"amplitude": 1.0, "period": float("inf")}, "period: must be 0, or seconds from"),
)  # fmt: skip
def test_an_impossible_skew_is_refused(options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        Skew(**options)


def test_skews_add_up() -> None:
    skews = [Skew(5.0, since=0), Skew(rate=3.0, since=10 * SECOND), Skew(amplitude=0.5, period=2.0, since=10 * SECOND)]
    assert (clock_skew.ahead(skews, 10 * SECOND), clock_skew.ahead(skews, 11 * SECOND)) == (5.5, 5.0 + 2.0 - 0.5)
    assert (clock_skew.ahead(skews, 14 * SECOND), clock_skew.ahead([], 14 * SECOND)) == (5.0 + 8.0 + 0.5, 0.0)
    with pytest.raises(Failed, match="wrong in 8 ways at once, not in 9"):
        clock_skew.content([Skew(1.0)] * 9)


def test_a_clock_is_astray_only_if_that_is_certain() -> None:
    told = {"right": Health("", ahead=100.1), "fast": Health("", ahead=161.0), "mute": Health(""), "down": None}
    told |= {"slow": Health("", ahead=99.0, unsure=0.001), "busy": Health("", ahead=101.0, unsure=0.9)}
    right = Health("", ahead=100.0)  # the clock of the engine itself differs from ours
    assert clock_skew.astray(told, right) == ["fast's clock is 61.0 s ahead", "slow's clock is 1.0 s behind"]
    assert clock_skew.astray(told, None) == []


def apart(clock: int, other: int) -> float:
    """Seconds by which one of our clocks is ahead of the other, to a tenth. Looks again if we stood still meanwhile."""
    while True:
        before, told = time.clock_gettime(other), time.clock_gettime(clock)
        if time.clock_gettime(other) - before < 0.1:
            return told - before


def ours(*skews: Skew) -> dict[str, float]:
    """The times that `TELL` should print: those of our clocks, with wall clocks moved by the skews."""
    now = time.time_ns()
    wall = now / 1e9 + clock_skew.ahead(skews, now)
    return dict.fromkeys(("realtime", "coarse", "of_day", "time", "timespec"), wall) | {
        "tai": wall + round(apart(time.CLOCK_TAI, time.CLOCK_REALTIME)),
        "monotonic": time.clock_gettime(time.CLOCK_MONOTONIC),
        "boot": time.clock_gettime(time.CLOCK_BOOTTIME),
    }


class Shimmed:
    """A process under the shim, without a container, and the file that moves its clock."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "clock"
        self.place.write_bytes(clock_skew.content([]))
        self.library = folder / "clock.so"
        flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f'-DSETTING="{self.place}"']
        subprocess.run(["gcc", *flags, str(images.RECIPES / "clock/clock.c"), "-o", str(self.library)], check=True)

    def run(self, script: str, *argv: str) -> subprocess.Popen[str]:
        command, pipe = [sys.executable, "-S", "-c", script, *argv], subprocess.PIPE
        env = os.environ | {"LD_PRELOAD": str(self.library)}
        return subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True)

    def write(self, *skews: Skew) -> None:
        subprocess.run(clock_skew.command(str(self.place), skews), check=True)


@pytest.fixture
def shimmed(tmp_path: Path) -> Shimmed:
    if not shutil.which("gcc"):
        pytest.skip("no gcc here")
    return Shimmed(tmp_path)


def test_the_shim_moves_every_wall_clock_and_no_other(shimmed: Shimmed) -> None:
    with shimmed.run(TELL) as process:

        def tell() -> dict[str, float]:
            stdin, stdout = map(there, (process.stdin, process.stdout))
            stdin.write("\n")
            stdin.flush()
            told: dict[str, float] = json.loads(stdout.readline())
            return told

        def moved_by(*skews: Skew) -> bool:
            """Whether each clock tells a time between those that are right just before and just after the question."""
            shimmed.write(*skews)
            earliest, told, latest = ours(*skews), tell(), ours(*skews)
            # Ticks ("coarse") come late on a busy machine and count three times at that rate; "time": whole seconds.
            slack = dict.fromkeys(told, 0.001) | {"coarse": 0.5, "time": 1.5}
            return all(earliest[name] - slack[name] <= told[name] <= latest[name] + 0.001 for name in told)

        assert all(moved_by(*skews) for skews in ([], [Skew(61.25)], [Skew(-30.5)]))
        assert moved_by(Skew(1000.0), Skew(-3.0), Skew(rate=3.0, since=time.time_ns() - 50 * SECOND))
        assert moved_by(Skew(rate=0.0, since=time.time_ns() - 100 * SECOND))  # the clock stands still
        assert moved_by(Skew(amplitude=5.0, period=100.0, since=time.time_ns() - 10 * SECOND))
        assert moved_by(Skew(amplitude=5.0, period=100.0, since=time.time_ns() - 60 * SECOND))
        assert moved_by()


def test_a_clock_that_is_set_is_never_half_old(shimmed: Shimmed) -> None:
    look = """
import sys, time
real, until = float(sys.argv[1]), time.monotonic() + 60.0
seen = []
while len(seen) < 100 and time.monotonic() < until:
    before, told = time.monotonic(), time.time()
    if time.monotonic() - before < 0.1:  # else it stood still between the two
        ahead = round(told - before - real)
        if seen[-1:] != [ahead]:
            seen.append(ahead)
print(*sorted(set(seen)))
"""
    real = apart(time.CLOCK_REALTIME, time.CLOCK_MONOTONIC)
    shimmed.write(*[Skew(125.0)] * 8)
    with shimmed.run(look, str(real)) as process:
        while process.poll() is None:
            shimmed.write(*[Skew(-125.0)] * 8)
            shimmed.write(*[Skew(125.0)] * 8)
        assert there(process.stdout).read() == "-1000 1000\n"


def test_the_shim_shows_real_time_without_a_complete_file(shimmed: Shimmed) -> None:
    for content in (None, b"", clock_skew.content([Skew(61.0)])[:100]):
        shimmed.place.unlink(missing_ok=True)
        if content is not None:
            shimmed.place.write_bytes(content)
        before = time.time()
        with shimmed.run("import time; print(time.time())") as process:
            assert before <= float(there(process.stdout).read()) <= time.time()
