"""The findings of an engine, before they become violations with stories."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One place where a condition fails."""

    kind: str  # what happened, in the terms of `checkers.properties.violation_stories`
    at: int  # ns; the instant from which the property is certainly broken
    rows: tuple[int, ...]  # the operations that prove it; the operation that broke the rule is the last
    holders: tuple[int, ...] = ()  # acquire rows of the grants involved, if known; else they follow from the rows
    conclusion: str = ""  # the last sentence of its story, if that is not `CONCLUSIONS` of its kind


class OutOfBudget(Exception):
    """The search was given up, so the answer is unknown. The text says how far the search came."""
