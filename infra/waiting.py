"""Waiting: for a condition by checking it again and again, on a clock that a test can replace; for several calls.

Times are nanoseconds of CLOCK_MONOTONIC, the clock of every record.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, TypeVar

S = TypeVar("S")
T = TypeVar("T")

POLL: Final = 0.05
"""Seconds between two checks of a condition that costs a request."""
POLL_MEMORY: Final = 0.005
"""Seconds between two checks of a condition that costs nothing, such as a byte of shared memory."""


class Clock:
    """Time as faults see it; tests bring one of their own."""

    def now(self) -> int:
        """The present time in ns."""
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        """Sleep for so many seconds, one at a time: a signal that comes just before a sleep does not end it."""
        self.wait(seconds, lambda: False, every=1.0)

    def wait(self, seconds: float, until: Callable[[], T], every: float = POLL_MEMORY) -> T:
        """Ask `until` each `every` seconds until its answer is true, or until `seconds` are over, and then once more.

        Returns the last answer.
        """
        deadline = time.monotonic() + seconds
        while True:
            late = (left := deadline - time.monotonic()) <= 0
            if (answer := until()) or late:
                return answer
            time.sleep(min(left, every))


@contextmanager
def after(seconds: float, call: Callable[[], None]) -> Iterator[None]:
    """Run `call` in another thread after so many seconds, unless the block ends sooner."""
    timer = threading.Timer(seconds, call)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def comes_true(is_so: Callable[[], bool], within: float, every: float = POLL) -> bool:
    """Whether the condition comes true within so many seconds. It is checked at least once."""
    return Clock().wait(within, is_so, every)


def at_once(call: Callable[[S], T], given: Iterable[S], most: int = 64) -> list[T]:
    """What the call returns for each, made for all (at most `most`) at the same time. Raises what a call raises."""
    with ThreadPoolExecutor(most) as pool:
        return list(pool.map(call, given))
