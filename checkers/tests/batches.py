"""Judges many tiny histories as keys of one: an engine's call costs about the same for one key as for hundreds."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, Generic, TypeVar

import numpy as np

from checkers.history.history import DTYPE, Facts, History, from_rows
from checkers.row_format import Outcome, Reason

Drawn = TypeVar("Drawn")


@dataclass(frozen=True, slots=True)
class Batched(Generic[Drawn]):
    """A check (`fuzz.Check`) that can judge many histories in one call."""

    draw: Callable[[Random], Drawn]
    alike: Callable[[Drawn], Hashable]  # equal for those that may be keys of one history
    judge: Callable[[Sequence[Drawn]], list[str]]  # the word for each; raises Disagreement
    most: int = 1_000  # a call with more would cost more than it saves

    def __call__(self, rng: Random) -> str:
        """Judges one history alone, as a batch of one, so that it is drawn, compared and proven as in a batch."""
        (word,) = self.judge([self.draw(rng)])
        return word

    def together(self, rngs: Iterable[Random]) -> list[str]:
        """The word for each history, in no particular order."""
        groups: dict[Hashable, list[Drawn]] = defaultdict(list)
        for rng in rngs:
            drawn = self.draw(rng)
            groups[self.alike(drawn)].append(drawn)
        begins = ((group, at) for group in groups.values() for at in range(0, len(group), self.most))
        return [word for group, at in begins for word in self.judge(group[at : at + self.most])]


@lru_cache
def names(keys: int) -> tuple[str, ...]:
    return tuple(map(str, range(keys)))


@lru_cache
def ended(outcome: str, refused: Reason) -> tuple[int, int]:
    """The outcome and the reason of a row. refused: the reason if the operation failed."""
    return int(Outcome[outcome.upper()]), int(refused if outcome == "fail" else Reason.NONE)


def sorted_history(facts: Facts, rows: Sequence[tuple[Any, ...]]) -> tuple[History, list[int]]:
    """A history of rows in the form of `DTYPE`, and the place of each row in it."""
    table = np.array(rows, DTYPE)
    places = np.empty(len(rows), np.int64)
    places[np.argsort(table["inv"], kind="stable")] = np.arange(len(rows))
    return from_rows(facts, table), places.tolist()
