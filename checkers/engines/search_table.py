"""The general search over a table of transitions, for specifications with few states: the same choices, compiled.

Source: checkers/CONDITIONS.md, section 21; `checkers.engines.search_states` says what a configuration is and which are
tried. The table says more than a model does: kinds of operations with the same transitions become one kind, and a kind
that never leaves a state changes nothing.
"""

from typing import Final, NamedTuple

import numpy as np

from checkers.engines.kernel import kernel
from checkers.engines.search_plan import (
    Flying,
    Numbers,
    SearchPlan,
    SearchTable,
    grown,
    in_flight,
    look_at_the_clock,
    previous,
    slots,
)
from checkers.models.model import Illegal, Model, State


@kernel
def bits(words: Numbers, begin: int, end: int) -> int:
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

    store: Numbers  # `stride` numbers of each: event, state, mask of those in flight, mask of the unknown ones
    cost: Numbers  # of each: configurations with less are looked at sooner
    parent: Numbers  # of each the configuration that it came from
    through: Numbers  # of each the operation that led to it
    tried: Numbers  # of each how many of its choices were looked at
    hashes: Numbers  # of each
    links: Numbers  # of each another of equal hash
    heads: Numbers  # of each hash the latest one
    heap: Numbers  # the configurations that are yet to be looked at


@kernel
def sooner(known: Known, stride: int, first: int, second: int) -> bool:
    """Whether one configuration is to be looked at before another: it came further, or cost less, or is newer."""
    ahead: int = known.store[first * stride] - known.store[second * stride]
    less: int = known.cost[second] - known.cost[first]
    return ahead > 0 or (ahead == 0 and (less > 0 or (less == 0 and first > second)))


@kernel
def pushed(known: Known, size: int, stride: int, new: int) -> int:
    """Adds a configuration to the heap. Returns the heap's size."""
    heap = known.heap
    at = size
    while at > 0 and sooner(known, stride, new, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = new
    return size + 1


@kernel
def popped(known: Known, size: int, stride: int) -> int:
    """Takes the first configuration from the heap. Returns the heap's size."""
    heap = known.heap
    size -= 1
    last = heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and sooner(known, stride, heap[child + 1], heap[child]):
            child += 1
        if not sooner(known, stride, heap[child], last):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
    return size


NONE_FOUND, FOUND, STEPS_SPENT, MEMORY_SPENT = range(4)

BITS: Final = 62
"""Bits of a mask that are kept in one number."""


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
    reading = ((moves == -1) | (moves == np.arange(len(states))[:, None])).all(axis=0)
    return SearchTable(plan.begins, merged.ravel()[plan.kinds], plan.answered, moves.ravel(), reading.astype(np.int64))


class Flight(NamedTuple):
    """The operations that are in flight at each event."""

    changing: Flying
    reading: Flying
    slot: Numbers  # of each answered operation its bit in masks
    earlier: Numbers  # of each unknown operation the one of its kind invoked before it, -1 for none
    masks: int  # where in a configuration the mask of the unknown ones begins
    stride: int  # how many numbers a configuration is


class SearchEnd(NamedTuple):
    """How a search ended."""

    answer: int  # FOUND, NONE_FOUND, STEPS_SPENT or MEMORY_SPENT
    order: Numbers  # numbers of operations
    furthest: int  # the furthest event that was reached
    taken: int  # steps


@kernel
def settle(table: SearchTable, flight: Flight, now: Numbers, order: Numbers, ordered: int) -> int:
    """Places operations that fit and change nothing, and passes returns of placed ones. Returns the order's length."""
    begins, kinds, answered, after, _ = table
    starts, readers = flight.reading
    slot, count = flight.slot, len(table.reading)
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
    """A hash of the first numbers of a configuration, up to `end`."""
    code: int = now[0] * 31 + now[1]
    for word in range(2, end):
        code = ((code & 0xFFFFFFF) * 1000003) ^ (now[word] & 0x7FFFFFFF) ^ (now[word] >> 31)
    return (code ^ (code >> 17)) & 0x7FFFFFFF


@kernel
def search_table(table: SearchTable, steps: int, memory: int) -> SearchEnd:
    """Searches a table. steps: the most choices and passed returns; memory: the most configurations."""
    answered = table.answered
    unknown = len(table.kinds) - answered
    slot, width = slots(table.begins, answered)
    masks = 2 + (width + BITS - 1) // BITS
    stride = masks + (unknown + BITS - 1) // BITS
    flight = Flight(in_flight(table, 0), in_flight(table, 1), slot, previous(table), masks, stride)
    none = np.empty(0, np.int64)
    known = _more_room(Known(none, none, none, none, none, none, none, none, none), 0, 0, stride)
    stored, size = 0, 0
    order = np.empty(len(table.kinds), np.int64)
    stamps = np.zeros(len(table.reading), np.int64)
    stamp = 0
    now = np.zeros(stride, np.int64)  # the configuration to be entered
    came_from, choice = -1, -1
    furthest, taken = 0, 0
    while True:
        taken -= now[0]
        settle(table, flight, now, order, 0)
        event = now[0]
        taken += event
        furthest = max(furthest, event)
        if event == answered:
            return SearchEnd(FOUND, _path(table, flight, known, came_from, choice), furthest, taken)
        code = hashed(now, masks)
        if not _met(known, now, code, masks):
            if stored == memory:
                return SearchEnd(MEMORY_SPENT, order[:0], furthest, taken)
            if stored == len(known.links):
                known = _more_room(known, stored, size, stride)
            for word in range(stride):
                known.store[stored * stride + word] = now[word]
            bucket = code % len(known.heads)
            known.hashes[stored], known.links[stored], known.heads[bucket] = code, known.heads[bucket], stored
            known.parent[stored], known.through[stored], known.tried[stored] = came_from, choice, 0
            known.cost[stored] = bits(now, masks, stride) * (answered + 1) + bits(now, 2, masks)
            size = pushed(known, size, stride, stored)
            stored += 1
        choice = -1
        while choice < 0:
            if size == 0:
                return SearchEnd(NONE_FOUND, order[:0], furthest, taken)
            if taken >= steps:
                return SearchEnd(STEPS_SPENT, order[:0], furthest, taken)
            taken += 1
            came_from = known.heap[0]
            stamp += 1
            choice = _chosen(table, flight, known, came_from, stamps, stamp)
            if choice < 0:
                size = popped(known, size, stride)
        for word in range(stride):
            now[word] = known.store[came_from * stride + word]
        _placed(table, flight, now, choice)


@kernel
def _more_room(known: Known, stored: int, size: int, stride: int) -> Known:
    """A copy with room for twice as many configurations, or for the first ones."""
    room = max(512, 2 * stored)
    links = np.empty(room, np.int64)
    heads = np.full(2 * room, -1, np.int64)
    for n in range(stored):
        links[n] = heads[known.hashes[n] % (2 * room)]
        heads[known.hashes[n] % (2 * room)] = n
    return Known(
        grown(known.store, stored * stride, room * stride),
        grown(known.cost, stored, room),
        grown(known.parent, stored, room),
        grown(known.through, stored, room),
        grown(known.tried, stored, room),
        grown(known.hashes, stored, room),
        links,
        heads,
        grown(known.heap, size, room),
    )


@kernel
def _met(known: Known, now: Numbers, code: int, masks: int) -> bool:
    """Whether a configuration was reached before with the same unknown operations spent as now, or fewer of them."""
    store, stride = known.store, len(now)
    at = known.heads[code % len(known.heads)]
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
def _chosen(table: SearchTable, flight: Flight, known: Known, here: int, stamps: Numbers, stamp: int) -> int:
    """The next operation to be placed in a configuration, -1 for none. A stamp marks the kinds that were looked at."""
    begins, kinds, answered, after, reading = table
    (starts, changing), _, slot, earlier, masks, _ = flight
    store, tried, base, count = known.store, known.tried, here * flight.stride, len(reading)
    event, state = store[base], store[base + 1]
    position = 0
    for place in range(starts[event], starts[event + 1]):
        n = changing[place]
        position += 1
        if stamps[kinds[n]] != stamp and store[base + 2 + slot[n] // BITS] & (1 << (slot[n] % BITS)) == 0:
            stamps[kinds[n]] = stamp
            if position > tried[here] and after[state * count + kinds[n]] >= 0:
                tried[here] = position
                return int(n)
    for which in range(max(tried[here] - position, 0), len(kinds) - answered):
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
            tried[here] = position + which + 1
            return n
    tried[here] = position
    return -1


@kernel
def _placed(table: SearchTable, flight: Flight, now: Numbers, n: int) -> None:
    """Moves a configuration on by one operation."""
    answered = table.answered
    now[1] = table.after[now[1] * len(table.reading) + table.kinds[n]]
    which = flight.slot[n] if n < answered else n - answered
    now[(2 if n < answered else flight.masks) + which // BITS] |= 1 << (which % BITS)


@kernel
def _path(table: SearchTable, flight: Flight, known: Known, came_from: int, choice: int) -> Numbers:
    """The order from its beginning to a choice."""
    path = np.empty(len(table.kinds), np.int64)
    order = np.empty(len(table.kinds), np.int64)
    length = 0
    while choice >= 0:
        path[length] = choice
        length += 1
        choice = known.through[came_from]
        came_from = known.parent[came_from]
    now = np.zeros(flight.stride, np.int64)
    ordered = settle(table, flight, now, order, 0)
    for step in range(length - 1, -1, -1):
        order[ordered] = path[step]
        _placed(table, flight, now, path[step])
        ordered = settle(table, flight, now, order, ordered + 1)
    return order[:ordered]
