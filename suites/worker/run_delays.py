"""How long the threads of this process were ready to run and got no CPU: on a crowded machine, seconds at times.

A thread that waits for a CPU notices nothing of it, nor does any other thread of its process; the kernel counts it.
"""

import contextlib
from pathlib import Path
from typing import Final

TASKS: Final = Path("/proc/self/task")


class RunDelays:
    """Looks at all threads, whenever it is asked. tasks: the folder in which the kernel tells of them."""

    def __init__(self, tasks: Path = TASKS) -> None:
        self._tasks = tasks
        self._told = self._look()

    def longest(self) -> int:
        """ns: how long a thread has waited since the last look, of the one that waited longest.

        A wait counts when it is over. 0 where the kernel does not tell.
        """
        before, self._told = self._told, self._look()
        return max((told - before.get(thread, 0) for thread, told in self._told.items()), default=0)

    def _look(self) -> dict[str, int]:
        """Thread → ns for which it has waited so far."""
        told: dict[str, int] = {}
        with contextlib.suppress(OSError):  # no such system
            for thread in self._tasks.iterdir():
                with contextlib.suppress(OSError):  # it has ended
                    told[thread.name] = int((thread / "schedstat").read_text().split()[1])
        return told
