"""verdicts.json: what a trial's histories mean and what was measured of them; written, and held against them again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from checkers.check import PROPERTIES, check
from checkers.judgement import Judgement, judge_all
from results import files, reading
from results.measured import measured
from results.pages import telling
from results.record import LaneRecord, TrialRecord, fault_of
from results.stored import judgement_to_json

NAME: Final = "verdicts.json"


def bare(record: TrialRecord, names: Sequence[str]) -> dict[str, Any]:
    """`whole`, without what takes time or might fail: neither measures nor stories."""
    return _table(record, names, [(None, {})] * len(names))


def whole(record: TrialRecord, names: Sequence[str]) -> dict[str, Any]:
    """What the file says. names: of the histories' files, in the order of the lanes."""
    return _table(record, names, [(measured(lane.history), telling.stories(lane)) for lane in record.lanes])


def again(lane: LaneRecord) -> LaneRecord:
    """The lane under today's checkers, by all that it was to be judged by, and all that it was."""
    asked = dict.fromkeys((*lane.history.facts.properties, *(one.property for one in lane.judgements)))
    verdicts = check(lane.history, [name for name in asked if name in PROPERTIES])
    return replace(lane, judgements=judge_all(verdicts, lane.history))


def differences(lane: LaneRecord, now: LaneRecord) -> Iterator[str]:
    """What is judged differently now, a line each."""
    stored, again = ({one.property: one for one in side.judgements} for side in (lane, now))
    for name in {**stored, **again}:
        was, is_ = (_said(side.get(name)) for side in (stored, again))
        if was != is_:
            told = f"is {is_}" if is_ else "is not known any more"
            yield f"{lane.history.facts.lane}  {name}: was {was or 'not there'}, {told}"


def otherwise(folder: Path) -> Iterator[str]:
    """What the file of a trial says and its histories do not, a line each. Raises BadFile or BadHistory."""
    record, names = reading.load_trial(folder), reading.histories_of(folder)
    listed = files.read_json(folder / "trial.json").get("lanes")
    if names != listed:
        yield f"{NAME} has not the lanes of trial.json"
        return
    now = replace(record, lanes=tuple(again(lane) for lane in record.lanes))
    found = json.loads(json.dumps(whole(now, names)))["lanes"]
    told = files.read_json(folder / NAME)["lanes"]
    for lane, of_now, is_, was in zip(record.lanes, now.lanes, found, told, strict=True):
        lines = list(differences(lane, of_now))
        yield from lines
        if other := [] if lines else sorted(name for name in is_.keys() | was.keys() if is_.get(name) != was.get(name)):
            yield f"{lane.history.facts.lane}  {NAME} says what its history does not: {', '.join(other)}"


def _table(
    record: TrialRecord, names: Sequence[str], of_lanes: Sequence[tuple[dict[str, Any] | None, Mapping[str, Any]]]
) -> dict[str, Any]:
    """of_lanes: measures, and property → story."""
    column = record.about.get("column")
    made = zip(record.lanes, names, of_lanes, strict=True)
    return {"lanes": [_lane(lane, name, column, *told) for lane, name, told in made]}


def _lane(
    lane: LaneRecord,
    file: str,
    column: str | None,
    measures: dict[str, Any] | None,
    stories: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    facts = lane.history.facts
    return {
        "lane": facts.lane,
        "lock": facts.lock,
        "backend": facts.backend,
        "workload": facts.workload,
        "store": facts.store,
        "fault": column or fault_of(facts),
        "seed": facts.seed,
        "file": file,
        "operations": len(lane.history),
        "judgements": [judgement_to_json(one, stories.get(one.property, ())) for one in lane.judgements],
        "measures": measures,
    }


def _said(judgement: Judgement | None) -> str:
    return "" if judgement is None else f"{judgement.word} ({judgement.because})"
