"""What faults, locks, properties and mechanisms are, in a few sentences, and in which group a fault is.

A run stores what its faults and locks are (`described`, in what was asked for). Older runs did not: the names of their
faults tell the groups. The texts on properties and mechanisms are the docstrings of the checkers.
"""

import inspect
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from checkers.claims import NO_FAULT, matches
from checkers.judging.excuses_by_fault import MECHANISMS
from checkers.properties.all_properties import PROPERTIES
from results.record import mapping

WORDS: Final = tomllib.loads(Path(__file__).with_name("words.toml").read_text("utf-8"))
GROUPS: Final[Mapping[str, str]] = WORDS["groups"]
"""Group of faults → what they have in common; in the order in which they stand."""
SEVERAL: Final = "several"
UNGROUPED: Final = "faults"
WITHOUT: Final = "no fault"
OTHER: Final = "other"
COLUMNS: Final = (WITHOUT, *(name for name in GROUPS if name not in (SEVERAL, UNGROUPED)), OTHER)
"""The groups of single faults, and the group of no fault."""
_PAUSES: Final = ("freeze-*", "late-write")

_WITHOUT: Final = "No fault is applied. What breaks here breaks by itself."
_MOST: Final = 5  # the most sentences of a description
_LONGEST: Final = 1500  # the most characters of a description, which comes from a file of the user's
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")
_NAMES: Final = re.compile(r"\A`[^:]*: ")  # the names of properties in front of what their module says of them
_MECHANISM: Final = re.compile(r"\b(?:explained by|which|or) ([a-z]+(?:-[a-z]+)+)")


@dataclass(frozen=True, slots=True)
class Descriptions:
    """The descriptions of the faults (columns of the matrix) and locks of a run. groups: fault → its group."""

    faults: Mapping[str, str]
    groups: Mapping[str, str]
    locks: Mapping[str, str]

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> Self:
        """The descriptions that are stored in what was asked for. Values of any other shape are ignored."""
        stored = mapping(about.get("described"))
        faults = {name: mapping(each) for name, each in mapping(stored.get("faults")).items()}
        return cls(
            {NO_FAULT: _WITHOUT} | {name: _few_sentences(each.get("text")) for name, each in faults.items()},
            {name: str(each["group"]) or SEVERAL for name, each in faults.items() if "group" in each},
            {name: _few_sentences(text) for name, text in mapping(stored.get("locks")).items()},
        )

    def group(self, fault: str) -> str:
        """The group of a column: one of `GROUPS`; empty without a fault."""
        if fault == NO_FAULT:
            return ""
        by_name = groups(fault)
        group = self.groups.get(fault, by_name[0] if len(by_name) == 1 else SEVERAL)
        return group if group in GROUPS else UNGROUPED


def fault_name(fault: str) -> str:
    return WITHOUT if fault == NO_FAULT else fault


def groups(fault: str) -> tuple[str, ...]:
    """The groups of a fault, or of several that overlap (a+b), in the order of `COLUMNS`."""
    hit = {
        next((group for group, patterns in WORDS["patterns"].items() if matches(name, patterns)), OTHER)
        for name in fault.split("+")
    }
    return tuple(name for name in COLUMNS if name in hit)


def pauses(fault: str) -> bool:
    """Whether a fault freezes a worker while the worker holds the lock."""
    return any(matches(name, _PAUSES) for name in fault.split("+"))


@cache
def property_text(name: str) -> str:
    """What a property asks; empty for one that this version does not know.

    Of a module with several properties: its first sentence, and the sentences that name this property.
    """
    if name not in PROPERTIES:
        return ""
    text = _NAMES.sub("", inspect.getdoc(inspect.getmodule(PROPERTIES[name].examine)) or "")
    first, *rest = [sentence for sentence in _sentences(text) if not sentence.startswith("Source: ")]
    return _few_sentences(" ".join([first, *([each for each in rest if f"`{name}`" in each] or rest)]))


@cache
def mechanism(name: str) -> str:
    """How a fault or a mistake breaks a lock, as half a sentence; empty for one that this version does not know."""
    text = inspect.getdoc(MECHANISMS[name]) if name in MECHANISMS else None
    first = re.split(r":|\.(?:\s|$)", " ".join((text or "").split()), maxsplit=1)[0]
    return first[:1].lower() + first[1:]


def meaning(because: str) -> str:
    """The first mechanism that a reason names (as explaining something, or not), in words; empty if it names none."""
    match = _MECHANISM.search(because)
    return mechanism(match[1]) if match else ""


def explained(text: str) -> str:
    """The text, with each mechanism that it names (as explaining something, or not) in words behind the name."""

    def in_words(match: re.Match[str]) -> str:
        words = mechanism(match[1])
        return f"{match[0]} ({words})" if words else match[0]

    return _MECHANISM.sub(in_words, text)


def _few_sentences(text: object) -> str:
    """The first sentences of a docstring, as plain text; empty where it is no text."""
    made = " ".join(_sentences(text)[:_MOST]).replace("`", "") if isinstance(text, str) else ""
    return made[:1].upper() + made[1:_LONGEST]


def _sentences(text: str) -> Sequence[str]:
    return _SENTENCE.split(" ".join(text.split())) if text.strip() else []
