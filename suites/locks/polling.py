"""Polling, for locks whose server does not wake waiters."""

import random
import time
from collections.abc import Callable
from typing import Final

from checkers.row_format import Reason
from suites.lock import Grant, Refused, now

POLL: Final = (0.02, 0.08)
"""Seconds between two looks at a lock that is held, at random."""


def polled(attempt: Callable[[], Grant | None], timeout: float, poll: tuple[float, float] = POLL) -> Grant | None:
    """The grant of the first attempt that succeeds, or None once `timeout` seconds have passed.

    poll: see `pause_until`. With `timeout` 0 there is one attempt; if it is not granted, raises Refused(HELD).
    """
    deadline = now() + int(timeout * 1e9)
    while (grant := attempt()) is None:
        if timeout == 0:
            raise Refused(Reason.HELD)
        if not pause_until(deadline, poll):
            return None
    return grant


def pause_until(deadline: int, poll: tuple[float, float] = POLL) -> bool:
    """Pause for a random time before the next attempt. False, without a pause, if it would end after the deadline (ns).

    poll: the shortest and the longest pause, in seconds.
    """
    pause = random.uniform(*poll)
    if now() + pause * 1e9 >= deadline:
        return False
    time.sleep(pause)
    return True
