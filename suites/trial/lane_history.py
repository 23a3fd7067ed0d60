"""The history of a lane, from the recordings of its workers: so far, and at the end of the trial."""

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

from checkers import row_format
from checkers.check import missing
from checkers.claims import ANY, NO_FAULT, matches
from checkers.history.history import DTYPE, Facts, FaultInterval, History, from_rows, read_recording
from checkers.history.interval_sets import Span, shared_by, united
from checkers.properties.all_properties import OF_THE_SERVICE
from checkers.properties.recovery import NO_SERVICE, RECOVERY
from checkers.row_format import ACQUIRES, F, Outcome
from infra.environment import Environment
from infra.faults.runner import Record
from infra.network import topology
from infra.store import store
from suites.lanes.lane import Lane
from suites.lock import Guards, in_doubt
from suites.selection.trial import Trial
from suites.trial.timeouts import acquire_timeout
from suites.worker import gates
from suites.worker.lease_renewal import IDLE, STALLED
from suites.worker.pool import Handle, TrialBroke
from suites.worker.process_spec import GUARDED, group_of
from suites.worker.recorder import read_errors

LAST: Final = 64  # the last rows of a worker have its pending acquire: its other threads record a few a second
ANSWERED_WITHIN: Final = 20.0  # seconds for a healthy server to answer; measured: 10 ms, and seconds on a busy machine
_AGAIN: Final = 0.2
OF_FAULTS: Final = [each.name for each in fields(FaultInterval)]
T = TypeVar("T")


@dataclass(slots=True)
class RunningLane:
    lane: Lane
    keys: tuple[str, ...]
    handles: list[Handle] = field(default_factory=list)

    def rows(self) -> npt.NDArray[Any]:
        return np.concatenate([_live(handle) for handle in self.handles])

    @property
    def shared(self) -> bool:
        """Whether anybody asked for the lock as a reader."""
        return bool((self.rows()["flags"] & row_format.SHARED).any())

    def granted_since(self, when: int) -> bool:
        """Whether acquires that returned after `when` (ns) were granted every key or, if there are more keys than
        workers, as many keys as the workers want at once.
        """
        wanted = len(set(self.lane.workload.order)) or self.lane.workers
        granted = _granted(self.rows(), when)
        return len(np.unique(granted["key"])) >= (len(self.keys) if len(self.keys) <= self.lane.workers else wanted)

    def answered_since(self, when: int) -> bool:
        """Whether each worker had an answer to its latest acquire that ended after `when` (ns), if there is one.

        An acquire that lasted as long as it was told to wait does not count if it got no answer.
        """
        rows = self.rows()
        rows = rows[np.isin(rows["f"], ACQUIRES) & (rows["ret"] > when) & (rows["flags"] & row_format.NESTED == 0)]
        patience = np.where(rows["ttl"], rows["ttl"], self.handles[0].spec.acquire_timeout * 1e9)
        rows = rows[(rows["outcome"] != Outcome.INFO) | (rows["ret"] - rows["inv"] < patience)]
        latest = {row["process"] % self.lane.workers: row for row in rows[np.argsort(rows["ret"])]}
        return all(row["outcome"] != Outcome.INFO and row["reason"] not in NO_SERVICE for row in latest.values())

    def held_since(self, when: int) -> bool:
        """Whether every worker was granted its first lock after `when` (ns), and released it again."""
        rows = self.rows()
        rows = rows[np.isin(rows["key"], self.lane.workload.order)]
        owners = _granted(rows, when)["owner"]
        released = rows["process"][(rows["f"] == F.RELEASE) & np.isin(rows["owner"], owners)]
        return len(np.unique(released % self.lane.workers)) == self.lane.workers


def so_far(trial: Trial, running: RunningLane, versions: Mapping[str, str], records: Sequence[Record]) -> History:
    """The history of a lane that still runs, without the texts of its errors. versions: node → version."""
    facts = _facts(trial, running, versions, records)
    return from_rows(facts, running.rows(), intervals(records, facts.lane), ("",))


def warm(trial: Trial, lane: RunningLane) -> bool:
    """Whether the first fault may hit the lane: its lock was granted once. If a fault may leave the lock held for ever,
    all properties that need no fault must be exercised first, since none can be exercised afterwards.
    """
    if not lane.granted_since(0):
        return False
    names = lane.lane.before_the_fault(trial.faults)
    if not names:
        return True
    history = so_far(trial, lane, {}, ())
    calm = replace(history, facts=replace(history.facts, fault_names=(NO_FAULT,)))  # none has struck yet
    return not missing(calm, names)


def all_is_back(history: History) -> bool:
    """Whether a lock that several may hold was granted again to all permits, or to a writer beside readers."""
    lack = missing(history, {RECOVERY.id} & {*history.facts.properties}).get(RECOVERY.id)
    return lack is None or lack.by_strike


def whole(
    trial: Trial,
    running: RunningLane,
    versions: Mapping[str, str],
    records: Sequence[Record],
    seen: Mapping[str, Any],
    last: npt.NDArray[Any],
) -> History:
    """The whole history: every recording with its error texts, and `last`, the rows of `final_reads`.

    seen: silences, looks and outages, as in `Facts`. The recordings are gone afterwards.
    """
    facts = replace(_facts(trial, running, versions, records), **seen)
    parts, errors = [], [""]
    for handle in running.handles:
        rows = read_recording(handle.spec.recording)
        texts = read_errors(handle.spec.recording)
        rows["error"][rows["error"] > 0] += len(errors) - 1
        errors += texts
        parts += [rows, _dying(handle)]
        handle.discard()
    return from_rows(facts, np.concatenate([*parts, last]), intervals(records, facts.lane), errors)


def first_operation(histories: Sequence[History]) -> int:
    """ns; when the first operation of any of these lanes began, 0 if there is none."""
    return min((int(history.columns["inv"][0]) for history in histories if len(history)), default=0)


def on_one_clock(histories: Sequence[History]) -> list[History]:
    """The histories of a trial, told from one moment on: the first operation of any lane."""
    begun = first_operation(histories)
    return [replace(history, facts=replace(history.facts, begun=begun)) for history in histories]


def _facts(trial: Trial, running: RunningLane, versions: Mapping[str, str], records: Sequence[Record]) -> Facts:
    lock, lane = running.lane.lock, running.lane
    return Facts(
        trial=trial.name,
        lane=lane.name,
        lock=lane.lock_name,
        backend=trial.backend,
        workload=lane.workload.name,
        store=lane.store,
        fault_names=trial.faults,
        seed=trial.seed,
        keys=running.keys,
        lease=lock.lease,
        ttl=round(lane.ttl * 1e9),
        drift=lock.drift,
        grain=round(lane.grain * 1e9),
        settled=time.monotonic_ns(),
        bounds={name: round(seconds * 1e9) for name, seconds in lane.bounds.items()},
        patience=round(acquire_timeout(trial, lane) * 1e9),
        permits=lock.permits,
        fair=lock.fair,
        workers=lane.workers,
        versions=versions,
        properties=tuple(
            name
            for name in lane.properties
            if lane.asks(name, trial.faults) and (trial.ours or name not in OF_THE_SERVICE)
        ),
        claims=lock.claims,
        hazards=lock.hazards,
        unreached=tuple(_unreached(lane, tuple(versions), records)),
    )


def _unreached(lane: Lane, members: Sequence[str], records: Sequence[Record]) -> Iterator[tuple[int, int, int]]:
    """`Facts.unreached`: when so many of a lock's nodes were silent to a worker that none, or no majority, was left.

    A hit counts only if no other fault of links or servers was on beside it, which might, for a moment or for longer,
    let answers pass or lead clients elsewhere.
    """
    hits = [each for each in records if each.process < 0]
    beside = {a for a in hits for b in hits if a.name != b.name and a.begun <= b.healed and b.begun <= a.healed}
    nodes = [lane.lock.via] if lane.lock.via else [name for name in members if matches(name, lane.lock.nodes)]
    known = lane.lock.lease == "quorum" and ANY not in lane.lock.nodes  # of how many nodes a majority is needed
    enough = len(nodes) - len(nodes) // 2 if known else len(nodes)
    for worker in range(lane.workers if nodes else 0):
        group = topology.client(group_of(worker))
        away: list[Span] = []
        for node in nodes:
            mine = (hit for hit in hits if (group, node) in hit.silent or ("", node) in hit.silent)
            away += united((hit.applied, hit.healing) for hit in mine if hit not in beside)
        yield from ((worker, begin, end) for begin, end in shared_by(enough, away))


def intervals(records: Sequence[Record], lane: str = "") -> list[FaultInterval]:
    """The faults of a trial except those on workers of other lanes than this one."""
    mine = (asdict(record) for record in records if record.lane in ("", lane))
    return [FaultInterval(**{name: each[name] for name in OF_FAULTS}) for each in mine]


def _dying(handle: Handle) -> npt.NDArray[Any]:
    """The row of a killed worker's stall, or none if the machine ended the worker quickly. The stall lasts from the
    sentinel's last look, or from the gate that killed the worker, until the worker's end.

    The worker itself cannot record it. What the worker held by a connection was held until its end, and calls that
    ended meanwhile may have waited for the machine.
    """
    looked = row_format.word(handle.page, row_format.ALIVE) if handle.exited else 0
    silences = ((looked, IDLE + STALLED), (gates.killed_at(handle.page), STALLED))
    late = [since for since, most in silences if since and handle.ended - since > most * 1e9]
    rows = np.zeros(1 if late else 0, DTYPE)
    rows["inv"], rows["ret"], rows["process"] = min(late, default=0), handle.ended, handle.spec.first_process
    rows["f"], rows["outcome"] = F.STALL, Outcome.OK
    rows["token"] = rows["value"] = rows["base"] = row_format.NONE
    return rows


def final_reads(
    lanes: Sequence[RunningLane], environment: Environment, *, whole: bool = True
) -> list[npt.NDArray[Any]]:
    """For each lane, a row for each key, as if all keys were read at once, past fences and links. Raises TrialBroke if
    a key cannot be read. whole: whether all members serve; if not, there are no rows for what the lock service keeps.
    """
    lanes = [each if whole or each.lane.store != GUARDED else replace(each, keys=()) for each in lanes]
    rows = np.zeros(sum(len(running.keys) for running in lanes), DTYPE)
    rows["inv"] = time.monotonic_ns()
    contents = [*_contents(lanes, environment)]
    rows["ret"] = time.monotonic_ns()
    rows["value"], rows["base"] = [value for value, _ in contents], [len(elements) for _, elements in contents]
    rows["key"] = [number for running in lanes for number in range(len(running.keys))]
    rows["f"], rows["outcome"], rows["flags"] = F.READ, Outcome.OK, row_format.FINAL
    rows["token"], rows["process"] = row_format.NONE, -1
    return np.split(rows, np.cumsum([len(running.keys) for running in lanes])[:-1])


def _contents(lanes: Sequence[RunningLane], environment: Environment) -> Iterator[tuple[int, Sequence[int]]]:
    """(value, elements) of each key of each lane. The keys that the store holds are read over one connection."""
    keys = [key for running in lanes if running.lane.store != GUARDED for key in running.keys]
    stored = iter(_answered("the store", lambda: store.final(environment.store_dsn(None), *keys)))
    for running in lanes:
        guards, backend = cast(type[Guards], running.lane.lock), running.lane.backend
        for key in running.keys:
            if running.lane.store == GUARDED:
                last = partial(guards.final, environment.direct(backend), key, environment.access(backend))
                yield _answered(running.lane.name, last)
            else:
                yield next(stored)


def _answered(what: str, read: Callable[[], T]) -> T:
    """Repeat the read until it succeeds, since nobody writes any more. Raises TrialBroke."""
    deadline = time.monotonic() + ANSWERED_WITHIN
    while True:
        try:
            return read()
        except Exception as error:
            text = in_doubt(error)
            if time.monotonic() > deadline:
                raise TrialBroke(f"after the trial: {what} cannot be read ({text})") from error
            time.sleep(_AGAIN)


def awaited(handle: Handle) -> np.void | None:
    """The row of the acquire in which the worker waits, or None."""
    last = _live(handle, LAST)
    pending = last[(last["f"] == F.ACQUIRE) & (last["outcome"] == Outcome.PENDING)]
    return pending[-1] if len(pending) else None


def _granted(rows: npt.NDArray[Any], when: int) -> npt.NDArray[Any]:
    """The acquires that were granted after `when` (ns)."""
    acquires = np.isin(rows["f"], ACQUIRES)
    granted: npt.NDArray[Any] = rows[acquires & (rows["outcome"] == Outcome.OK) & (rows["ret"] > when)]
    return granted


def _live(handle: Handle, most: int | None = None) -> npt.NDArray[Any]:
    """A copy of the rows in use, without rows still being written (their kind is 0). most: only so many of the last."""
    room = (len(handle.page) - row_format.HEADER) // DTYPE.itemsize
    rows = np.frombuffer(handle.page, DTYPE, room, row_format.HEADER)
    end = bisect_left(range(len(rows)), True, key=lambda row: bool(rows["inv"][row] == 0))
    used: npt.NDArray[Any] = rows[0 if most is None else max(end - most, 0) : end].copy()
    written: npt.NDArray[Any] = used[used["f"] != 0]
    return written
