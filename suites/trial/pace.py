"""How many workers the machine carries at full pace, and which part of a core this process gets."""

import os
import time
from typing import Final

FIT: Final = 120
"""How many workers run at full pace on two cores that have nothing else to do. With more workers, with several trials
in parallel, or where others keep the machine busy, the pace of every worker is divided accordingly."""
PROBE: Final = 0.1
"""Seconds for which a trial computes before it starts, to see which part of a core it gets."""


def fit(share: float = 1.0) -> float:
    """How many workers run at full pace in each of the trials that run in parallel (one for each process of xdist).

    share: the part of a core that we get.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return FIT * share * min(1.0, (os.cpu_count() or 2) / 2 / processes)


def share_of_a_core() -> float:
    """The part of a core that this process gets at the moment, above 0 and up to 1: computes for `PROBE` seconds."""
    wall, cpu = time.perf_counter(), time.thread_time()
    while time.perf_counter() - wall < PROBE:
        pass
    return min(max((time.thread_time() - cpu) / (time.perf_counter() - wall), 0.05), 1.0)
