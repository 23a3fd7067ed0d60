"""The data that goes into results and comes out again: a trial to store, a cell of the matrix, a lane with its
measures, and what was never run.

summary.json is read into the types of this module, and its JSON Schema is made from them: a docstring's line that
begins with the name of a field is the description of that field in the schema.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias, TypedDict

from msgspec import Meta

from checkers.claims import Verdict
from checkers.history.counting import grouped as grouped
from checkers.history.history import Facts, History
from checkers.judging.judgement import Judgement
from checkers.properties.check_result import Violation

CPU_PARTS: Final = ("workers", "harness", "links", "servers", "store")
"""The parts of a trial that use CPU time. `TrialRecord.about` has the seconds of each under `cpu`."""


@dataclass(frozen=True, slots=True)
class LaneRecord:
    """One lane of a trial: its history and the judgements on it. file: the history's file; empty until it is stored."""

    history: History
    judgements: tuple[Judgement, ...]
    file: str = ""


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """One trial, complete.

    about  plain JSON. `results.storage.codec.About` has the known keys, but for endpoints and cpu (seconds:
           `CPU_PARTS`). Others are stored and shown as they are.
    logs   name of the log (a node, a worker) → its bytes.
    """

    name: str
    about: Mapping[str, Any]
    lanes: tuple[LaneRecord, ...]
    logs: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotRun:
    """A combination that was not tried, with the reason. Empty names mean: all of them."""

    lock: str
    backend: str
    fault: str
    because: str
    workload: str = ""
    store: str = ""
    lane: str = ""
    property: str = ""


Count: TypeAlias = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class Cell:
    """One judgement of one lane of one trial. With the word `not applicable` and without a page: something was not run.

    lock      The lock under test. Empty: all of them, as for backend, workload, store, lane, fault and property.
    store     How the protected resource fences: unfenced, fence-writes, ...
    lane      lock/workload/store, as the run calls it.
    fault     The column of the matrix: a fault, several that overlap (a+b), a plan of the user's own, or none.
    counters  Counts of what exercised the property.
    story     Sentences that tell the violation on which the word rests.
    page      The trial's page, relative to the run's folder. Null if nothing was run.
    attempt   Counts the trials of one positive control, whose seeds are s, s+1, s+2.
    version   Version of the backend's servers: what was asked for, or what all of them reported. Empty if unknown.
    stage     Stage of the upgrade that the trial was part of: baseline or candidate. Empty if there was none.
    """

    lock: str
    backend: str
    workload: str
    store: str
    lane: str
    fault: str
    property: str
    word: Verdict
    because: str
    counters: Mapping[str, int]
    story: tuple[str, ...]
    page: Path | None
    trial: str
    seed: int
    attempt: Count
    version: str = ""
    stage: str = ""


class Times(TypedDict):
    """Quantiles in ms of the Kaplan-Meier estimate, which censors what was given up. Null: the quantile was not
    reached, since so many were given up; it is longer than `longest`.

    p10      Missing in trials that were stored before this quantile was counted.
    longest  The longest wait, in vain or not.
    """

    count: Count
    given_up: Count
    p10: NotRequired[float | None]
    p50: float | None
    p90: float | None
    p99: float | None
    longest: float | None


class Cycle(TypedDict):
    """A phase of a trial: before the first fault, during one (faults that overlap are one) or after it.

    cycle     The number of the fault, from 1; 0 before the first fault.
    begin_s   When the phase begins, since the first attempt.
    grants    Grants that returned in the phase.
    attempts  Attempts that began in the phase.
    """

    cycle: Count
    phase: Literal["before", "during", "after"]
    begin_s: float
    seconds: float
    grants: Count
    attempts: Count
    acquire_ms: Times
    release_ms: Times


class Measures(TypedDict):
    """The times and rates that a history shows. Null: the history cannot show it.

    seconds        From the first attempt at a lock to the end of the last.
    unknown        Operations without an answer.
    refused        Operations that certainly had no effect.
    cycles         The phases before the first fault, during each fault and after it, in the order of time.
    store_ms       Reads and writes of the protected resource, which no fault touches; shows how slow the machine was.
    recovery_s     From each heal to the next grant; null if no grant came.
    longest_gap_s  The longest time in which the lock was asked for and nobody held it.
    """

    seconds: float
    operations: Count
    grants: Count
    unknown: Count
    refused: Count
    cycles: list[Cycle]
    acquire_ms: Times
    release_ms: Times
    store_ms: Times
    recovery_s: list[float | None]
    longest_gap_s: float | None


class Boundaries(TypedDict):
    """The messages of a verb. Each message is a boundary between two steps of a client.

    messages  How many messages the verb takes.
    hit       At how many of these messages a fault struck.
    """

    messages: Count
    hit: Count


@dataclass(frozen=True, slots=True)
class LaneSummary:
    """One lane of one trial. A key that a cell has too means the same here.

    started     When the trial started; ISO 8601, empty if unknown.
    measures    Null if the lane was stored by an older format.
    boundaries  Verb → its boundaries; empty except under faults that strike at every message.
    """

    lock: str
    backend: str
    version: str
    workload: str
    store: str
    lane: str
    fault: str
    seed: int
    attempt: Count
    trial: str
    page: Path | None
    operations: Count
    started: str
    measures: Measures | None
    stage: str = ""
    boundaries: Mapping[str, Boundaries] = field(default_factory=dict)


def fault_of(facts: Facts) -> str:
    """The name of the fault, or faults, of a lane; `none` without any."""
    return "+".join(facts.fault_names) or "none"


def version_of(about: Mapping[str, Any]) -> str:
    """The version of a trial's servers: what was asked for, else what all of them reported, else empty."""
    if wanted := about.get("version"):
        return str(wanted)
    reported = {str(version) for version in (about.get("versions") or {}).values()}
    return reported.pop() if len(reported) == 1 else ""


def decisive(judgement: Judgement) -> Violation | None:
    """The violation that decides the verdict: the first one that nothing excuses, or else the first."""
    violations = judgement.result.violations if judgement.result is not None else ()
    return judgement.violation or next(iter(violations), None)


def mapping(value: object) -> Mapping[str, Any]:
    """A stored value of no fixed shape as a JSON object; empty if the value is anything else."""
    return value if isinstance(value, Mapping) else {}


def words(value: object) -> list[str]:
    """A stored value of no fixed shape, such as a command line, as a list of texts; empty if it is no JSON array."""
    return list(map(str, value)) if isinstance(value, list) else []


SAYING_NOTHING: Final = (Verdict.UNKNOWN, Verdict.NOT_STRESSED, Verdict.NOT_APPLICABLE)
"""Words of trials that say nothing about the lock."""


def settled(cells: Iterable[Cell]) -> list[Cell]:
    """The cells, without attempts of a positive control that another attempt, earlier or later, made good.

    `known weakness did not show` means that none of up to three trials (seeds s, s+1, s+2) showed the weakness. So an
    attempt that did not show it is dropped if another attempt of the same series did. So is an attempt of a certificate
    that did not stress the property, and so says nothing, if another one stressed it. No other cell is dropped.
    """
    cells = list(cells)
    shown = {_series(cell) for cell in cells if cell.word is Verdict.WEAKNESS_SHOWN}
    stressed = {_series(cell) for cell in cells if cell.stage and cell.word not in SAYING_NOTHING}
    made_good = {Verdict.WEAKNESS_NOT_SHOWN: shown, Verdict.NOT_STRESSED: stressed}
    return [cell for cell in cells if _series(cell) not in made_good.get(cell.word, ())]


def versions(cells: Iterable[Cell]) -> dict[str, str]:
    """Each backend that has a trial → the versions of its servers, as far as they are known."""
    tried = grouped((cell for cell in cells if cell.page is not None), lambda cell: cell.backend)
    return {name: ", ".join(sorted({cell.version for cell in mine} - {""})) for name, mine in sorted(tried.items())}


def judged(cells: Iterable[Cell]) -> list[Cell]:
    """The cells of `settled` whose question was tried."""
    return [cell for cell in settled(cells) if cell.word is not Verdict.NOT_APPLICABLE]


def _series(cell: Cell) -> tuple[str, str, str, str, str, int]:
    """Identifies the trials of one positive control. Versions are told apart: each has to show its hazards."""
    return (cell.lock, f"{cell.version} {cell.stage}", cell.lane, cell.fault, cell.property, cell.seed - cell.attempt)
