"""The general search: whether some order of the operations explains every answer, for any specification.

Source: Wing and Gong (1993), Lowe (2017); checkers/CONDITIONS.md, section 21, which says what a configuration is. Of
interchangeable operations any two can be swapped in an order, so the first to return is placed first, of unknown ones
the first invoked.

The search looks first at configurations that came past more returns. Among these it prefers fewer unknown operations
spent, so that a configuration is met after those that it is compared with; then it prefers fewer operations in flight
placed, since an operation is seldom placed before it must be.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np

from checkers.engines.search_plan import SearchPlan, look_at_the_clock, slots
from checkers.models.model import Illegal, Model, State

MEMORY: Final = 1 << 30  # bytes that the search of one key may take
_CONFIGURATION: Final = 512  # bytes of one, apart from its masks
_STEP: Final = 128  # bytes of what is remembered of a step of the model
FLYING: Final = 1 << 26  # the most operations in flight, counted at each return, that fit into half a gigabyte
_STATES_TOLD: Final = 8
_UNSPENT: Final = (0,)


class OutOfMemory(Exception):
    """More than can be remembered."""


class Stuck(NamedTuple):
    """The return that no order gets past."""

    rows: tuple[int, ...]  # the operation of that return, then others in flight
    states: tuple[State, ...] = ()  # some of the states that were reached there


@dataclass(slots=True)
class _Node:
    """A configuration, where it came from, the operations placed in between, and those yet to be tried from it."""

    event: int
    mask: int
    spent: int
    state: int
    before: "_Node | None"
    placed: list[int]
    candidates: Iterator[int] = field(init=False)


class StateSearch:
    """The search of one key, which can be interrupted and resumed.

    Masks are integers of any width. Answered operations share bits that became free; unknown ones have their own.
    States are numbered as they are met, and the model is asked for each step once.
    """

    def __init__(self, plan: SearchPlan, model: Model, deadline: float) -> None:
        """deadline: of `time.monotonic`, here and in `run`. Raises OutOfTime and OutOfMemory."""
        self.tried = 0  # steps, so far
        self.order: tuple[int, ...] | None = None  # rows in an order that explains everything, if the search found one
        self._model = model
        self._plan = plan
        self._deadline = deadline
        self._kinds: list[int] = plan.kinds.tolist()
        self._states: list[State] = [model.initial]
        self._numbers: dict[State, int] = {self._states[0]: 0}
        self._moves: list[dict[int, int]] = [{} for _ in plan.examples]
        self._memo: dict[Hashable, Sequence[int]] = {}
        # A heap: (- event, how many are spent, how many in flight are placed, - how many came before, node).
        self._open: list[tuple[int, int, int, int, _Node]] = []
        self._met = 0
        self._memory = MEMORY
        self.furthest = 0  # the furthest event that was reached
        self._there: dict[int, None] = {}
        begins: list[int] = plan.begins.tolist()
        events = plan.answered
        if (np.arange(events) - plan.begins[:events]).sum() > FLYING:
            raise OutOfMemory
        self._changing: list[list[int]] = [[] for _ in range(events)]
        self._reading: list[list[int]] = [[] for _ in range(events)]
        self._arriving: list[list[int]] = [[] for _ in range(events)]
        """Of each event, the operations that only read and are in flight from this event on."""
        for n in range(events):
            begin = begins[n]
            reads = not plan.changing[self._kinds[n]]
            flying = self._reading if reads else self._changing
            for event in range(begin, n + 1):
                flying[event].append(n)
            if reads:
                self._arriving[begin].append(n)
            if not n & 1023:
                look_at_the_clock(self._deadline)
        self._bits = [1 << bit for bit in slots(plan.begins, events)[0].tolist()]
        self._unknown = [(n, begins[n]) for n in range(events, len(begins))]

    def run(self, steps: int) -> bool:
        """Whether the search has ended: `order` then is the answer. Stops after so many more steps.

        Raises OutOfTime and OutOfMemory, after which the search cannot go on, and whatever the model raises.
        """
        if not self._met and self._enter(_Node(0, 0, 0, 0, None, [])):
            return True
        limit = self.tried + steps
        while self._open:
            if self.tried >= limit:
                return False
            here = self._open[0][-1]
            n = next(here.candidates, -1)
            if n < 0:
                heappop(self._open)
                continue
            self.tried += 1
            if not self.tried & 255:
                look_at_the_clock(self._deadline)
            state = self._step(here.state, n)
            if state < 0:
                continue
            if n < self._plan.answered:
                mask, spent = here.mask | self._bits[n], here.spent
            elif state != here.state:
                mask, spent = here.mask, here.spent | 1 << n - self._plan.answered
            else:
                continue
            if self._enter(_Node(here.event, mask, spent, state, here, [n])):
                return True
        return True

    @property
    def stuck(self) -> Stuck:
        """What is in flight at the furthest event; if the search ended without an order, no order gets past it."""
        event = self.furthest
        if event >= self._plan.answered:
            return Stuck(())
        flying = sorted({*self._changing[event], *self._reading[event]})
        rows: list[int] = self._plan.rows[flying].tolist()
        return Stuck(tuple(rows), tuple(self._states[number] for number in self._there))

    def _candidates(self, here: _Node) -> Iterator[int]:
        """Operations that may be placed next, one of each kind: answered ones by their returns, then unknown ones."""
        kinds, event, mask, spent, answered = self._kinds, here.event, here.mask, here.spent, self._plan.answered
        tried = set()
        for n in self._changing[event]:
            if not mask & self._bits[n] and kinds[n] not in tried:
                tried.add(kinds[n])
                yield n
        for n, begin in self._unknown:
            if begin > event:
                break
            if kinds[n] not in tried and not spent >> n - answered & 1:
                tried.add(kinds[n])
                yield n

    def _enter(self, node: _Node) -> bool:
        """Places operations that fit and change nothing, and passes every return whose operation is placed.

        Keeps the configuration unless it was reached before with the same unknown operations spent as now, or fewer of
        them. True at the end, when the answer is there.
        """
        event, mask, state, placed = node.event, node.mask, node.state, node.placed
        bits, kinds, moves, events = self._bits, self._kinds, self._moves, self._plan.answered
        fresh = self._reading
        while event < events:
            for n in fresh[event]:
                if mask & bits[n]:
                    continue
                after = moves[kinds[n]].get(state)
                if (self._step(state, n) if after is None else after) >= 0:
                    mask |= bits[n]
                    placed.append(n)
            bit = bits[event]
            if not mask & bit:
                break
            mask ^= bit
            event += 1
            fresh = self._arriving
            if not event & 255:
                look_at_the_clock(self._deadline)
        node.event, node.mask = event, mask
        if event > self.furthest:
            self.furthest = event
            self._there.clear()
        if event == events:
            self.order = self._path(node)
            return True
        if event == self.furthest and len(self._there) < _STATES_TOLD:
            self._there[state] = None
        key = event, mask, state
        spent = node.spent
        seen = self._memo.get(key, ())
        for fewer in seen:
            if not fewer & ~spent:
                return False
        self._memory -= _CONFIGURATION + (mask.bit_length() + spent.bit_length()) // 8
        if self._memory < 0:
            raise OutOfMemory
        self._met += 1
        self._memo[key] = [*(more for more in seen if spent & ~more), spent] if spent else _UNSPENT
        node.candidates = self._candidates(node)
        heappush(self._open, (-event, spent.bit_count(), mask.bit_count(), -self._met, node))
        return False

    def _step(self, state: int, n: int) -> int:
        """The number of the state after operation n, -1 for none."""
        kind = self._kinds[n]
        after = self._moves[kind].get(state)
        if after is None:
            look_at_the_clock(self._deadline)  # each time, since the step of a user's model may take long
            made = self._model.step(self._states[state], self._plan.examples[kind])
            after = -1 if isinstance(made, Illegal) else self._numbers.setdefault(made, len(self._states))
            if after == len(self._states):
                self._states.append(made)
            self._moves[kind][state] = after
            self._memory -= _STEP
        return after

    def _path(self, last: _Node) -> tuple[int, ...]:
        order: list[int] = []
        node: _Node | None = last
        while node is not None:
            order += reversed(node.placed)
            node = node.before
        rows: list[int] = self._plan.rows[order[::-1]].tolist()
        return tuple(rows)
