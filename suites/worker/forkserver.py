"""The fork server: one interpreter that has the client packages loaded and forks workers on demand.

Eight workers start in a twentieth of a second this way. It speaks one JSON object a line: ``{"spawn": Spec}`` is
answered with ``{"pid": ...}``, and the end of each worker is reported as ``{"exited": pid, "status": ..., "at": ...}``.
It ends, and kills every worker, when its standard input closes: when the harness has gone, however it ended.

Run as ``python -m suites.worker.forkserver LOCK...`` with the locks to load before the first fork (see
`suites.locks.registry`). It then says which client libraries these locks brought, and in which versions.
"""

import ctypes
import gc
import json
import os
import selectors
import signal
import sys
import time
import traceback
from importlib import metadata
from pathlib import Path
from typing import Any, Final, cast

from checkers import row_format
from suites.locks import registry
from suites.worker.process_spec import Spec
from suites.worker.recorder import errors_path, map_page
from suites.worker.worker import Worker
from suites.workloads import one_lock, several_locks  # noqa: F401 - loaded here once, and not in every worker

_PR_SET_PDEATHSIG: Final = 1
NICE: Final = 5
"""The niceness of workers: if CPU time is short, servers, links and harness come first, and the load sinks.

If the kernel shares CPU time out by sessions (autogroup), all workers are one session beside those of the servers, and
niceness counts only within it. That has the same effect, and leaves the workers their share beside other work.
"""
ZONES: Final = ("UTC0", "<+0545>-5:45", "<-0330>3:30")
"""The time zones of workers, in turn, as for the client of PostgreSQL: what a lock keeps must not depend on them."""

_PARTS: Final = ("suites.worker.worker", "suites.worker.store_client", "suites.worker.critical_section")


def serve(locks: list[str]) -> None:
    """Fork workers until standard input closes."""
    for lock in locks:
        registry.load(lock)
        for name in _PARTS:
            registry.module_for(lock, name)
    "localhost".encode("idna")  # loads a codec that every worker needs to connect
    gc.collect()
    gc.freeze()  # then no worker walks, and so copies, the objects that all share
    children: set[int] = set()
    wake, wakened = os.pipe()
    os.set_blocking(wakened, False)
    signal.set_wakeup_fd(wakened)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # only the wake-up is wanted
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(wake, selectors.EVENT_READ)
    _say({"ready": os.getpid(), "clients": _libraries()})
    pending = b""
    try:
        while True:
            for key, _ in selector.select():
                data = os.read(key.fd, 1 << 16)
                if key.fd == wake:
                    _reap(children)
                    continue
                if not data:
                    return
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    children.add(_fork(json.loads(line)["spawn"]))
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)


def _reap(children: set[int]) -> None:
    while children:
        pid, status, used = os.wait4(-1, os.WNOHANG)
        if pid == 0:
            return
        children.discard(pid)
        cpu = round((used.ru_utime + used.ru_stime) * 1000)
        ended = time.monotonic_ns()  # or before: its connections are closed by now
        _say({"exited": pid, "status": os.waitstatus_to_exitcode(status), "cpu_ms": cpu, "at": ended})


def _fork(spec: dict[str, Any]) -> int:
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        _be_a_worker(Spec.from_json(spec), server)
    _say({"pid": pid})
    return pid


def _be_a_worker(spec: Spec, server: int) -> None:
    """Never returns. An exception that an adapter may not raise is written where the harness finds it."""
    status = 1
    try:
        os.nice(NICE)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != server:
                os._exit(1)
        devnull = os.open(os.devnull, os.O_RDWR)
        os.dup2(devnull, 0)
        os.dup2(devnull, 1)
        os.environ["TZ"] = os.environ["PGTZ"] = ZONES[spec.number % len(ZONES)]
        time.tzset()
        _worker(spec).run()
        status = 0
    except BaseException as error:  # noqa: BLE001 - told in full, and the trial breaks with it
        with errors_path(spec.recording).open("a") as file:
            report = spec.access.masked(f"{in_a_line(error, spec.lock)}\n{_trace(error)}")
            file.write(report.replace("\\", "\\\\").replace("\n", "\\n") + "\n")
        map_page(spec.recording)[row_format.STATE] = row_format.State.BROKEN
    finally:
        os._exit(status)


def _trace(error: BaseException) -> str:
    """The traceback from the adapter on: what called it is the same each time. In full if the error is our own."""
    here, place = Path(__file__).parent, error.__traceback__
    ours = (f"{here}/", f"{here.parent / 'lock.py'}", f"{here.parent / 'locks' / 'grants.py'}")
    first = place
    while place is not None:
        if place.tb_frame.f_code.co_filename.startswith(ours):
            first = place.tb_next
        place = place.tb_next
    return "".join(traceback.format_exception(error.with_traceback(first or error.__traceback__)))


def _worker(spec: Spec) -> Worker:
    """Make the worker. A bug planted on purpose may be in these modules, and not in the lock."""
    worker, store_client, section = (registry.module_for(spec.lock, name) for name in _PARTS)
    return cast(Worker, worker.Worker(spec, store_client.connect, section.Section))


def in_a_line(error: BaseException, lock: str) -> str:
    """The error and the innermost place in the lock's own files: ``ValueError: bad name (mine.py:22, in acquire)``.

    lock: as `suites.locks.registry` spells it. No place where it cannot be loaded or is not in the traceback.
    """
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    summary = f"{type(error).__name__}: {first}" if first else type(error).__name__
    try:
        bases = registry.load(lock).__mro__
    except Exception:  # noqa: BLE001 - then that is what is told here
        return summary
    files = {getattr(sys.modules.get(base.__module__), "__file__", None) for base in bases}
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
    if not places:
        return summary
    return f"{summary} ({Path(places[-1].filename).name}:{places[-1].lineno}, in {places[-1].name})"


def _libraries() -> dict[str, str]:
    """Module → version, of all that was loaded and is neither Python's own nor ours."""
    libraries: dict[str, str] = {}
    for name in sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names):
        try:
            libraries[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if isinstance(version := getattr(sys.modules.get(name), "__version__", None), str):
                libraries[name] = version
    return libraries


def _say(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    serve(sys.argv[1:])
