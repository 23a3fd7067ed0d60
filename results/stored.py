"""Judgements as JSON and back: the contents of `verdicts.json`.

Stored are the judgement, its violations and its counters. Proofs are not: an order of 1e5 rows is longer than the
history's own file, and `python -m checkers FILE` makes it again from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from checkers.claims import Word
from checkers.judgement import Judgement
from checkers.verdict import Verdict, Violation

MOST_VIOLATIONS: Final = 100
"""Stored per judgement; their number is stored whole. The history tells the rest."""


def judgement_to_json(judgement: Judgement) -> dict[str, Any]:
    """Plain JSON."""
    verdict = judgement.verdict
    return {
        "property": judgement.property,
        "word": str(judgement.word),
        "because": judgement.because,
        "violation": None if judgement.violation is None else asdict(judgement.violation),
        "verdict": None
        if verdict is None
        else {
            "valid": verdict.valid,
            "violations_found": len(verdict.violations),
            "violations": [asdict(violation) for violation in verdict.violations[:MOST_VIOLATIONS]],
            "counters": {str(name): int(count) for name, count in verdict.counters.items()},
            "unexercised": verdict.unexercised,
            "reason": verdict.reason,
        },
    }


def judgement_from_json(data: Mapping[str, Any]) -> Judgement:
    """Raises KeyError, TypeError or ValueError."""
    verdict = data["verdict"]
    violation = data["violation"]
    return Judgement(
        str(data["property"]),
        Word(data["word"]),
        str(data["because"]),
        None
        if verdict is None
        else Verdict(
            property=str(data["property"]),
            valid=verdict["valid"],
            violations=tuple(_violation(item) for item in verdict["violations"]),
            counters={str(name): int(count) for name, count in verdict["counters"].items()},
            unexercised=verdict["unexercised"],
            reason=verdict["reason"],
        ),
        None if violation is None else _violation(violation),
    )


def _violation(data: Mapping[str, Any]) -> Violation:
    return Violation(
        kind=str(data["kind"]),
        at=int(data["at"]),
        rows=tuple(int(row) for row in data["rows"]),
        holders=tuple(int(row) for row in data["holders"]),
        story=tuple(str(line) for line in data["story"]),
    )
