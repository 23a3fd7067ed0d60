"""A register with unique values: whether its operations can be put in order.

Source: Gibbons and Korach, *Testing shared memories* (1997); checkers.md, section 2e. A cluster is a write and the
reads of its value, and stands together in any valid order. Cluster A must come before B if some operation of A
returned before one of B was invoked; a contradiction between clusters always shows between two of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from checkers.accesses import Access


class Cluster:
    """The operations that share one value. `first_ret` and `last_inv` are what order depends on."""

    __slots__ = ("first_ret", "last_inv", "operations")

    def __init__(self, operations: Iterable[Access]) -> None:
        self.operations = list(operations)
        self.first_ret = min(self.operations, key=lambda access: access.ret)
        self.last_inv = max(self.operations, key=lambda access: access.inv)

    @property
    def f(self) -> int:
        """ns; where some operation of it had returned."""
        return self.first_ret.ret

    @property
    def s(self) -> int:
        """ns; where some operation of it was yet to be invoked, or just was."""
        return self.last_inv.inv

    @property
    def write(self) -> Access | None:
        """The write that the cluster stands around; None for the initial value."""
        return next((access for access in self.operations if access.write), None)


def conflicts(clusters: Sequence[Cluster]) -> Iterator[tuple[Cluster, Cluster]]:
    """Pairs of clusters each of which must come before the other; none means that an order exists.

    Forward zones [f, s], f < s, may not overlap, and no backward zone [s, f] may lie inside a forward one.
    """
    forward = sorted((cluster for cluster in clusters if cluster.f < cluster.s), key=lambda cluster: cluster.f)
    apart: list[Cluster] = []
    for cluster in forward:
        if apart and apart[-1].s > cluster.f:
            yield apart[-1], cluster
            if cluster.s > apart[-1].s:
                apart[-1] = cluster
        else:
            apart.append(cluster)
    begins = [cluster.f for cluster in apart]
    for cluster in clusters:
        if cluster.f >= cluster.s:
            place = bisect_left(begins, cluster.s) - 1
            if place >= 0 and apart[place].s > cluster.f:
                yield apart[place], cluster
