"""Leader: whoever holds leads for longer than a TTL, in steps, so that it leads no longer than its renewals last."""

from __future__ import annotations

from typing import ClassVar, Final

from suites.workload import Hold, Workload

TERM: Final = 1.5
"""TTLs."""
STEPS: Final = 9


class Leader(Workload):
    name: ClassVar[str] = "leader"

    def section(self, hold: Hold) -> None:
        for _ in range(STEPS):
            hold.read()
            hold.work(TERM * hold.ttl / STEPS)
            hold.write()
