"""What a measure says: numbers with names and units, what they mean, and why they may mean nothing.

A measure is no verdict. It counts and times what the models and properties do not ask, or do not count, and is never a
reason to fail; an `alert` is for people to look at.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Final, Literal

from checkers.history.counting import Ints
from checkers.measures.measured_history import MeasuredHistory

WITNESSES: Final = 5  # witnesses that one measure names at most

Unit = Literal["count", "ns", "ratio"]


@dataclass(frozen=True, slots=True)
class Value:
    """One number. Counts and ns are integers, ratios floats."""

    name: str
    number: int | float | None  # None: not reached or not known, which the measure's definition explains
    unit: Unit
    of: str = ""  # what it is about where there are several of a kind: a phase, a fault, a process; else empty


@dataclass(frozen=True, slots=True)
class Reading:
    """What a measure says, before it is given its name; fields as of `Measure`."""

    values: Sequence[Value] = ()
    unexercised: str | None = None
    rows: tuple[tuple[int, ...], ...] = ()
    alert: str | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """The answer of one measure on one history."""

    name: str
    definition: str  # what is measured, in one line; conditions and sources stand with the function
    values: tuple[Value, ...]  # empty where nothing can be said at all
    unexercised: str | None = None  # why the values say nothing about the lock, or None
    rows: tuple[tuple[int, ...], ...] = ()  # witnesses: row numbers of the few operations of each of the first cases
    alert: str | None = None  # why somebody should look at this, or None
    property: str | None = None  # the property that judges the same matter: its result weighs, these numbers explain

    def __getitem__(self, name: str) -> int | float | None:
        """The number of that name, ``name@of`` where there are several of it. Raises KeyError."""
        for value in self.values:
            if name == (f"{value.name}@{value.of}" if value.of else value.name):
                return value.number
        raise KeyError(name)


Obstacle = Literal[
    "unasked", "no_lock", "unreleased", "unstruck", "no_clock", "no_fence", "fenced", "endless", "crowded", "untimed"
]
"""An attribute of `MeasuredHistory`: why a history has nothing of what a measure looks at, or None."""

Gauge = Callable[[MeasuredHistory], Measure]


def measure(
    name: str, *obstacles: Obstacle, judged_by: str | None = None
) -> Callable[[Callable[[MeasuredHistory], Reading]], Gauge]:
    """Makes a function the measure of that name. The first paragraph of its docstring is the definition.

    obstacles  if a history has any, the first is all that is said of it. With `untimed` the function gets times.
    """

    def decorate(read: Callable[[MeasuredHistory], Reading]) -> Gauge:
        definition = " ".join((inspect.getdoc(read) or "").split("\n\n")[0].split())

        @wraps(read)
        def gauge(measured: MeasuredHistory) -> Measure:
            reason = next((why for why in (getattr(measured, name) for name in obstacles) if why), None)
            timed = "untimed" in obstacles
            reading = Reading(unexercised=reason) if reason else read(measured.timed if timed else measured)
            # A measure that gives an alert was exercised.
            unexercised = None if reading.alert else reading.unexercised
            return Measure(name, definition, tuple(reading.values), unexercised, reading.rows, reading.alert, judged_by)

        return gauge

    return decorate


def counts(of: str = "", /, **numbers: int) -> list[Value]:
    return [Value(name, int(number), "count", of) for name, number in numbers.items()]


def durations(of: str = "", /, **numbers: int | None) -> list[Value]:
    """numbers: ns."""
    return [Value(name, None if ns is None else int(ns), "ns", of) for name, ns in numbers.items()]


def ratio(name: str, number: float | None) -> Value:
    return Value(name, None if number is None else float(number), "ratio")


def witnesses(*columns: Sequence[int] | Ints) -> tuple[tuple[int, ...], ...]:
    """The first few rows of parallel columns."""
    return tuple(tuple(int(row) for row in rows) for rows in zip(*(c[:WITNESSES] for c in columns), strict=True))
