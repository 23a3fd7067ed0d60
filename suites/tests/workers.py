"""Workers in processes of their own, on a lock and a store in memory (`suites.tests.standin`)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkers.history.history import read_recording
from checkers.row_format import F, Outcome, Run, State
from suites.tests.bench import SOON, a_spec, await_
from suites.worker.pool import ForkServer, Handle
from suites.worker.process_spec import Spec

MODULE = "suites.tests.standin"
LANE = "standin/register/unfenced"


def specs(folder: str, lock: str) -> list[Spec]:
    lock = lock if ":" in lock else f"{MODULE}:{lock}"
    given: dict[str, Any] = {"lane": LANE, "lock": lock, "endpoints": ("nowhere:1",), "ttl": 0.3, "pace": 0.002}
    spec = replace(a_spec(folder), **given, store_mode="unfenced", keys=("a", "b"), count=3)
    return [replace(spec, number=number, seed=f"s/{number}") for number in range(spec.count)]


def gone(pid: int) -> bool:
    """Whether the process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def await_gone(pids: Sequence[int]) -> None:
    await_(lambda: all(gone(pid) for pid in pids))


def running(server: ForkServer, folder: Path, lock: str = "Free") -> list[Handle]:
    return started(server, specs(str(folder), lock))


def started(server: ForkServer, given: Sequence[Spec]) -> list[Handle]:
    handles = server.spawn(given)
    server.await_state(handles, State.READY, SOON)
    for handle in handles:
        handle.ask(Run.GO)
    return handles


def worked(handle: Handle) -> bool:
    rows = read_recording(handle.spec.recording)
    return bool(((rows["f"] == F.WRITE) & (rows["outcome"] == Outcome.OK)).any())
