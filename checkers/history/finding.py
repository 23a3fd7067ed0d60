"""What an engine finds, before it becomes a violation with a story."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One place where a condition fails."""

    kind: str  # what happened, in the terms of `checkers.properties.violation_stories`
    at: int  # ns; the instant from which the property is certainly broken
    rows: tuple[int, ...]  # the operations that prove it, the one that broke the rule last
    holders: tuple[int, ...] = ()  # acquire rows of the grants involved where known; else they follow from the rows


class OutOfBudget(Exception):
    """The search was given up, so that nothing is known. The text says how far it came."""
