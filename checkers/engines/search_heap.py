"""Kernels of the search in a table (`search_table`): which configuration is looked at next."""

from typing import NamedTuple

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


class Known(NamedTuple):
    """Configurations that were reached, by number; -1 for none."""

    store: Numbers  # `stride` numbers of each: event, state, mask of those in flight, mask of the unknown ones
    cost: Numbers  # of each: with less it is looked at sooner
    parent: Numbers  # of each the one that it came from
    through: Numbers  # of each the operation that led to it
    tried: Numbers  # of each how many of its choices were looked at
    hashes: Numbers  # of each
    links: Numbers  # of each another of equal hash
    heads: Numbers  # of each hash the latest one
    heap: Numbers  # those that are yet to be looked at


@kernel
def sooner(known: Known, stride: int, first: int, second: int) -> bool:
    """Whether one configuration is to be looked at before another: it came further, or cost less, or is newer."""
    ahead: int = known.store[first * stride] - known.store[second * stride]
    less: int = known.cost[second] - known.cost[first]
    return ahead > 0 or (ahead == 0 and (less > 0 or (less == 0 and first > second)))


@kernel
def pushed(known: Known, size: int, stride: int, new: int) -> int:
    """Adds a configuration to the heap; its size."""
    heap = known.heap
    at = size
    while at > 0 and sooner(known, stride, new, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = new
    return size + 1


@kernel
def popped(known: Known, size: int, stride: int) -> int:
    """Takes the first configuration from the heap; its size."""
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
