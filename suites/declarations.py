"""The types of the declarations of locks (`suites.lock.Declarations`), each with its validator."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args

LEASES: Final = ("grant", "touch", "session", "quorum", "none")


@dataclass(frozen=True, slots=True)
class Must:
    """A validator. fits: whether a value is allowed; answer: what the user is told if it is not."""

    fits: Callable[[Any], bool]
    answer: str


def number(value: object) -> bool:
    """bool is an int to Python, and here a mistake."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def texts(value: object) -> bool:
    """Whether it is a sequence of texts and not a text."""
    return isinstance(value, tuple | list) and all(isinstance(item, str) for item in value)


Flag = Annotated[bool, Must(lambda value: isinstance(value, bool), "it must be True or False")]
Seconds = Annotated[
    float, Must(lambda value: number(value) and value >= 0, "it must be a number of seconds, 0 or more")
]
Ttl = Annotated[
    float, Must(lambda value: number(value) and value > 0, "it must be a number of seconds above 0, for example 2.0")
]
Fraction = Annotated[
    float,
    Must(lambda value: number(value) and 0 <= value < 1, "it must be a fraction from 0 up to 1, for example 0.01"),
]
Count = Annotated[int, Must(lambda value: type(value) is int and value > 0, "it must be a whole number, 1 or more")]
Bounds = Annotated[
    Mapping[str, float],
    Must(lambda value: isinstance(value, Mapping), "it must be a dict, for example {'recovery': 2.0}"),
]
Patterns = Annotated[tuple[str, ...], Must(texts, "it must be a tuple of patterns, for example ('register/*',)")]
Lease = Annotated[str, Must(lambda value: value in LEASES, f"there are: {', '.join(LEASES)}")]


def validators(cls: type) -> dict[str, Must]:
    """Name → validator, of the declarations that this class annotates with one of these types."""
    kinds = {name: get_args(annotation)[0] for name, annotation in cls.__annotations__.items()}
    return {name: kind.__metadata__[0] for name, kind in kinds.items() if hasattr(kind, "__metadata__")}
