"""What every engine takes and returns.

An engine knows one class of specifications and decides most of its histories in near-linear time. It may leave keys
undecided, but never guesses. The general search decides these keys, one by one.
"""

from collections.abc import Callable
from typing import NamedTuple

from checkers.history.counting import Ints
from checkers.history.history import History
from checkers.models.model import Settings


class Conflict(NamedTuple):
    """A contradiction within one key. `checkers.proofs.shrink` reduces its rows and what they need to the least."""

    kind: str  # what happened, a short term; its sentence stands in `checkers.properties.conclusions`
    key: int  # index into the history's keys
    rows: tuple[int, ...]  # operations that contradict each other; the last one broke the rule


class EngineAnswer(NamedTuple):
    conflicts: tuple[Conflict, ...]  # at least one for every key that is certainly invalid
    undecided: dict[int, str]  # key → why the engine leaves it to the search
    # Called without arguments: all rows of the decided keys that took effect (answered ones, and unknown ones that are
    # needed), those of each key in an order of linearization points. Failed operations that are evidence stand where
    # they fit, other failed ones are left out. Only meaningful if no key has a conflict. It is built on demand, because
    # it costs more than the check.
    order: Callable[[], Ints]


Engine = Callable[[History, Settings], EngineAnswer]
