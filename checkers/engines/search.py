"""The general search: whether some order of the operations explains every answer.

Source: Wing and Gong (1993), Lowe (2017); the choices are those measured in checkers.md, section 3. A configuration
is (event, mask of the pending operations that took effect, state): operations are placed only when a return forces
it, those that cannot change the state as soon as they fit, and unanswered ones last. Depth first with a memo.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from checkers.accesses import Access
from checkers.finding import OutOfBudget
from checkers.models.stores import Illegal, Model, State

STEPS: Final = 2_000_000
SECONDS: Final = 5.0
"""What one key may cost before its search is given up."""


class Found(NamedTuple):
    """The answer. order: row numbers in an order that explains everything, or None if there is none.

    stuck: where there is none, the operation whose return no order gets past, then those in flight with it.
    """

    order: tuple[int, ...] | None
    stuck: tuple[Access, ...] = ()


class _Configuration(NamedTuple):
    event: int
    mask: int
    state: State


Memo = dict[_Configuration, tuple["_Configuration | None", tuple[int, ...]]]


def search(accesses: Sequence[Access], model: Model, steps: int = STEPS, seconds: float = SECONDS) -> Found:
    """Raises OutOfBudget."""
    return _Search(accesses, model, steps, seconds).run()


class _Search:
    """Operations are numbers in `_operations`. An event is the return of an operation.

    _pending  for each event the answered operations in flight, the one that returns first.
    _open     for each event how many of `_unanswered` (in order of invocation) had been invoked.
    _bits     for each operation its bit in masks: answered ones share bits that became free.
    """

    def __init__(self, accesses: Sequence[Access], model: Model, steps: int, seconds: float) -> None:
        self._model = model
        self._operations = accesses
        self._steps = steps
        self._seconds = seconds
        self._changes = [model.changes(access) for access in accesses]
        self._pending: list[list[int]] = []
        self._open: list[int] = []
        self._unanswered: list[int] = []
        self._bits = [0] * len(accesses)
        self._lay_out()

    def _lay_out(self) -> None:
        # What returned before another was invoked comes before it; at one instant invocations come first.
        events = [(access.inv, 0, n) for n, access in enumerate(self._operations)]
        events += [(access.ret, 1, n) for n, access in enumerate(self._operations) if not access.unknown]
        free: list[int] = []
        width = 0
        pending: list[int] = []
        for _, is_return, n in sorted(events):
            if is_return:
                others = sorted((m for m in pending if m != n), key=lambda m: self._operations[m].ret)
                self._pending.append([n, *others])
                self._open.append(len(self._unanswered))
                pending.remove(n)
                free.append(self._bits[n])
                continue
            if self._operations[n].unknown:
                if not self._changes[n]:
                    continue  # it may be left out, and changes nothing: it never matters
                self._unanswered.append(n)
            else:
                pending.append(n)
            if not free:
                free.append(1 << width)
                width += 1
            self._bits[n] = free.pop()

    def run(self) -> Found:
        """Raises OutOfBudget."""
        deadline = time.monotonic() + self._seconds
        first, placed = self._settle(0, 0, self._model.initial)
        memo: Memo = {first: (None, placed)}
        stack = [(first, self._candidates(first))]
        furthest = 0
        while stack:
            here, candidates = stack[-1]
            if here.event == len(self._pending):
                return Found(self._order(memo, here))
            furthest = max(furthest, here.event)
            for n in candidates:
                self._steps -= 1
                if self._steps < 0 or (self._steps % 1024 == 0 and time.monotonic() > deadline):
                    raise OutOfBudget(f"{len(memo)} configurations of {len(self._operations)} operations tried")
                state = self._model.step(here.state, self._operations[n])
                if isinstance(state, Illegal):
                    continue
                following, placed = self._settle(here.event, here.mask | self._bits[n], state)
                if following not in memo:
                    memo[following] = (here, (n, *placed))
                    stack.append((following, self._candidates(following)))
                    break
            else:
                stack.pop()
        return Found(None, tuple(self._operations[n] for n in self._pending[furthest]))

    def _candidates(self, here: _Configuration) -> Iterator[int]:
        """What may be placed next: the operation that returns, then others by their returns, unanswered ones last."""
        if here.event < len(self._pending):
            for n in self._pending[here.event]:
                if not here.mask & self._bits[n]:
                    yield n
            for n in islice(self._unanswered, self._open[here.event]):
                if not here.mask & self._bits[n]:
                    yield n

    def _settle(self, event: int, mask: int, state: State) -> tuple[_Configuration, tuple[int, ...]]:
        """Place what fits and changes nothing, and pass every return that asks for nothing more."""
        placed: list[int] = []
        while event < len(self._pending):
            for n in self._pending[event]:
                if self._changes[n] or mask & self._bits[n]:
                    continue
                if not isinstance(self._model.step(state, self._operations[n]), Illegal):
                    mask |= self._bits[n]
                    placed.append(n)
            bit = self._bits[self._pending[event][0]]
            if not mask & bit:
                break
            mask &= ~bit
            event += 1
        return _Configuration(event, mask, state), tuple(placed)

    def _order(self, memo: Memo, last: _Configuration) -> tuple[int, ...]:
        order: list[int] = []
        here: _Configuration | None = last
        while here is not None:
            before, placed = memo[here]
            order.extend(reversed(placed))
            here = before
        return tuple(self._operations[n].row for n in reversed(order))
