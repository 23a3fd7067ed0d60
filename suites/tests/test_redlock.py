"""What Redlock makes of the votes on a release: only what certainly did not happen is refused."""

from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

import pytest

from checkers.wire import Reason
from suites.lock import Grant, Indeterminate, Refused
from suites.locks.redis_node import Node
from suites.locks.redlock import Redlock, Votes

GRANT = Grant("a", 1, None, 0, 10, 10)


def release(yes: int, no: int, unknown: int = 0) -> None:
    """By so many nodes of five; the rest was not asked."""
    ends = (0, yes, yes + no, yes + no + unknown, 5)
    nodes = [frozenset(range(first, end)) for first, end in pairwise(ends)]
    votes = Votes(yes=nodes[0], no=nodes[1], unknown=nodes[2], unasked=nodes[3], why="")
    lock = Redlock([Node(f"127.0.0.1:{port}", 0.1) for port in range(1, 6)], 1.0)
    with patch.object(Redlock, "_ask", return_value=votes):
        lock.release(GRANT)


def test_a_majority_that_had_it_and_gave_it_up() -> None:
    release(yes=3, no=2)
    release(yes=3, no=0, unknown=2)


def test_nobody_had_it_any_more() -> None:
    with pytest.raises(Refused) as refusal:
        release(yes=0, no=3)
    assert refusal.value.reason is Reason.NOT_OWNER


@pytest.mark.parametrize(("yes", "no", "unknown"), [(1, 4, 0), (2, 3, 0), (2, 1, 0), (2, 0, 3), (0, 2, 3), (1, 1, 1)])
def test_what_was_given_up_in_part_is_in_doubt(yes: int, no: int, unknown: int) -> None:
    """Even where the majority says that it was not the owner: the others may have kept somebody out until now."""
    with pytest.raises(Indeterminate):
        release(yes, no, unknown)
