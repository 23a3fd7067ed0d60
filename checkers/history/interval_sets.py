"""Spans of time [begin, end] in ns: their union, and their difference."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter

Span = tuple[int, int]


def united(spans: Iterable[Span]) -> list[Span]:
    """The union: the same moments in spans that do not touch, in order. Spans without length are left out."""
    result: list[Span] = []
    for begin, end in sorted(span for span in spans if span[0] < span[1]):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return result


def shared_by(many: int, spans: Iterable[Span]) -> list[Span]:
    """The moments that at least `many` of the spans share, in spans as `united` returns them."""
    steps = sorted(step for begin, end in spans for step in ((begin, 1), (end, -1)))
    inside = accumulate(step for _, step in steps[:-1])
    between = zip(pairwise(at for at, _ in steps), inside, strict=True)
    return united(span for span, count in between if count >= many)


def clipped(spans: Iterable[Span], begin: int, end: int) -> list[Span]:
    """The part of each span between two moments."""
    return [(max(first, begin), min(last, end)) for first, last in spans if first < end and last > begin]


def without(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """The parts of `spans` outside all `others`; both as `united` returns them. O(log n + others met) for each span."""
    result: list[Span] = []
    for begin, end in spans:
        place = bisect_right(others, begin, key=itemgetter(1))
        while place < len(others) and others[place][0] < end:
            taken, given = others[place]
            if taken > begin:
                result.append((begin, taken))
            begin = given
            place += 1
        if begin < end:
            result.append((begin, end))
    return result


def length(spans: Iterable[Span]) -> int:
    """ns; the sum of the lengths of spans that do not overlap."""
    return sum(end - begin for begin, end in spans)


def moment(spans: Sequence[Span], after: int) -> int:
    """ns; the moment when `after` ns of the spans have passed. Raises ValueError if the spans are shorter than that."""
    for begin, end in spans:
        if after < end - begin:
            return begin + after
        after -= end - begin
    raise ValueError("the spans are shorter than that")


def meets(begins: Sequence[int], ends: Sequence[int], begin: int, end: int) -> bool:
    """Whether any of some spans shares an instant with [begin, end]. begins, ends: of all these spans, each sorted."""
    return bisect_right(begins, end) > bisect_left(ends, begin)
