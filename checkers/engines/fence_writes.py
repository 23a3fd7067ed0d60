"""The fenced store that checks tokens on writes alone: exact, O(n log n).

Source: checkers.md, section 2d, with the simplification of rule 4 in checkers-2, section 2. A write is accepted iff
its token >= (strict: >) the highest token accepted so far; values are unique. A group is the accepted writes of one
token, the unanswered writes of it that were read, and the reads of their values. The order of groups is forced.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from checkers.accesses import Access
from checkers.engines.zones import Cluster, conflicts
from checkers.finding import Finding
from checkers.leases import INFINITY
from checkers.wire import NONE

INITIAL: Final = NONE - 1
"""The token of the initial value's group: below every other."""


class Repeated(Exception):
    """A value was written twice: the reads do not say what they read, so this engine cannot judge."""


class Writes(NamedTuple):
    """Writes of one key, and what reads say about them.

    by_value  value → its write, refused ones included.
    read      values that some accepted read returned.
    """

    by_value: dict[int, Access]
    read: set[int]

    def live(self, write: Access) -> bool:
        """Whether it was certainly accepted."""
        return write.ok or (write.unknown and write.value in self.read)


def writes_of(accesses: Sequence[Access]) -> Writes:
    """Raises Repeated."""
    by_value: dict[int, Access] = {}
    for access in accesses:
        if access.write:
            if access.value in by_value or access.value == NONE:
                raise Repeated(f"value {access.value} was written twice")
            by_value[access.value] = access
    return Writes(by_value, {access.value for access in accesses if not access.write and access.ok})


def impossible_reads(accesses: Sequence[Access], writes: Writes) -> Iterator[Finding]:
    """Reads of what was never written, was refused, or was not yet written."""
    for access in accesses:
        if access.write or not access.ok or access.value == NONE:
            continue
        write = writes.by_value.get(access.value)
        if write is None:
            yield Finding("value-never-written", access.inv, (access.row,))
        elif write.refused:
            yield Finding("refused-value-read", access.inv, (write.row, access.row))
        elif access.ret < write.inv:
            yield Finding("value-read-before-write", access.inv, (access.row, write.row))


def fence_writes(accesses: Sequence[Access], *, strict: bool = False) -> list[Finding]:
    """Every place where the store cannot have been fenced; empty iff some order explains everything.

    Raises Repeated.
    """
    writes = writes_of(accesses)
    findings = list(impossible_reads(accesses, writes))
    groups: defaultdict[int, list[Access]] = defaultdict(list)
    for access in accesses:
        if access.write:
            if writes.live(access):
                groups[access.token].append(access)
        elif access.ok:
            write = writes.by_value.get(access.value)
            if access.value == NONE:
                groups[INITIAL].append(access)
            elif write is not None and not write.refused:
                groups[write.token].append(access)
    order = sorted(groups)
    late = list(late_comers([groups[token] for token in order]))
    findings += late
    first_writes = []
    for token in order:
        clusters = _clusters(groups[token])
        findings += within(clusters)
        if strict and len(clusters) > 1 and token != INITIAL:
            findings.append(second_write(clusters))
        first_writes.append(soonest_write(clusters) if token != INITIAL else INFINITY)
    if late:
        return findings  # refusals are explained by the order of tokens, which does not hold
    before = prefix_maximum([max(access.inv for access in groups[token]) for token in order])
    # (token, earliest moment at which it can have raised the bar)
    raises = [(token, max(before[n], first_writes[n])) for n, token in enumerate(order) if token != INITIAL]
    raises += (
        (access.token, max(access.inv, before[bisect_left(order, access.token)]))
        for access in accesses
        if access.write and access.unknown and not writes.live(access) and not (strict and access.token in groups)
    )
    refused = [access for access in accesses if access.write and access.refused]
    findings += needless_refusals(refused, raises, at_or_above=strict)
    return findings


def late_comers(groups: Sequence[Sequence[Access]]) -> Iterator[Finding]:
    """Operations invoked after one of a later group had returned: one finding for each, with the earliest such."""
    earliest: Access | None = None
    for group in reversed(groups):
        if earliest is not None:
            for access in group:
                if access.inv > earliest.ret:
                    kind = "stale-write-accepted" if access.write else "stale-read"
                    yield Finding(kind, access.inv, (earliest.row, access.row))
        for access in group:
            if earliest is None or access.ret < earliest.ret:
                earliest = access


def within(clusters: Sequence[Cluster]) -> Iterator[Finding]:
    """Contradictions between the values of one token."""
    for one, other in conflicts(clusters):
        rows = (one.first_ret.row, other.last_inv.row, other.first_ret.row, one.last_inv.row)
        yield Finding("no-order-within-token", max(one.s, other.s), tuple(dict.fromkeys(rows)))


def second_write(clusters: Sequence[Cluster]) -> Finding:
    """Strict rule: two accepted writes of one token."""
    writes = sorted((c.write for c in clusters if c.write is not None), key=lambda write: write.inv)
    return Finding("second-write-accepted", writes[1].inv, (writes[0].row, writes[1].row))


def needless_refusals(
    refused: Sequence[Access], raises: Sequence[tuple[int, int]], *, at_or_above: bool
) -> Iterator[Finding]:
    """Refusals that nothing explains. raises: (token, earliest moment at which the bar can have stood there)."""
    ordered = sorted(raises)
    tokens = [token for token, _ in ordered]
    soonest = [moment for _, moment in ordered] + [INFINITY]
    for n in range(len(ordered) - 1, -1, -1):
        soonest[n] = min(soonest[n], soonest[n + 1])
    find = bisect_left if at_or_above else bisect_right
    for access in refused:
        if access.ret < soonest[find(tokens, access.token)]:
            yield Finding("needless-refusal", access.inv, (access.row,))


def prefix_maximum(values: Sequence[int]) -> list[int]:
    """Element n: the largest of the first n values, 0 for none; one element more than there are values."""
    result = [0]
    for value in values:
        result.append(max(result[-1], value))
    return result


def _clusters(group: Sequence[Access]) -> list[Cluster]:
    by_value: defaultdict[int, list[Access]] = defaultdict(list)
    for access in group:
        by_value[access.value].append(access)
    return [Cluster(operations) for operations in by_value.values()]


def soonest_write(clusters: Sequence[Cluster], last: Cluster | None = None) -> int:
    """ns; the earliest invocation of a write whose cluster may come first in its group.

    last: the cluster that must come last, and so may be first only if it is alone.
    """
    rets = sorted(cluster.f for cluster in clusters)
    best = INFINITY
    for cluster in clusters:
        others = rets[1] if len(rets) > 1 and cluster.f == rets[0] else rets[0]
        write = cluster.write
        if write is not None and (len(clusters) == 1 or (cluster is not last and cluster.s <= others)):
            best = min(best, write.inv)
    return best
