"""The specification of a trial: plain data, from which a trial is run, reported, stored and found again."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from infra.faults.all_faults import FAULTS
from infra.faults.plan import Plan, compile_plan, fault_names
from suites.lanes.lane import Lane, Load, longest_ttl
from suites.selection import shards


@dataclass(frozen=True, slots=True)
class Trial:
    backend: str
    column: str  # the name of the column in the matrix: faults, a storm, a plan
    seed: int
    lanes: tuple[Lane, ...]
    part: int = 1  # number of the part of the column's lanes; each part is a trial of its own
    attempt: int = 1  # counts the trials of one positive control
    stage: str = ""  # the stage of an upgrade; empty if there is none
    version: str | None = None  # the backend's version, as the user spelled it
    plan: Plan | None = None  # the user's own plan, or a storm; None: the plan is drawn from the seed
    profile: str | None = None  # the profile that chose the lanes; None: the user named locks or faults
    # Lane with a planted bug → the property that must find the bug.
    planted: Mapping[str, str] = field(default_factory=dict)
    members: tuple[str, ...] = ()  # the names of the members of the cluster; () for ours in its usual shape
    ours: bool = True  # whether the cluster is ours, and not a target
    shape: str = ""  # the shape that the user asked for
    pythons: tuple[str, ...] = ("",)  # interpreters of the workers, in turn; "" for the suite's own

    @property
    def name(self) -> str:
        part = f"part{self.part}" if self.part > 1 else ""
        return "-".join(filter(None, (self.backend, self.column, str(self.seed), part, self.stage)))

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of the column, each once."""
        return self.plan.fault_names if self.plan else fault_names(self.column)

    @property
    def places(self) -> list[tuple[Lane, str]]:
        """Each lane with the column."""
        return [(lane, self.column) for lane in self.lanes]

    @property
    def at_messages(self) -> list[bool]:
        """For each fault, whether it strikes messages and so needs the tap."""
        return ["tap" in FAULTS[name].needs for name in self.faults if name in FAULTS]

    @property
    def load(self) -> Load:
        """What the user sets: the same for all lanes."""
        return self.lanes[0].load

    @property
    def seconds(self) -> float:
        """About how long the trial takes."""
        lanes = self.lanes
        return shards.expected(self.plan_to_run(), longest_ttl(lanes), len(lanes), self.load.duration or 0.0)

    def again(self, attempt: int) -> Self:
        """The attempt of this number, with the seed increased by `attempt - 1`. Call it on the first attempt."""
        return replace(self, seed=self.seed + attempt - 1, attempt=attempt)

    def plan_to_run(self) -> Plan:
        """The given plan, or the one that the seed draws."""
        return self.plan or compile_plan(self.faults, self.seed, self.backend, longest_ttl(self.lanes), self.members)


def named(trial: Trial) -> dict[str, Any]:
    """The fields of an event that say which trial it is about."""
    return {
        "trial": trial.name,
        "backend": trial.backend,
        "column": column_in(trial.column, trial.stage),
        "part": trial.part,
        "attempt": trial.attempt,
        "seed": trial.seed,
    }


def column_in(column: str, stage: str) -> str:
    return f"{column} ({stage})" if stage else column
