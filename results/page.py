"""A trial's page: the verdict, the story of the violation, the picture of it, then everything else, in that order."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from checkers.claims import Word
from checkers.history import FaultInterval, History
from checkers.judgement import Judgement
from results import focus, overview, picture, story, web
from results.axis import duration, seconds
from results.holds import holds, worker_of
from results.record import LaneRecord, TrialRecord, decisive

_MOST_MARKED: Final = 12
_TOLD: Final = frozenset(
    {"plan_lines", "own_plan", "error", "versions", "seed", "backend", "started", "seconds", "attempt"}
)
"""Keys of a trial's `about` that the page shows by name; the others follow as JSON."""


@dataclass(frozen=True, slots=True)
class _Lane:
    """What the template needs of one lane."""

    name: str
    word: Word
    sentence: str
    story: tuple[str, ...]
    story_property: str
    story_word: Word
    kind: str
    found: int
    why: str
    picture: Markup
    left_out: int
    witness: list[dict[str, str]]
    others: list[dict[str, Any]]
    operations: int
    overview: Markup
    counters: list[tuple[str, list[tuple[str, int]]]]


def render(record: TrialRecord, files: Sequence[str], folder: Path) -> str:
    """The page as HTML.

    files: the lanes' histories, in the order of the lanes. folder: the trial's, as people type it.
    """
    order = sorted(range(len(record.lanes)), key=lambda at: story.lane_word(record.lanes[at]).weight)
    lanes = [record.lanes[at] for at in order]
    words = [judgement.word for lane in lanes for judgement in lane.judgements]
    about = record.about
    return web.render(
        "trial.html",
        title=f"{record.name} - fencepost",
        name=record.name,
        error=about.get("error"),
        sentence=_sentence(lanes),
        word=bool(words),
        words=[(word, words.count(word)) for word in Word if word in words],
        legend=picture.legend(),
        lanes=[_lane(lane, number) for number, lane in enumerate(lanes)],
        judgements=_judgements(lanes),
        plan_lines=list(about.get("plan_lines") or ()),
        faults=_faults(lanes),
        facts=_facts(record),
        again=_again(record),
        recheck=[f".venv/bin/python -m checkers {shlex.quote(str(folder / files[at]))}" for at in order],
        files=[files[at] for at in order],
        logs=list(record.logs),
        rest=_rest(about),
    )


def _sentence(lanes: Sequence[LaneRecord]) -> str:
    if not lanes:
        return "No lane came to an end."
    return story.lane_sentence(lanes[0])


def _lane(lane: LaneRecord, number: int) -> _Lane:
    history = lane.history
    facts = history.facts
    lead = story.leading(lane)
    violation = decisive(lead) if lead is not None else None
    drawn, whole, why, left_out, witness = Markup(), Markup(), "nothing was recorded", 0, []
    if len(history):
        held, origin = holds(history), int(history.columns["inv"][0])
        window = (
            focus.on_liveliest(history, held) if violation is None else focus.on_violation(history, held, violation)
        )
        drawn = picture.draw(history, held, window, origin, f"lane{number}")
        moments = sorted({v.at for j in lane.judgements if j.verdict for v in j.verdict.violations[:100]})
        whole = overview.draw(history, held, window, moments, origin, f"lane{number}")
        why, left_out = window.why, window.left_out
        witness = [_operation(history, row, origin) for row in window.marked[:_MOST_MARKED]]
    return _Lane(
        name=facts.lane,
        word=story.lane_word(lane),
        sentence=story.lane_sentence(lane),
        story=violation.story if violation is not None else (),
        story_property=lead.property if lead is not None else "",
        story_word=lead.word if lead is not None else Word.NOT_APPLICABLE,
        kind=violation.kind if violation is not None else "",
        found=_found(lead),
        why=why,
        picture=drawn,
        left_out=left_out,
        witness=witness,
        others=[_other(judgement) for judgement in lane.judgements if judgement is not lead and _found(judgement)],
        operations=len(history),
        overview=whole,
        counters=[
            (judgement.property, sorted(judgement.verdict.counters.items()))
            for judgement in lane.judgements
            if judgement.verdict is not None and judgement.verdict.counters
        ],
    )


def _found(judgement: Judgement | None) -> int:
    return len(judgement.verdict.violations) if judgement is not None and judgement.verdict is not None else 0


def _other(judgement: Judgement) -> dict[str, Any]:
    violation = decisive(judgement)
    assert violation is not None
    return {
        "property": judgement.property,
        "word": judgement.word,
        "kind": violation.kind,
        "found": _found(judgement),
        "story": violation.story,
    }


def _operation(history: History, row: int, origin: int) -> dict[str, str]:
    c = history.columns
    return {
        "worker": str(worker_of(history, int(c["process"][row]))),
        "what": story.what(history, row),
        "outcome": story.outcome(history, row),
        "invoked": seconds(int(c["inv"][row]), origin),
        "returned": seconds(int(c["ret"][row]), origin) if c["ret"][row] else "never",
    }


def _judgements(lanes: Iterable[LaneRecord]) -> list[dict[str, Any]]:
    rows = [
        {"lane": lane.history.facts.lane, "property": j.property, "word": j.word, "because": j.because}
        for lane in lanes
        for j in lane.judgements
    ]
    return sorted(rows, key=lambda row: row["word"].weight)


def _faults(lanes: Sequence[LaneRecord]) -> list[dict[str, Any]]:
    """Every fault once: those on links and servers stand in the history of each lane."""
    starts = [int(lane.history.columns["inv"][0]) for lane in lanes if len(lane.history)]
    origin = min(starts, default=0)
    seen: dict[FaultInterval, None] = {fault: None for lane in lanes for fault in lane.history.faults}
    return [
        {
            "name": fault.name,
            "target": fault.target,
            "moments": [
                seconds(moment, origin) if moment else "never"
                for moment in (fault.begun, fault.applied, fault.healing, fault.healed)
            ],
        }
        for fault in sorted(seen, key=lambda fault: fault.begun)
    ]


def _facts(record: TrialRecord) -> list[tuple[str, str]]:
    about = record.about
    rows: list[tuple[str, str]] = [
        (name, str(about[key]))
        for name, key in (("backend", "backend"), ("seed", "seed"), ("attempt", "attempt"), ("started", "started"))
        if about.get(key) is not None
    ]
    if about.get("seconds") is not None:
        rows.append(
            ("lasted", f"{about['seconds']:.1f} s" if isinstance(about["seconds"], float) else f"{about['seconds']} s")
        )
    versions = about.get("versions")
    if isinstance(versions, Mapping):
        rows += [(f"version of {name}", str(version)) for name, version in versions.items()]
    for ttl in sorted({lane.history.facts.ttl for lane in record.lanes if lane.history.facts.ttl}):
        rows.append(("time to live asked for", duration(ttl)))
    return rows


def _again(record: TrialRecord) -> str:
    about = record.about
    faults = dict.fromkeys(name for lane in record.lanes for name in lane.history.facts.fault_names) or {"none": None}
    words = [".venv/bin/python", "-m", "pytest", "suites/"]
    locks = about.get("locks") or {}
    for name in locks:
        words += ["--lock", str(name)]
    if about.get("backend") and not locks:
        words += ["--backend", str(about["backend"])]
    if about.get("version"):
        words += ["--version-of", f"{about['backend']}={about['version']}"]
    column = str(about.get("column") or "+".join(faults))
    words += ["--plan", "plan.json"] if about.get("own_plan") else ["--faults", column]
    if about.get("seed") is not None:
        words += ["--seed", str(about["seed"])]
    return shlex.join(words)


def _rest(about: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in about.items() if key not in _TOLD}
    return json.dumps(rest, indent=2, ensure_ascii=False, default=str) if rest else ""
