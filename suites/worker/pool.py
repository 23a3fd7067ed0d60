"""The harness's side of the workers: start them, give the signal, freeze and continue them, collect what they wrote."""

import contextlib
import json
import mmap
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Self, cast

from checkers import row_format
from checkers.row_format import Command, State
from suites.worker import recorder
from suites.worker.process_spec import Spec

_POLL = 0.02  # seconds between looks at the control pages
NAMED = 6  # how many workers a message names at most
ROWS = 50_000  # operations that one recording holds; the file is sparse until they are written
ROOT = Path(__file__).resolve().parents[2]
_BEHIND_ITS_OWN = """
import sys
sys.path.append(sys.argv.pop(1))
from suites.worker.forkserver import serve
serve(sys.argv[1:])
"""


class TrialBroke(Exception):
    """The trial came to no verdict. The text says why; its first line is enough for a summary."""


class WorkerBroke(TrialBroke):
    """An adapter raised what it may not raise, or a worker died by itself. The text says which worker and why.

    lanes: the lanes of the workers; empty when they are not known.
    """

    def __init__(self, text: str, lanes: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.lanes = frozenset(lanes)


def state_of(pid: int) -> str:
    """The kernel's letter for what a process does, such as ``T``: stopped; ``Z`` also if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends just then
        return "Z"
    return stat.rpartition(")")[2].split()[0]


@dataclass(slots=True)
class Handle:
    """One running worker."""

    spec: Spec
    pid: int
    page: mmap.mmap
    exited: int | None = None
    ended: int = 0  # ns; when the exit was noticed; the worker's connections were closed by then
    cpu: float = 0.0  # CPU seconds that the worker used, once it has exited
    killed: bool = False  # whether the harness has ended the worker
    doomed: bool = False  # whether a gate that the harness armed may end the worker, or has done so

    @property
    def state(self) -> State:
        return State(self.page[row_format.STATE])

    def ask(self, command: Command) -> None:
        self.page[row_format.RUN] = command

    def frozen(self) -> bool:
        """Whether the kernel has stopped the process."""
        return state_of(self.pid) == "T"

    def signal(self, number: signal.Signals) -> None:
        if self.exited is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    @property
    def cut_short(self) -> bool:
        """Whether somebody else, such as a kernel without memory, killed the worker after it was asked to finish."""
        finishing = self.page[row_format.RUN] == Command.FINISH
        return finishing and self.exited == -signal.SIGKILL and not (self.killed or self.doomed)

    def reason(self) -> str:
        """Why the worker broke or ended by itself: a line, then the traceback if there is one."""
        errors = recorder.read_errors(self.spec.recording) if self.state is State.BROKEN else []
        if not errors:
            return f"exit status {self.exited}"
        # Two characters at a time, since an escaped backslash may stand before an n.
        return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], errors[-1]).rstrip()

    def discard(self) -> None:
        """Remove the recording; its rows have been read."""
        self.spec.recording.unlink()
        recorder.errors_path(self.spec.recording).unlink(missing_ok=True)


@dataclass(slots=True)
class _Forks:
    """One interpreter that forks workers."""

    process: subprocess.Popen[bytes]
    stdin: IO[bytes]
    stdout: IO[bytes]
    pending: bytes = b""

    @classmethod
    def start(cls, python: str, seed: int, locks: Sequence[str]) -> Self:
        """python: "" for our interpreter. In another interpreter its own packages come before ours.

        seed: of hash(), which differs between clients: a lock that sends such a number to its server is wrong.
        """
        env = {**os.environ, "GRPC_VERBOSITY": "NONE", "PYTHONHASHSEED": str(seed)}
        if python:
            command = [python, "-P", "-c", _BEHIND_ITS_OWN, str(ROOT)]
        else:
            command = [sys.executable, "-m", "suites.worker.forkserver"]
            env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
        process = subprocess.Popen(
            [*command, *locks],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is for the harness, which then ends the workers in order
            env=env,
        )
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        return cls(process, process.stdin, process.stdout)

    def ask(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended: reading says with which status
            self.stdin.write(json.dumps(message).encode() + b"\n")

    def has_said(self) -> bool:
        return b"\n" in self.pending or bool(select.select([self.stdout], [], [], 0)[0])

    def read(self) -> dict[str, Any]:
        while b"\n" not in self.pending:
            data = os.read(self.stdout.fileno(), 1 << 16)
            if not data:
                raise WorkerBroke(f"the fork server ended with status {self.process.wait()}")
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\n")
        return cast(dict[str, Any], json.loads(line))

    def close(self) -> None:
        self.stdin.close()
        self.process.wait()
        self.stdout.close()


@dataclass(slots=True)
class ForkServer:
    """Forks workers (`suites.worker.forkserver`) in two interpreters or more; one per backend of an environment."""

    locks: Sequence[str]  # locks to load before the first fork, as `suites.locks.registry` spells them
    pythons: Sequence[str] = ("",)  # interpreters to which workers are dealt out in turn; "" is ours; one runs twice
    # Module → version, of all modules that the locks have loaded; known after the start.
    clients: dict[str, str] = field(default_factory=dict)
    handles: dict[int, Handle] = field(default_factory=dict)
    _forks: list[_Forks] = field(default_factory=list)

    def spawn(self, specs: Iterable[Spec]) -> list[Handle]:
        """Start workers; each connects and then waits for `Command.GO`. Returns without waiting for them."""
        self._start()
        dealt = [(spec, self._forks[spec.number % len(self._forks)]) for spec in specs]
        for spec, mine in dealt:
            recorder.create(spec.recording, ROWS)
            mine.ask({"spawn": asdict(spec)})
        handles = []
        for spec, mine in dealt:
            pid = self._read_until("pid", mine)["pid"]
            handle = self.handles[pid] = Handle(spec, pid, recorder.map_page(spec.recording))
            handles.append(handle)
        return handles

    def check(self) -> None:
        """Note which workers have ended. Raises WorkerBroke if a worker broke or ended by itself."""
        for mine in self._forks:
            while mine.has_said():
                self._take(mine.read())
        for handle in self.handles.values():
            ended = handle.exited not in (None, 0) and not (handle.killed or handle.doomed or handle.cut_short)
            if ended or handle.state is State.BROKEN:
                raise WorkerBroke(f"{handle.spec.name} broke: {handle.reason()}", {handle.spec.lane})

    def await_state(self, handles: Sequence[Handle], state: State, timeout: float) -> None:
        """Wait until all workers have reached the state. Raises WorkerBroke, also if no further worker reaches it for
        `timeout` seconds: a busy machine starts many workers slowly, one after another.
        """

        def late() -> list[Spec]:
            return [handle.spec for handle in handles if handle.state < state]

        def fewer(before: int) -> bool:
            return len(late()) < before

        while number := len(late()):
            if not self.await_condition(partial(fewer, number), timeout):
                names = ", ".join(spec.name for spec in late()[:NAMED])
                names += f" and {number - NAMED} more" if number > NAMED else ""
                words = f"for {timeout:.0f} s no worker became {state.name.lower()}; these are not yet: {names}"
                raise WorkerBroke(words, {spec.lane for spec in late()})

    def await_condition(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until the condition holds, and check the workers meanwhile. False if `timeout` seconds pass first."""
        deadline = time.monotonic() + timeout
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL)
        self.check()
        return True

    def kill(self, handle: Handle) -> None:
        handle.killed = True
        handle.signal(signal.SIGKILL)

    def finish(self, handles: Sequence[Handle], timeout: float) -> list[Handle]:
        """Ask workers to finish, kill those that do not, and return the killed, also those that somebody else killed:
        their last operations are unknown.
        """
        for handle in handles:
            handle.ask(Command.FINISH)
        self.await_condition(lambda: all(handle.exited is not None for handle in handles), timeout)
        stuck = [handle for handle in handles if handle.exited is None]
        for handle in stuck:
            self.kill(handle)
        self.await_condition(lambda: all(handle.exited is not None for handle in stuck), 5)
        for handle in handles:
            self.handles.pop(handle.pid, None)
        return [*stuck, *(handle for handle in handles if handle.cut_short)]

    def close(self) -> None:
        """End the fork server, which kills its workers."""
        while self._forks:
            self._forks.pop().close()
        self.handles.clear()

    def _start(self) -> None:
        if self._forks:
            return
        pythons = self.pythons if len(self.pythons) > 1 else 2 * tuple(self.pythons)  # for two seeds
        self._forks = [_Forks.start(python, seed, self.locks) for seed, python in enumerate(pythons, 1)]
        loaded = [self._read_until("ready", mine)["clients"] for mine in self._forks]
        self.clients = {
            name: ", ".join(dict.fromkeys(clients[name] for clients in loaded if name in clients))
            for name in sorted(set().union(*loaded))
        }

    def _read_until(self, key: str, mine: _Forks) -> dict[str, Any]:
        while True:
            message = mine.read()
            self._take(message)
            if key in message:
                return message

    def _take(self, message: dict[str, Any]) -> None:
        if "exited" in message and message["exited"] in self.handles:
            handle = self.handles[message["exited"]]
            handle.exited, handle.ended, handle.cpu = message["status"], message["at"], message["cpu_ms"] / 1000
