"""A lane: one lock × workload × store mode on keys of its own, with its own workers, judged alone."""

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import islice
from typing import Any, Final

from checkers.claims import NO_FAULT, matches
from checkers.judging.excuses_by_fault import OF_A_VERSION
from checkers.judging.judgement import Standing, standing
from checkers.properties.all_properties import OF_THE_SERVICE, PROPERTIES
from checkers.properties.property import Need
from infra.faults.all_faults import FAULTS
from suites.lock import LockClient, grain_of
from suites.locks import registry
from suites.mutants.catalogue import mutant_of
from suites.worker.process_spec import GUARDED
from suites.workloads import one_lock, several_locks
from suites.workloads.workload import Workload

WORKLOADS: Final[Mapping[str, type[Workload]]] = {
    workload.name: workload
    for workload in (
        *(one_lock.Register, one_lock.Set, one_lock.Work, several_locks.Apart, several_locks.Beside),
        *(one_lock.Once, one_lock.Inventory, one_lock.Leader),
        *(several_locks.Transfer, several_locks.Opposite, several_locks.Backoff),
        *(one_lock.Share, one_lock.Nested, several_locks.Churn),
        *(one_lock.Impatient, one_lock.Crowd, one_lock.Many, several_locks.Pairs),
    )
}
"""By name. Each says in which store modes it can run; a lock says in which of these lanes it is tried."""

STRUCK_ALONE: Final = frozenset(fault.workload for fault in FAULTS.values() if fault.workload)
"""Workloads whose lanes meet only the faults that are made for them. Every lock is tried in them, whatever lanes it
declares, except locks that are broken by design."""
LOCK_GONE: Final = ("freeze", "clock", "wipe", "failover")
"""Kinds of faults under which a client may believe that it holds what was granted to another."""

COLLIDING: Final = (
    *("AnAnBOC0C0AnBOAnBOBOAnAnAnC0AnC0C0C0", "BOAnBOAnBOAnC0BOC0AnAnC0BOAnAnAnBOAn"),
    "C0C0BOC0BOC0AnAnAnC0AnAnC0BOC0BOAnAn",
)
"""Endings that give names with the same beginning the same CRC-32 and Java's hashCode, and so the same 16 bits of
either. The first three locks of a lane have them: a client that takes such a number for the name confuses them. The
other names begin with the first whole name and a colon: a client that lists all names with a name as their beginning
takes those of other locks for its own."""
_FRACTION: Final = 0.3
"""Seconds, added to a whole number of seconds that a lock of the user's would be asked for: if a client cuts or rounds
it to whole seconds, the lease ends early. Sessions are left out: etcd gives them whole seconds only."""


@dataclass(frozen=True, slots=True)
class Load:
    """What the user sets for every lane; None: not set, so that the lock or the workload says it."""

    workload: tuple[str, ...] = ()  # names, also of what a lock does not declare; (): those that it declares
    # Processes competing in a lane: at least one more than may hold at once and, if the workload has an order of its
    # own, at least as many as the workload has.
    workers: int | None = None
    keys: int | None = None  # locks without such an order; if more than workers, half the rounds want the first
    ttl: float | None = None  # seconds; positive controls keep their own, which belongs to what they show
    # Rounds that the workers of a lane together begin per second, whether the rounds before have ended or not (an open
    # loop); a worker that is late begins at once. None: a round begins when the last one is over.
    rate: float | None = None
    duration: float | None = None  # seconds for which a trial runs at least

    def to_json(self) -> dict[str, Any]:
        """What is set: the options of `pytest suites/` that set it, and their values."""
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}


@dataclass(frozen=True, slots=True)
class Lane:
    """lock_name: as the user spelled it (`suites.locks.registry`). load: what the user sets."""

    lock_name: str
    lock: type[LockClient]
    workload: type[Workload]
    store: str
    load: Load = field(default_factory=Load)

    @property
    def name(self) -> str:
        return f"{self.lock_name}/{self.workload.name}/{self.store}"

    @property
    def backend(self) -> str:
        return self.lock.backend

    @property
    def workers(self) -> int:
        """How many processes compete for the lane's locks; more for a semaphore, so that a worker waits."""
        order, more = self.workload.order, self.lock.permits - 1
        least = self.workload.workers + len(order) * more if order else 2 + more
        return max(self.load.workers or self.workload.workers, least)

    @property
    def keys(self) -> int:
        return self.workload.keys if self.workload.order else self.load.keys or self.workload.keys

    @property
    def ttl(self) -> float:
        """Seconds; what its workers ask for."""
        if self.lock_name in registry.CONTROLS:
            return self.lock.min_ttl
        if self.load.ttl:
            return self.load.ttl
        least = max(self.lock.min_ttl, self.workload.least_ttl)
        return least + _FRACTION if self._may_round and float(least).is_integer() else least

    @property
    def _may_round(self) -> bool:
        """Whether it is a lock of the user's that gives each grant its TTL, and may round it to whole seconds."""
        own = self.lock_name not in registry.LOCKS and mutant_of(self.lock_name) is None
        return own and self.lock.lease in ("grant", "quorum")

    @property
    def grain(self) -> float:
        return grain_of(self.lock, self.ttl)

    @property
    def bounds(self) -> dict[str, float]:
        """Property → seconds within which it must hold. A TTL above `min_ttl` adds to honest-belief the time by which
        its lease may end earlier, and to recovery the time for which its lease may outlive the fault.
        """
        longer = 0.0 if self.lock.lease == "none" else self.ttl - self.lock.min_ttl
        if self._may_round:
            longer = max(longer, math.ceil(self.ttl) - math.ceil(self.lock.min_ttl))
        beyond = {"honest-belief": self.grain - self.lock.grain, "recovery": longer}
        return {name: bound + beyond.get(name, 0.0) for name, bound in self.lock.bounds.items()}

    @property
    def properties(self) -> tuple[str, ...]:
        """The ids of the properties that can be asked of the lane, under one fault or another."""
        return _properties(self)

    def asks(self, property: str, faults: Sequence[str]) -> bool:
        """Whether the property can be stressed under these faults.

        In an unfenced store only a holder that does not know of its loss writes late (`LOCK_GONE`). Faults on store
        links stress nothing if the lock service keeps the data, and may miss the only writer if the lock excludes none.
        """
        if property not in self.properties:
            return False
        declaration = PROPERTIES[property]
        done = [fault for fault in faults if fault != NO_FAULT]
        if self.store in declaration.not_expected_in:
            return any(fault in FAULTS and FAULTS[fault].kind in LOCK_GONE for fault in done)
        elsewhere = self.store == GUARDED or not self.lock.excludes
        on_its_link = any(fault in FAULTS and "store-link" in FAULTS[fault].needs for fault in done)
        if elsewhere and on_its_link and property in self.workload.properties:
            return False
        if any(matches(fault, declaration.when_said) for fault in done):
            return self._standing(property, faults).said
        return not declaration.under or any(matches(fault, declaration.under) for fault in done)

    def must_show(self, faults: Sequence[str]) -> bool:
        """Whether the lane is a positive control under these faults: it asks a property with a certain hazard."""
        return any(answer.certain is not None for answer in self.answers(faults).values())

    def differs_by_version(self, faults: Sequence[str]) -> bool:
        """Whether the lane has a hazard under these faults that one version of the service may show and another not."""
        hazards = (hazard for answer in self.answers(faults).values() for hazard in answer.hazards)
        return any(hazard.mechanism in OF_A_VERSION for hazard in hazards)

    def answers(self, faults: Sequence[str]) -> dict[str, Standing]:
        """Property → what the lock claims and which hazards it has under these faults, for properties with either.

        Properties that the service owes to every lock are left out: they are no reason to try one lock.
        """
        of_the_lock = (name for name in self.properties if name not in OF_THE_SERVICE)
        answers = {name: self._standing(name, faults) for name in of_the_lock if self.asks(name, faults)}
        return {name: answer for name, answer in answers.items() if answer.said}

    def before_the_fault(self, faults: Sequence[str]) -> tuple[str, ...]:
        """The properties to exercise before the first fault, if it may leave the lock held: all that need no fault."""
        hazards = self._standing("crash-release", faults).hazards
        if all(hazard.mechanism != "never-expires" for hazard in hazards):
            return ()
        without_fault = (name for name in self.properties if not (PROPERTIES[name].under or name in OF_THE_SERVICE))
        return tuple(name for name in without_fault if self.asks(name, faults))

    @property
    def not_applicable(self) -> str | None:
        """Why this lane cannot be run, or None."""
        if self.store.startswith("fence-") and not self.lock.tokens:
            return f"{self.lock_name} has no fencing token"
        lacks = _lacks(self.lock, self.workload)
        return f"{self.lock_name} {lacks}" if lacks else None

    def _standing(self, property: str, faults: Sequence[str]) -> Standing:
        return standing(property, self.lock.claims, self.lock.hazards, faults, self.store, self.workload.name)


def features(lock: type[LockClient]) -> frozenset[Need]:
    there = {
        Need.EXCLUDES: lock.excludes,
        Need.ONE_PERMIT: lock.permits == 1,
        Need.PERMITS: lock.permits > 1,
        Need.TOKENS: lock.tokens,
        Need.FAIR: lock.fair,
        Need.WAKES: hasattr(lock, "wakes"),
        Need.SHARED: hasattr(lock, "acquire_shared"),
        Need.REENTRANT: lock.reentrant,
        Need.RENEWED: lock.renewed,
    }
    return frozenset(need for need, has in there.items() if has)


@cache
def _properties(lane: Lane) -> tuple[str, ...]:
    """Cached: asked for every property, fault and lane."""
    lock, workload = lane.lock, lane.workload
    has = features(lock) - ({Need.SHARED} if not workload.readers else set())
    has -= {Need.REENTRANT} if not workload.nests else set()
    promised = {claim.property for claim in lock.claims} | {hazard.property for hazard in lock.hazards}
    return tuple(
        each.id
        for each in PROPERTIES.values()
        if each.needs <= has
        and (not each.bounded or each.id in lock.bounds)
        and (not each.by_workload or each.id in workload.properties)
        and (not each.optional or not promised or each.id in promised)
        and each.id not in workload.unasked
    )


def meets(lane: Lane, faults: Sequence[str]) -> bool:
    """Whether these faults, applied together, are for lanes of this workload."""
    special = {FAULTS[name].workload for name in faults if name in FAULTS} - {""}
    return lane.workload.name in special if special else lane.workload.name not in STRUCK_ALONE


def lanes_of(lock_name: str, lock: type[LockClient], load: Load | None = None) -> Iterator[Lane]:
    """Every lane in which a lock is tried, with those that are not applicable. load: what the user sets."""
    load = load or Load()
    # Where names wait for each other, no pair of workers has a lock to itself.
    collides = any(hazard.property == "independence" for hazard in lock.hazards)
    for workload in (each for each in WORKLOADS.values() if not load.workload or each.name in load.workload):
        everywhere = workload.name in STRUCK_ALONE and lock_name not in registry.CONTROLS and not collides
        shared = workload.readers and not everywhere
        if (shared and not hasattr(lock, "acquire_shared")) or (workload.nests and not lock.reentrant):
            continue
        if _lacks(lock, workload) and not load.workload:
            continue
        for store in workload.stores:
            several = workload is one_lock.Work and lock.permits > 1
            declared = everywhere or several or matches(f"{workload.name}/{store}", lock.lanes)
            if not (load.workload or declared):
                continue
            if store == "compare-owner" and lock.tokens:
                continue  # the substitute for locks without tokens
            if store == GUARDED and not all(hasattr(lock, verb) for verb in ("read", "write", "final")):
                continue
            yield Lane(lock_name, lock, workload, store, load)


def _lacks(lock: type[LockClient], workload: type[Workload]) -> str:
    """What the lock does not do that the workload needs, "" for nothing."""
    if workload.holds > 1 and not (lock.renewed or lock.lease in ("session", "none")):
        return f"renews nothing, and each hold of {workload.name} lasts longer than a lease"
    alone = workload.several and not lock.several
    return f"holds one lock at a time, and {workload.name} takes several" if alone else ""


def runnable_lanes(name: str) -> tuple[Lane, ...]:
    """Every lane in which a lock can be run. Raises UnknownLock."""
    return tuple(lane for lane in lanes_of(name, registry.load(name)) if lane.not_applicable is None)


def lane_named(name: str) -> Lane:
    """The lane lock/workload/store, also where the lock does not declare it. Raises UnknownLock or KeyError."""
    lock_name, workload, store = name.rsplit("/", 2)
    if store not in WORKLOADS[workload].stores:
        raise KeyError(store)
    return Lane(lock_name, registry.load(lock_name), WORKLOADS[workload], store)


@cache
def fewest(lanes: tuple[Lane, ...], faults: tuple[str, ...], beside: tuple[Lane, ...] = ()) -> tuple[Lane, ...]:
    """The fewest of a lock's lanes that ask every property with a claim or hazard under these faults (greedy).

    beside: lanes that are tried anyway; other lanes need not ask what these ask.
    """

    def answers(lane: Lane) -> set[Hashable]:
        return {(name, answer.claimed, answer.certain) for name, answer in lane.answers(faults).items()}

    known = set().union(*map(answers, beside))
    return tuple(_greedy({lane: answers(lane) - known for lane in lanes}))


def most_telling(lanes: Iterable[Lane], columns: Iterable[Sequence[str]]) -> tuple[Lane, ...]:
    """Of a lock's lanes the two (or fewer) that together ask most properties under most of these faults (greedy)."""
    asked: dict[Lane, set[Hashable]] = {
        lane: {(name, *faults) for faults in columns for name in lane.properties if lane.asks(name, faults)}
        for lane in lanes
    }
    return tuple(islice(_greedy(asked), 2))


def _greedy(asked: Mapping[Lane, set[Hashable]]) -> Iterator[Lane]:
    """Lanes that ask everything together. Each asks as much as possible of what those before it do not ask."""
    missing = set().union(*asked.values())
    while missing:
        chosen = max(asked, key=lambda lane: len(asked[lane] & missing))
        yield chosen
        missing -= asked[chosen]


def key_names(beginning: str, count: int) -> tuple[str, ...]:
    others = (f"{COLLIDING[0]}:{number}" for number in range(len(COLLIDING), count))
    return tuple(f"{beginning}.{end}" for end in ((*COLLIDING[:count], *others) if count > 1 else ("0",)))


def longest_ttl(lanes: Sequence[Lane]) -> float:
    """The longest TTL of these lanes, in seconds: faults on workers must last longer."""
    return max(lane.ttl for lane in lanes)
