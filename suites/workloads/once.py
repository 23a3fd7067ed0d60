"""Once: a list of jobs that are done. Each job is an effect that cannot be undone; the length of the list numbers the
next.

The effect comes first and its entry in the list later, as in every worker of a queue. A worker that dies in between
leaves a job that is done twice, with any lock. An idempotency key prevents that, besides overlaps.
"""

from typing import ClassVar

from suites.workloads.workload import Hold, Workload


class Once(Workload):
    name: ClassVar[str] = "once"
    properties: ClassVar[tuple[str, ...]] = ("no-duplicate",)
    stores: ClassVar[tuple[str, ...]] = ("unfenced", "idempotency-key")

    def section(self, hold: Hold) -> None:
        base, elements = hold.read()
        hold.effect(len(elements))  # with an idempotency key, a job that is done is only entered in the list
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
        hold.write(base=base, elements=elements)
