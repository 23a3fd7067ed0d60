"""The general search over a table of transitions, for specifications with few states: the same choices, compiled.

Source: checkers/CONDITIONS.md, section 21; `checkers.engines.search_states` says what a configuration is and which are
tried. The table says more than a model does: kinds of operations with the same transitions become one kind, and a kind
that never leaves a state changes nothing.
"""

import heapq
from typing import Final, NamedTuple

import numpy as np

from checkers.engines.kernel import kernel
from checkers.engines.search_plan import SearchPlan, look_at_the_clock, slots
from checkers.history.counting import Ints
from checkers.models.model import Illegal, Model, State


class Flying(NamedTuple):
    """The operations in flight at each event, in order of return, one event after the other."""

    starts: Ints  # of each event where its part begins; one more than there are events
    operations: Ints


class SearchTable(NamedTuple):
    """The operations of one key, as in `SearchPlan`, and the states that they can reach."""

    begins: Ints  # of each operation the first event at which it is in flight
    kinds: Ints  # of each: those of one kind are interchangeable
    answered: int  # how many were answered; there are as many events
    after: Ints  # after[state * width + kind] is the state after, -1 for none
    width: int  # how many kinds there are
    changing: Flying  # of the answered operations those that can change a state
    reading: Flying  # the others
    slot: Ints  # of each answered operation its bit in masks
    earlier: Ints  # of each unknown operation the one of its kind invoked before it, -1 for none; counted from 0
    masks: int  # where in a configuration the mask of the unknown ones begins
    stride: int  # how many numbers a configuration is


@kernel
def bits(words: Ints, begin: int, end: int) -> int:
    """How many bits are set in the words from `begin` to `end`."""
    result = 0
    for place in range(begin, end):
        word = words[place]
        while word != 0:
            word &= word - 1
            result += 1
    return result


class Known(NamedTuple):
    """Configurations that were reached, by number; -1 for none."""

    store: list[int]  # `stride` numbers of each: event, state, mask of those in flight, mask of the unknown ones
    parent: list[int]  # of each the configuration that it came from
    through: list[int]  # of each the operation that led to it
    tried: list[int]  # of each how many of its choices were looked at
    hashes: list[int]  # of each
    links: list[int]  # of each another that stands under the same number of `heads`


NONE_FOUND, FOUND, STEPS_SPENT, MEMORY_SPENT = range(4)

BITS: Final = 62  # bits of a mask that are kept in one number


def table(plan: SearchPlan, model: Model, limit: int, deadline: float) -> SearchTable | None:
    """All states that these operations can reach; None beyond `limit` steps. Raises OutOfTime, or as the model does."""
    states: list[State] = [model.initial]
    numbers: dict[State, int] = {states[0]: 0}
    after: list[int] = []
    for state in states:  # `states` grows
        if len(states) * len(plan.examples) > limit:
            return None
        number = numbers[state]
        for example, changing in zip(plan.examples, plan.changing, strict=True):
            made = model.step(state, example)
            if isinstance(made, Illegal):
                after.append(-1)
            elif not changing:
                after.append(number)
            else:
                to = numbers.setdefault(made, len(states))
                if to == len(states):
                    states.append(made)
                after.append(to)
        look_at_the_clock(deadline)
    moves = np.array(after, np.int64).reshape(len(states), -1)
    moves, merged = np.unique(moves, axis=1, return_inverse=True)
    kinds = merged.ravel()[plan.kinds]
    reads = ((moves == -1) | (moves == np.arange(len(states))[:, None])).all(axis=0)[kinds[: plan.answered]]
    slot, most = slots(plan.begins, plan.answered)
    masks = 2 + -(-most // BITS)
    return SearchTable(
        begins=plan.begins,
        kinds=kinds,
        answered=plan.answered,
        after=moves.ravel(),
        width=moves.shape[1],
        changing=_in_flight(plan.begins, np.flatnonzero(~reads), plan.answered),
        reading=_in_flight(plan.begins, np.flatnonzero(reads), plan.answered),
        slot=slot,
        earlier=_earlier(kinds[plan.answered :]),
        masks=masks,
        stride=masks + -(-(len(kinds) - plan.answered) // BITS),
    )


def _in_flight(begins: Ints, operations: Ints, events: int) -> Flying:
    """The operations in flight at each event. operations: answered ones, in order of return."""
    lasting = operations + 1 - begins[operations]
    flying = np.repeat(operations, lasting)
    event = np.arange(len(flying)) - np.repeat(np.cumsum(lasting) - operations - 1, lasting)
    order = np.argsort(event, kind="stable")
    return Flying(np.searchsorted(event[order], np.arange(events + 1)), flying[order])


def _earlier(kinds: Ints) -> Ints:
    """Of each operation the last one before it of the same kind, -1 for none."""
    order = np.argsort(kinds, kind="stable")
    same = np.flatnonzero(kinds[order][1:] == kinds[order][:-1])
    result = np.full(len(kinds), -1, np.int64)
    result[order[same + 1]] = order[same]
    return result


class SearchEnd(NamedTuple):
    answer: int  # FOUND, NONE_FOUND, STEPS_SPENT or MEMORY_SPENT
    order: Ints  # numbers of operations
    furthest: int  # the furthest event that was reached
    taken: int  # steps


@kernel
def settle(table: SearchTable, now: Ints, order: Ints, ordered: int) -> int:
    """Places operations that fit and change nothing, and passes returns of placed ones. Returns the order's length."""
    begins, kinds, answered, after, width, _, (starts, readers), slot, _, _, _ = table
    event = now[0]
    first = True
    while event < answered:
        for place in range(starts[event], starts[event + 1]):
            n = readers[place]
            if first or begins[n] == event:
                word = 2 + slot[n] // BITS
                bit = 1 << (slot[n] % BITS)
                if now[word] & bit == 0 and after[now[1] * width + kinds[n]] >= 0:
                    now[word] |= bit
                    order[ordered] = n
                    ordered += 1
        word = 2 + slot[event] // BITS
        bit = 1 << (slot[event] % BITS)
        if now[word] & bit == 0:
            break
        now[word] ^= bit
        event += 1
        first = False
    now[0] = event
    return ordered


@kernel
def hashed(now: Ints, end: int) -> int:
    """A hash of the first numbers of a configuration, up to `end`."""
    code: int = now[0] * 31 + now[1]
    for word in range(2, end):
        code = ((code & 0xFFFFFFF) * 1000003) ^ (now[word] & 0x7FFFFFFF) ^ (now[word] >> 31)
    return (code ^ (code >> 17)) & 0x7FFFFFFF


@kernel
def search_table(table: SearchTable, steps: int, memory: int) -> SearchEnd:
    """Searches a table. steps: the most choices and passed returns; memory: the most configurations."""
    answered, masks, stride = table.answered, table.masks, table.stride
    known = Known([0][:0], [0][:0], [0][:0], [0][:0], [0][:0], [0][:0])
    heads = _heads(known, 1024)
    heap = [(0, 0, 0)][:0]  # (- event, cost, - number): those that came further come first, then cheap ones, then new
    order = np.empty(len(table.kinds), np.int64)
    stamps = np.zeros(table.width, np.int64)
    stamp = 0
    now = np.zeros(stride, np.int64)  # the configuration to be entered
    came_from, choice = -1, -1
    furthest, taken = 0, 0
    while True:
        taken -= now[0]
        settle(table, now, order, 0)
        event = now[0]
        taken += event
        furthest = max(furthest, event)
        if event == answered:
            return SearchEnd(FOUND, _path(table, known, came_from, choice), furthest, taken)
        code = hashed(now, masks)
        if not _met(known, heads, now, code, masks):
            stored = len(known.links)
            if stored == memory:
                return SearchEnd(MEMORY_SPENT, order[:0], furthest, taken)
            if 2 * stored == len(heads):
                heads = _heads(known, 4 * stored)
            known.store.extend(now)
            known.parent.append(came_from)
            known.through.append(choice)
            known.tried.append(0)
            known.hashes.append(code)
            known.links.append(heads[code % len(heads)])
            heads[code % len(heads)] = stored
            cost = bits(now, masks, stride) * (answered + 1) + bits(now, 2, masks)
            heapq.heappush(heap, (-event, cost, -stored))
        choice = -1
        while choice < 0:
            if len(heap) == 0:
                return SearchEnd(NONE_FOUND, order[:0], furthest, taken)
            if taken >= steps:
                return SearchEnd(STEPS_SPENT, order[:0], furthest, taken)
            taken += 1
            came_from = -heap[0][2]
            stamp += 1
            choice = _chosen(table, known, came_from, stamps, stamp)
            if choice < 0:
                heapq.heappop(heap)
        for word in range(stride):
            now[word] = known.store[came_from * stride + word]
        _placed(table, now, choice)


@kernel
def _heads(known: Known, size: int) -> Ints:
    """Of each hash, to this size, the latest configuration, -1 for none. The earlier ones are linked to it."""
    heads = np.full(size, -1, np.int64)
    for n in range(len(known.links)):
        known.links[n] = heads[known.hashes[n] % size]
        heads[known.hashes[n] % size] = n
    return heads


@kernel
def _met(known: Known, heads: Ints, now: Ints, code: int, masks: int) -> bool:
    """Whether a configuration was reached before with the same unknown operations spent as now, or fewer of them."""
    store, stride = known.store, len(now)
    at = heads[code % len(heads)]
    while at >= 0:
        if known.hashes[at] == code:
            for word in range(stride):
                there = store[at * stride + word]
                if (there & ~now[word] != 0) if word >= masks else (there != now[word]):
                    break
            else:
                return True
        at = known.links[at]
    return False


@kernel
def _chosen(table: SearchTable, known: Known, here: int, stamps: Ints, stamp: int) -> int:
    """The next operation to be placed in a configuration, -1 for none. A stamp marks the kinds that were looked at."""
    begins, kinds, answered, after, width, (starts, changing), _, slot, earlier, masks, stride = table
    store, tried, base = known.store, known.tried, here * stride
    event, state = store[base], store[base + 1]
    position = 0
    for place in range(starts[event], starts[event + 1]):
        n = changing[place]
        position += 1
        if stamps[kinds[n]] != stamp and store[base + 2 + slot[n] // BITS] & (1 << (slot[n] % BITS)) == 0:
            stamps[kinds[n]] = stamp
            if position > tried[here] and after[state * width + kinds[n]] >= 0:
                tried[here] = position
                return int(n)
    for which in range(max(tried[here] - position, 0), len(kinds) - answered):
        n = answered + which
        if begins[n] > event:
            break
        to = after[state * width + kinds[n]]
        if to < 0 or to == state or stamps[kinds[n]] == stamp:
            continue
        if store[base + masks + which // BITS] & (1 << (which % BITS)) != 0:
            continue
        other = earlier[which]
        if other < 0 or store[base + masks + other // BITS] & (1 << (other % BITS)) != 0:
            tried[here] = position + which + 1
            return n
    tried[here] = position
    return -1


@kernel
def _placed(table: SearchTable, now: Ints, n: int) -> None:
    """Moves a configuration on by one operation."""
    answered = table.answered
    now[1] = table.after[now[1] * table.width + table.kinds[n]]
    which = table.slot[n] if n < answered else n - answered
    now[(2 if n < answered else table.masks) + which // BITS] |= 1 << (which % BITS)


@kernel
def _path(table: SearchTable, known: Known, came_from: int, choice: int) -> Ints:
    """The order from its beginning to a choice."""
    path = [0][:0]
    while choice >= 0:
        path.append(choice)
        choice = known.through[came_from]
        came_from = known.parent[came_from]
    order = np.empty(len(table.kinds), np.int64)
    now = np.zeros(table.stride, np.int64)
    ordered = settle(table, now, order, 0)
    for n in path[::-1]:
        order[ordered] = n
        _placed(table, now, n)
        ordered = settle(table, now, order, ordered + 1)
    return order[:ordered]
