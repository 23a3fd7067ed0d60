"""The one way to wait for something that is not announced: look again and again."""

import time
from collections.abc import Callable
from typing import Final

POLL: Final = 0.05
"""Seconds between two looks."""


def comes_true(is_so: Callable[[], bool], within: float, every: float = POLL) -> bool:
    """Whether it comes true within so many seconds; looked at once at least."""
    deadline = time.monotonic() + within
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True
