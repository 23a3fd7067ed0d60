"""One fresh question through a link: the proof that a cut is a cut and that a healed link is whole.

The question is the shortest that a backend answers in any state, so that only the link is tested. `Watch` asks it again
and again, and so finds out when links or servers stood still.
"""

import socket
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from infra.access import OPEN, Access
from infra.backends.backend import Backend
from infra.waiting import at_once

PATIENCE: Final = 0.25
"""Seconds without a byte that count as silence; an answer takes 1-2 ms."""
EVERY: Final = 0.2
"""Seconds between two questions of a `Watch`: a silence of a second shows. A question costs PostgreSQL a process."""


class LinkAnswer(StrEnum):
    """What became of the question."""

    ANSWERED = "answered"
    CLOSED = "closed"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Prober:
    """Asks the servers of one cluster, each by a `host:port`. access: how they let us in."""

    backend: Backend
    access: Access = OPEN

    def ask(self, endpoint: str, patience: float = PATIENCE) -> LinkAnswer:
        """Connect and ask. CLOSED: refused, reset, or ended without a byte."""
        return self.timed(endpoint, patience)[0]

    def ask_all(self, endpoints: Sequence[str], patience: float = PATIENCE) -> list[LinkAnswer]:
        """Ask all of them at once, so that silence costs `patience` only once."""
        return at_once(lambda endpoint: self.ask(endpoint, patience), endpoints)

    def timed(
        self, endpoint: str, patience: float, size: int = 0, *, to_the_end: bool = False
    ) -> tuple[LinkAnswer, float]:
        """As `ask`, and the seconds from the question, of about `size` bytes, to the first byte of its answer.

        to_the_end: end our side of the connection, and take the time until the server ends its side. Every server here
        ends a connection when its client does, some of them as soon as they have answered.
        """
        started = time.monotonic()
        try:
            with self.connect(endpoint, patience) as connection:
                started = time.monotonic()
                connection.sendall(self.backend.long_question(size) if size else self.backend.question)
                first = self.answer(connection)
                if to_the_end and first is LinkAnswer.ANSWERED:
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):
                        pass
                return first, time.monotonic() - started
        except TimeoutError:
            return LinkAnswer.SILENT, time.monotonic() - started
        except OSError:
            return LinkAnswer.CLOSED, time.monotonic() - started

    def connect(self, endpoint: str, patience: float = PATIENCE) -> socket.socket:
        """A connection, encrypted where that is asked for. Raises OSError."""
        access = OPEN if self.backend.asked_in_clear else self.access
        return access.connect(endpoint, patience)

    def answer(self, connection: socket.socket) -> LinkAnswer:
        """What comes through a connection within its timeout."""
        try:
            return LinkAnswer.ANSWERED if connection.recv(1) else LinkAnswer.CLOSED
        except TimeoutError:
            return LinkAnswer.SILENT
        except OSError:
            return LinkAnswer.CLOSED


class Watch:
    """Asks servers again and again, each by a `host:port`, in a thread of its own from each `begin` to the next `end`.

    silences  (from, to), ns of CLOCK_MONOTONIC: from one answer of all to the next, if that took `PATIENCE` seconds
              longer than the pause between questions. Whether a server or this process did not run is not known.
    """

    def __init__(self, prober: Prober, endpoints: Iterable[str]) -> None:
        self.silences: list[tuple[int, int]] = []
        self._prober = prober
        self._endpoints = tuple(endpoints)
        self._over = threading.Event()
        self._thread = threading.Thread()

    def begin(self) -> None:
        self._over.clear()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        if self._endpoints:
            self._thread.start()

    def end(self) -> None:
        """Idempotent. A silence that still goes on is noted up to now."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        heard = time.monotonic_ns()
        over = False
        while not over:
            over = self._over.wait(EVERY)
            if over or all(self._prober.ask(endpoint) is LinkAnswer.ANSWERED for endpoint in self._endpoints):
                since, heard = heard, time.monotonic_ns()
                if heard - since > (EVERY + PATIENCE) * 1e9:
                    self.silences.append((since, heard))
