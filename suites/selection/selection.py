"""The selection of a run: its cases, which of them are not applicable, and the trials that answer them."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Final, Self

from checkers.claims import matches
from checkers.properties.all_properties import OF_THE_SERVICE
from infra.backends import shaped
from infra.faults.all_faults import FAULTS, NO_FAULT
from infra.faults.fault import OURS, World
from infra.faults.plan import Plan, fault_names, random_plan, storm_seed
from infra.target.external_cluster import External
from infra.target.hooks import Hooks
from results.record import NotRun, grouped
from results.stages import BASELINE, CANDIDATE, CLIENTS
from suites.lanes.lane import STRUCK_ALONE, Lane, fewest, longest_ttl, meets, most_telling
from suites.lock import LockClient
from suites.locks import registry
from suites.selection import bugs_of_certification, shards, upgrade_stages
from suites.selection.profiles import OF_MEMBERS, PLAINEST, Profile
from suites.selection.shards import Shard
from suites.selection.trial import Trial
from suites.selection.upgrade_stages import ONLY, Stage
from suites.worker.python_environment import Interpreter

WORKERS: Final = 76
"""The most workers in one trial, as a rule: more would wait for each other on two cores."""
TAPPED_WORKERS: Final = 96
"""The same where a tap passes on each of their messages: of these workers most stand still or rest."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test: does this property of this lane survive this fault? because: why it cannot be asked, or None."""

    lane: Lane
    property_id: str
    fault: str
    because: str | None
    stage: str = ""  # of an upgrade, empty where there is none

    @property
    def id(self) -> str:
        return case_id(self.lane, self.fault, self.stage)


def case_id(lane: Lane, fault: str, stage: str) -> str:
    """What stands in brackets in the name of a test."""
    return "-".join(filter(None, (lane.name, fault, stage)))


def members_of(shapes: Mapping[str, str], targets: Mapping[str, External]) -> dict[str, tuple[str, ...]]:
    """Backend → the names of the members of its cluster, be it ours in one of these shapes or one of these targets."""
    ours = {name: kind.members for name, kind in shaped(shapes).items()}
    return ours | {backend: target.names for backend, target in targets.items()}


@dataclass(frozen=True)
class Selection:
    """What a run tries: lanes, faults, seed, versions and shapes."""

    lanes: tuple[Lane, ...]
    # The columns of the matrix: a fault, several that overlap (`a+b`), or the name of a plan of the user's own.
    faults: tuple[str, ...]
    profile: Profile
    seed: int
    results: Path
    versions: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, str] = field(default_factory=dict)  # backend → the shape that the user asked for
    plans: Mapping[str, Plan] = field(default_factory=dict)  # those plans by name
    # Backend → what can be done to it, if not everything can.
    worlds: Mapping[str, World] = field(default_factory=dict)
    # Clusters that exist already, by backend; if there are any, nothing else is touched.
    targets: Mapping[str, External] = field(default_factory=dict)
    hooks: Hooks = field(default_factory=Hooks)  # what can be done to their nodes
    named: bool = False  # whether the user named locks or faults: then the profile leaves nothing out
    shard: Shard | None = None  # which part of the whole is run; elsewhere: lanes and faults that other shards run
    elsewhere: frozenset[tuple[Lane, str]] = frozenset()
    stages: tuple[Stage, ...] = ONLY  # of the upgrade to certify, else `ONLY`
    planted: tuple[Lane, ...] = ()  # lanes with a bug, tried to calibrate a certification
    python: Interpreter = field(default_factory=Interpreter)  # what runs the workers
    # Client library → its releases, where the upgrade is one of client libraries.
    libraries: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    budget: float = 0.0  # minutes for each backend in a certification; see `suites.trial.budget`
    # Column → lanes that are tried in it, for the columns asked about so far: every property asks again.
    _tried: dict[str, set[Lane]] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def backends(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(lane.backend for lane in self.lanes))

    @property
    def booted(self) -> tuple[str, ...]:
        """The backends on which this shard runs a trial."""
        here = {lane.backend for fault in self.faults for lane in self.lanes if (lane, fault) not in self.elsewhere}
        return tuple(backend for backend in self.backends if backend in here)

    def version(self, backend: str, stage: str) -> str | None:
        """The version that the user asked for, None for the default."""
        return self._stage(stage).versions.get(backend, self.versions.get(backend))

    def pythons(self, stage: str) -> tuple[str, ...]:
        """The interpreters that run the workers, each in turn; "" is the suite's own interpreter."""
        return tuple(python.path for python in self._stage(stage).pythons or (self.python,))

    def _stage(self, name: str) -> Stage:
        (selected,) = (known for known in self.stages if known.name == name)
        return selected

    def masked(self, text: str) -> str:
        for target in self.targets.values():
            text = target.access.masked(text)
        return text

    def cases(self, property: str) -> list[Case]:
        """Every case of a property, also if it is not applicable. Targets are not asked properties `OF_THE_SERVICE`."""
        targets = self.targets if property in OF_THE_SERVICE else {}
        return [
            Case(lane, property, fault, self.not_applicable(lane, fault), stage.name)
            for fault in self.faults
            for lane in self.lanes
            for stage in self.stages
            if stage.tries(fault)
            and lane.backend not in targets
            and (lane, fault) not in self.elsewhere
            and lane.asks(property, self.fault_names(fault, lane.backend))
            and self.tries(lane, fault)
        ]

    def planted_cases(self) -> list[Case]:
        """A case for every planted bug: the property that must be violated, under the fault that reveals the bug."""
        return [
            Case(lane, bugs_of_certification.found_by(lane), column, None, bugs_of_certification.stage(column))
            for column in self.faults
            for lane in self.planted
            if self.tries(lane, column)
        ]

    def tries(self, lane: Lane, column: str) -> bool:
        """Whether the lane is tried in the column: a profile leaves out lanes that would say little."""
        if column not in self._tried:
            self._tried[column] = {each for each in (*self.lanes, *self.planted) if self._says_enough(each, column)}
        return lane in self._tried[column]

    def _says_enough(self, lane: Lane, column: str) -> bool:
        profile = self.profile
        if column in bugs_of_certification.COLUMNS or lane in self.planted:
            return lane in self.planted and bugs_of_certification.belongs(lane, column)
        if not meets(lane, self.fault_names(column, lane.backend)):
            return False
        special = self.special[lane]
        if special == ():
            return False
        if self.named:
            return True
        if profile.locks is not None and lane.lock_name not in profile.locks:
            return False
        if column in profile.upgrades and column in OF_MEMBERS and lane.lock_name not in PLAINEST:
            return False
        columns = self.plans[column].fault_names if column in self.plans else (column,)
        if special is not None:
            return any(matches(name, special) for name in columns)
        storm = storm_seed(column) is not None
        if profile.whole is None and not storm:
            return True
        if lane.lock_name in registry.CONTROLS and column != NO_FAULT:
            return lane.must_show(self.fault_names(column, lane.backend))
        if column in (profile.whole or ()):
            return True
        usual, others = self._lanes_of[lane.lock]
        beside = tuple(other for other, faults in others if matches(column, faults))
        return lane in fewest(usual, self.fault_names(column, lane.backend), beside)

    @cached_property
    def _lanes_of(self) -> Mapping[type[LockClient], tuple[tuple[Lane, ...], list[tuple[Lane, tuple[str, ...]]]]]:
        """Lock → (lanes that are tried as usual, other lanes with the faults under which they are tried instead)."""
        by_lock = {}
        for lock, lanes in grouped(self.lanes, lambda lane: lane.lock).items():
            special = [(lane, self.special[lane]) for lane in lanes if lane.not_applicable is None]
            usual = tuple(lane for lane, faults in special if faults is None)
            by_lock[lock] = usual, [(lane, faults) for lane, faults in special if faults is not None]
        return by_lock

    @cached_property
    def special(self) -> Mapping[Lane, tuple[str, ...] | None]:
        """Lane → the faults under which the profile tries it (`Profile.lanes`); None if it is tried as usual, also if
        the profile leaves out all lanes of its lock but those for faults of their own.
        """
        special = {lane: self._by_profile(lane) for lane in self.lanes}
        usual = (lane for lane in self.lanes if lane.not_applicable is None and lane.workload.name not in STRUCK_ALONE)
        tried = {lane.lock for lane in usual if special[lane] != ()}
        return {lane: under if lane.lock in tried else under or None for lane, under in special.items()}

    def _by_profile(self, lane: Lane) -> tuple[str, ...] | None:
        if lane.lock_name in registry.CONTROLS or lane.load.workload:
            return None
        return self.profile.special(f"{lane.workload.name}/{lane.store}")

    def fault_names(self, column: str, backend: str) -> tuple[str, ...]:
        """The faults of a column, each once."""
        plan = self.plan(column, backend)
        return plan.fault_names if plan is not None else fault_names(column)

    @cached_property
    def members(self) -> dict[str, tuple[str, ...]]:
        """See `members_of`."""
        return members_of(self.shapes, self.targets)

    def plan(self, column: str, backend: str) -> Plan | None:
        """The plan of the user, a storm, or an upgrade; None if the plan is drawn from the run's seed."""
        if column in upgrade_stages.ROLLING:
            ttl, members = self._ttl(backend), self.members[backend]
            return upgrade_stages.rolling_plan(column, backend, self.seed, ttl, *self._upgrade(backend), members)
        if column == CLIENTS:
            return upgrade_stages.clients_plan(backend, self.seed, self._ttl(backend))
        if column in bugs_of_certification.COLUMNS:
            return bugs_of_certification.plan(column, backend, self.seed)
        seed = storm_seed(column)
        if column in self.plans or seed is None:
            return self.plans.get(column)
        return _storm(seed, backend, self._ttl(backend), members=self.members[backend])

    def _upgrade(self, backend: str) -> tuple[str, str]:
        """(old, new) version, as the user spelled them."""
        return self.version(backend, BASELINE) or "", self.version(backend, CANDIDATE) or ""

    def _ttl(self, backend: str) -> float:
        return longest_ttl([lane for lane in self.lanes if lane.backend == backend])

    def not_applicable(self, lane: Lane, fault: str) -> str | None:
        if lane.not_applicable is not None:
            return lane.not_applicable
        if lane.lock.via and lane.backend in self.targets:
            return f"the target has no {lane.lock.via}"
        if because := self._impossible(fault, lane.backend):
            return because
        plan = self.plan(fault, lane.backend)
        if plan is not None and plan.backend != lane.backend:
            return f"the plan is for {plan.backend}"
        faults = [FAULTS[name] for name in self.fault_names(fault, lane.backend) if name != NO_FAULT]
        world = self.worlds.get(lane.backend, OURS)
        reasons = [each.applies(lane.backend, world) or (each.planned if plan is None else "") for each in faults]
        if any(each.waits for each in faults) and not hasattr(lane.lock, "keep_alive"):
            reasons.append("who waits for this lock has no session that is kept alive")
        strikes = {each.strikes for each in faults}
        if "renewal" in strikes and not lane.lock.renewed:
            reasons.append("nothing is renewed here")
        if "cancel" in strikes and not hasattr(lane.lock, "cancel"):
            reasons.append("who waits for this lock cannot be told to give up")
        return next(filter(None, reasons), None)

    def _impossible(self, column: str, backend: str) -> str | None:
        if column not in upgrade_stages.ROLLING:
            return None
        return upgrade_stages.impossible(column, backend, *self._upgrade(backend))

    def not_run(self) -> list[NotRun]:
        return [
            # A column that is not possible is one entry, whatever the profile would have tried in it.
            NotRun("", backend, column, because)
            for column in self.faults
            for backend in self.booted
            if (because := self._impossible(column, backend)) is not None
        ] + [
            NotRun(lane.lock_name, lane.backend, fault, because, lane.workload.name, lane.store, lane.name)
            for fault in self.faults
            for lane in self.lanes
            if (lane, fault) not in self.elsewhere
            and self.tries(lane, fault)
            and self._impossible(fault, lane.backend) is None
            and (because := self.not_applicable(lane, fault)) is not None
        ]

    def runnable(self, backend: str, fault: str) -> tuple[Lane, ...]:
        """The lanes to try under the fault, if any property is asked of them. `parts` deals them out to trials."""
        names = self.fault_names(fault, backend)
        return tuple(
            lane
            for lane in (*self.lanes, *self.planted)
            if lane.backend == backend
            and self.tries(lane, fault)
            and self.not_applicable(lane, fault) is None
            and any(lane.asks(name, names) for name in lane.properties)
        )

    def parts(self, backend: str, fault: str) -> tuple[tuple[Lane, ...], ...]:
        """The lanes of each trial. All lanes of a lock are in one trial: the first with room for them."""
        parts: list[list[Lane]] = []
        tapped = any("tap" in FAULTS[name].needs for name in self.fault_names(fault, backend) if name != NO_FAULT)
        most = TAPPED_WORKERS if tapped else WORKERS
        for _, of_lock in itertools.groupby(self.runnable(backend, fault), lambda lane: lane.lock_name):
            together = list(of_lock)
            room = next((part for part in parts if sum(lane.workers for lane in (*part, *together)) <= most), None)
            if room is None:
                parts.append(together)
            else:
                room += together
        return tuple(map(tuple, parts))

    def trial(self, backend: str, column: str, stage: str, part: int, lanes: tuple[Lane, ...]) -> Trial:
        """The first trial of these lanes."""
        storm = storm_seed(column)
        return Trial(
            backend,
            column,
            self.seed if storm is None else storm,
            lanes,
            part,
            stage=stage,
            version=self.version(backend, stage),
            plan=self.plan(column, backend),
            profile=None if self.named or column in upgrade_stages.OF_UPGRADES else self.profile.name,
            planted={lane.name: bugs_of_certification.found_by(lane) for lane in lanes if lane in self.planted},
            members=self.members[backend],
            ours=backend not in self.targets,
            shape=self.shapes.get(backend, ""),
            pythons=self.pythons(stage),
        )

    def trials(self) -> list[Trial]:
        """The first trial of each part of a column in each stage, whatever the shard, backend by backend."""
        return [
            self.trial(backend, column, stage.name, part, lanes)
            for backend in self.backends
            for column in self.faults
            for part, lanes in enumerate(self.parts(backend, column), 1)
            for stage in self.stages
            if stage.tries(column)
        ]

    def only(self, shard: Shard) -> Self:
        elsewhere = frozenset(where for where, number in self.places(shard.n).items() if number != shard.i)
        return replace(self, shard=shard, elsewhere=elsewhere)

    def quick(self) -> Self:
        """Each lock only in the lanes that ask most, and in those for faults that others do not meet."""
        chosen: set[Lane] = set()
        for usual, others in self._lanes_of.values():
            columns = [self.fault_names(column, lane.backend) for lane in usual[:1] for column in self.faults]
            chosen.update(most_telling(usual, columns), (lane for lane, faults in others if faults))
        return replace(self, lanes=tuple(lane for lane in self.lanes if lane in chosen))

    def places(self, n: int) -> dict[tuple[Lane, str], int]:
        """(lane, fault) → the shard that runs it, from 1 to n.

        What is not applicable belongs to the shard with the first trial of its backend.
        """
        trials = self.trials()
        numbers = shards.cut([trial.seconds for trial in trials], n)
        first = {trial.backend: number for trial, number in reversed(list(zip(trials, numbers, strict=True)))}
        places = {(lane, fault): first.get(lane.backend, 1) for fault in self.faults for lane in self.lanes}
        for trial, number in zip(trials, numbers, strict=True):
            places.update(((lane, trial.column), number) for lane in trial.lanes)
        return places


_storm = cache(random_plan)  # cached: every lane asks
