"""The worker's wall clock, which the harness can move, since no two machines have the same wall clock.

time-machine moves the time that Python code asks for (`time.time`, `datetime.now` and the like), in this process alone.
Monotonic time stays real, and so does the time that a C library asks the kernel for.
"""

import mmap
import time
from typing import Any, Final

from checkers import row_format

GRAIN: Final = 50_000_000  # ns by which a clock may miss its time: the kernel may correct the real clock meanwhile


class WallClock:
    """The worker's side. page: its control page."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page
        self._travel: Any = None
        self._real = _ahead_of_monotonic()

    def follow(self) -> None:
        """Move the clock as the control page says, then write into the page how far the clock is ahead. A clock that
        missed its time, since the machine stalled while it was moved, is moved again by the next call.
        """
        if follows(self._page):
            return
        import time_machine  # imported only where a clock is moved

        by = row_format.word(self._page, row_format.CLOCK_WANTED)
        if self._travel is not None:
            self._travel.stop()
            self._travel = None
        if by:
            self._travel = time_machine.travel(time.time() + by / 1e9)
            self._travel.start()
        row_format.WORD.pack_into(self._page, row_format.CLOCK_IS, _ahead_of_monotonic() - self._real)


def _ahead_of_monotonic() -> int:
    return time.time_ns() - time.monotonic_ns()


# The harness's side


def move(page: mmap.mmap, by: int) -> None:
    """Ask the worker to set its wall clock `by` ns ahead (negative: behind); the clock follows in a moment."""
    row_format.WORD.pack_into(page, row_format.CLOCK_WANTED, by)


def follows(page: mmap.mmap) -> bool:
    """Whether the clock has followed the latest move."""
    return abs(row_format.word(page, row_format.CLOCK_WANTED) - row_format.word(page, row_format.CLOCK_IS)) < GRAIN
