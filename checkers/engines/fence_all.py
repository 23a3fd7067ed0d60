"""The fenced store whose reads carry tokens too and raise the bar: exact, O(n log n).

Source: checkers-2, section 2 (2d'). An access is accepted iff its token >= the highest token accepted so far, which
it then becomes (strict: a write needs a larger one). A group is the certain accesses of one token, by the access's
own token. Two forms: where each token's accesses follow one another, their order is known and values need not be
unique; where they overlap, the general form decides.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence

from checkers.accesses import Access
from checkers.engines.fence_writes import (
    Writes,
    impossible_reads,
    late_comers,
    needless_refusals,
    prefix_maximum,
    second_write,
    soonest_write,
    within,
    writes_of,
)
from checkers.engines.zones import Cluster
from checkers.finding import Finding
from checkers.wire import NONE


def fence_all(accesses: Sequence[Access], *, strict: bool = False) -> list[Finding]:
    """Every place where the store cannot have been fenced; empty iff some order explains everything.

    Raises Repeated where values repeat and accesses of one token overlap.
    """
    placed = _place_final_reads(accesses)
    form = sequential if is_sequential(placed) else general
    return form(placed, strict=strict)


def is_sequential(accesses: Sequence[Access]) -> bool:
    """Whether the accesses of each token follow one another, nothing after an unknown one."""
    last: dict[int, int] = {}
    for access in sorted(accesses, key=lambda a: a.inv):
        if not access.refused:
            if last.get(access.token, -1) >= access.inv:
                return False
            last[access.token] = access.ret
    return True


def sequential(accesses: Sequence[Access], *, strict: bool = False) -> list[Finding]:
    """Tokens whose accesses follow one another: one sort, one running maximum, one replay."""
    findings: list[Finding] = []
    read = {access.value for access in accesses if not access.write and access.ok}
    live = [a for a in accesses if a.ok or (a.unknown and a.write and a.value in read)]
    live.sort(key=lambda a: (a.token, a.inv))
    groups = _groups(live)
    order = sorted(groups)
    findings += late_comers([groups[token] for token in order])
    if findings:
        return findings  # what else would be found supposes the order of tokens, and would only repeat this
    findings += _replay(live, accesses)
    if strict:
        for group in groups.values():
            findings += (
                Finding("second-write-accepted", access.inv, (group[0].row, access.row))
                for access in group[1:]
                if access.write
            )
    before = prefix_maximum([max(access.inv for access in groups[token]) for token in order])
    first = [groups[token][0].inv for token in order]
    carried = [_carries(groups[token]) for token in order]
    findings += _refusals(accesses, read, order, before, first, carried, groups, strict=strict)
    return findings


def general(accesses: Sequence[Access], *, strict: bool = False) -> list[Finding]:
    """Accesses of one token may overlap. Raises Repeated."""
    writes = writes_of(accesses)
    findings = list(impossible_reads(accesses, writes))
    live = [a for a in accesses if (writes.live(a) if a.write else a.ok)]
    findings += (
        Finding("value-read-below-its-token", a.inv, (writes.by_value[a.value].row, a.row))
        for a in live
        if not a.write and a.value in writes.by_value and writes.by_value[a.value].token > a.token
    )
    groups = _groups(live)
    order = sorted(groups)
    findings += late_comers([groups[token] for token in order])
    if findings:
        return findings  # see `sequential`
    parts = {token: _split(groups[token], token, writes) for token in order}
    last_values, mismatches = _carried_values(order, parts)
    findings += mismatches
    first = []
    for token in order:
        carried, clusters = parts[token]
        last = clusters.get(last_values[token]) if token in last_values else None
        findings += _inside(carried, clusters, last)
        if strict and (len(clusters) > 1 or (clusters and carried)):
            findings.append(_strict_broken(carried, clusters))
        first.append(_soonest(carried, clusters, last))
    before = prefix_maximum([max(access.inv for access in groups[token]) for token in order])
    carries = [bool(parts[token][0]) for token in order]
    findings += _refusals(accesses, writes.read, order, before, first, carries, groups, strict=strict)
    return findings


def _place_final_reads(accesses: Sequence[Access]) -> list[Access]:
    """Reads past the fence come after everything: as if under the highest token there is, which raises nothing."""
    highest = max((access.token for access in accesses if not access.final), default=0)
    return [
        access._replace(token=highest) if access.final else access
        for access in accesses
        if access.final or access.token != NONE
    ]


def _groups(live: Sequence[Access]) -> dict[int, list[Access]]:
    groups: defaultdict[int, list[Access]] = defaultdict(list)
    for access in live:
        groups[access.token].append(access)
    return dict(groups)


# Order known


def _replay(live: Sequence[Access], accesses: Sequence[Access]) -> Iterator[Finding]:
    """Reads that did not return the latest write, in the known order."""
    refused = {access.value: access for access in accesses if access.write and access.refused}
    current: Access | None = None
    for access in live:
        if access.write:
            current = access
        elif access.value != (NONE if current is None else current.value):
            if access.value in refused:
                yield Finding("refused-value-read", access.inv, (refused[access.value].row, access.row))
            else:
                proof = () if current is None else (current.row,)
                yield Finding("not-the-latest-value", access.inv, (*proof, access.row))


def _carries(group: Sequence[Access]) -> bool:
    return not group[0].write


# Order to be found within a token


Parts = tuple[list[Access], dict[int, Cluster]]


def _split(group: Sequence[Access], token: int, writes: Writes) -> Parts:
    """A group's carried reads (of a value written under a lower token) and its clusters by value."""
    carried: list[Access] = []
    by_value: defaultdict[int, list[Access]] = defaultdict(list)
    for access in group:
        write = writes.by_value.get(access.value)
        if access.write or (write is not None and write.token == token and writes.live(write)):
            by_value[access.value].append(access)
        else:
            carried.append(access)
    return carried, {value: Cluster(operations) for value, operations in by_value.items()}


def _carried_values(order: Sequence[int], parts: dict[int, Parts]) -> tuple[dict[int, int], list[Finding]]:
    """Token → the value that later groups carry from it, which is therefore its last; and the reads that disagree."""
    last: dict[int, int] = {}
    reader: dict[int, Access] = {}
    findings = []
    source: int | None = None
    for token in order:
        carried, clusters = parts[token]
        for access in carried:
            if source is None:
                if access.value != NONE:
                    findings.append(Finding("not-the-latest-value", access.inv, (access.row,)))
                continue
            possible = parts[source][1]
            if access.value not in possible:
                newest = max(possible.values(), key=lambda cluster: cluster.s).last_inv
                findings.append(Finding("not-the-latest-value", access.inv, (newest.row, access.row)))
            elif last.setdefault(source, access.value) != access.value:
                findings.append(Finding("not-the-latest-value", access.inv, (reader[source].row, access.row)))
            else:
                reader.setdefault(source, access)
        if clusters:
            source = token
    return last, findings


def _inside(carried: Sequence[Access], clusters: dict[int, Cluster], last: Cluster | None) -> Iterator[Finding]:
    """Carried reads come first, the cluster that later tokens still read comes last, the rest between."""
    if carried and clusters:
        late = max(carried, key=lambda access: access.inv)
        early = min(clusters.values(), key=lambda cluster: cluster.f).first_ret
        if late.inv > early.ret:
            yield Finding("stale-read", late.inv, (early.row, late.row))
    others = [cluster for cluster in clusters.values() if cluster is not last]
    if last is not None and others:
        latest = max(others, key=lambda cluster: cluster.s)
        if latest.s > last.f:
            yield Finding("overwritten-value-read-later", latest.s, (last.first_ret.row, latest.last_inv.row))
    yield from within(others)


def _strict_broken(carried: Sequence[Access], clusters: dict[int, Cluster]) -> Finding:
    if len(clusters) > 1:
        return second_write(list(clusters.values()))
    write = next(iter(clusters.values())).write
    assert write is not None  # a cluster stands around its write
    return Finding("second-write-accepted", write.inv, (carried[0].row, write.row))


def _soonest(carried: Sequence[Access], clusters: dict[int, Cluster], last: Cluster | None) -> int:
    """ns; the smallest invocation of an access that may come first in its group."""
    if carried:
        return min(access.inv for access in carried)
    return soonest_write(list(clusters.values()), last)


# Refusals, for both forms


def _refusals(
    accesses: Sequence[Access],
    read: set[int],
    order: Sequence[int],
    before: Sequence[int],
    first: Sequence[int],
    carries: Sequence[bool],
    groups: dict[int, list[Access]],
    *,
    strict: bool,
) -> Iterator[Finding]:
    """Refusals that neither a certain access nor an unanswered one explains."""
    raises = [(token, max(before[n], first[n])) for n, token in enumerate(order)]
    for access in accesses:
        if not access.unknown or (access.write and access.value in read):
            continue
        place = bisect_left(order, access.token)
        group = groups.get(access.token, ())
        if access.write:
            # It would overwrite what the next group still reads; strictly, it would keep its own group's write out.
            eligible = not (place < len(order) and carries[place]) and not (strict and group)
        else:
            eligible = not (strict and any(other.write for other in group))
        if eligible:
            raises.append((access.token, max(access.inv, before[place])))
    refused = [access for access in accesses if access.refused]
    yield from needless_refusals([a for a in refused if a.write], raises, at_or_above=strict)
    yield from needless_refusals([a for a in refused if not a.write], raises, at_or_above=False)
