"""A process of the user's own in the place of the suite's workers, for faults done by hand."""

import argparse
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from infra.cluster import frozen
from infra.docker import machine, owner
from infra.errors import Failed
from infra.faults.target import Aim, Victim
from infra.waiting import MonotonicClock

SIGNALS: Final = {"freeze": signal.SIGSTOP, "kill": signal.SIGKILL}
"""What can be done to a process without a gate in it."""


class OneProcess:
    """See `infra.faults.target.Actors`. pid: None where there is nobody.

    It is hit at once and wherever it is, since it has no gates.
    """

    def __init__(self, pid: int | None, ttl: float, environment: str = "") -> None:
        """ttl: seconds. environment: on whose account it is frozen, for whoever heals that."""
        self.ttl = ttl
        self._pid = pid
        self._environment = environment
        self._label = "" if pid is None else owner.label_of(pid)
        self._victim: Victim | None = None

    def lanes(self) -> Sequence[str]:
        return () if self._pid is None else ("by hand",)

    def arm(self, lane: str, aim: Aim) -> None:
        """Signals it at once. Raises Failed where it has ended."""
        if self._pid is None:
            return
        if aim.action == "freeze":
            frozen.note(self._environment, self._pid)
        if not self._signal(SIGNALS[aim.action]):
            raise Failed(f"process {self._pid} has ended")
        self._victim = Victim(lane, self._pid, 0, MonotonicClock().now(), f"process {self._pid}")

    def caught(self, lane: str, among: tuple[int, ...] = ()) -> Sequence[Victim]:
        del lane, among
        return () if self._victim is None else (self._victim,)

    def kill_waiter(self, lane: str, key: int) -> Victim | None:
        """Nobody can know whether it waits."""
        del lane, key
        return None

    def skew(self, seconds: Sequence[float], by: str) -> Sequence[Victim]:
        """Its wall clock is not ours to move."""
        del seconds, by
        return ()

    def disarm(self, lane: str, among: tuple[int, ...] = ()) -> None:
        """Nothing is armed for longer than a moment."""

    def thaw(self, victim: Victim) -> None:
        self._signal(signal.SIGCONT)
        frozen.forget(self._environment, victim.process)

    def settled(self, victim: Victim) -> bool:
        del victim
        return False

    def let_go(self, by: str) -> None:
        del by
        self.release_all()

    def release_all(self) -> None:
        if self._victim:
            self.thaw(self._victim)

    def _signal(self, number: signal.Signals) -> bool:
        """Whether it still lives: its number may be another's by now."""
        if self._pid is None or owner.label_of(self._pid) != self._label:
            return False
        try:
            os.kill(self._pid, number)
        except ProcessLookupError:
            return False
        return True


def pid(text: str) -> int:
    """A process that may be hit, as an argument: one that lives, ours to signal, and not what we are run by.

    Raises argparse.ArgumentTypeError.
    """
    number = int(text) if text.strip().isdecimal() else 0
    if number <= 1:
        raise argparse.ArgumentTypeError(f"must be the number of your client's process, not {text!r}")
    try:
        os.kill(number, 0)
    except (ProcessLookupError, OverflowError):
        raise argparse.ArgumentTypeError(f"there is no process {number}") from None
    except PermissionError:
        raise argparse.ArgumentTypeError(f"process {number} is not ours to signal") from None
    if _leader(number) in {os.getpgrp(), os.getpid(), *_ancestors(os.getpid())}:
        raise argparse.ArgumentTypeError(f"process {number} is this command, or runs it")
    return number


def _ancestors(process: int) -> Iterator[int]:
    """The parent, its parent, and so on."""
    while process > 1:
        process = _told(process, "PPid", "ppid")
        yield process


def _leader(thread: int) -> int:
    """The process that a thread belongs to, itself as a rule: a signal for one is for all."""
    return _told(thread, "Tgid", "pid")


def _told(process: int, field: str, column: str) -> int:
    """What /proc tells of it, or ps where there is none (macOS); 0 when it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        if Path("/proc/self").exists():
            return 0
        lines = [f"{field}:{machine.run(['ps', '-o', f'{column}=', '-p', str(process)])}"]
    return int(next(line for line in lines if line.startswith(f"{field}:")).partition(":")[2])
