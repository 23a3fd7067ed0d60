"""Kernels of the search in a table: which configuration is looked at next.

A configuration is `stride` numbers of `store`, of which the first is its event; a heap holds numbers of configurations.
"""

from __future__ import annotations

from checkers.engines.kernel import kernel
from checkers.engines.search_plan import Numbers


@kernel
def bits(words: Numbers, begin: int, end: int) -> int:
    """How many are set."""
    result = 0
    for place in range(begin, end):
        word = words[place]
        while word != 0:
            word &= word - 1
            result += 1
    return result


@kernel
def sooner(store: Numbers, stride: int, cost: Numbers, one: int, other: int) -> bool:
    """Whether one configuration is to be looked at before another: it came further, or cost less, or is newer."""
    ahead: int = store[one * stride] - store[other * stride]
    less: int = cost[other] - cost[one]
    return ahead > 0 or (ahead == 0 and (less > 0 or (less == 0 and one > other)))


@kernel
def pushed(heap: Numbers, size: int, new: int, store: Numbers, stride: int, cost: Numbers) -> int:
    """Adds a configuration to the heap; its size."""
    at = size
    while at > 0 and sooner(store, stride, cost, new, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = new
    return size + 1


@kernel
def popped(heap: Numbers, size: int, store: Numbers, stride: int, cost: Numbers) -> int:
    """Takes the first configuration from the heap; its size."""
    size -= 1
    last = heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and sooner(store, stride, cost, heap[child + 1], heap[child]):
            child += 1
        if not sooner(store, stride, cost, heap[child], last):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
    return size
