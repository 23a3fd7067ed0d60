"""Calibration: a certification also tries known bugs, which the suite must find. It shows what the suite can detect.

Some of the locks with one bug each (`suites.mutants`) are tried on the new version, and correct locks on servers with a
bug. Bugs that share a fault share a trial. Each such trial is a column of its own in
a stage of its own, and its judgements count nowhere else.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import Final

from checkers.claims import NO_FAULT
from infra.docker.servers_with_bugs import PLANTS
from infra.faults.plan import Plan, compile_plan
from results.stages import BROKEN_SERVER, CALIBRATION
from suites.lanes.lane import Lane, lane_named, longest_ttl
from suites.mutants.catalogue import Mutant, catalogue

FAULTS: Final = (NO_FAULT, "stall-holder", "freeze-holder", "kill-holder")
"""The faults that reveal most of the bugs on all backends: a certification has ten minutes for everything."""

BUGS: Final = (
    *("counts-before-it-holds", "renews-nothing", "renews-briefly", "renews-under-another-name", "steals-early"),
    *("releases-always", "forgets-the-others", "waits-though-it-tries", "by-checksum", "downgrades-unrenewed"),
    *("releases-then-reads", "newest-first", "by-name", "frees-two", "stays-in-the-queue", "cancelled-stays"),
    *("persistent", "lease-for-token", "watches-the-holder", "without-lease", "locks-shared", "takes-early"),
    *("server-does-not-count", "server-keeps-leases-for-longer"),
)
"""The bugs of `suites.mutants.catalogue` that a certification tries, each under one of these faults."""

SERVER: Final = "planted-server"
COLUMNS: Final = (SERVER, *(f"planted-{fault}" for fault in FAULTS))
"""The column of servers with a bug is tried first: it needs an environment of its own, the others have one already."""

SERVERS: Final[Mapping[str, str]] = {
    plant.server: plant.version for plant in PLANTS if str(plant) in {catalogue()[name].server for name in BUGS}
}
"""Backend → the version that has the bug."""


@cache
def tried() -> Mapping[Lane, Mutant]:
    """Lane → its bug, for every bug. Only for certifications: this loads every client library."""
    return {lane_named(mutant.lanes[0]): mutant for mutant in map(catalogue().__getitem__, BUGS)}


def lanes(backends: Collection[str]) -> tuple[Lane, ...]:
    return tuple(lane for lane in tried() if lane.backend in backends)


def belongs(lane: Lane, column: str) -> bool:
    """Whether the lane's bug is tried in this column."""
    bug = tried().get(lane)
    return bug is not None and column == (SERVER if bug.server else f"planted-{bug.fault}")


def columns(chosen: Sequence[Lane]) -> tuple[str, ...]:
    return tuple(column for column in COLUMNS if any(belongs(lane, column) for lane in chosen))


def stage(column: str) -> str:
    return BROKEN_SERVER if column == SERVER else CALIBRATION


def plan(column: str, backend: str, seed: int) -> Plan:
    chosen = [lane for lane in lanes((backend,)) if belongs(lane, column)]
    (fault,) = {tried()[lane].fault for lane in chosen}
    return compile_plan([fault], seed, backend, longest_ttl(chosen))


def found_by(lane: Lane) -> str:
    """The property that names the lane's bug."""
    return tried()[lane].found_by[0]
