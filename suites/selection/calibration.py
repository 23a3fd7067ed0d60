"""Calibration: where an upgrade is certified, bugs that are known are tried beside it, and the suite must find them.

Locks with one bug each (`suites.lanes.mutant_catalogue`) are tried on the new version, and good locks on servers with
a bug (`infra.planted`). What the suite finds of them tells what it could have found. Those that share a fault share a
trial, which is a column of its own in a stage of its own; its judgements count among nothing else.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from checkers.claims import NO_FAULT
from infra.faults.plan import Plan, compile_plan
from infra.planted import PLANTS
from results.stages import BROKEN_SERVER, CALIBRATION
from suites.lanes.lane import Lane, lane_named, longest_ttl
from suites.lanes.mutant_catalogue import CATALOGUE
from suites.locks import registry

FAULTS: Final = (NO_FAULT, "stall-holder", "freeze-holder", "kill-holder")
"""Those that bring out most of the bugs, whatever the backend: a certification has ten minutes for everything."""

SERVER: Final = "planted-server"
COLUMNS: Final = (SERVER, *(f"planted-{fault}" for fault in FAULTS))
"""A server with a bug has an environment of its own: it is begun before the others, which have one already."""


@dataclass(frozen=True, slots=True)
class Bug:
    """Where a bug is tried: in which column, under which fault, and the property that must name it."""

    column: str
    fault: str
    found_by: str


_SERVERS: Final = {
    "redis:lost-token": ("redis", NO_FAULT, "token-order"),
    "etcd:late-expiry": ("etcd", "kill-holder", "crash-release"),
}
"""Server with a bug → the lock that meets it, under which fault, and the property that must name it."""

SERVERS: Final[Mapping[str, str]] = {plant.server: plant.version for plant in PLANTS if str(plant) in _SERVERS}
"""Backend → the version that has the bug."""


@cache
def tried() -> Mapping[Lane, Bug]:
    """Every bug, in one lane. Asked for only where something is certified: it loads every client library."""
    locks = {
        mutant.lanes[0]: Bug(f"planted-{mutant.fault}", mutant.fault, mutant.found_by)
        for mutant in CATALOGUE
        if mutant.fault in FAULTS
    }
    # Named by its class the lock is in a lane of its own, beside those of the upgrade.
    servers = {
        lane_named(f"{registry.spelling(lock)}/register/unfenced"): Bug(SERVER, fault, found_by)
        for lock, fault, found_by in _SERVERS.values()
    }
    return locks | servers


def lanes(backends: Collection[str]) -> tuple[Lane, ...]:
    """Those with a bug that run on any of these backends."""
    return tuple(lane for lane in tried() if lane.backend in backends)


def belongs(lane: Lane, column: str) -> bool:
    """Whether the lane's bug is tried in this column."""
    bug = tried().get(lane)
    return bug is not None and bug.column == column


def columns(some: Sequence[Lane]) -> tuple[str, ...]:
    """Those to which any of these lanes belongs."""
    return tuple(column for column in COLUMNS if any(belongs(lane, column) for lane in some))


def stage(column: str) -> str:
    """The one in which a column is tried."""
    return BROKEN_SERVER if column == SERVER else CALIBRATION


def plan(column: str, backend: str, seed: int) -> Plan:
    """As for the fault alone."""
    some = [lane for lane in lanes((backend,)) if belongs(lane, column)]
    (fault,) = {tried()[lane].fault for lane in some}
    return compile_plan([fault], seed, backend, longest_ttl(some))


def found_by(some: Sequence[Lane]) -> dict[str, str]:
    """Lane → the property that names its bug: what a trial of the calibration tells of itself."""
    return {lane.name: tried()[lane].found_by for lane in some}
