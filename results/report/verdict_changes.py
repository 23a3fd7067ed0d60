"""How a verdict changed from one run to another, by its old and new word; None: the run did not judge it. Pure."""

from enum import StrEnum
from typing import Final

from checkers.claims import Verdict

BLIND: Final = (Verdict.UNKNOWN, Verdict.NOT_STRESSED)
"""Words that say nothing about the lock."""
ACCUSING: Final = (Verdict.VIOLATED, Verdict.WEAKNESS_NOT_SHOWN)
"""Failing words that accuse a lock, or our power to detect; the other failing words say that evidence is missing."""


class Kind(StrEnum):
    """How a cell changed. `NEW`: it fails now and did not before; `CLEARED`: it failed before and does not now."""

    NEW = "new"
    CLEARED = "cleared"
    CHANGED = "changed"
    SAME = "same"
    ONLY_IN_A = "only in A"
    ONLY_IN_B = "only in B"


class NewsPlace(StrEnum):
    """Where a cell belongs among the news."""

    RED = "red"
    LOST = "lost"
    KNOWN = "known"
    CLEARED = "cleared"
    MISSING = "missing"
    QUIET = "quiet"


def kind(old: Verdict | None, new: Verdict | None) -> Kind:
    if old is None:
        return Kind.ONLY_IN_B
    if new is None:
        return Kind.ONLY_IN_A
    if old is new:
        return Kind.SAME
    if old.fails == new.fails:
        return Kind.CHANGED
    return Kind.NEW if new.fails else Kind.CLEARED


def worse(old: Verdict | None, new: Verdict | None) -> str:
    """Why the new verdict is worse, or empty. A claim that broke is worse whatever the old run said."""
    if new is Verdict.VIOLATED and old is not Verdict.VIOLATED:
        return "a promise broke"
    if new is Verdict.WEAKNESS_NOT_SHOWN and old is not None and not old.fails:
        return "a known weakness no longer shows"
    if new is Verdict.NOT_PROMISED_BROKEN and old is Verdict.UPHELD:
        return "what was upheld broke, and is promised no longer"
    return ""


def lost(old: Verdict | None, new: Verdict | None) -> str:
    """Why the new run lost the evidence that the old one had, or empty. `unknown` and `not stressed` are heavier than
    `upheld`, but they do not accuse the lock.
    """
    return f"it is {new} now" if new in BLIND and old is not None and old not in BLIND else ""


def place(old: Verdict | None, new: Verdict | None, *, first: bool) -> NewsPlace:
    """Where a cell belongs among the news. first: there is no earlier run to compare with."""
    if new is None:
        return NewsPlace.MISSING
    if not (new.fails or worse(old, new)):
        return NewsPlace.CLEARED if kind(old, new) is Kind.CLEARED else NewsPlace.QUIET
    if first or worse(old, new):
        return NewsPlace.RED
    if new in ACCUSING:
        # A control without a verdict last night may have been silent before that: it is reported once.
        return NewsPlace.KNOWN if old is new or old is Verdict.VIOLATED else NewsPlace.RED
    return NewsPlace.KNOWN if old is not None and old.fails else NewsPlace.LOST
