"""Values out of JSON that somebody else wrote, each with the type that it must have: anything else is damage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, TypeVar

T = TypeVar("T")
_MOST = 2**63


class Damaged(ValueError):
    """A value is missing or of a wrong type. The text says which, in one line."""


def field(data: object, name: str, of: Callable[[object], T]) -> T:
    """The value of this name in an object, as `of` makes it. Raises Damaged."""
    holder = table(data)
    if name not in holder:
        raise Damaged(f"{name} is missing")
    try:
        return of(holder[name])
    except Damaged as error:
        raise Damaged(f"{name}: {error}") from None


def optional(of: Callable[[object], T]) -> Callable[[object], T | None]:
    """`of`, or null."""
    return lambda value: None if value is None else of(value)


def many(of: Callable[[object], T]) -> Callable[[object], tuple[T, ...]]:
    """A list of what `of` makes."""

    def made(value: object) -> tuple[T, ...]:
        return tuple(of(item) for item in listed(value))

    return made


def named(of: Callable[[object], T]) -> Callable[[object], dict[str, T]]:
    """An object with values that `of` makes."""

    def made(value: object) -> dict[str, T]:
        return {name: of(item) for name, item in table(value).items()}

    return made


def text(value: object) -> str:
    """Raises Damaged."""
    if not isinstance(value, str):
        raise Damaged(f"{_kind(value)} instead of a text")
    return value


def whole(value: object) -> int:
    """Of 64 bits, as times in ns are. Raises Damaged."""
    if type(value) is not int:
        raise Damaged(f"{_kind(value)} instead of a whole number")
    if not -_MOST <= value < _MOST:
        raise Damaged("a number that is too large")
    return value


def number(value: object) -> float:
    """Finite. Raises Damaged."""
    if type(value) is int:
        return whole(value)
    if not isinstance(value, float):
        raise Damaged(f"{_kind(value)} instead of a number")
    if not isfinite(value):
        raise Damaged("a number that is too large")
    return value


def boolean(value: object) -> bool:
    """Raises Damaged."""
    if not isinstance(value, bool):
        raise Damaged(f"{_kind(value)} instead of true or false")
    return value


def table(value: object) -> Mapping[str, Any]:
    """A JSON object. Raises Damaged."""
    if not isinstance(value, dict):
        raise Damaged(f"{_kind(value)} instead of an object")
    return value


def listed(value: object) -> Sequence[Any]:
    """A JSON list. Raises Damaged."""
    if not isinstance(value, list):
        raise Damaged(f"{_kind(value)} instead of a list")
    return value


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return kinds.get(type(value), "a number")
