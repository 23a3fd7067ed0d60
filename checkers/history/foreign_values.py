"""Values of files from elsewhere: hashable, interned, and different values are never mistaken for one another."""

import json
from collections.abc import Hashable, Iterable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import inf, isfinite
from typing import Any, Final, NoReturn

DEEPEST: Final = 100
"""How deep a value may be nested. Python hashes and compares nested tuples by recursion, without a limit of its own."""
SHOWN: Final = 60  # characters of a file's own text that an error message repeats
_ODD: Final = (bool, float, Fraction, Decimal)
"""Types whose values may equal an integer in Python without being an integer."""


class FrozenMap(tuple[tuple[Any, Any], ...]):
    """A map as the tuple of its pairs, sorted. It never equals a sequence of the same pairs."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(other) is FrozenMap and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((FrozenMap, *self))


def frozen_map(pairs: Iterable[tuple[Any, Any]]) -> FrozenMap:
    """A map of hashable keys and values. Raises ValueError for a key that occurs twice."""
    ordered = sorted(((spelled(key), key, value) for key, value in pairs), key=lambda pair: pair[0])
    for (text, key, _), (other, _, _) in pairwise(ordered):
        if text == other:
            raise ValueError(f"{shown(plain(key))} stands twice in one map")
    return FrozenMap((key, value) for _, key, value in ordered)


def spelled(value: Any) -> str:
    """A value as text. Different values have different texts."""
    if isinstance(value, FrozenMap):
        return "{" + ", ".join(f"{spelled(key)}: {spelled(item)}" for key, item in value) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(spelled, value)) + "]"
    if isinstance(value, frozenset):
        return "#{" + ", ".join(sorted(map(spelled, value))) + "}"
    if value is None or isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    return f"{value}M" if isinstance(value, Decimal) else str(value)


def plain(value: Any) -> str:
    """A value as text for people: strings stand without quotes."""
    return value if isinstance(value, str) else spelled(value)


def shown(text: str, longest: int = SHOWN) -> str:
    """Text from elsewhere, made fit for a message: on one line, and short."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: longest + 1])
    return text if len(text) <= longest else text[: longest - 3] + "..."


def whole(text: str) -> int:
    """The integer of a text of digits, with the N of EDN or without. Raises ValueError."""
    if len(text) > 1000:
        raise ValueError("a number of more than 1000 digits")
    return int(text.rstrip("N"))


def finite(text: str) -> float:
    """The number of a text. Raises ValueError if it is out of range."""
    value = float(text) if len(text) <= 1000 else inf
    if not isfinite(value):
        raise ValueError(f"{shown(text)} is out of range")
    return value


def encodable(text: str) -> str:
    """The text itself. Raises ValueError if half of a character stands in it alone."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("a string with half a character") from error
    return text


def no_value(text: str) -> NoReturn:
    """Raises ValueError: for what can be read and not be compared, such as NaN."""
    raise ValueError(f"{text} is no value that could be compared")


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | frozenset):
        for item in value:
            yield from leaves(item)
    else:
        yield value


class Atoms:
    """Interns the values of a field, by index. odd: some hold numbers that may equal an integer of another type."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[Hashable, int] = {}
        self.odd = False

    def intern(self, value: Any) -> int:
        """Index of the value. Only equal values of the same type share an index."""
        return self.intern_all((value,))[0]

    def intern_all(self, values: Iterable[Any], *, simple: bool = False) -> list[int]:
        """As `intern`, for several values. simple: whether they are known to hold no numbers but integers."""
        places, known = self._places, self.values
        result = []
        for value in values:
            key = value
            if not simple and type(value) not in (int, str) and any(isinstance(leaf, _ODD) for leaf in leaves(value)):
                key = (Atoms, spelled(value))
                self.odd = True
            place = places.setdefault(key, len(known))
            if place == len(known):
                known.append(value)
            result.append(place)
        return result

    def find(self, value: Any) -> int:
        """Index of a plain value, -2 if it does not occur."""
        return self._places.get(value, -2)

    def confusion(self, used: Iterable[int]) -> tuple[int, str] | None:
        """Index of the first value with a number that equals one of another type, and the message on it; or None."""
        known: dict[Any, Any] = {}
        for place in used:
            for leaf in leaves(self.values[place]):
                if isinstance(leaf, (int, *_ODD)):
                    other = known.setdefault(leaf, leaf)
                    if type(other) is not type(leaf):
                        both = f"{spelled(other)} and {spelled(leaf)}"
                        return place, f"{both} are both values here, and would compare as equal"
        return None
