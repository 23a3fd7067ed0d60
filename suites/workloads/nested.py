"""Nested: the holder acquires again, once or twice, and works on after the inner release, which must free nothing."""

from typing import ClassVar

from suites.workloads.workload import Hold, Workload


class Nested(Workload):
    name: ClassVar[str] = "nested"
    nests: ClassVar[bool] = True

    def section(self, hold: Hold) -> None:
        hold.read()
        with hold.again():
            hold.work(hold.pace * hold.rng.uniform(0.2, 0.5))
            if hold.rng.random() < 0.5:
                with hold.again():
                    hold.read()
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
        hold.write()
