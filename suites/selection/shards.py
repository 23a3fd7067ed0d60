"""`--shard i/n`: a run in n parts of about the same length, for n machines or one after another.

Trials stand in the order of their backends and are cut where a share of the expected time ends, so each backend is
booted in as few shards as it has shares, and the n shards together boot at most n - 1 times more than the whole.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from infra.faults.all_faults import FAULTS
from infra.faults.plan import Plan
from suites.selection.bad_option import BadOption

MOST: Final = 1000  # shards of one run
SETTLED: Final = 3.0  # seconds besides its plan: workers start and end, the lock is granted again, pages are written
PER_LANE: Final = 0.4  # seconds that each lane adds, on two cores
LASTS: Final = 8.0  # seconds that a step adds which is never undone: members end, and start as another version
SEQUENCE: Final = 20.0  # seconds that a sequence of kills adds
WALK: Final = 12.0  # seconds that a fault adds which strikes at one message after another
OWN: Final = 12.0  # seconds that the environment of its own adds, which a trial with such a step needs


@dataclass(frozen=True, slots=True)
class Shard:
    """The i-th of n, counted from 1."""

    i: int
    n: int

    def __str__(self) -> str:
        return f"{self.i}/{self.n}"


def parse(text: str) -> Shard:
    """Raises BadOption."""
    numbers = re.fullmatch(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})", text, re.ASCII)
    if not numbers or not 1 <= int(numbers[1]) <= int(numbers[2]) <= MOST:
        raise BadOption(f"--shard {text}: expected I/N, from 1/N to N/N with N up to {MOST}, for example 2/4")
    return Shard(int(numbers[1]), int(numbers[2]))


def expected(plan: Plan, ttl: float, lanes: int, duration: float = 0.0) -> float:
    """Seconds that a trial takes, roughly: one cycle of its plan, a TTL for what is held to expire, and its lanes.

    duration: seconds for which its cycles are repeated at least.
    """
    lasting = sum(FAULTS[step.fault].lasting for step in plan.steps)
    loaded = sum("load" in FAULTS[step.fault].needs for step in plan.steps)
    walks = sum(bool(FAULTS[step.fault].workload) for step in plan.steps)
    plan_s = max(ttl + _ends(plan) + SEQUENCE * loaded + WALK * walks, duration)
    return SETTLED + PER_LANE * lanes + plan_s + LASTS * lasting + (OWN if lasting else 0.0)


def cut(costs: Sequence[float], n: int) -> list[int]:
    """The shard, from 1 to n, of each trial in order: where the middle of its cost falls. costs: seconds.

    No shard exceeds an n-th of the sum by more than the largest cost.
    """
    whole = sum(costs)
    ends = accumulate(costs)
    return [min(int((end - cost / 2) / whole * n), n - 1) + 1 for end, cost in zip(ends, costs, strict=True)]


def _ends(plan: Plan) -> float:
    """Seconds from the start of a cycle until its last step is healed."""
    begun = latest = 0.0
    for step in plan.steps:
        begun = (begun if step.beside else latest) + step.after
        latest = max(latest, begun + step.for_)
    return latest
