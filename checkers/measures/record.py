"""What a measure says: numbers with names and units, what they mean, and why they may mean nothing.

A measure is no verdict. It counts and times what the models and properties do not ask, or do not count, and is never a
reason to fail; an `alert` is for people to look at.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Final, Literal

from checkers.history.counting import Ints
from checkers.measures.measured_history import Subject

WITNESSES: Final = 5
"""Witnesses that one measure names at most."""

Unit = Literal["count", "ns", "ratio"]


@dataclass(frozen=True, slots=True)
class Value:
    """One number. Counts and ns are integers, ratios floats.

    number  None: not reached or not known, which the measure's definition explains.
    of      what it is about where a measure has several of a kind: a phase, a fault, a process; else empty.
    """

    name: str
    number: int | float | None
    unit: Unit
    of: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a measure found, before it is given its name; fields as of `Measure`."""

    values: tuple[Value, ...] = ()
    unexercised: str | None = None
    rows: tuple[tuple[int, ...], ...] = ()
    alert: str | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """The answer of one measure on one history.

    definition   what is measured, in one line; conditions and sources stand with the function.
    values       empty where nothing can be said at all.
    unexercised  why the values say nothing about the lock, or None.
    rows         witnesses: the few operations of each of the first cases, as row numbers of the history.
    alert        why somebody should look at this, or None.
    property     the property that judges the same matter, or None: its verdict weighs, these numbers explain.
    """

    name: str
    definition: str
    values: tuple[Value, ...]
    unexercised: str | None = None
    rows: tuple[tuple[int, ...], ...] = ()
    alert: str | None = None
    property: str | None = None

    def __getitem__(self, name: str) -> int | float | None:
        """The number of that name, ``name@of`` where there are several of it. Raises KeyError."""
        for value in self.values:
            if name == (f"{value.name}@{value.of}" if value.of else value.name):
                return value.number
        raise KeyError(name)


def measure(name: str, *, judged_by: str | None = None) -> Callable[[Callable[[Subject], Finding]], Gauge]:
    """Makes a function the measure of that name. The first paragraph of its docstring is the definition."""

    def decorate(find: Callable[[Subject], Finding]) -> Gauge:
        definition = " ".join((inspect.getdoc(find) or "").split("\n\n")[0].split())

        @wraps(find)
        def gauge(subject: Subject) -> Measure:
            found = find(subject)
            # What gives rise to an alert was exercised.
            unexercised = None if found.alert else found.unexercised
            return Measure(name, definition, found.values, unexercised, found.rows, found.alert, judged_by)

        return gauge

    return decorate


Gauge = Callable[[Subject], Measure]


def count(name: str, number: int, of: str = "") -> Value:
    """A number of things."""
    return Value(name, int(number), "count", of)


def ns(name: str, number: int | None, of: str = "") -> Value:
    """A length of time."""
    return Value(name, None if number is None else int(number), "ns", of)


def ratio(name: str, number: float | None, of: str = "") -> Value:
    """A part of a whole, or one number by another."""
    return Value(name, None if number is None else float(number), "ratio", of)


def silent(reason: str) -> Finding:
    """Nothing can be measured."""
    return Finding(unexercised=reason)


def witnesses(*columns: Sequence[int] | Ints) -> tuple[tuple[int, ...], ...]:
    """The first few rows of parallel columns."""
    return tuple(tuple(int(row) for row in rows) for rows in zip(*(c[:WITNESSES] for c in columns), strict=True))
