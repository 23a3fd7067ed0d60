"""Claims and hazards: what a lock promises, what it is documented to break, and the verdicts on what was seen.

Suites declare them, a run folder stores them with each history, and `checkers.judging.judgement` judges from there.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

NO_FAULT: Final = "none"
ANY: Final = "*"
FROZEN: Final = "frozen-past-ttl"
"""A mechanism of `checkers.judging.excuses_by_fault`. It is here because locks name it, and workers load no judge."""


class Verdict(StrEnum):
    """The nine verdicts, heaviest first. The first four fail the test."""

    VIOLATED = "violated"
    WEAKNESS_NOT_SHOWN = "known weakness did not show"
    UNKNOWN = "unknown"
    NOT_STRESSED = "not stressed"
    WEAKNESS_SHOWN = "known weakness shown"
    NOT_PROMISED_BROKEN = "not promised: broken"
    NOT_PROMISED_HELD = "not promised: held"
    UPHELD = "upheld"
    NOT_APPLICABLE = "not applicable"

    @classmethod
    def _missing_(cls, value: object) -> "Verdict | None":
        """The verdict that a word of files of formats 1 and 2 stands for."""
        return _FORMER.get(value)

    @property
    def weight(self) -> int:
        """0 for the heaviest."""
        return _WEIGHTS[self]

    @property
    def fails(self) -> bool:
        return self.weight < 4


_FORMER: Final[dict[object, Verdict]] = {
    "hazard not shown": Verdict.WEAKNESS_NOT_SHOWN,
    "unexercised": Verdict.NOT_STRESSED,
    "broken as documented": Verdict.WEAKNESS_SHOWN,
    "not claimed: broken": Verdict.NOT_PROMISED_BROKEN,
    "not claimed: held": Verdict.NOT_PROMISED_HELD,
}
_WEIGHTS: Final = {word: weight for weight, word in enumerate(Verdict)}


def heaviest(words: Iterable[Verdict]) -> Verdict:
    """The verdict that a summary must show; `NOT_APPLICABLE` if there is none."""
    return min(words, key=lambda word: word.weight, default=Verdict.NOT_APPLICABLE)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name fits one of the patterns (``isolate-leader-*``)."""
    return _matches(name, tuple(patterns))


@cache  # a selection asks the same few thousand questions millions of times
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Claim:
    """A property that a lock promises."""

    property: str
    under: tuple[str, ...] = (ANY,)  # patterns of fault names, `ANY` for all; `NO_FAULT` is always included
    stores: tuple[str, ...] = (ANY,)  # patterns of store modes for which it is promised
    workloads: tuple[str, ...] = (ANY,)  # patterns of workloads for which it is promised

    def covers(self, name: str, faults: Sequence[str], store: str, workload: str) -> bool:
        """Whether the claim promises this property under all of these faults, in this store mode and workload."""
        speaks = _speaks_of(self, name, store, workload)
        return speaks and all(fault == NO_FAULT or matches(fault, self.under) for fault in faults)


@dataclass(frozen=True, slots=True)
class Hazard:
    """A property that a lock is documented to break under a fault: a positive control."""

    property: str
    under: tuple[str, ...]  # patterns of fault names; `NO_FAULT`: it is broken without a fault, and so under any
    mechanism: str  # of `checkers.judging.excuses_by_fault`: what must explain a violation that it excuses
    stores: tuple[str, ...] = (ANY,)
    # Whether one to three trials must show the hazard; if not, its absence is no failure. Under several faults no
    # hazard is certain, since they may mask it.
    certain: bool = True
    nodes: tuple[str, ...] = (ANY,)  # patterns of the nodes that the fault must have hit: those that the lock rests on
    workloads: tuple[str, ...] = (ANY,)  # patterns of workloads in which it can show

    def unprovoked(self) -> bool:
        return NO_FAULT in self.under

    def covers(self, name: str, faults: Sequence[str], store: str, workload: str) -> bool:
        """Whether the hazard can break this property under one of these faults, in this store mode and workload."""
        speaks = _speaks_of(self, name, store, workload)
        return speaks and (self.unprovoked() or any(matches(fault, self.under) for fault in faults))


def _speaks_of(promise: Claim | Hazard, name: str, store: str, workload: str) -> bool:
    return name == promise.property and matches(store, promise.stores) and matches(workload, promise.workloads)
