"""The options of `pytest suites/` that set something of every lane (`suites.lanes.lane.Load`)."""

import math
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from suites.lanes.lane import WORKLOADS, Load
from suites.selection.bad_option import BadOption

MOST_WORKERS: Final = 1_000
MOST_KEYS: Final = 100_000


def whole(least: int, most: int, because: str = "") -> Callable[[str], int]:
    """The type of an option: a whole number between these two."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and least <= int(text[:9]) <= most):
            raise ArgumentTypeError(f"{text}: expected a whole number from {least} to {most}{because}")
        return int(text)

    return parse


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise ArgumentTypeError(f"{text}: expected a number above 0")
    return number


LOAD: Final[Mapping[str, Mapping[str, Any]]] = {
    "--workload": {
        "action": "append",
        "default": [],
        "metavar": "NAME",
        "help": "only this workload, also of a lock that does not declare it; repeatable. One of: "
        + ", ".join(WORKLOADS),
    },
    "--workers": {
        "type": whole(2, MOST_WORKERS, ": with one worker nothing is contended"),
        "metavar": "N",
        "help": "how many workers compete for the locks of each lane",
    },
    "--keys": {
        "type": whole(1, MOST_KEYS),
        "metavar": "K",
        "help": "how many locks each lane has; where more than workers, every other round asks for the first",
    },
    "--ttl": {
        "type": _positive,
        "metavar": "S",
        "help": "TTL of every lock, in seconds (default: the shortest that each lock is worth trying with)",
    },
    "--rate": {
        "type": _positive,
        "metavar": "R",
        "help": "how many rounds the workers of each lane begin per second, whether those before have ended or not",
    },
    "--duration": {"type": _positive, "metavar": "S", "help": "seconds for which each trial runs at least"},
}
"""Spelling → what pytest's `addoption` takes besides."""


def load(option: Any) -> Load:
    """option: pytest's parsed options. Raises BadOption for a workload that does not exist."""
    for name in option.workload:
        if name not in WORKLOADS:
            raise BadOption(f"unknown workload {name!r}; there are: {', '.join(WORKLOADS)}")
    given = {field.name: getattr(option, field.name) for field in fields(Load)}
    return Load(**{**given, "workload": tuple(dict.fromkeys(option.workload))})
