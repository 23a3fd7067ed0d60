"""The general search over a table of transitions, for specifications with few states: the same choices, compiled.

See `checkers.engines.search_states` for what a configuration is and which are tried. The table says more than a model
does: kinds of operations with the same transitions are one kind, and one that never leaves a state changes nothing.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

import numpy as np

from checkers.engines.kernel import kernel
from checkers.engines.search_heap import bits, popped, pushed
from checkers.engines.search_layout import grown, in_flight, previous, slots
from checkers.engines.search_plan import Numbers, OutOfTime, Plan
from checkers.models.model import Illegal, Model, State

NONE_FOUND: Final = 0
FOUND: Final = 1
STEPS_SPENT: Final = 2
MEMORY_SPENT: Final = 3

BITS: Final = 62
"""Bits of a mask that are kept in one number."""


class Table(NamedTuple):
    """moves: after[state * kinds + kind] is the state after, -1 for none. reading: kind → 1 if it changes nothing."""

    after: Numbers
    kinds: Numbers
    reading: Numbers


def table(plan: Plan, model: Model, limit: int, deadline: float) -> Table | None:
    """All states that any sequence of these operations can reach; None if more than `limit` steps are between them.

    Raises OutOfTime, and whatever the model raises.
    """
    states: list[State] = [model.initial]
    numbers: dict[State, int] = {states[0]: 0}
    after: list[int] = []
    for state in states:  # grows
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
        if time.monotonic() > deadline:
            raise OutOfTime
    moves = np.array(after, np.int64).reshape(len(states), -1)
    moves, merged = np.unique(moves, axis=1, return_inverse=True)
    reading = ((moves == -1) | (moves == np.arange(len(states))[:, None])).all(axis=0)
    return Table(moves.ravel(), merged.ravel()[plan.kinds], reading.astype(np.int64))


@kernel
def settle(
    now: Numbers,
    begins: Numbers,
    kinds: Numbers,
    answered: int,
    after: Numbers,
    count: int,
    starts: Numbers,
    readers: Numbers,
    slot: Numbers,
    order: Numbers,
    ordered: int,
) -> int:
    """Places what fits and changes nothing, and passes every return that asks for nothing more; the order's length."""
    event = now[0]
    first = True
    while event < answered:
        for place in range(starts[event], starts[event + 1]):
            n = readers[place]
            if first or begins[n] == event:
                word = 2 + slot[n] // BITS
                bit = 1 << (slot[n] % BITS)
                if now[word] & bit == 0 and after[now[1] * count + kinds[n]] >= 0:
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
def hashed(now: Numbers, end: int) -> int:
    """Of the first numbers of a configuration."""
    code: int = now[0] * 31 + now[1]
    for word in range(2, end):
        code = ((code & 0xFFFFFFF) * 1000003) ^ (now[word] & 0x7FFFFFFF) ^ (now[word] >> 31)
    return (code ^ (code >> 17)) & 0x7FFFFFFF


@kernel
def search_table(
    begins: Numbers, kinds: Numbers, answered: int, after: Numbers, reading: Numbers, steps: int, memory: int
) -> tuple[int, Numbers, int, int]:
    """(answer, order, furthest event, steps taken); the order holds numbers of operations.

    steps: choices and passed returns; memory: configurations. A configuration is `stride` numbers of `store`: event,
    state, mask of those in flight, mask of the unknown ones; `heads` and `links` chain those of equal hash.
    """
    count = len(reading)
    unknown = len(kinds) - answered
    starts, changing = in_flight(begins, kinds, answered, reading, 0)
    reading_starts, readers = in_flight(begins, kinds, answered, reading, 1)
    slot, width = slots(begins, answered)
    earlier = previous(kinds, answered, count)
    masks = 2 + (width + BITS - 1) // BITS  # where the mask of the unknown ones begins
    stride = masks + (unknown + BITS - 1) // BITS

    buckets = 1024
    capacity = 512
    heads = np.full(buckets, -1, np.int64)
    links = np.empty(capacity, np.int64)
    hashes = np.empty(capacity, np.int64)
    store = np.empty(capacity * stride, np.int64)
    cost = np.empty(capacity, np.int64)
    parent = np.empty(capacity, np.int64)
    through = np.empty(capacity, np.int64)
    tried = np.empty(capacity, np.int64)
    heap = np.empty(capacity, np.int64)
    stored = 0
    size = 0

    order = np.empty(len(kinds), np.int64)
    stamps = np.zeros(count, np.int64)
    stamp = 0
    now = np.zeros(stride, np.int64)  # the configuration to be entered
    came_from = -1
    choice = -1
    furthest = 0
    taken = 0
    while True:
        taken -= now[0]
        settle(now, begins, kinds, answered, after, count, reading_starts, readers, slot, order, 0)
        event = now[0]
        taken += event
        furthest = max(furthest, event)
        if event == answered:
            break

        code = hashed(now, masks)
        known = False
        at = heads[code % buckets]
        while at >= 0 and not known:
            if hashes[at] == code:
                known = True
                for word in range(stride):
                    if word < masks and store[at * stride + word] != now[word]:
                        known = False
                        break
                    if word >= masks and store[at * stride + word] & ~now[word] != 0:
                        known = False
                        break
            at = links[at]

        if not known:
            if stored == memory:
                return MEMORY_SPENT, order[:0], furthest, taken
            if stored == capacity:
                links = grown(links, stored, capacity * 2)
                hashes = grown(hashes, stored, capacity * 2)
                store = grown(store, stored * stride, capacity * 2 * stride)
                cost = grown(cost, stored, capacity * 2)
                parent = grown(parent, stored, capacity * 2)
                through = grown(through, stored, capacity * 2)
                tried = grown(tried, stored, capacity * 2)
                heap = grown(heap, size, capacity * 2)
                capacity *= 2
                buckets *= 2
                heads = np.full(buckets, -1, np.int64)
                for n in range(stored):
                    links[n] = heads[hashes[n] % buckets]
                    heads[hashes[n] % buckets] = n
            for word in range(stride):
                store[stored * stride + word] = now[word]
            hashes[stored] = code
            links[stored] = heads[code % buckets]
            heads[code % buckets] = stored
            parent[stored] = came_from
            through[stored] = choice
            tried[stored] = 0
            cost[stored] = bits(now, masks, stride) * (answered + 1) + bits(now, 2, masks)
            size = pushed(heap, size, stored, store, stride, cost)
            stored += 1

        choice = -1
        while choice < 0:
            if size == 0:
                return NONE_FOUND, order[:0], furthest, taken
            if taken >= steps:
                return STEPS_SPENT, order[:0], furthest, taken
            taken += 1
            came_from = heap[0]
            base = came_from * stride
            event = store[base]
            state = store[base + 1]
            position = 0
            stamp += 1
            for place in range(starts[event], starts[event + 1]):
                n = changing[place]
                position += 1
                if stamps[kinds[n]] != stamp and store[base + 2 + slot[n] // BITS] & (1 << (slot[n] % BITS)) == 0:
                    stamps[kinds[n]] = stamp
                    if position > tried[came_from] and after[state * count + kinds[n]] >= 0:
                        choice = n
                        break
            if choice < 0:
                for which in range(max(tried[came_from] - position, 0), unknown):
                    n = answered + which
                    if begins[n] > event:
                        break
                    to = after[state * count + kinds[n]]
                    if to < 0 or to == state or stamps[kinds[n]] == stamp:
                        continue
                    if store[base + masks + which // BITS] & (1 << (which % BITS)) != 0:
                        continue
                    other = earlier[which]
                    if other < 0 or store[base + masks + other // BITS] & (1 << (other % BITS)) != 0:
                        choice = n
                        position += which + 1
                        break
            tried[came_from] = position
            if choice < 0:
                size = popped(heap, size, store, stride, cost)

        for word in range(stride):
            now[word] = store[came_from * stride + word]
        now[1] = after[now[1] * count + kinds[choice]]
        which = slot[choice] if choice < answered else choice - answered
        now[(2 if choice < answered else masks) + which // BITS] |= 1 << (which % BITS)

    # The path to the end, from its beginning.
    path = np.empty(len(kinds), np.int64)
    length = 0
    while choice >= 0:
        path[length] = choice
        length += 1
        choice = through[came_from]
        came_from = parent[came_from]
    for word in range(stride):
        now[word] = 0
    ordered = settle(now, begins, kinds, answered, after, count, reading_starts, readers, slot, order, 0)
    for step in range(length - 1, -1, -1):
        n = path[step]
        order[ordered] = n
        now[1] = after[now[1] * count + kinds[n]]
        if n < answered:
            now[2 + slot[n] // BITS] |= 1 << (slot[n] % BITS)
        ordered = settle(now, begins, kinds, answered, after, count, reading_starts, readers, slot, order, ordered + 1)
    return FOUND, order[:ordered], furthest, taken
