"""Spans of time against counting moments."""

from collections.abc import Iterable
from random import Random

import pytest

from checkers.history.interval_sets import Span, clipped, length, moment, united, without


def moments(spans: Iterable[Span]) -> set[int]:
    return {at for begin, end in spans for at in range(begin, end)}


def test_against_counting() -> None:
    rng = Random(5)
    for _ in range(2000):
        some, others = (
            [(begin, begin + rng.randint(0, 5)) for begin in (rng.randint(0, 20) for _ in range(rng.randint(0, 4)))]
            for _ in range(2)
        )
        assert moments(united(some)) == moments(some)
        assert length(united(some)) == len(moments(some))
        assert moments(clipped(some, 5, 12)) == moments(some) & set(range(5, 12))
        left = without(united(some), united(others))
        assert moments(left) == moments(some) - moments(others)
        assert length(left) == len(moments(left))
        for place, at in enumerate(sorted(moments(left))):
            assert moment(left, place) == at


def test_there_is_no_moment_after_their_end() -> None:
    with pytest.raises(ValueError, match="shorter"):
        moment([(1, 3)], 2)
