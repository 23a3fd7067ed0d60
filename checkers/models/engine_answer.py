"""What every engine takes and answers.

An engine knows one class of specifications and decides most of its histories in near-linear time. It may leave keys
undecided, never guess: those go to the general search, key by key.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from checkers.history.history import History
from checkers.models.model import Settings

Rows = npt.NDArray[np.int64]


class Conflict(NamedTuple):
    """A contradiction within one key. `checkers.proofs.shrink` makes the least of its rows and of what they need."""

    kind: str  # what happened, a short term; its sentence stands in `checkers.properties.conclusions`
    key: int  # index into the history's keys
    rows: tuple[int, ...]  # operations that contradict each other, the one that broke the rule last


class EngineAnswer(NamedTuple):
    """What an engine says of a history."""

    conflicts: tuple[Conflict, ...]  # at least one for every key that is certainly invalid
    undecided: dict[int, str]  # key → why the engine leaves it to the search
    # Called without arguments: all rows of the decided keys that took effect, answered ones and the unknown ones
    # that are needed, so that the rows of each key stand in an order of linearization points. Failed operations
    # that are evidence stand where they fit; failed ones that prove nothing are left out. Only meaningful where
    # no key has a conflict; built on demand, as it costs more than the check.
    order: Callable[[], Rows]


Engine = Callable[[History, Settings], EngineAnswer]
