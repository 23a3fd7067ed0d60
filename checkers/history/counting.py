"""Counts pairs without looking at each pair: intervals that meet, points in a quadrant. Also masks and groups of rows.

All keys of a history are counted at once: `apart` moves the times of each key so far that no two keys overlap.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class KeyOffsets(NamedTuple):
    """Times that are moved so that those of different keys do not overlap."""

    # For each column of times, shape (n,): ``key * width + rank`` of the time among all of them. Ranks begin at 1, so
    # the values just before and just after a place still belong to the same key.
    places: tuple[Ints, ...]
    times: Ints  # the distinct times in order
    width: int

    def key(self, places: Ints) -> Ints:
        return places // self.width

    def time(self, places: Ints) -> Ints:
        return self.times[places % self.width - 1]


def apart(*columns: tuple[Array, Array]) -> KeyOffsets:
    """The places of columns (key, time). Places keep the order and the equality of times within a key."""
    times, ranks = np.unique(np.concatenate([np.asarray(c[1], np.int64) for c in columns]), return_inverse=True)
    width = len(times) + 2
    parts = np.split(ranks, np.cumsum([len(column) for _, column in columns])[:-1])
    places = (np.asarray(key, np.int64) * width + 1 + part for (key, _), part in zip(columns, parts, strict=True))
    return KeyOffsets(tuple(places), times, width)


def below(values: Ints, prefix: Ints, bound: Ints) -> Ints:
    """For each query, how many of the first `prefix` of `values` are less than `bound`. Shape of prefix.

    values and bound are at least 0. A wavelet matrix (Claude, Navarro and Ordóñez 2015), with one pass for each bit.
    """
    left, right = np.zeros_like(prefix), prefix.copy()
    counts = np.zeros_like(prefix)
    if not len(values) or not len(prefix):
        return counts
    for bit in reversed(range(int(max(values.max(), bound.max())).bit_length())):
        zero = values >> bit & 1 == 0
        zeros = np.concatenate(([0], np.cumsum(zero)))
        high = bound >> bit & 1 == 1
        first, last = zeros[left], zeros[right]
        counts += np.where(high, last - first, 0)
        left = np.where(high, zeros[-1] + left - first, first)
        right = np.where(high, zeros[-1] + right - last, last)
        values = np.concatenate((values[zero], values[~zero]))
    return counts


def crossing(latest: Ints, end: Ints) -> Ints:
    """For each grant, the number of pairs in which it is the later grant and the two cannot have followed one another.

    Shape (n,). latest, end: places of its latest start and earliest end (`checkers.history.holds_and_lease_ends.Hold`).
    Of two cores the later begins later. A grant without a core counts as the later one: it lies within the core of the
    other. Two grants without a core can always follow one another.
    """
    pairs = np.zeros(len(latest), np.int64)
    core = latest < end
    order = np.flatnonzero(core)[np.argsort(latest[core], kind="stable")]
    begins, ends = latest[order], end[order]
    pairs[order] = np.arange(len(order)) - np.searchsorted(np.sort(ends), begins, "right")
    loose = np.flatnonzero(~core)
    before = np.searchsorted(begins, end[loose], "left")
    pairs[loose] = before - below(ends, before, latest[loose] + 1)
    return pairs


def meeting(begin: Ints, end: Ints) -> int:
    """The number of pairs of closed intervals that share an instant."""
    n = len(begin)
    return n * (n - 1) // 2 - int(np.searchsorted(np.sort(end), begin, "left").sum())


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Key → its items. Keys stand in the order in which they first occur."""
    result: dict[K, list[T]] = {}
    for item in items:
        result.setdefault(key(item), []).append(item)
    return result


def any_of(values: Array, wanted: Sequence[int]) -> Flags:
    """Whether each value is in `wanted`. Several times faster than `numpy.isin` for a few wanted values."""
    mask = np.zeros(len(values), bool)
    for value in wanted:
        mask |= values == int(value)
    return mask


def quantile(ordered: Sequence[int] | Ints, permille: int) -> int:
    """The smallest value that at least `permille` thousandths of all do not exceed. ordered: not empty, sorted."""
    return int(ordered[max(-(-permille * len(ordered) // 1000) - 1, 0)])
