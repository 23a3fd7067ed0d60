"""The events of a trial while it runs (`results.terminal.event_journal`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from infra.faults.plan import Plan
from results.terminal.event_journal import Event, step, waits
from suites.lanes.lane import Lane
from suites.trial.spec import Trial


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


def begins(trial: Trial, plan: Plan) -> Event:
    locks = list(dict.fromkeys(lane.lock_name for lane in trial.lanes))
    return Event("trial", {**named(trial), "lanes": len(trial.lanes), "locks": locks, "plan": plan.describe()})


def lingers(missing: Mapping[str, Mapping[str, str]], within: float) -> Event:
    """missing: as in `once_more`. within: seconds that are left."""
    return waits(f"what would exercise {_and_more(_places(missing))}", within)


def once_more(missing: Mapping[str, Mapping[str, str]]) -> Event:
    """missing: lane → property → why it is not exercised yet."""
    return step(f"once more, since it did not exercise {_and_more(_places(missing))}")


def recovers(late: Sequence[Lane], within: float) -> Event:
    """late: lanes that have not been granted since the heal. within: seconds that are left."""
    return waits(f"{_and_more([lane.name for lane in late])} to be granted again", within)


def judges(lane: str, number: int, of: int) -> Event:
    return Event("judges", {"lane": lane, "number": number, "of": of})


def _places(missing: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [f"{name} in {lane}" for lane, names in missing.items() for name in names]


def _and_more(names: Sequence[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
