"""Gates: named points in a worker at which the harness can freeze, stall or kill it.

The harness arms a gate in the worker's control page (`checkers.wire`); the first time the worker comes by, it notes
when and holding what, and does as told. Both sides write different bytes of the page, so no lock is needed.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from checkers import wire
from checkers.wire import Action, Gate

_POLL = 0.002
"""Seconds between looks at the page while stalled, or while the worker is passing."""


@dataclass(frozen=True, slots=True)
class Position:
    """Who is at a gate: the grant held (0 for none), the index of its key, and the process number."""

    owner: int
    key: int
    process: int


@dataclass(frozen=True, slots=True)
class Caught:
    """A worker took the armed action at `at` (ns)."""

    at: int
    position: Position


class Gates:
    """The worker's side. `position` tells what it holds at the moment of passing."""

    __slots__ = ("_count", "_inside", "_page", "_position")

    def __init__(self, page: mmap.mmap, position: Callable[[], Position]) -> None:
        self._page = page
        self._position = position
        self._inside = 0
        self._count = threading.Lock()

    def reach(self, gate: Gate) -> None:
        """Come by a gate; returns at once unless it is armed."""
        page = self._page
        self._pass(1)
        if page[wire.ARMED_GATE] == gate and not page[wire.REACHED_GATE]:
            self._act(Action(page[wire.ARMED_ACTION]), gate)
        self._pass(-1)

    def _pass(self, step: int) -> None:
        """One thread more, or less, is at a gate: the renewal may come by one while the main thread is held at its."""
        with self._count:
            self._inside += step
            self._page[wire.PASSING] = self._inside

    def _act(self, action: Action, gate: Gate) -> None:
        page, position = self._page, self._position()
        wire.WORD.pack_into(page, wire.REACHED_OWNER, position.owner)
        wire.WORD.pack_into(page, wire.REACHED_KEY, position.key)
        wire.WORD.pack_into(page, wire.REACHED_PROCESS, position.process)
        wire.WORD.pack_into(page, wire.REACHED_AT, time.monotonic_ns())
        page[wire.REACHED_GATE] = gate
        if action is Action.FREEZE:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif action is Action.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            while not page[wire.THAWED]:
                time.sleep(_POLL)


# The harness's side


def arm(page: mmap.mmap, gate: Gate, action: Action, alive: Callable[[], bool]) -> None:
    """From now on the worker does `action` when it comes by `gate`, once. If it was caught before it must be thawed."""
    page[wire.ARMED_GATE] = 0
    while page[wire.PASSING] and alive():  # one that was thawed this moment has yet to see that it may go on
        time.sleep(_POLL)
    page[wire.REACHED_GATE] = 0
    page[wire.THAWED] = 0
    page[wire.ARMED_ACTION] = action
    page[wire.ARMED_GATE] = gate


def disarm(page: mmap.mmap, alive: Callable[[], bool]) -> None:
    """Nothing happens at any gate from now on. When it returns, `caught` tells the truth for good."""
    page[wire.ARMED_GATE] = 0
    while page[wire.PASSING] and not page[wire.REACHED_GATE] and alive():
        time.sleep(_POLL)


def thaw(page: mmap.mmap) -> None:
    """A stalled worker goes on; a frozen one still needs SIGCONT."""
    page[wire.THAWED] = 1


def caught(page: mmap.mmap) -> Caught | None:
    """Who took the armed action, once somebody has."""
    if page[wire.REACHED_GATE] == 0:
        return None

    def word(offset: int) -> int:
        value: int = wire.WORD.unpack_from(page, offset)[0]
        return value

    position = Position(word(wire.REACHED_OWNER), word(wire.REACHED_KEY), word(wire.REACHED_PROCESS))
    return Caught(word(wire.REACHED_AT), position)
