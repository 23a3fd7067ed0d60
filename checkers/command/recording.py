"""A recording, judged again under the properties that it was made for."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from checkers.check import check
from checkers.command.report import Told
from checkers.history.history import BadHistory, History
from checkers.judging.judgement import Judgement, judge_all
from checkers.properties.check_result import Verdict
from checkers.properties.register import PROPERTIES


def judged(file: Path, history: History, properties: Sequence[str] | None, *, explain: bool) -> Told:
    """The answer on one file. Raises BadHistory."""
    strange = [name for name in history.facts.properties if name not in PROPERTIES]
    if strange and not properties:
        raise BadHistory(f"{file}: names a property that this version does not know: {', '.join(strange)}")
    verdicts = check(history, properties)
    judgements = judge_all(verdicts, history)
    found = [verdict.valid for verdict in verdicts]
    undecided = ", ".join(verdict.property for verdict in verdicts if verdict.valid is None)
    broken = ", ".join(verdict.property for verdict in verdicts if verdict.valid is False)
    first = next((violation for verdict in verdicts for violation in verdict.violations), None)
    return Told(
        False if False in found else None if None in found else True,
        "",
        len(history),
        tuple(_lines(file, history, verdicts, judgements, explain=explain)),
        None if first is None else asdict(first),
        f"violated: {broken}" if broken else f"undecided: {undecided}" if undecided else "",
        {
            "lane": history.facts.lane,
            "faults": history.facts.fault_names,
            "verdicts": [_as_json(*both) for both in zip(verdicts, judgements, strict=True)],
        },
    )


def _lines(
    file: Path, history: History, verdicts: Sequence[Verdict], judgements: Sequence[Judgement], *, explain: bool
) -> Iterator[str]:
    facts = history.facts
    yield f"{file}: {facts.lane} under {', '.join(facts.fault_names) or 'no fault'}, {len(history)} operations"
    for verdict, judgement in zip(verdicts, judgements, strict=True):
        yield f"  {verdict.property:<18} {_in_short(verdict):<28} {judgement.word}: {judgement.because}"
        stories = verdict.violations if explain else verdict.violations[:1]
        for violation in stories:
            yield from (f"      {sentence}" for sentence in violation.story)
        if len(stories) < len(verdict.violations):
            yield f"      and {len(verdict.violations) - len(stories)} more (--explain)"


def _in_short(verdict: Verdict) -> str:
    if verdict.violations:
        return f"invalid ({len(verdict.violations)})"
    if verdict.valid is None:
        return "unknown"
    return "valid" if verdict.unexercised is None else "valid, unexercised"


def _as_json(verdict: Verdict, judgement: Judgement) -> dict[str, Any]:
    return {**asdict(verdict), "word": judgement.word, "because": judgement.because}
