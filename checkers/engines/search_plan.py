"""What a search knows of its operations before it begins: their kinds, and which are in flight when one returns.

Source: checkers/CONDITIONS.md, sections 2 and 21. Answered operations are numbered in the order of their returns, so
that event e is the return of operation e; unknown ones follow, in order of invocation. An operation that returned
before another was invoked comes before the other; at one instant invocations come before returns.
"""

import time
from itertools import compress
from typing import Final, NamedTuple

import numpy as np

from checkers.engines.kernel import kernel
from checkers.history.counting import Ints
from checkers.models.model import Model, Operation
from checkers.models.operations import Operations
from checkers.row_format import INFINITY

_BLOCK: Final = 1 << 14  # rows between two looks at the clock


class OutOfTime(Exception):
    """The deadline has passed."""


def look_at_the_clock(deadline: float) -> None:
    """deadline: of `time.monotonic`. Raises OutOfTime."""
    if time.monotonic() > deadline:
        raise OutOfTime


class SearchPlan(NamedTuple):
    """The operations of one key."""

    rows: Ints  # row numbers, of the answered operations and then of the unknown ones
    answered: int  # how many were answered; there are as many events
    begins: Ints  # of each operation the first event at which it is in flight
    kinds: Ints  # of each operation; those of one kind are interchangeable
    examples: list[Operation]  # one of each kind
    changing: list[bool]  # of each kind whether it can change a state


def plan(operations: Operations, model: Model, deadline: float) -> SearchPlan:
    """The plan, without failed operations that are no evidence and without unknown ones that change nothing.

    The model is asked `evidence` and `changes` once for each kind. deadline: `time.monotonic`. Raises OutOfTime.
    """
    kinds = _numbered(operations, tuple(dict.fromkeys(("f", "outcome", *model.sees))), deadline)
    firsts = np.empty(int(kinds.max(initial=-1)) + 1, np.int64)
    firsts[kinds[::-1]] = np.arange(len(kinds))[::-1]  # the last assignment stays: the first row of each kind
    examples = list(Operations(operations.history, operations.rows[firsts]))
    changing = [bool(model.changes(example)) for example in examples]
    counts = [
        bool(model.evidence(example)) if example.failed else changing[kind] or not example.unknown
        for kind, example in enumerate(examples)
    ]
    if not all(counts):
        kept = np.flatnonzero(np.array(counts, bool)[kinds])
        examples, changing = list(compress(examples, counts)), list(compress(changing, counts))
        kinds = (np.cumsum(counts) - 1)[kinds[kept]]
        operations = Operations(operations.history, operations.rows[kept])
    ret = operations.array("ret")
    order = np.argsort(ret, kind="stable")
    sorted_ret = ret[order]
    answered = int(np.searchsorted(sorted_ret, INFINITY))
    begins = np.searchsorted(sorted_ret[:answered], operations.array("inv")[order])
    return SearchPlan(operations.rows[order], answered, begins, kinds[order], examples, changing)


def _numbered(operations: Operations, names: tuple[str, ...], deadline: float) -> Ints:
    """A number for each row, counted from 0; rows that are equal in all these fields have the same number."""
    numbers: dict[tuple[int, ...], int] = {}
    result = np.empty(len(operations), np.int64)
    for begin in range(0, len(operations), _BLOCK):
        look_at_the_clock(deadline)
        block = operations[begin : begin + _BLOCK]
        columns = [block.array(name).tolist() for name in names]
        seen = zip(*columns, strict=True)
        result[begin : begin + _BLOCK] = [numbers.setdefault(fields, len(numbers)) for fields in seen]
    return result


def slots(begins: Ints, answered: int) -> tuple[Ints, int]:
    """Answered operation → its bit in masks, such that no two in flight together share one; how many bits there are."""
    starting = np.argsort(begins[:answered], kind="stable")
    return _slots(starting, begins[starting])


@kernel
def _slots(starting: Ints, begun: Ints) -> tuple[Ints, int]:
    """starting: answered operations in the order in which they begin. begun: the first event of each."""
    slot = np.empty(len(starting), np.int64)
    free = [0][:0]
    width, place = 0, 0
    for event in range(len(starting)):
        while place < len(starting) and begun[place] == event:
            if len(free) > 0:
                slot[starting[place]] = free.pop()
            else:
                slot[starting[place]] = width
                width += 1
            place += 1
        free.append(slot[event])
    return slot, width
