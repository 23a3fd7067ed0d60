"""`--from BACKEND=VERSION --to BACKEND=VERSION`: the same trials on the old version and on the new one; or, of a client
library, with the old release and with the new one.

Both are tried with the same seeds and plans, trial by trial in turn or side by side (`suites.plugin`), so that a
slow machine affects both alike; each has an environment of its own. Known bugs are tried as well
(`suites.selection.bugs_of_certification`).

The upgrade itself and the way back are tried in stages with columns of their own; each of these trials begins with the
old version in a new environment. In the columns of stage `MIXED` the members are upgraded one after another; while both
versions run, the leader is killed, a member is cut off, and holders are frozen across the restart of a server. In the
columns of stage `ROLLBACK` the members go back, half-way or at the end. Where a server refuses to go back the trial
continues with the members that run, and stores the server's own words. Client libraries are upgraded on the same
servers: in the column of stage `MIXED` half of the workers of each lane have the old release.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from infra.backends import BACKENDS
from infra.backends.backend import Trait
from infra.docker import images
from infra.faults.all_faults import FAULTS
from infra.faults.fault_options import FOLLOWER, LEADER, Members
from infra.faults.plan import Plan, Step
from results.stages import BASELINE, BROKEN_SERVER, CALIBRATION, CANDIDATE, CLIENTS, COLUMNS, MIXED, ROLLBACK
from suites.selection import bugs_of_certification
from suites.selection.bad_option import BadOption
from suites.worker.python_environment import Interpreter

LEADER_LAST, LEADER_FIRST = COLUMNS[MIXED]
HALF, END = COLUMNS[ROLLBACK]
ROLLING: Final = tuple(column for columns in COLUMNS.values() for column in columns)

CALM: Final = 1.0  # seconds without a fault before each step, in which waiting clients are granted the lock


def rolling_plan(column: str, backend: str, seed: int, ttl: float, old: str, new: str, members: Members) -> Plan:
    """old, new: versions, as the user spelled them. ttl: the longest of the lanes, in seconds."""
    if column in (LEADER_LAST, LEADER_FIRST):
        first, rng = FOLLOWER if column == LEADER_LAST else LEADER, random.Random(f"{seed}:{column}")
        steps = tuple(_upgrade(first, backend, rng, ttl, new, members))
    else:
        count = len(members) if column == END else len(members) // 2 + 1
        steps = (_roll(new, FOLLOWER, count), _roll(old, FOLLOWER, count))
    return Plan(column, backend, seed, steps, members)


def clients_plan(backend: str, seed: int, ttl: float) -> Plan:
    """What happens while clients have different releases. ttl: the longest of the lanes, in seconds."""
    rng = random.Random(f"{seed}:{CLIENTS}")
    faults = ((name, FAULTS[name].lasts(rng, backend, ttl)) for name in ("freeze-holder", "kill-holder"))
    return Plan(CLIENTS, backend, seed, tuple(Step(name, CALM, lasts, {}) for name, lasts in faults))


@cache
def impossible(column: str, backend: str, old: str, new: str) -> str | None:
    """Why a backend cannot have a column between these versions, or None. Cached: every case asks."""
    if images.resolve(backend, old).name == images.resolve(backend, new).name:
        return "both versions are the same image: nothing becomes another"
    if column != END and len(BACKENDS[backend].members) == 1:
        return "a single server has no mixed state"
    return None


def _upgrade(first: str, backend: str, rng: random.Random, ttl: float, new: str, members: Members) -> Iterator[Step]:
    """Upgrade one member; kill and cut; upgrade all but one; upgrade the last while holders are frozen past a lease."""
    led = BACKENDS[backend].has(Trait.LEADER)
    killed: dict[str, Any] = {"nodes": [LEADER if led else members[0]]}
    cut: tuple[str, dict[str, Any]] = ("cut-nodes-drop", {"follower": 0}) if led else ("cut-minority-drop", killed)
    yield _roll(new, first, 1)
    for name, options in (("kill-server", killed), cut):
        yield Step(name, CALM, FAULTS[name].lasts(rng, backend, ttl), options)
    yield _roll(new, first, len(members) - 2)
    # The freeze lasts its full time after the restart: a new leader of etcd or ZooKeeper begins every lease anew.
    yield Step("freeze-holder", CALM, FAULTS["freeze-holder"].lasts(rng, backend, ttl), {})
    yield _roll(new, first, 1, beside=True)


def _roll(version: str, first: str, members: int, *, beside: bool = False) -> Step:
    options = {"version": version, "first": first, "members": members}
    return Step("roll-version", 0.0 if beside else CALM, CALM, options, beside)


OF_UPGRADES: Final = (*ROLLING, CLIENTS, *bugs_of_certification.COLUMNS)  # only in certifications, each in one stage


@dataclass(frozen=True, slots=True)
class Stage:
    """One of the states in which an upgrade is judged, or the calibration."""

    name: str = ""
    # Backend → the version with which a trial begins; a backend that is not named has the default version.
    versions: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()  # those tried in this stage alone; empty: the columns that the user selected
    pythons: tuple[Interpreter, ...] = ()  # that run its workers, in turn; empty: that of the run

    def tries(self, column: str) -> bool:
        return column in self.columns if self.columns else column not in OF_UPGRADES


ONLY: Final = (Stage(),)  # the stages of a run that certifies nothing


def both_named(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raises BadOption if only one of the two versions of a backend or library is named."""
    for given, option, others, other in ((old, "--from", new, "--to"), (new, "--to", old, "--from")):
        for name, version in given.items():
            if name not in others:
                raise BadOption(f"{option} {name}={version}: an upgrade has {other} {name}=VERSION, too")


def of_servers(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Stage, ...]:
    """The stages of an upgrade of these backends."""
    with_bug = {name: bugs_of_certification.SERVERS.get(name, version) for name, version in new.items()}
    return (
        Stage(BASELINE, dict(old)),
        Stage(CANDIDATE, dict(new)),
        *(Stage(name, dict(old), columns) for name, columns in COLUMNS.items()),
        Stage(CALIBRATION, dict(new), _of(CALIBRATION)),
        Stage(BROKEN_SERVER, with_bug, _of(BROKEN_SERVER)),
    )


def of_clients(old: Interpreter, new: Interpreter) -> tuple[Stage, ...]:
    """The stages of an upgrade of client libraries. old, new: the interpreters with the old and the new releases."""
    return (
        Stage(BASELINE, pythons=(old,)),
        Stage(CANDIDATE, pythons=(new,)),
        Stage(MIXED, {}, (CLIENTS,), (old, new)),
        Stage(CALIBRATION, {}, _of(CALIBRATION), (new,)),
        Stage(BROKEN_SERVER, dict(bugs_of_certification.SERVERS), _of(BROKEN_SERVER), (new,)),
    )


def _of(stage: str) -> tuple[str, ...]:
    """The columns of the calibration that are tried in a stage."""
    return tuple(column for column in bugs_of_certification.COLUMNS if bugs_of_certification.stage(column) == stage)


def upgrade_lines(stages: Sequence[Stage], libraries: Mapping[str, tuple[str, str]]) -> list[str]:
    """A line for each backend or client library that is certified. A line says if both versions are the same."""
    old, new = (next((each.versions for each in stages if each.name == name), {}) for name in (BASELINE, CANDIDATE))
    lines = []
    for backend, version in old.items():
        before, after = (images.resolve(backend, name).name for name in (version, new[backend]))
        itself = f": both are {before}, so a version is held against itself" if before == after else ""
        lines.append(f"upgrade: {backend} from {version} to {new[backend]}{itself}")
    for library, (before, after) in libraries.items():
        itself = ": a release is held against itself" if before == after else ""
        lines.append(f"upgrade: client library {library} from {before} to {after}{itself}")
    return lines


def in_turn(stages: Iterable[Stage], column: int) -> list[Stage]:
    """The order of a column's stages: every second column is reversed, so that it begins where the last one ended."""
    ordered = list(stages)
    return ordered[::-1] if column % 2 else ordered
