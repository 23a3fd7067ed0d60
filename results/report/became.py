"""What became of a verdict from one run to another: old word × new word, None where one of them did not judge it. Pure.

Comparisons, the news of a night, certificates and the page of all runs ask here, each for what it has to say.
"""

from enum import StrEnum
from typing import Final

from checkers.claims import Verdict

BLIND: Final = (Verdict.UNKNOWN, Verdict.UNEXERCISED)
"""Words that say nothing about the lock."""

ACCUSING: Final = (Verdict.VIOLATED, Verdict.HAZARD_NOT_SHOWN)
"""Words of a lock, or of our power to see what it does; the other failing ones only say that evidence is missing."""


class Kind(StrEnum):
    """What became of a cell. `NEW`: it fails now; `CLEARED`: it failed before."""

    NEW = "new"
    CLEARED = "cleared"
    CHANGED = "changed"
    SAME = "same"
    ONLY_IN_A = "only in A"
    ONLY_IN_B = "only in B"


class Place(StrEnum):
    """Where a cell belongs among the news."""

    RED = "red"
    LOST = "lost"
    KNOWN = "known"
    CLEARED = "cleared"
    MISSING = "missing"
    QUIET = "quiet"


def kind(old: Verdict | None, new: Verdict | None) -> Kind:
    """Whether it fails now, or failed before, or neither changed."""
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
    """Why it is worse, or empty. A claim that broke counts whatever the other run says, nothing included."""
    if new is Verdict.VIOLATED and old is not Verdict.VIOLATED:
        return "a claim broke"
    if new is Verdict.HAZARD_NOT_SHOWN and old is not None and not old.fails:
        return "a positive control fell silent"
    if new is Verdict.NOT_CLAIMED_BROKEN and old is Verdict.UPHELD:
        return "what was upheld broke, and is promised no longer"
    return ""


def lost(old: Verdict | None, new: Verdict | None) -> str:
    """Why nothing can be said of it any more, or empty. `unknown` and `unexercised` are heavier than `upheld`, yet they
    accuse no lock of anything.
    """
    if old is None or new is None or old in BLIND:
        return ""
    return f"it is {new} now" if new in BLIND else ""


def place(old: Verdict | None, new: Verdict | None, *, first: bool) -> Place:
    """Where it belongs among the news. first: there was nothing to compare with."""
    if new is None:
        return Place.MISSING
    if not (new.fails or worse(old, new)):
        return Place.CLEARED if kind(old, new) is Kind.CLEARED else Place.QUIET
    if first or worse(old, new):
        return Place.RED
    if new in ACCUSING:
        # What nobody could tell last night may have been silent for longer; it is told once.
        return Place.KNOWN if old is new or old is Verdict.VIOLATED else Place.RED
    return Place.KNOWN if old is not None and old.fails else Place.LOST
