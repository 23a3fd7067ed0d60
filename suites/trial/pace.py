"""How many workers the machine carries at full pace."""

import os
import socket
import time
from typing import Final

FIT: Final = 60
"""How many workers run at full pace on two cores that have nothing else to do and pass `MESSAGES`. With more workers,
with several trials in parallel, on a slower machine or beside other work, the pace of every worker is divided
accordingly: requests that wait for CPU time longer than their clients wait for answers say nothing about a lock."""
MESSAGES: Final = 240_000
"""How many messages of 64 bytes a second a process sends itself over a socket on such a core: what workers, links and
servers do most."""
TAPPED: Final = 3
"""How many workers one counts for behind a tap (`suites.worker.tap`): one process through which all messages pass."""
PROBE: Final = 0.1
"""Seconds for which a trial sends messages before it starts."""
LEAST: Final = 0.25
"""The part of a core that a process gets in the end, however little it got during such a short time."""


def fit(share: float = 1.0) -> float:
    """How many workers run at full pace in each of the trials that run in parallel (one for each process of xdist).

    share: see `share_of_a_core`.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return FIT * share * min(1.0, (os.cpu_count() or 2) / 2 / processes)


def share_of_a_core() -> float:
    """The part that this process gets at the moment of a core that passes `MESSAGES`; above 1 on a faster one."""
    here, there = socket.socketpair()
    with here, there:
        passed, wall, cpu = 0, time.perf_counter(), time.thread_time()
        while time.perf_counter() - wall < PROBE:
            here.send(bytes(64))
            there.recv(64)
            passed += 1
        ran, took = time.thread_time() - cpu, time.perf_counter() - wall
    return passed / ran / MESSAGES * max(ran / took, LEAST)
