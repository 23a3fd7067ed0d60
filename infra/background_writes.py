"""A client that writes small keys beside the locks, past all links: logs grow, and returning members must catch up.

Each key is created once, under a unique name, and removed when there are enough newer keys. If the members of a backend
agree before they acknowledge, each of them must hold all acknowledged writes once nobody writes any more.
"""

import contextlib
import itertools
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from infra.backends.answers import NO_ANSWER
from infra.backends.backend import Backend, Server
from infra.waiting import at_once

CONNECTIONS: Final = 8  # so many connections write at the same time, each of them one key after another
KEPT: Final = 100  # keys that each connection keeps at the same time
ANSWERED_WITHIN: Final = 1.0  # seconds for an answer; after that the outcome of the write is unknown
_AGAIN: Final = 0.05  # seconds between two attempts to connect


class BackgroundWrites:
    """See the module. For one cluster and one trial.

    made   how many writes were acknowledged.
    known  name of a key → whether it must be there; None if that is unknown. It stays True if an acknowledged key is
           gone already when it is to be removed: that key was lost.
    """

    def __init__(self, kind: Backend, members: Sequence[Server]) -> None:
        """Writes nothing yet."""
        self._kind, self._members = kind, members
        self._prefix = f"{time.time_ns():x}"
        self.known: dict[str, bool | None] = {}
        self._serial = itertools.count()
        self._counting = threading.Lock()
        self.made = 0

    @contextlib.contextmanager
    def going_on(self, rate: float) -> Iterator[None]:
        """During the block, make `rate` writes a second, or as many as the cluster takes."""
        over = threading.Event()
        with ThreadPoolExecutor(CONNECTIONS, "background-writes") as pool:
            writers = [pool.submit(self._write, number, CONNECTIONS / rate, over) for number in range(CONNECTIONS)]
            try:
                yield
            finally:
                over.set()
        for writer in writers:
            writer.result()

    def clear(self) -> None:
        """Remove all keys that are there. Raises one of NO_ANSWER."""
        if not self.known:
            return
        first = self._members[0]
        names = sorted(self._kind.written(first))

        def remove(mine: Sequence[str]) -> None:
            with self._kind.writing(first, ANSWERED_WITHIN) as write:
                for name in mine:
                    write("remove", name)

        at_once(remove, (names[number::CONNECTIONS] for number in range(CONNECTIONS)))
        self.known.clear()

    def _write(self, number: int, every: float, over: threading.Event) -> None:
        """Write over one connection, which goes to the next member when it fails. every: seconds between two writes."""
        mine: deque[str] = deque()
        due = time.monotonic()
        for member in itertools.islice(itertools.cycle(self._members), number, None):
            if over.is_set():
                return
            with contextlib.suppress(*NO_ANSWER), self._kind.writing(member, ANSWERED_WITHIN) as write:
                while not over.wait(max(due - time.monotonic(), 0.0)):
                    due = max(due + every, time.monotonic())
                    if remove := len(mine) >= KEPT:
                        name = mine.popleft()
                    else:
                        name = f"{self._prefix}-{next(self._serial)}"
                        mine.append(name)
                    kept, self.known[name] = self.known.get(name, False), None
                    there = write("remove" if remove else "create", name)
                    self.known[name] = (False if there else kept) if remove else True
                    with self._counting:
                        self.made += 1
            over.wait(_AGAIN)
