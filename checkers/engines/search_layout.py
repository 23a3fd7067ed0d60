"""Kernels of the search in a table (`search_table`): who is in flight at which return, with which bit in masks."""

from typing import NamedTuple

import numpy as np

from checkers.engines.kernel import kernel
from checkers.engines.search_plan import Numbers


class SearchTable(NamedTuple):
    """The operations of one key, as in `search_plan.Plan`, and the states that they can reach."""

    begins: Numbers  # of each operation the first event at which it is in flight
    kinds: Numbers  # of each: those of one kind are interchangeable
    answered: int  # how many were: as many events are there
    after: Numbers  # after[state * kinds + kind] is the state after, -1 for none
    reading: Numbers  # of each kind 1 if it changes nothing


class Flying(NamedTuple):
    """Of each event those in flight, in order of return, one event after the other."""

    starts: Numbers  # of each event where its part begins; one more than there are events
    operations: Numbers


@kernel
def in_flight(table: SearchTable, wanted: int) -> Flying:
    """Of the answered operations that read (wanted 1) or change (0)."""
    begins, kinds, answered, _, reading = table
    starts = np.zeros(answered + 1, np.int64)
    fresh = np.zeros(answered + 1, np.int64)
    for n in range(answered):
        if reading[kinds[n]] == wanted:
            fresh[begins[n]] += 1
    flying = 0
    for event in range(answered):
        flying += fresh[event]
        starts[event + 1] = starts[event] + flying
        if reading[kinds[event]] == wanted:
            flying -= 1
    flight = np.empty(starts[answered], np.int64)
    filled = np.zeros(answered, np.int64)
    for n in range(answered):
        if reading[kinds[n]] == wanted:
            for event in range(begins[n], n + 1):
                flight[starts[event] + filled[event]] = n
                filled[event] += 1
    return Flying(starts, flight)


@kernel
def slots(begins: Numbers, answered: int) -> tuple[Numbers, int]:
    """Answered operation → its bit in masks, such that no two in flight together share one; how many bits there are."""
    starts = np.zeros(answered + 1, np.int64)
    for n in range(answered):
        starts[begins[n] + 1] += 1
    for event in range(answered):
        starts[event + 1] += starts[event]
    starting = np.empty(answered, np.int64)
    filled = np.zeros(answered, np.int64)
    for n in range(answered):
        starting[starts[begins[n]] + filled[begins[n]]] = n
        filled[begins[n]] += 1
    slot = np.empty(answered, np.int64)
    free = np.empty(answered, np.int64)
    left = 0
    width = 0
    for event in range(answered):
        for place in range(starts[event], starts[event + 1]):
            if left > 0:
                left -= 1
                slot[starting[place]] = free[left]
            else:
                slot[starting[place]] = width
                width += 1
        free[left] = slot[event]
        left += 1
    return slot, width


@kernel
def previous(table: SearchTable) -> Numbers:
    """Unknown operation → the one of its kind invoked before it, -1 for none; both counted from 0."""
    kinds, answered = table.kinds, table.answered
    unknown = len(kinds) - answered
    result = np.empty(unknown, np.int64)
    last = np.full(len(table.reading), -1, np.int64)
    for which in range(unknown):
        result[which] = last[kinds[answered + which]]
        last[kinds[answered + which]] = which
    return result


@kernel
def grown(old: Numbers, used: int, size: int) -> Numbers:
    """A larger copy."""
    new = np.empty(size, np.int64)
    for n in range(used):
        new[n] = old[n]
    return new
