"""One fresh question through a link: the proof that a cut is a cut and that a healed link is whole.

The question is the shortest that a backend answers whatever its state, so that only the link is on trial.
"""

import socket
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Final, TypeVar

from infra.access import OPEN, Access
from infra.backends import BACKENDS

T = TypeVar("T")

PATIENCE: Final = 0.25
"""Seconds without a byte that count as silence; an answer takes 1-2 ms."""


_ACCESS: Final[dict[str, Access]] = {}
"""`host:port` -> how what is behind it is spoken to, where that is not in the clear (infra/beside.py)."""


class Answer(StrEnum):
    """What became of the question."""

    ANSWERED = "answered"
    CLOSED = "closed"
    SILENT = "silent"


def learn(endpoints: Iterable[str], access: Access) -> None:
    """From now on speak to these as `access` says."""
    _ACCESS.update(dict.fromkeys(endpoints, access))


def forget(endpoints: Iterable[str]) -> None:
    """Nobody is behind these any more."""
    for endpoint in endpoints:
        _ACCESS.pop(endpoint, None)


def ask(backend: str, endpoint: str, patience: float = PATIENCE) -> Answer:
    """Connect to `host:port` and ask. CLOSED: refused, reset, or ended without a byte."""
    return _converse(backend, endpoint, patience, BACKENDS[backend].question)[0]


def ask_all(backend: str, endpoints: Sequence[str], patience: float = PATIENCE) -> list[Answer]:
    """All of them at once: silence costs its patience only once."""
    return at_once(endpoints, lambda endpoint: ask(backend, endpoint, patience))


def timed(backend: str, endpoint: str, patience: float, size: int = 0) -> tuple[Answer, float]:
    """The same, and the seconds from the question, of about `size` bytes, to the first byte of its answer."""
    return _converse(
        backend, endpoint, patience, BACKENDS[backend].long_question(size) if size else BACKENDS[backend].question
    )


def timed_end(backend: str, endpoint: str, patience: float) -> tuple[Answer, float]:
    """Ask, say that nothing else will come, and wait for the end: the seconds from the question to that.

    Every such server ends a connection when its client does, some of them as soon as they have answered.
    """
    asked = time.monotonic()
    try:
        with connect(backend, endpoint, patience) as connection:
            asked = time.monotonic()
            connection.sendall(BACKENDS[backend].question)
            if (first := answer(connection)) is Answer.ANSWERED:
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
            return first, time.monotonic() - asked
    except TimeoutError:
        return Answer.SILENT, time.monotonic() - asked
    except OSError:
        return Answer.CLOSED, time.monotonic() - asked


def answer(connection: socket.socket) -> Answer:
    """What comes through a connection within its own patience."""
    try:
        return Answer.ANSWERED if connection.recv(1) else Answer.CLOSED
    except TimeoutError:
        return Answer.SILENT
    except OSError:
        return Answer.CLOSED


def connect(backend: str, endpoint: str, patience: float = PATIENCE) -> socket.socket:
    """A connection to `host:port`, encrypted where that is asked for. Raises OSError."""
    access = OPEN if BACKENDS[backend].asked_in_clear else _ACCESS.get(endpoint, OPEN)
    return access.connect(endpoint, patience)


def at_once(endpoints: Sequence[str], ask: Callable[[str], T]) -> list[T]:
    """The question to all of them at the same time."""
    if not endpoints:
        return []
    with ThreadPoolExecutor(max_workers=len(endpoints)) as pool:
        return list(pool.map(ask, endpoints))


def _converse(backend: str, endpoint: str, patience: float, question: bytes) -> tuple[Answer, float]:
    asked = time.monotonic()
    try:
        with connect(backend, endpoint, patience) as connection:
            asked = time.monotonic()
            connection.sendall(question)
            return answer(connection), time.monotonic() - asked
    except TimeoutError:
        return Answer.SILENT, time.monotonic() - asked
    except OSError:
        return Answer.CLOSED, time.monotonic() - asked
