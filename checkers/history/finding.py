"""What an engine finds, before it becomes a violation with a story."""

from typing import NamedTuple


class Finding(NamedTuple):
    """One place where a condition fails.

    kind     what happened, in the terms of `checkers.properties.stories`.
    at       ns; the instant from which the property is certainly broken.
    rows     the operations that prove it, the one that broke the rule last.
    holders  acquire rows of the grants involved where the engine knows them; else they follow from the rows.
    """

    kind: str
    at: int
    rows: tuple[int, ...]
    holders: tuple[int, ...] = ()


class OutOfBudget(Exception):
    """The search was given up, so that nothing is known. The text says how far it came."""
