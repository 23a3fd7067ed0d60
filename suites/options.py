"""What was asked for: the options of `pytest suites/`, checked once, with an answer that lists what exists."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from infra import external, hooks, images, star
from infra.environment import BACKENDS
from infra.external import External
from infra.faults.fault import OURS, World
from infra.faults.plan import STORM, BadPlan, Plan, fault_names, random_plan, storm_seed
from infra.faults.plan import parse as parse_plan
from infra.faults.register import FAULTS, NO_FAULT
from infra.hooks import Hooks
from infra.spelling import instead
from results.record import NotRun
from suites import registry
from suites.lane import Lane, fewest, lanes_of, longest_ttl
from suites.lock import admitted
from suites.profiles import PROFILES, Profile

EVERY_FAULT: Final = (NO_FAULT, *FAULTS)
_ALL: Final = f"{', '.join(FAULTS)}, {NO_FAULT} (no fault)"
LANES: Final = 22
"""In one trial, as a rule: more workers than theirs would wait for each other on two cores."""
RESULTS: Final = Path(__file__).resolve().parent.parent / "results" / "runs"


class BadOption(Exception):
    """Something that does not exist was asked for. The text lists what does."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test: does this property of this lane survive this fault? because: why it cannot be asked, or None."""

    lane: Lane
    property_id: str
    fault: str
    because: str | None

    @property
    def id(self) -> str:
        return f"{self.lane.name}-{self.fault}"


@dataclass(frozen=True, slots=True)
class Asked:
    """The run that was asked for: which lanes, which faults, which seed, on which versions.

    faults  the columns of the matrix: a fault, several that overlap (`a+b`), or the name of a plan of the user's own.
    plans   those plans by name.
    worlds  backend -> what can be done to it, where that is not everything.
    targets clusters that exist already, by backend; if there are any, nothing else is touched.
    hooks   what can be done to their nodes.
    named   whether locks or faults were asked for by name: then the profile leaves nothing out.
    """

    lanes: tuple[Lane, ...]
    faults: tuple[str, ...]
    profile: Profile
    seed: int
    results: Path
    versions: Mapping[str, str] = field(default_factory=dict)
    plans: Mapping[str, Plan] = field(default_factory=dict)
    worlds: Mapping[str, World] = field(default_factory=dict)
    targets: Mapping[str, External] = field(default_factory=dict)
    hooks: Hooks = field(default_factory=Hooks)
    named: bool = False

    @property
    def backends(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(lane.backend for lane in self.lanes))

    def masked(self, text: str) -> str:
        """The text without what may not be written anywhere."""
        for target in self.targets.values():
            text = target.access.masked(text)
        return text

    def cases(self, property: str) -> list[Case]:
        """Every case of a property, those that cannot be asked included."""
        return [
            Case(lane, property, fault, self.not_applicable(lane, fault))
            for fault in self.faults
            for lane in self.lanes
            if lane.asks(property, self.fault_names(fault, lane.backend)) and self.tries(lane, fault)
        ]

    def tries(self, lane: Lane, column: str) -> bool:
        """Whether the lane is tried under it: the profile leaves out what says little."""
        profile = self.profile
        if self.named:
            return True
        if profile.locks is not None and lane.lock_name not in profile.locks:
            return False
        storm = storm_seed(column) is not None
        if profile.whole is None and not storm:
            return True
        if lane.lock_name in registry.CONTROLS and column != NO_FAULT:
            return lane.must_show(self.fault_names(column, lane.backend))
        if column in (profile.whole or ()):
            return True
        lanes = tuple(one for one in self.lanes if one.lock is lane.lock and one.not_applicable is None)
        return lane in fewest(lanes, self.fault_names(column, lane.backend))

    def fault_names(self, column: str, backend: str) -> tuple[str, ...]:
        """The faults of a column, each once."""
        plan = self.plan(column, backend)
        return plan.fault_names if plan is not None else fault_names(column)

    def plan(self, column: str, backend: str) -> Plan | None:
        """The user's own of this name, or a storm; None: one is to be drawn from the run's seed."""
        seed = storm_seed(column)
        if column in self.plans or seed is None:
            return self.plans.get(column)
        return random_plan(seed, backend, longest_ttl([lane for lane in self.lanes if lane.backend == backend]))

    def not_applicable(self, lane: Lane, fault: str) -> str | None:
        """Why the case cannot be asked, or None."""
        if lane.not_applicable is not None:
            return lane.not_applicable
        if lane.lock.via and lane.backend in self.targets:
            return f"the target has no {lane.lock.via}"
        plan = self.plan(fault, lane.backend)
        if plan is not None and plan.backend != lane.backend:
            return f"the plan is for {plan.backend}"
        faults = [FAULTS[name] for name in self.fault_names(fault, lane.backend) if name != NO_FAULT]
        world = self.worlds.get(lane.backend, OURS)
        reasons = [one.applies(lane.backend, world) or (one.planned if plan is None else "") for one in faults]
        return next(filter(None, reasons), None)

    def not_run(self) -> list[NotRun]:
        """What cannot be asked, for the report."""
        return [
            NotRun(
                lane.lock_name,
                lane.backend,
                fault,
                because,
                workload=lane.workload.name,
                store=lane.store,
                lane=lane.name,
            )
            for fault in self.faults
            for lane in self.lanes
            if self.tries(lane, fault) and (because := self.not_applicable(lane, fault)) is not None
        ]

    def runnable(self, backend: str, fault: str) -> tuple[Lane, ...]:
        """The lanes that are tried together, as far as they fit into one trial; not those of which nothing is asked."""
        names = self.fault_names(fault, backend)
        return tuple(
            lane
            for lane in self.lanes
            if lane.backend == backend
            and self.tries(lane, fault)
            and self.not_applicable(lane, fault) is None
            and any(lane.asks(name, names) for name in lane.properties)
        )

    def parts(self, backend: str, fault: str) -> tuple[tuple[Lane, ...], ...]:
        """The lanes of each trial, all of one lock in one: where there is room first."""
        parts: list[list[Lane]] = []
        for _, of_lock in itertools.groupby(self.runnable(backend, fault), lambda lane: lane.lock_name):
            some = list(of_lock)
            room = next((part for part in parts if len(part) + len(some) <= LANES), None)
            if room is None:
                parts.append(some)
            else:
                room += some
        return tuple(map(tuple, parts))


def add_options(parser: Any) -> None:
    """parser: pytest's."""
    group = parser.getgroup("fencepost", "fencepost: which promises of a lock survive which faults")
    many = {"action": "append", "default": [], "metavar": "NAME"}
    group.addoption(
        "--lock", **many, help=f"only this lock; repeatable. One of: {', '.join(registry.LOCKS)}; or module:Class"
    )
    group.addoption("--backend", **many, help=f"only locks on this backend; repeatable. One of: {', '.join(BACKENDS)}")
    group.addoption(
        "--faults",
        **many,
        help=f"only these faults, comma-separated; a+b: both at once; {STORM}17: up to three at random, of that seed; "
        "repeatable (python -m infra faults)",
    )
    group.addoption(
        "--plan",
        action="append",
        default=[],
        metavar="FILE",
        help="do what this plan says (plan.json of an earlier trial, or your own) instead of --faults; repeatable",
    )
    group.addoption("--profile", default="default", help=f"how much to try: {', '.join(PROFILES)}")
    group.addoption("--seed", type=int, default=1, help="what every random choice of the run starts from (default: 1)")
    group.addoption(
        "--version-of",
        action="append",
        default=[],
        metavar="BACKEND=VERSION",
        help="a series (etcd=3.4), an exact version, or etcd=image:NAME; repeatable (python -m infra versions)",
    )
    group.addoption(
        "--target",
        action="append",
        default=[],
        metavar="BACKEND=HOST:PORT,...",
        help="a cluster that exists already, all of its nodes (redis=tls://... with TLS); repeatable, one per backend; "
        "user, password and certificates by FENCEPOST_<BACKEND>_USER, _PASSWORD, _CA, _CERT, _KEY",
    )
    group.addoption(
        "--hook",
        action="append",
        default=[],
        metavar="VERB='COMMAND'",
        help=f"what does this to a node of a target, as pause='ssh {{node}} ...'; repeatable; {', '.join(hooks.VERBS)}",
    )
    group.addoption(
        "--results",
        default=str(RESULTS),
        metavar="DIR",
        help="where runs are stored (default: results/runs of this checkout)",
    )


def parse(option: Any) -> Asked:
    """option: pytest's parsed options. Raises BadOption."""
    profile = _one(option.profile, PROFILES, "profile")
    backends = tuple(_one(name, dict.fromkeys(BACKENDS, name), "backend") for name in option.backend)
    targets = _targets(option.target, option.version_of)
    commands = _hooks(option.hook, targets)
    plans = _plans(option.plan)
    if plans and option.faults:
        raise BadOption("--plan and --faults: a run does one or the other")
    storms = tuple(f"{STORM}{option.seed + number}" for number in range(profile.storms))
    faults = tuple(plans) or _faults(option.faults) or (*(profile.faults or EVERY_FAULT), *storms)
    lanes = tuple(
        lane
        for lane in _lanes(option.lock)
        if lane.backend in (backends or BACKENDS) and lane.backend in (targets or BACKENDS)
    )
    if not lanes:
        there_is = ", ".join(f"{lane.lock_name} on {lane.backend}" for lane in _one_each(_lanes(option.lock)))
        where = " that is a target" if targets else ""
        raise BadOption(f"no lock runs on {', '.join(backends or targets)}{where}; there is {there_is}")
    outside = {
        lane.lock_name: lane.backend
        for lane in _one_each(lanes)
        if lane.backend in targets and not (targets[lane.backend].access.open or admitted(lane.lock))
    }
    for name in option.lock:
        if name in outside:
            raise BadOption(
                f"{name}: its open() takes no `access`, which --target {outside[name]} needs (suites/lock.py)"
            )
    lanes = tuple(lane for lane in lanes if lane.lock_name not in outside)
    results = Path(option.results)
    for folder in (results, *results.parents):
        if folder.exists() and not folder.is_dir():
            raise BadOption(f"--results {results}: {folder} is not a folder")
    return Asked(
        lanes,
        faults,
        profile,
        option.seed,
        results,
        _versions(option.version_of),
        plans,
        worlds=dict.fromkeys(targets, external.world(commands)),
        targets=targets,
        hooks=commands,
        named=bool(option.lock or option.faults or plans),
    )


def _lanes(names: Sequence[str]) -> list[Lane]:
    lanes: list[Lane] = []
    for name in dict.fromkeys(names or registry.LOCKS):
        try:
            lock = registry.lock(name)
        except registry.UnknownLock as error:
            raise BadOption(str(error)) from error
        _one(lock.backend, dict.fromkeys(BACKENDS), f"backend of {name}")
        lanes += lanes_of(name, lock)
    return lanes


def _one_each(lanes: Sequence[Lane]) -> Iterable[Lane]:
    return {lane.lock_name: lane for lane in lanes}.values()


def _faults(lists: Sequence[str]) -> tuple[str, ...]:
    columns = [name.strip() for text in lists for name in text.split(",")]
    for column in columns:
        names = fault_names(column)
        if "" in names:
            expected = f"expected NAME, NAME,NAME, NAME+NAME or {STORM}SEED; there are {_ALL}"
            raise BadOption(f"--faults {column!r}: {expected}")
        if NO_FAULT in names and len(names) > 1:
            raise BadOption(f"--faults {column}: {NO_FAULT} means no fault, and cannot be combined with one")
        for name in names if storm_seed(column) is None else ():
            if name not in EVERY_FAULT:
                raise BadOption(f"unknown fault {name!r}; {instead(name, (*FAULTS, NO_FAULT))} (no fault)")
        if len(set(names)) < len(names):
            raise BadOption(f"--faults {column}: a fault cannot overlap itself")
    return tuple(dict.fromkeys(columns))


def _plans(files: Sequence[str]) -> dict[str, Plan]:
    """The plans of these files by their names."""
    plans: dict[str, Plan] = {}
    for file in files:
        try:
            plan = parse_plan(Path(file).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise BadOption(f"--plan {file}: {getattr(error, 'strerror', None) or 'not a text'}") from error
        except BadPlan as error:
            raise BadOption(f"--plan {file}: {error}") from error
        if plans.setdefault(plan.name, plan) != plan:
            raise BadOption(f"--plan {file}: another plan is called {plan.name} as well")
    return plans


def _versions(pairs: Sequence[str]) -> dict[str, str]:
    versions: dict[str, str] = {}
    for pair in pairs:
        backend, _, version = pair.partition("=")
        if not version.removeprefix("image:"):
            raise BadOption(f"--version-of {pair}: expected BACKEND=VERSION, for example etcd=3.4")
        _one(backend, dict.fromkeys(BACKENDS), "backend")
        try:
            images.resolve(backend, version)
        except images.UnknownVersion as error:
            raise BadOption(f"--version-of {pair}: {error}") from error
        if versions.setdefault(backend, version) != version:
            raise BadOption(f"--version-of {pair}: {backend}={versions[backend]} is asked for as well; one run has one")
    return versions


def _targets(pairs: Sequence[str], versions: Sequence[str]) -> dict[str, External]:
    """From now on their nodes stand for ours, in this process."""
    try:
        targets = external.parse(pairs, os.environ)
    except external.BadTarget as error:
        raise BadOption(f"--target {error}") from error
    for backend in targets:
        if clash := next((pair for pair in versions if pair.partition("=")[0] == backend), None):
            raise BadOption(f"--version-of {clash}: --target {backend}=... runs what it runs")
    for backend in BACKENDS:
        star.name_members(backend, targets[backend].names if backend in targets else ())
    return targets


def _hooks(pairs: Sequence[str], targets: Mapping[str, External]) -> Hooks:
    if pairs and not targets:
        raise BadOption("--hook is for the nodes of a --target, and there is none")
    try:
        return hooks.parse(pairs)
    except hooks.BadHook as error:
        raise BadOption(f"--hook {error}") from error


def _one(name: str, known: Mapping[str, Any], what: str) -> Any:
    if name not in known:
        raise BadOption(f"unknown {what} {name!r}; there are: {', '.join(known)}")
    return known[name]
