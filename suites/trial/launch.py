"""Starts the workers of a trial: what endpoints, keys and pace each gets, how many fit, which servers are watched."""

import os
import secrets
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Final

from checkers.claims import NO_FAULT
from infra.backends import BACKENDS
from infra.environment import Environment
from infra.network.topology import GROUPS
from suites.lanes.lane import Lane, key_names
from suites.locks import registry
from suites.selection.trial import Trial
from suites.trial.lane_history import RunningLane
from suites.trial.timeouts import STORE_TIMEOUT, acquire_timeout
from suites.worker.message_tap import Taps
from suites.worker.pool import ForkServer
from suites.worker.process_spec import Spec, group_of


def launch(
    trial: Trial, environment: Environment, server: ForkServer, folder: Path, slower: float, taps: Taps | None
) -> list[RunningLane]:
    """Start the workers of all lanes, spread over the client groups and, where nodes are equal, over the nodes.

    slower: how many times slower a step of work is than on an idle machine.
    """
    lanes, specs = [], []
    past_links: tuple[str, ...] = ()
    if taps is not None and all(trial.at_messages):  # no fault strikes links then, and the tap costs time enough
        past_links = environment.direct(trial.backend)
    equal = environment.cluster(trial.backend).leader() is not None  # a client may go to any node
    run = secrets.token_hex(3)
    pace = BACKENDS[trial.backend].pace * slower
    for lane in trial.lanes:
        count = lane.workers
        lanes.append(RunningLane(lane, key_names(f"{lane.name.replace('/', '.')}.{run}", lane.keys)))
        for number in range(count):
            group = group_of(number)
            endpoints = past_links or environment.endpoints(trial.backend, group)
            if via := lane.lock.via:
                endpoints = (environment.endpoints_of(via, group),)
            elif equal:
                shift = number % len(endpoints)
                endpoints = endpoints[shift:] + endpoints[:shift]
            specs.append(
                Spec(
                    recordings=str(folder),
                    lane=lane.name,
                    lock=registry.spelling(lane.lock_name),
                    endpoints=endpoints,
                    ttl=lane.ttl,
                    workload=f"{lane.workload.__module__}:{lane.workload.__qualname__}",
                    store_dsn=environment.store_dsn(group),
                    store_mode=lane.store,
                    keys=lanes[-1].keys,
                    number=number,
                    count=count,
                    seed=f"{trial.seed}/{lane.name}/{number}",
                    acquire_timeout=acquire_timeout(trial, lane),
                    store_timeout=STORE_TIMEOUT,
                    pace=lane.lock.pace or pace,
                    rate=(lane.load.rate or 0.0) / count,
                    access=environment.access(trial.backend),
                )
            )
    if taps is not None:
        specs = [replace(spec, endpoints=taps.endpoints(spec.endpoints, trial.backend, spec)) for spec in specs]
    handles = iter(server.spawn(specs))
    for running in lanes:
        running.handles = [next(handles) for _ in range(running.lane.workers)]
    return lanes


IN_TIME: Final = frozenset({"hand-over", "deadlock-free"})
"""Properties for which the service must act in time while no fault is on. A client with a lease sees if it does not."""


def to_be_watched(trial: Trial, environment: Environment) -> Sequence[str]:
    """`host:port` of servers that must act within a bound while clients do not see that a server stands still. One link
    to each is enough: all links go through one process, and through the tap, if any. Both may stand still as well.
    """

    def sees_nothing(lane: Lane) -> bool:
        mute = lane.lock.lease == "none" and not IN_TIME.isdisjoint(lane.properties)
        return mute or (trial.faults != (NO_FAULT,) and "recovery" in lane.properties)

    lanes = filter(sees_nothing, trial.lanes)
    nodes = [(lane.lock.via,) if lane.lock.via else environment.members(lane.backend) for lane in lanes]
    return [environment.endpoints_of(node, GROUPS[0]) for node in dict.fromkeys(chain.from_iterable(nodes))]


FIT: Final = 60
"""How many workers run at full pace on two cores that have nothing else to do and pass `MESSAGES`. With more workers,
with several trials in parallel, on a slower machine or beside other work, the pace of every worker is divided
accordingly: requests that wait for CPU time longer than their clients wait for answers say nothing about a lock."""
MESSAGES: Final = 240_000
"""Messages of 64 bytes that a process sends itself over a socket per second on such a core: what all do mostly."""
TAPPED: Final = 0.5  # how many workers a worker behind the tap counts for: most stand still at a message, or rest
PROBE: Final = 0.1  # seconds for which a trial sends messages before it starts
LEAST: Final = 0.25  # of a core that a process gets in the end, however little it got during the short probe


def fit(share: float = 1.0) -> float:
    """How many workers run at full pace in each of the trials that run in parallel (one for each process of xdist).

    share: see `share_of_a_core`.
    """
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return FIT * share * min(1.0, (os.cpu_count() or 2) / 2 / processes)


def share_of_a_core() -> float:
    """The share that this process gets at the moment of a core that passes `MESSAGES`; above 1 on a faster core."""
    here, there = socket.socketpair()
    with here, there:
        passed, wall, cpu = 0, time.perf_counter(), time.thread_time()
        while time.perf_counter() - wall < PROBE:
            here.send(bytes(64))
            there.recv(64)
            passed += 1
        ran, took = time.thread_time() - cpu, time.perf_counter() - wall
    return passed / ran / MESSAGES * max(ran / took, LEAST)
