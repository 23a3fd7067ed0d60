"""Once: a list of jobs that are done, each an effect that cannot be undone; the next is the list's length.

The effect comes first and the note of it later, as in every worker of a queue: who dies in between leaves a job that
is done twice, whatever lock there is. That, and not only overlap, is what an idempotency key is for.
"""

from typing import ClassVar

from suites.workloads.workload import Hold, Workload


class Once(Workload):
    name: ClassVar[str] = "once"
    properties: ClassVar[tuple[str, ...]] = ("no-duplicate",)
    stores: ClassVar[tuple[str, ...]] = ("unfenced", "idempotency-key")

    def section(self, hold: Hold) -> None:
        base, elements = hold.read()
        hold.effect(len(elements))  # one that is done already needs but its note
        hold.work(hold.pace * hold.rng.uniform(0.5, 1.0))
        hold.write(base=base, elements=elements)
