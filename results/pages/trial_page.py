"""A trial's page: the verdict, the story and the picture of the violation, then everything else."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markupsafe import Markup

from checkers.claims import Verdict
from checkers.history.view import View
from checkers.judging.judgement import Judgement
from results.pages import surroundings, web
from results.pages.lane import timeline
from results.pages.lane.windows import Window, moments, windows
from results.record import LaneRecord, TrialRecord
from results.report import sentences
from results.report.descriptions import WORDS
from results.report.grid import tally

_FILTERED: Final = 6
"""Lanes from which on the page has a filter."""
_MOST_WINDOWS: Final = 8
"""The most violations of a lane that are drawn."""
_FEWEST_WINDOWS: Final = 2
_ALL_WINDOWS: Final = 64
"""The most violations of a trial that are drawn; each lane has `_FEWEST_WINDOWS` at least."""
_UNPACKED: Final = 400_000
"""Characters of windows that are in the page unpacked. Beyond that, lanes that are not shown first are packed."""
_MOST_FAULTS: Final = 12
"""The most faults that are listed unfolded."""

MEANINGS: Final[Mapping[str, str]] = WORDS["counters"]
"""Counter of the checkers → what it counts, in plain words."""


@dataclass(frozen=True, slots=True)
class _Lane:
    """What the template needs of a lane. windows: all but the first are packed. broken: properties, heaviest first.

    common    counters that are equal in all judged properties, and so describe the lane.
    counters  property → its other counters.
    """

    name: str
    word: Verdict
    sentence: str
    windows: list[Window]
    violations: int
    broken: list[str]
    operations: int
    timeline: Markup
    judgements: list[Judgement]
    common: list[tuple[str, int]]
    counters: Mapping[str, list[tuple[str, int]]]
    recheck: str


def render(record: TrialRecord, folder: Path, *, inline: bool = False) -> str:
    """The page of a stored trial. folder: as people type it. inline: complete without the run's folder of assets."""
    lanes = sorted(record.lanes, key=lambda lane: sentences.lane_word(lane).weight)
    about = record.about
    faults = surroundings.faults(lanes)
    judged = _heaviest_first(judgement for lane in lanes for judgement in lane.judgements)
    several = sum(len(moments(lane)) > 1 for lane in lanes)
    most = min(_MOST_WINDOWS, max(_FEWEST_WINDOWS, _ALL_WINDOWS // max(several, 1)))
    shown = [_lane(lane, number, most, folder) for number, lane in enumerate(lanes)]
    return web.render(
        "trial.html",
        assets="../../assets",
        inline=inline,
        title=f"{record.name} - fencepost",
        name=record.name,
        error=str(about.get("error") or ""),
        sentence=sentences.trial_sentence(lanes),
        words=tally(judgement.word for judgement in judged),
        lanes=shown,
        filtered=len(lanes) >= _FILTERED,
        properties=list(dict.fromkeys(judgement.property for judgement in judged)),
        glossary=_glossary(judged),
        meaning_of=MEANINGS,
        packed=lambda text: web.packed(web.spelled(text)),
        unpacked=_UNPACKED,
        plan_lines=list(about.get("plan_lines") or ()),
        faults=faults,
        many_faults=len(faults) > _MOST_FAULTS,
        facts=surroundings.facts(record),
        nodes=surroundings.nodes(about),
        again=surroundings.again(record, folder),
        recheck=surroundings.recheck(folder, "*.arrow"),
        files=[lane.file for lane in lanes],
        logs=list(record.logs),
        rest=surroundings.rest(about),
    )


def _lane(lane: LaneRecord, number: int, most: int, folder: Path) -> _Lane:
    history, violations = lane.history, moments(lane)
    shown: list[Window] = []
    whole = Markup()
    if len(history):
        view = history.once(View)
        shown = windows(lane, view, most)
        whole = timeline.draw(view, shown[0].focus, violations, f"lane{number}")
    judged = _heaviest_first(lane.judgements)
    rows = {j.property: {*j.result.counters.items()} for j in judged if j.result is not None and j.result.counters}
    common: set[tuple[str, int]] = set.intersection(*rows.values()) if len(rows) > 1 else set()
    return _Lane(
        name=history.facts.lane,
        word=sentences.lane_word(lane),
        sentence=sentences.lane_sentence(lane),
        windows=shown,
        violations=len(violations),
        broken=list(dict.fromkeys(j.property for j in judged if j.result is not None and j.result.violations)),
        operations=len(history),
        timeline=whole,
        judgements=judged,
        common=sorted(common),
        counters={name: sorted(mine - common) for name, mine in rows.items()},
        recheck=surroundings.recheck(folder, lane.file),
    )


def _heaviest_first(judgements: Iterable[Judgement]) -> list[Judgement]:
    return sorted(judgements, key=lambda judgement: judgement.word.weight)


def _glossary(judgements: Iterable[Judgement]) -> list[tuple[str, str]]:
    """The counters that occur, with their meanings."""
    names = {name for judgement in judgements if judgement.result is not None for name in judgement.result.counters}
    return [(name, MEANINGS[name]) for name in sorted(names & MEANINGS.keys())]
