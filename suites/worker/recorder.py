"""The recorder: every operation of one worker, in a memory-mapped file that survives its death.

An operation is invoked (its row is written before the request is sent) and completed (the answer is written into
the same row). The layout is `checkers.row_format`. Threads of one worker may record at the same time.
"""

import itertools
import mmap
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from typing import Final

from checkers import row_format
from checkers.row_format import NONE, F, Outcome, Reason
from suites.lock import Grant

MEMORY: Final = Path("/dev/shm")
ROOM: Final = 1 << 30  # bytes; hundreds of times what the recordings of a trial take


class RecordingFull(Exception):
    """The worker did more operations than its recording holds; the trial is aborted rather than cut short."""


def create(path: Path, rows: int) -> None:
    """Create an empty recording for `rows` operations. The file is sparse: rows that are not used take no disk space.

    The file gets its final name only when it has its full size, so a process that finds it can map it at once.
    """
    growing = path.with_name(path.name + ".new")
    with growing.open("wb") as file:
        file.write(row_format.PREAMBLE.pack(row_format.MAGIC, row_format.VERSION, row_format.ROW.size))
        file.truncate(row_format.HEADER + rows * row_format.ROW.size)
    growing.rename(path)


def folder() -> tempfile.TemporaryDirectory[str]:
    """A new folder for recordings, in memory if there is room, since a write to a mapped file may wait for the disk."""
    roomy = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM
    return tempfile.TemporaryDirectory(prefix="fencepost-", dir=MEMORY if roomy else None)


def map_page(path: Path) -> mmap.mmap:
    """The whole recording, shared between the worker and the harness: controls first, then rows."""
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)


class Recorder:
    """Writes operations; `invoke` gives a handle that one of `ok`, `fail`, `info` completes."""

    __slots__ = ("_errors", "_error_file", "_limit", "_masked", "_next", "_noting", "page")

    def __init__(self, path: Path, masked: Callable[[str], str] = str) -> None:
        """masked: removes from an error text what must not be written."""
        self.page = map_page(path)
        row_format.WORD.pack_into(self.page, row_format.PID, os.getpid())
        self._limit = len(self.page)
        # next() is atomic: threads never share a row.
        self._next = itertools.count(row_format.HEADER, row_format.ROW.size)
        self._masked = masked
        self._errors: dict[str, int] = {}
        self._noting = threading.Lock()
        self._error_file = os.open(errors_path(path), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    def invoke(  # noqa: PLR0913  the columns of a row: a tuple of them would be made for every operation
        self,
        f: F,
        process: int,
        key: int = 0,
        *,
        ttl: int = 0,
        owner: int = 0,
        token: int | None = None,
        value: int = NONE,
        base: int = NONE,
        session: int = 0,
        flags: int = 0,
        since: int | None = None,
        due: int = 0,
    ) -> int:
        """Note that an operation is about to be sent. since: ns, if it was sent before. due: see `lost`."""
        at = next(self._next)
        if at + row_format.ROW.size > self._limit:
            raise RecordingFull(f"{(self._limit - row_format.HEADER) // row_format.ROW.size} operations")
        number = NONE if token is None else token
        inv = monotonic_ns() if since is None else since
        row_format.ROW.pack_into(
            self.page, at, inv, 0, due, ttl, number, owner, value, base, session, process, 0, key, f, 0, 0, flags
        )
        return at

    def invoked(self, at: int) -> int:
        """ns; when an operation was recorded. A lease that it prolongs counts from then, as the checkers count it."""
        return row_format.word(self.page, at)

    def alive(self, at: int) -> None:
        """Record that the sentinel looked at this moment (ns)."""
        row_format.WORD.pack_into(self.page, row_format.ALIVE, at)

    def asks(self, at: int, thread: int = row_format.MAIN) -> None:
        """The thread's request in this row is under way from now on; 0: no request is under way any more."""
        row_format.WORD.pack_into(self.page, thread + row_format.CURRENT, at)

    def ok(self, at: int, value: int | None = None) -> None:
        """The operation happened. value: what a read returned."""
        ret = monotonic_ns()
        if value is not None:
            row_format.WORD.pack_into(self.page, at + row_format.VALUE, value)
        self._end(at, ret, Outcome.OK, Reason.NONE, "")

    def woken(self, at: int, times: int) -> None:
        """Record how often the client was woken during an acquire that is about to be completed."""
        row_format.WORD.pack_into(self.page, at + row_format.VALUE, times)

    def granted(self, at: int, grant: Grant, owner: int, since: int | None = None) -> int:
        """An acquire succeeded. owner: see `Holding`. Returns the time of its return, which is now, or `since`."""
        page, token, ret = self.page, NONE if grant.token is None else grant.token, since or monotonic_ns()
        if grant.queued:
            row_format.WORD.pack_into(page, at + row_format.BASE, grant.queued)
        row_format.ANSWER.pack_into(page, at + row_format.RET, ret, grant.sent, grant.ttl, token, owner)
        row_format.WORD.pack_into(page, at + row_format.SESSION, grant.session)
        page[at + row_format.OUTCOME] = Outcome.OK
        return ret

    def opened(self, at: int, session: int, ttl: int) -> None:
        """A session was opened: its identity and the effective TTL."""
        self.granted(at, Grant("", 0, None, 0, ttl, 0, session), 0)

    def lost(self, process: int, key: int, owner: int, token: int | None, due: int, sure: int = NONE) -> None:
        """Record that the client notices a loss now, which it was due to notice at `due` (ns).

        sure: ns; when the client last said that it holds, `NONE` if it is not asked. The row gets all of this at once,
        since the worker may be killed before the machine runs it again.
        """
        self.ok(self.invoke(F.LOST, process, key, owner=owner, token=token, base=sure, due=due))

    def fail(self, at: int, reason: Reason, error: str = "", session: int = 0) -> None:
        """The operation certainly did not happen. session: of an acquire, the session that the service called over."""
        if session:
            row_format.WORD.pack_into(self.page, at + row_format.SESSION, session)
        self._end(at, monotonic_ns(), Outcome.FAIL, reason, error)

    def info(self, at: int, error: str) -> None:
        """Nobody knows whether the operation happened."""
        self._end(at, monotonic_ns(), Outcome.INFO, Reason.NONE, error)

    def round_over(self, thread: int = row_format.MAIN) -> None:
        """One more round of one of the worker's threads has ended (`row_format.MAIN`, `row_format.RENEWAL`).

        The harness waits for that after it has thawed a worker.
        """
        at = thread + row_format.ROUNDS
        row_format.WORD.pack_into(self.page, at, row_format.word(self.page, at) + 1)

    def note(self, error: str) -> int:
        """The number of an error text in this recording; each text is written to disk once.

        One thread writes at a time, so a text's number is that of its line, even if the process ends amidst another's.
        """
        if error not in self._errors:
            with self._noting:
                if error not in self._errors:
                    line = self._masked(error).replace("\\", "\\\\").replace("\n", "\\n")
                    os.write(self._error_file, line.encode() + b"\n")
                    self._errors[error] = len(self._errors) + 1
        return self._errors[error]

    def _end(self, at: int, ret: int, outcome: Outcome, reason: Reason, error: str) -> None:
        page = self.page
        row_format.WORD.pack_into(page, at + row_format.RET, ret)
        if error:
            page[at + row_format.ERROR : at + row_format.ERROR + 4] = self.note(error).to_bytes(4, "little")
        page[at + row_format.REASON] = reason
        page[at + row_format.OUTCOME] = outcome


def errors_path(recording: Path) -> Path:
    """The file with the error texts of a recording, one a line, numbered from 1."""
    return recording.with_name(recording.name + ".errors")


def read_errors(recording: Path) -> list[str]:
    """The error texts of a recording, from number 1 on; an unfinished last line (its worker was killed) is dropped."""
    text = errors_path(recording).read_bytes() if errors_path(recording).exists() else b""
    return [line.decode(errors="replace") for line in text.split(b"\n")[:-1]]
