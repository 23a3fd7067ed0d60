"""The worker's wall clock, which the harness can move: no machine has the same as another.

time-machine moves what Python code asks (`time.time`, `datetime.now` and the like), in this process alone. Monotonic
time stays real, and so does the time that a C library asks the kernel for.
"""

import mmap
import time
from typing import Any, Final

from checkers import row_format

GRAIN: Final = 50_000_000
"""ns by which a clock may miss what it was moved by: the kernel may correct the real one meanwhile."""


class WallClock:
    """The worker's side. page: its control page."""

    def __init__(self, page: mmap.mmap) -> None:
        self._page = page
        self._by = 0
        self._travel: Any = None
        self._real = _ahead_of_monotonic()

    def follow(self) -> None:
        """Move the clock by what the control page says; then the page says by how much it is ahead."""
        by = row_format.word(self._page, row_format.CLOCK_WANTED)
        if by == self._by:
            return
        import time_machine  # where a clock is moved, and nowhere else

        if self._travel is not None:
            self._travel.stop()
            self._travel = None
        if by:
            self._travel = time_machine.travel(time.time() + by / 1e9)
            self._travel.start()
        self._by = by
        row_format.WORD.pack_into(self._page, row_format.CLOCK_IS, _ahead_of_monotonic() - self._real)


def _ahead_of_monotonic() -> int:
    return time.time_ns() - time.monotonic_ns()


# The harness's side


def move(page: mmap.mmap, by: int) -> None:
    """Have the worker's wall clock be ahead by so many ns (negative: behind); it follows in a moment."""
    row_format.WORD.pack_into(page, row_format.CLOCK_WANTED, by)


def follows(page: mmap.mmap) -> bool:
    """Whether the clock tells what it was last moved to."""
    return abs(row_format.word(page, row_format.CLOCK_WANTED) - row_format.word(page, row_format.CLOCK_IS)) < GRAIN
