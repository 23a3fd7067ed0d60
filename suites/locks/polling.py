"""Polling, for locks whose server wakes nobody."""

import random
import time

from suites.lock import now


def pause_until(deadline: int, poll: tuple[float, float]) -> bool:
    """A pause before the next look, at random; False, and none, where it would end beyond the deadline (ns).

    poll: the shortest and the longest, in seconds.
    """
    pause = random.uniform(*poll)
    if now() + pause * 1e9 >= deadline:
        return False
    time.sleep(pause)
    return True
