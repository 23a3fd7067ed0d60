"""Crowd and Many: very many workers that want one lock, and very many locks."""

from typing import ClassVar

from suites.workloads.workload import Hold, Workload


class Crowd(Workload):
    name: ClassVar[str] = "crowd"
    workers: ClassVar[int] = 32

    def section(self, hold: Hold) -> None:
        hold.read()
        hold.work(hold.pace * hold.rng.uniform(0.2, 0.4))
        hold.write()


class Many(Crowd):
    name: ClassVar[str] = "many"
    keys: ClassVar[int] = 1_000
    workers: ClassVar[int] = 8
