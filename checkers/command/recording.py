"""A recording, judged again under the properties that it was made for."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from checkers.check import check
from checkers.command.file_result import FileResult
from checkers.history.history import BadHistory, History
from checkers.judging.judgement import Judgement, judge_all
from checkers.properties.all_properties import PROPERTIES
from checkers.properties.check_result import CheckResult


def result(file: Path, history: History, properties: Sequence[str], *, explain: bool) -> FileResult:
    """The answer on one file. Raises BadHistory."""
    strange = [name for name in history.facts.properties if name not in PROPERTIES]
    if strange and not properties:
        raise BadHistory(f"{file}: names a property that this version does not know: {', '.join(strange)}")
    results = check(history, properties or None)
    judgements = judge_all(results, history)
    valid = [result.valid for result in results]
    undecided = ", ".join(result.property for result in results if result.valid is None)
    broken = ", ".join(result.property for result in results if result.valid is False)
    first = next((violation for result in results for violation in result.violations), None)
    pairs = zip(results, judgements, strict=True)
    verdicts = [{**asdict(result), "word": judged.word, "because": judged.because} for result, judged in pairs]
    return FileResult(
        False if False in valid else None if None in valid else True,
        "",
        len(history),
        tuple(_lines(file, history, results, judgements, explain=explain)),
        None if first is None else asdict(first),
        f"violated: {broken}" if broken else f"undecided: {undecided}" if undecided else "",
        {"lane": history.facts.lane, "faults": history.facts.fault_names, "verdicts": verdicts},
    )


def _lines(
    file: Path, history: History, results: Sequence[CheckResult], judgements: Sequence[Judgement], *, explain: bool
) -> Iterator[str]:
    facts = history.facts
    yield f"{file}: {facts.lane} under {', '.join(facts.fault_names) or 'no fault'}, {len(history)} operations"
    for result, judgement in zip(results, judgements, strict=True):
        yield f"  {result.property:<18} {_in_short(result):<28} {judgement.word}: {judgement.because}"
        stories = result.violations if explain else result.violations[:1]
        for violation in stories:
            yield from (f"      {sentence}" for sentence in violation.story)
        if len(stories) < len(result.violations):
            yield f"      and {len(result.violations) - len(stories)} more (--explain)"


def _in_short(result: CheckResult) -> str:
    if result.violations:
        return f"invalid ({len(result.violations)})"
    if result.valid is None:
        return "unknown"
    return "valid" if result.unexercised is None else "valid, unexercised"
