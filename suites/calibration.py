"""Calibration: where an upgrade is certified, locks with one bug each (`suites.mutants`) are tried on the new version.

What the suite finds of them tells what it could have found. Those that share a fault share a trial, which is a column
of its own in a stage of its own; its judgements count among nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Final

from checkers.claims import NO_FAULT
from infra.faults.plan import Plan, compile_plan
from suites.lane import Lane, longest_ttl
from suites.mutants import CATALOGUE, Mutant

FAULTS: Final = (NO_FAULT, "stall-holder", "freeze-holder", "kill-holder")
"""Those that bring out most of the bugs, whatever the backend: a certification has ten minutes for everything."""

COLUMNS: Final[Mapping[str, str]] = {f"planted-{fault}": fault for fault in FAULTS}
"""Column of the calibration → the fault in it."""


@cache
def tried() -> Mapping[Lane, Mutant]:
    """Each bug, in one lane. Asked for only where something is certified: it loads every client library."""
    return {mutant.lanes[0]: mutant for mutant in CATALOGUE if mutant.fault in FAULTS}


def lanes(backends: Collection[str]) -> tuple[Lane, ...]:
    """Of the locks with a bug that run on any of these backends."""
    return tuple(lane for lane in tried() if lane.backend in backends)


def belongs(lane: Lane, column: str) -> bool:
    """Whether the fault of this column is the one that brings out the lane's bug."""
    mutant = tried().get(lane)
    return mutant is not None and mutant.fault == COLUMNS.get(column)


def columns(some: Sequence[Lane]) -> tuple[str, ...]:
    """Those to which any of these lanes belongs."""
    return tuple(column for column in COLUMNS if any(belongs(lane, column) for lane in some))


def plan(column: str, backend: str, seed: int) -> Plan:
    """As for the fault alone."""
    return compile_plan([COLUMNS[column]], seed, backend, longest_ttl(lanes((backend,))))


def found_by(some: Sequence[Lane]) -> dict[str, str]:
    """Lane → the property that names its bug: what a trial of the calibration tells of itself."""
    return {lane.name: tried()[lane].found_by for lane in some}
