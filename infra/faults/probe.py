"""One fresh question through a link: the proof that a cut is a cut and that a healed link is whole.

The question is the shortest that a backend answers whatever its state, so that only the link is on trial.
"""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

QUESTIONS: Final[Mapping[str, bytes]] = {
    "redis": b"PING\r\n",
    "zookeeper": b"srvr",
    "etcd": b"GET /version HTTP/1.0\r\n\r\n",
    "postgres": b"\x00\x00\x00\x08\x04\xd2\x16\x2f",  # SSLRequest, answered by one letter
}

PATIENCE: Final = 0.25
"""Seconds without a byte that count as silence; an answer takes 1-2 ms."""


class Answer(StrEnum):
    """What became of the question."""

    ANSWERED = "answered"
    CLOSED = "closed"
    SILENT = "silent"


def ask(backend: str, endpoint: str, patience: float = PATIENCE) -> Answer:
    """Connect to `host:port` and ask. CLOSED: refused, reset, or ended without a byte."""
    host, _, port = endpoint.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=patience) as connection:
            connection.sendall(QUESTIONS[backend])
            return Answer.ANSWERED if connection.recv(1) else Answer.CLOSED
    except TimeoutError:
        return Answer.SILENT
    except OSError:
        return Answer.CLOSED


def ask_all(backend: str, endpoints: Sequence[str], patience: float = PATIENCE) -> list[Answer]:
    """All of them at once: silence costs its patience only once."""
    if not endpoints:
        return []
    with ThreadPoolExecutor(max_workers=len(endpoints)) as pool:
        return list(pool.map(lambda endpoint: ask(backend, endpoint, patience), endpoints))
