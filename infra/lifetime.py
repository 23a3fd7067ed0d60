"""Clean-ups that run when a process exits, and when it is asked to terminate."""

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Final, NoReturn

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
"""The signals that would end a Python process without clean-ups. Ctrl-C raises an exception already."""


def exit_when_asked() -> None:
    """Turn SIGTERM and SIGHUP into SystemExit, so that clean-ups run. Leaves handlers of others alone."""
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _exit)


@contextlib.contextmanager
def asked_once() -> Iterator[None]:
    """In the block, the first SIGINT, SIGTERM or SIGHUP raises SystemExit, so that clean-ups run. Later signals only
    print a line until the process has ended, so that a heal is not interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted = False

    def once(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            _exit(number, frame)
        os.write(sys.stderr.fileno(), b"fencepost: healing; it ends when that is done\n")

    before = {number: signal.signal(number, once) for number in (signal.SIGINT, *SIGNALS)}
    try:
        yield
    finally:
        if not interrupted:
            for number, handler in before.items():
                signal.signal(number, handler)


def at_exit(clean_up: Callable[[], None]) -> None:
    """Call `clean_up` when this process exits, but not when a child that it forked does."""
    process = os.getpid()

    def once() -> None:
        if os.getpid() == process:
            clean_up()

    atexit.register(once)


def printable(error: BaseException) -> None:
    """Set missing line numbers in the tracebacks of `error` and its causes to the first line of the function.

    Python's compiler adds instructions that belong to no line. A signal may arrive there, and pytest cannot print that.
    """
    known: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        link = todo.pop()
        if link is not None and id(link) not in known:
            known.add(id(link))
            todo += [link.__cause__, link.__context__]
            link.__traceback__ = _lined(link.__traceback__)


def _lined(traceback: TracebackType | None) -> TracebackType | None:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    for entry in reversed(entries):
        line: int | None = entry.tb_lineno  # typeshed does not know of None
        first = entry.tb_frame.f_code.co_firstlineno
        traceback = TracebackType(traceback, entry.tb_frame, entry.tb_lasti, first if line is None else line)
    return traceback


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
