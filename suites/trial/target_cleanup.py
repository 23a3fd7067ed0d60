"""On a cluster that is not ours: check that every lock gets access, and remove what locks leave behind.

All keys have prefixes of ours (`fencepost:`, `/fencepost`) and names that no other run has. After each trial, locks
remove what does not end with a lease (`suites.lock.Sweeps`). What stays: ZooKeeper's node `/fencepost`, the empty
tables in PostgreSQL's schema `fencepost`, and after a SIGKILL of the harness the counters and queues of its trial.
"""

import secrets
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from checkers.row_format import Reason
from infra.environment import Environment
from infra.errors import Failed, Trouble
from infra.network.topology import GROUPS
from infra.waiting import comes_true
from suites.lock import LockClient, LockError, Refused, Sweeps, in_doubt, opened
from suites.trial.lane_history import RunningLane
from suites.worker.pool import state_of

ADMITTED_WITHIN: Final = 5.0  # seconds for the first success; a single request may fail, but a denial is final
ENDED_WITHIN: Final = 5.0  # seconds for the workers to end


def ask_admission(environment: Environment, backend: str, locks: Mapping[str, type[LockClient]]) -> None:
    """Take and release each lock once, through the links. Raises Failed: a line that names the lock without access."""
    for name, lock in locks.items():
        deadline = time.monotonic() + ADMITTED_WITHIN
        while True:
            try:
                if not _granted(environment, backend, lock):
                    raise Failed(f"the target {backend} does not grant {name}, though nobody else wants it")
                break
            except Trouble:
                raise
            except LockError as error:
                denied = isinstance(error, Refused) and error.reason is Reason.DENIED
                if denied or time.monotonic() > deadline:
                    reason = environment.access(backend).masked(" ".join(str(error).split()))
                    raise Failed(f"the target {backend} does not let {name} in: {reason}") from None
            except Exception as bug:  # noqa: BLE001 - told without its chain, which may quote what is secret
                report = environment.access(backend).masked("".join(traceback.format_exception(bug)))
                raise Failed(f"{name} broke when it asked the target {backend} for admission:\n{report}") from None


def _granted(environment: Environment, backend: str, lock: type[LockClient]) -> bool:
    name = f"admission.{secrets.token_hex(6)}"
    client = opened(lock, environment.endpoints(backend, GROUPS[0]), lock.min_ttl, environment.access(backend))
    try:
        grant = client.acquire(name, lock.min_ttl)
        if grant is not None:
            client.release(grant)
        return grant is not None
    finally:
        client.close()
        _sweep(environment, backend, lock, [name])


def await_ends(pids: Sequence[int]) -> None:
    """Wait until these workers have ended, so that they send nothing after the sweep."""
    comes_true(lambda: all(state_of(pid) == "Z" for pid in pids), ENDED_WITHIN)


def sweep(environment: Environment, backend: str, lanes: Iterable[RunningLane], say: Callable[[str], None]) -> None:
    """Remove what the locks of these lanes left behind, past the links; `say` gets what could not be removed."""
    for running in lanes:
        try:
            _sweep(environment, backend, running.lane.lock, running.keys)
        except Exception as error:  # noqa: BLE001 - libraries have errors of their own
            reason = environment.access(backend).masked(in_doubt(error))
            say(f"  {running.lane.lock_name}: left behind on {backend}: {', '.join(running.keys)} ({reason})")


def _sweep(environment: Environment, backend: str, lock: type[LockClient], names: Sequence[str]) -> None:
    if issubclass(lock, Sweeps):
        lock.sweep(environment.direct(backend), names, environment.access(backend))
