"""Gates: named points in a worker at which the harness can freeze, stall or kill it, and more (`row_format.Action`).

The harness arms a gate in the worker's control page (`checkers.row_format`). The first time that the worker passes the
gate while it holds a lock, it records when, and which grant, and does the action. Both sides write different bytes of
the page, and each of the worker's two threads has bytes of its own, so no lock is needed.
"""

import mmap
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from checkers import row_format
from checkers.row_format import Action, F, Gate

OF_THE_RENEWAL: Final = (
    *(Gate.IN_RENEWAL, Gate.WHILE_WAITING, Gate.AFTER_RENEWAL),
    *(Gate.AT_RENEWAL_REQUEST, Gate.AT_RENEWAL_ANSWER),
)
"""Gates that the renewal thread passes."""
OF_THE_TAP: Final = (Gate.AT_REQUEST, Gate.AT_ANSWER, Gate.AT_RENEWAL_REQUEST, Gate.AT_RENEWAL_ANSWER)
"""Gates that a message of the worker passes, not the worker itself."""
_POLL = 0.002  # seconds between looks at the page, by a stalled worker or while the harness waits for a worker to pass


class Died(Exception):
    """Raised in a thread that a gate ends, once the harness lets another thread take its place."""


@dataclass(frozen=True, slots=True)
class Caught:
    """A thread took the armed action at `at` (ns), holding grant `owner` of the key, or waiting in session `owner`."""

    at: int
    owner: int
    key: int
    process: int


class Gates:
    """The worker's side."""

    __slots__ = ("_page", "_within")

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page
        self._within = 0  # ns; how long after its next request begins the main thread is to be frozen; 0: it is not

    def reach(self, gate: Gate, owner: int, key: int, process: int) -> None:
        """Pass a gate; returns at once unless the gate is armed. owner: of the grant that is held, or the session of a
        thread that waits for a lock. If there is neither, it is 0 and nothing happens.

        Raises Died.
        """
        page, base = self._page, _base(gate)
        page[base + row_format.PASSING] = 1
        try:
            if page[base + row_format.ARMED_GATE] == gate and not page[base + row_format.REACHED_GATE] and owner:
                armed_key = row_format.word(page, base + row_format.ARMED_KEY)
                if armed_key in (key, row_format.NONE):
                    self._act(gate, owner, key, process)
        finally:
            page[base + row_format.PASSING] = 0

    def asks(self) -> None:
        """The main thread has recorded its request. A freeze that must come during that request is timed from here."""
        span, self._within = self._within, 0
        if span:
            row_format.WORD.pack_into(self._page, row_format.MAIN + row_format.REACHED_AT, time.monotonic_ns() + span)
            threading.Timer(span / 1e9, _stop).start()

    def _act(self, gate: Gate, owner: int, key: int, process: int) -> None:
        page, base, at = self._page, _base(gate), time.monotonic_ns()
        action, span = Action(page[base + row_format.ARMED_ACTION]), row_format.word(page, base + row_format.SPAN)
        row_format.reach(page, base, gate, at, owner, key, process)
        if action is Action.FREEZE and span:
            self._within = span
            return
        if action is Action.FREEZE:
            _stop()
            return
        if action is Action.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        over = at + span if action is Action.CALL else None
        while not page[base + row_format.THAWED] and (over is None or time.monotonic_ns() < over):
            time.sleep(_POLL)
        if action is Action.DIE:
            raise Died


def _stop() -> None:
    # The signal goes to this thread, which stops at once and the process with it. The kernel would give a signal for
    # the process to the main thread, and until that thread runs (milliseconds) a renewal would still be sent.
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


# The harness's side


def arm(  # noqa: PLR0913  what stands in the page, which has no type of its own
    page: mmap.mmap,
    gate: Gate,
    action: Action,
    alive: Callable[[], bool],
    *,
    key: int = row_format.NONE,
    seconds: float = 0.0,
    verb: F | None = None,
    message: int = 0,
) -> None:
    """From now on the worker does `action`, once, when it passes `gate`. A thread caught before must be thawed already.

    key: only if the worker holds the key of this index. seconds: how long a CALL takes; how long after the worker's
    next request a FREEZE comes, 0: at the gate. verb, message: at the gates of the tap, which message of which verb.
    """
    base = _base(gate)
    page[base + row_format.ARMED_GATE] = 0
    while any(_passing(page, base)) and alive():  # a thread thawed just now must still see that it may go on
        time.sleep(_POLL)
    page[base + row_format.REACHED_GATE] = 0
    page[base + row_format.THAWED] = 0
    row_format.WORD.pack_into(page, base + row_format.ARMED_KEY, key)
    row_format.WORD.pack_into(page, base + row_format.SPAN, round(seconds * 1e9))
    page[base + row_format.ARMED_VERB] = verb or 0
    page[base + row_format.ARMED_MESSAGE] = message
    page[base + row_format.ARMED_ACTION] = action
    page[base + row_format.ARMED_GATE] = gate


def disarm(page: mmap.mmap, gate: Gate, alive: Callable[[], bool]) -> None:
    """Nothing happens at the gate from now on. When this returns, the answer of `caught` is final."""
    base = _base(gate)
    page[base + row_format.ARMED_GATE] = 0
    while _passing(page, base)[gate in OF_THE_TAP] and not page[base + row_format.REACHED_GATE] and alive():
        time.sleep(_POLL)


def thaw(page: mmap.mmap, gate: Gate) -> None:
    """Let a caught thread go on; a frozen process still needs SIGCONT."""
    page[_base(gate) + row_format.THAWED] = 1


def thawed(page: mmap.mmap, gate: Gate) -> bool:
    """Whether the thread that was caught last may go on."""
    return bool(page[_base(gate) + row_format.THAWED])


def caught(page: mmap.mmap, gate: Gate) -> Caught | None:
    """The thread that was caught since the gate was armed last, None if there was none."""
    base = _base(gate)
    if page[base + row_format.REACHED_GATE] == 0:
        return None
    offsets = (row_format.REACHED_AT, row_format.REACHED_OWNER, row_format.REACHED_KEY, row_format.REACHED_PROCESS)
    return Caught(*(row_format.word(page, base + offset) for offset in offsets))


def killed_at(page: mmap.mmap) -> int:
    """ns; when a thread reached a gate at which it was to be killed, 0 if none did."""
    for base in (row_format.MAIN, row_format.RENEWAL):
        if page[base + row_format.REACHED_GATE] and page[base + row_format.ARMED_ACTION] == Action.KILL:
            return row_format.word(page, base + row_format.REACHED_AT)
    return 0


def rounds(page: mmap.mmap, gate: Gate) -> int:
    return row_format.word(page, _base(gate) + row_format.ROUNDS)


def _passing(page: mmap.mmap, base: int) -> tuple[bool, bool]:
    """Whether the thread is at one of its gates, and whether one of its messages is at a gate of the tap."""
    return bool(page[base + row_format.PASSING]), bool(page[base + row_format.TAPPING])


def _base(gate: Gate) -> int:
    """The offset of the controls of the gate's thread."""
    return row_format.RENEWAL if gate in OF_THE_RENEWAL else row_format.MAIN
