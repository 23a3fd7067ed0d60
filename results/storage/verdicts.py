"""verdicts.json: a trial's judgements and measures. Written here, and compared with the histories again."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkers.check import check
from checkers.judging.judgement import Judgement, judge_all
from checkers.properties.all_properties import PROPERTIES
from results.record import LaneRecord, TrialRecord, fault_of
from results.report import short_story
from results.storage import files, reading
from results.storage.codec import judgement_to_json
from results.storage.measured import measured
from results.storage.reading import VERDICTS


def content(record: TrialRecord, *, bare: bool = False) -> dict[str, Any]:
    """The file of a stored trial. bare: without measures and stories, which take time and might fail."""
    return {"lanes": [_lane(lane, record.about, bare=bare) for lane in record.lanes]}


def again(lane: LaneRecord) -> LaneRecord:
    """The lane, judged by today's checkers: the properties that its history asks for, else those that it shows."""
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
    """A line for each statement in a trial's file that its histories do not give. Raises BadFile."""
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
    """about: of the trial."""
    facts = lane.history.facts
    stories = {} if bare else short_story.stories(lane)
    return {
        "lane": facts.lane,
        "lock": facts.lock,
        "backend": facts.backend,
        "workload": facts.workload,
        "store": facts.store,
        "fault": about.get("column") or fault_of(facts),
        "seed": facts.seed,
        "file": lane.file,
        "operations": len(lane.history),
        "judgements": [judgement_to_json(each, stories.get(each.property, ())) for each in lane.judgements],
        "measures": None if bare else measured(lane.history),
    }


def _in_words(judgement: Judgement | None) -> str:
    return "" if judgement is None else f"{judgement.word} ({judgement.because})"
