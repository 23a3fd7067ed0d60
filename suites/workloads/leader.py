"""Leader: whoever holds leads for two TTLs and works in steps, so that it leads no longer than its renewals last."""

from __future__ import annotations

from typing import ClassVar, Final

from suites.workload import Hold, Workload

TERM: Final = 2.0
"""TTLs."""
STEPS: Final = 12


class Leader(Workload):
    name: ClassVar[str] = "leader"

    def section(self, hold: Hold) -> None:
        for _ in range(STEPS):
            hold.read()
            hold.work(TERM * hold.ttl / STEPS)
            hold.write()
