"""Values of a run folder as JSON and back: judgements, cells, lanes with their measures, what was not run.

A judgement is stored with its violations and counters, but without its proof: an order of 1e5 rows is longer than the
history, and `python -m checkers FILE` makes it again from the history.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypedDict, TypeVar

import msgspec

from checkers.claims import Verdict
from checkers.judging.judgement import Judgement
from checkers.properties.check_result import CheckResult, Violation
from results.record import Count, decisive
from results.storage.files import BadFile
from results.text import in_a_line

MOST_VIOLATIONS: Final = 100
"""The most violations that are stored of a judgement. Their whole number is stored as well."""
_PAGE: Final = re.compile(r"trials/(?!\.\.?/)[^/\\\0]+/index\.html")
"""The path that `encoded` writes for a page. Any other path may lead out of the folder."""

T = TypeVar("T")


def decoded(data: object, of: type[T], file: Path) -> T:
    """JSON that was read from a file, as a value of a type. Unknown keys are ignored.

    Pages become paths in the folder of the file. Raises BadFile with the place in the file and what was expected.
    """

    def page(_: type, value: object) -> Path:
        if not (isinstance(value, str) and _PAGE.fullmatch(value)):
            raise ValueError("Expected the page of a trial of this run")
        return file.parent / value

    try:
        return msgspec.convert(data, of, dec_hook=page)
    except msgspec.ValidationError as error:
        raise BadFile(f"{file}: damaged ({in_a_line(str(error))})") from error
    except UnicodeEncodeError:
        # msgspec fails on a lone surrogate in a key, or where no text is expected.
        return decoded(json.loads(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")), of, file)


def encoded(value: object, root: Path) -> Any:
    """A cell, a lane, ... as plain JSON. Pages are relative to the run folder `root`."""
    return msgspec.to_builtins(value, enc_hook=lambda page: page.relative_to(root).as_posix())


def judgement_to_json(judgement: Judgement, story: Sequence[str] = ()) -> dict[str, Any]:
    """A judgement as plain JSON. story: of the violation that decided the verdict, as pages show it."""
    result = judgement.result
    return {
        "property": judgement.property,
        "word": str(judgement.word),
        "because": judgement.because,
        "told": list(story),
        "violation": None if judgement.violation is None else asdict(judgement.violation),
        "verdict": None
        if result is None
        else {
            "valid": result.valid,
            "violations_found": len(result.violations),
            "violations": [asdict(violation) for violation in result.violations[:MOST_VIOLATIONS]],
            "counters": {str(name): int(count) for name, count in result.counters.items()},
            "unexercised": result.unexercised,
            "reason": result.reason,
        },
    }


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A checker's answer, without the name of its property."""

    valid: bool | None
    violations: tuple[Violation, ...]
    counters: Mapping[str, int]
    unexercised: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class StoredJudgement:
    """What `judgement_to_json` gives. told: the story; empty if it was not stored."""

    property: str
    word: Verdict
    because: str
    verdict: StoredResult | None
    violation: Violation | None
    told: tuple[str, ...] = ()

    def judgement(self) -> Judgement:
        """The judgement, without the story."""
        result = None
        if (v := self.verdict) is not None:
            result = CheckResult(self.property, v.valid, v.violations, v.counters, v.unexercised, v.reason)
        return Judgement(self.property, self.word, self.because, result, self.violation)

    def story(self) -> tuple[str, ...]:
        """The story of the violation that decided the verdict; all sentences of the checker if none was stored."""
        violation = decisive(self.judgement())
        return self.told or (violation.story if violation is not None else ())


class RunFile(TypedDict):
    """run.json: what was asked for, and when it started (ISO 8601)."""

    started: str
    about: dict[str, Any]


class Rolled(TypedDict):
    """A server that was replaced by one of another version, or was not (`refused`); or a fault in the meantime."""

    at: float  # seconds since the first operation
    what: str
    refused: bool


class Struck(TypedDict):
    """A verb of a lane: how many messages it takes, and the numbers of those at which a fault struck."""

    messages: Count
    hit: tuple[Count, ...]


class About(TypedDict, total=False):
    """The keys of a trial's `about` (see `TrialRecord`) whose types are checked."""

    backend: str | None
    column: str | None
    plan: Mapping[str, Any] | None
    plan_lines: tuple[str, ...] | None
    own_plan: bool | None
    seed: int | None
    attempt: int | None
    version: str | None  # asked for
    stage: str | None  # of an upgrade
    versions: Mapping[str, str] | None  # of each server
    locks: Mapping[str, str] | None
    started: str | None  # ISO 8601
    seconds: float | None
    rolled: tuple[Rolled, ...] | None
    stalled: float | None  # the share of their time for which the machine did not run the workers
    planted: Mapping[str, str] | None
    boundaries: Mapping[str, Mapping[str, Struck]] | None  # lane → verb
    no_way_there: str | None
    error: str | None  # why it was aborted
