"""Error texts that clients got, without the parts that differ each time. Pure."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from results.certificate.trials import UpgradeTrial
from results.stages import BASELINE, CANDIDATE, STAGES
from results.text import cut, in_a_line

_LONGEST: Final = 120
"""Characters that are compared and shown."""

_VARIES: Final = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "ID"),
    (re.compile(r"\[?\b[\w.-]+\]?:\d{2,5}\b"), "ADDRESS"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)(?=\d*[a-f])[0-9a-f]{6,}\b", re.IGNORECASE), "ID"),
    (re.compile(r"\d+(?:\.\d+)?"), "N"),
)
"""Parts that differ between errors of the same kind, and what replaces them."""


class Turn(StrEnum):
    """In which stages a text occurs, the most notable first."""

    NEW = "new"
    BETWEEN = "only while versions change"
    GONE = "gone"
    BOTH = "in both"


@dataclass(frozen=True, slots=True)
class ErrorText:
    """One text on one backend. stages: stage → how often."""

    backend: str
    text: str
    stages: Mapping[str, int]

    @property
    def turn(self) -> Turn:
        if CANDIDATE in self.stages:
            return Turn.BOTH if BASELINE in self.stages else Turn.NEW
        return Turn.GONE if BASELINE in self.stages else Turn.BETWEEN


def normalised(text: str) -> str:
    """In one line, not too long, without numbers, addresses and ids."""
    text = in_a_line(text[: 4 * _LONGEST])
    for pattern, word in _VARIES:
        text = pattern.sub(word, text)
    return cut(text, _LONGEST)


def errors(trials: Iterable[UpgradeTrial]) -> tuple[ErrorText, ...]:
    """All texts in the order of `Turn`, those of one turn by frequency."""
    counted: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for trial in trials:
        for lane in trial.lanes:
            for text, number in lane.errors.items():
                counted[trial.backend, normalised(text)][trial.stage] += number
    texts = [
        ErrorText(backend, text, {stage: counts[stage] for stage in STAGES if stage in counts})
        for (backend, text), counts in counted.items()
    ]
    turns = list(Turn)
    texts.sort(key=lambda text: (turns.index(text.turn), -sum(text.stages.values()), text.backend, text.text))
    return tuple(texts)
