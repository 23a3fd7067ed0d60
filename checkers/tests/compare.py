"""What a comparison with exhaustive search says."""

from __future__ import annotations

from checkers.property import Property
from checkers.tests.build import Book
from checkers.verdict import Verdict
from checkers.view import View


class Disagreement(AssertionError):
    """The checker and exhaustive search differ; the text has the history."""


def compare(valid: bool | None, truth: bool, what: object) -> str:
    """The word for an agreement."""
    if valid is not truth:
        raise Disagreement(f"checker says {valid}, exhaustive search {truth}:\n{what}")
    return "valid" if truth else "invalid"


def sound(valid: bool | None, truth: bool, what: object) -> str:
    """As `compare`, of a checker that need not see everything: what it calls invalid must be so."""
    if truth and not valid:
        raise Disagreement(f"a false alarm:\n{what}")
    return f"{'valid' if truth else 'invalid'}, {'seen' if valid is truth else 'missed'}"


def verdict_on(book: Book, property: Property) -> Verdict:
    """The verdict, whose violations must be fit to be told."""
    history = book.history()
    verdict = property.verdict(View(history))
    for violation in verdict.violations:
        assert violation.story
        assert all(0 <= row < len(history) for row in (*violation.rows, *violation.holders))
    return verdict
