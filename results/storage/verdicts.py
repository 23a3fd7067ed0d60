"""verdicts.json: a trial's judgements, and the times and rates of its histories. This module makes its content,
and compares it with the histories later. Comparisons and trends use nothing else of a lane.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from checkers.check import check
from checkers.history.counting import Flags, Ints, any_of
from checkers.history.history import History
from checkers.history.interval_sets import united
from checkers.judging.judgement import Judgement, judge_all
from checkers.measures.availability import availability_gap, recovery_after_heal
from checkers.measures.latency import AFTER, BEFORE, DURING, Waits, acquires, kaplan_meier, releases, survival_quantile
from checkers.measures.measured_history import MeasuredHistory
from checkers.models.model import Settings
from checkers.properties.all_properties import PROPERTIES
from checkers.row_format import ACQUIRES, FINAL, INFINITY, F, Outcome
from results.record import LaneRecord, TrialRecord, fault_of
from results.report import short_story
from results.storage import files, reading
from results.storage.codec import judgement_to_json
from results.storage.reading import VERDICTS


def content(record: TrialRecord, *, bare: bool = False) -> dict[str, Any]:
    """The content of verdicts.json. bare: without measures and stories, which take time and might fail."""
    return {"lanes": [_lane(lane, record.about, bare=bare) for lane in record.lanes]}


def again(lane: LaneRecord) -> LaneRecord:
    """The lane, judged by today's checkers on the properties that its history asks for, or else those that it shows."""
    names = [name for name in lane.history.facts.properties if name in PROPERTIES]
    return replace(lane, judgements=judge_all(check(lane.history, names or None), lane.history))


def differences(lane: LaneRecord, now: LaneRecord) -> Iterator[str]:
    """A line for each property that is judged differently now."""
    before, after = ({judgement.property: judgement for judgement in side.judgements} for side in (lane, now))
    for name in {**before, **after}:
        was, is_ = (_in_words(side.get(name)) for side in (before, after))
        if was != is_:
            yield f"{lane.history.facts.lane}  {name}: was {was or 'not judged'}, is {is_ or 'not judged'}"


def otherwise(folder: Path) -> Iterator[str]:
    """A line for each statement in a trial's verdicts.json that does not follow from its histories. Raises BadFile."""
    record = reading.load_trial(folder)
    names = [lane.file for lane in record.lanes]
    there = [file.name for file in files.entries(folder, []) if file.suffix == ".arrow"]
    if names != files.read_json(folder / "trial.json").get("lanes") or sorted(names) != there:
        yield f"{VERDICTS} has not the lanes of trial.json, of each history one"
        return
    now = replace(record, lanes=tuple(again(lane) for lane in record.lanes))
    now_said = json.loads(json.dumps(content(now)))["lanes"]
    stored = files.read_json(folder / VERDICTS)["lanes"]
    for lane, of_now, is_, was in zip(record.lanes, now.lanes, now_said, stored, strict=True):
        lines = list(differences(lane, of_now))
        yield from lines
        if other := [] if lines else sorted(name for name in is_.keys() | was.keys() if is_.get(name) != was.get(name)):
            yield f"{lane.history.facts.lane}  {VERDICTS} says what its history does not: {', '.join(other)}"


def _lane(lane: LaneRecord, about: Mapping[str, Any], *, bare: bool) -> dict[str, Any]:
    """One lane of verdicts.json. about: that of the trial."""
    facts = lane.history.facts
    stories = {} if bare else short_story.stories(lane)
    return {
        **{name: getattr(facts, name) for name in ("lane", "lock", "backend", "workload", "store")},
        "fault": about.get("column") or fault_of(facts),
        "seed": facts.seed,
        "file": lane.file,
        "operations": len(lane.history),
        "judgements": [judgement_to_json(each, stories.get(each.property, ())) for each in lane.judgements],
        "measures": None if bare else measured(lane.history),
    }


def _in_words(judgement: Judgement | None) -> str:
    return "" if judgement is None else f"{judgement.word} ({judgement.because})"


QUANTILES: Final = (("p10", 100), ("p50", 500), ("p90", 900), ("p99", 990))
"""Name → permille."""


def measured(history: History) -> dict[str, Any]:
    """The measures of one lane (see `record.Measures`). An unknown number is None, never NaN.

    Times are counted as in `checkers.measures.latency`. An operation belongs to a fault if it overlaps the fault, else
    to the phase in which it lies. recovery_s has an entry for each fault, in the order in which they began.
    """
    subject, c = MeasuredHistory(history, Settings()), history.columns
    outcome = c["outcome"]
    counts = {
        "operations": len(history),
        "grants": int((any_of(c["f"], ACQUIRES) & (outcome == Outcome.OK)).sum()),
        "unknown": int((outcome == Outcome.INFO).sum()),
        "refused": int((outcome == Outcome.FAIL).sum()),
    }
    if subject.untimed or not len(subject.acquires):
        return {**counts, **_NOTHING}
    subject = subject.timed
    rows, c = subject.acquires, subject.history.columns
    begin, end = int(c["inv"][rows].min()), int(subject.ended[rows].max())
    waits = {"acquire_ms": acquires(subject), "release_ms": releases(subject)}
    recovery, gap = recovery_after_heal(subject), availability_gap(subject)
    longest = gap["longest"] if gap.values else None
    access = np.flatnonzero(any_of(c["f"], (F.READ, F.WRITE)) & (c["flags"] & FINAL == 0))
    if history.facts.store == "guarded":
        access = access[:0]  # this store is the lock service itself
    return {
        **counts,
        "seconds": _seconds(end - begin),
        "cycles": _cycles(subject, waits, begin, end),
        **{name: _quantiles(wait.lasted, wait.done) for name, wait in waits.items()},
        "recovery_s": [None if v.number is None else _seconds(v.number) for v in recovery.values if v.name == "first"],
        "longest_gap_s": None if longest is None else _seconds(longest),
        "store_ms": _quantiles(subject.ended[access] - c["inv"][access], c["outcome"][access] != Outcome.INFO),
    }


def _cycles(subject: MeasuredHistory, waits: Mapping[str, Waits], begin: int, end: int) -> list[dict[str, Any]]:
    """One entry for each phase, in order; those without any time are left out."""
    spans = united((fault.begun, fault.over) for fault in subject.struck)
    begins, ends = np.array(spans, np.int64).reshape(-1, 2).T
    edges = np.concatenate(([begin], np.column_stack((begins, ends)).ravel(), [end])).clip(begin, end)

    def phase(first: Ints, last: Ints) -> Ints:
        """The phases of operations from first to last (ns): 0 before all faults, 2n-1 during the n-th, 2n after it."""
        number = np.searchsorted(ends, first, "left")
        return 2 * number + (np.append(begins, INFINITY)[number] <= last)

    c, rows = subject.history.columns, subject.acquires
    attempted = phase(c["inv"][rows], c["inv"][rows])
    answered = subject.ended[rows][c["outcome"][rows] == Outcome.OK]
    granted = phase(answered, answered)
    phased = {name: (wait, phase(wait.inv, wait.ended)) for name, wait in waits.items()}
    return [
        {
            "cycle": (number + 1) // 2,
            "phase": BEFORE if number == 0 else DURING if number % 2 else AFTER,
            "begin_s": _seconds(edges[number] - begin),
            "seconds": _seconds(edges[number + 1] - edges[number]),
            "grants": int((granted == number).sum()),
            "attempts": int((attempted == number).sum()),
            **{name: _quantiles(w.lasted[of == number], w.done[of == number]) for name, (w, of) in phased.items()},
        }
        for number in range(len(edges) - 1)
        if edges[number + 1] > edges[number]
    ]


def _quantiles(lasted: Ints, done: Flags) -> dict[str, Any]:
    """lasted: ns. done: whether the operation was answered; otherwise it was given up."""
    estimate = kaplan_meier(lasted, done)
    quantiles = {name: survival_quantile(*estimate, permille) for name, permille in QUANTILES}
    return {
        "count": len(lasted),
        "given_up": int((~done).sum()),
        **{name: None if value is None else _ms(value) for name, value in quantiles.items()},
        "longest": _ms(lasted.max()) if len(lasted) else None,
    }


def _ms(ns: Any) -> float:
    return round(int(ns) / 1e6, 3)


def _seconds(ns: Any) -> float:
    return round(int(ns) / 1e9, 6)


_NO_TIMES: Final = _quantiles(np.zeros(0, np.int64), np.zeros(0, bool))
_NOTHING: Final[dict[str, Any]] = {
    "seconds": 0.0,
    "cycles": [],
    "acquire_ms": _NO_TIMES,
    "release_ms": _NO_TIMES,
    "recovery_s": [],
    "longest_gap_s": None,
    "store_ms": _NO_TIMES,
}
