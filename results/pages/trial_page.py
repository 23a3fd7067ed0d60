"""A trial's page: the verdict, the story and the picture of the violation, then everything else."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from checkers.claims import Verdict
from checkers.history.view import View
from results.pages import counters_explained, surroundings, web
from results.pages.counters_explained import Counted
from results.pages.lane import timeline
from results.pages.lane.windows import Window, moments, windows
from results.record import LaneRecord, TrialRecord
from results.report import sentences
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


@dataclass(frozen=True, slots=True)
class _Lane:
    """What the template needs of a lane. windows: all but the first are packed. broken: properties, heaviest first."""

    name: str
    word: Verdict
    sentence: str
    windows: list[Window]
    violations: int
    broken: list[str]
    operations: int
    timeline: Markup
    judgements: list[dict[str, Any]]
    counted: Counted
    recheck: str


def render(record: TrialRecord, folder: Path, *, inline: bool = False) -> str:
    """The page of a stored trial. folder: as people type it. inline: complete without the run's folder of assets."""
    lanes = sorted(record.lanes, key=lambda lane: sentences.lane_word(lane).weight)
    about = record.about
    faults = surroundings.faults(lanes)
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
        words=tally(judgement.word for lane in lanes for judgement in lane.judgements),
        lanes=shown,
        filtered=len(lanes) >= _FILTERED,
        properties=_properties(lanes),
        glossary=_glossary(shown),
        meaning_of=counters_explained.MEANINGS,
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
    judged = sorted(lane.judgements, key=lambda judgement: judgement.word.weight)
    return _Lane(
        name=history.facts.lane,
        word=sentences.lane_word(lane),
        sentence=sentences.lane_sentence(lane),
        windows=shown,
        violations=len(violations),
        broken=list(dict.fromkeys(j.property for j in judged if j.result is not None and j.result.violations)),
        operations=len(history),
        timeline=whole,
        judgements=[{"property": j.property, "word": j.word, "because": j.because} for j in judged],
        counted=counters_explained.counted(lane.judgements),
        recheck=surroundings.recheck(folder, lane.file),
    )


def _properties(lanes: Sequence[LaneRecord]) -> list[str]:
    """All judged properties, each once, the heaviest first."""
    judged = sorted((j for lane in lanes for j in lane.judgements), key=lambda judgement: judgement.word.weight)
    return list(dict.fromkeys(judgement.property for judgement in judged))


def _glossary(lanes: Sequence[_Lane]) -> list[tuple[str, str]]:
    """The counters that occur, with their meanings."""
    pairs = [pairs for lane in lanes for pairs in (lane.counted.common, *lane.counted.by_property.values())]
    names = sorted({name for counters in pairs for name, _ in counters})
    return [(name, counters_explained.MEANINGS[name]) for name in names if name in counters_explained.MEANINGS]
