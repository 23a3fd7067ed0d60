"""What Redlock makes of the votes on a release: only what certainly did not happen is refused."""

from itertools import pairwise
from unittest.mock import patch

import pytest

from checkers.row_format import Reason
from suites.lock import Grant, Indeterminate, Refused
from suites.locks.redis_node import RedisNode
from suites.locks.redlock import Redlock, Votes

GRANT = Grant("a", 1, None, 0, 10, 10)


@pytest.mark.parametrize(
    ("yes", "no", "unknown", "outcome"),
    [
        (3, 2, 0, "released"),
        (3, 0, 2, "released"),
        (0, 3, 0, Reason.NOT_OWNER),
        *((*votes, "in doubt") for votes in ((1, 4, 0), (2, 3, 0), (2, 1, 0), (2, 0, 3), (0, 2, 3), (1, 1, 1))),
    ],
)
def test_a_release_is_what_the_votes_of_five_nodes_say(yes: int, no: int, unknown: int, outcome: object) -> None:
    """Nodes that did not vote were not asked. What was given up in part is in doubt even where the majority says that
    it was not the owner: the others may have kept somebody out until now.
    """
    ends = (0, yes, yes + no, yes + no + unknown, 5)
    nodes = [frozenset(range(first, end)) for first, end in pairwise(ends)]
    votes = Votes(yes=nodes[0], no=nodes[1], unknown=nodes[2], unasked=nodes[3], why="")
    lock = Redlock([RedisNode(f"127.0.0.1:{port}", 0.1) for port in range(1, 6)], 1.0)
    came_to: object = "released"
    with patch.object(Redlock, "_ask", return_value=votes) as ask:
        try:
            lock.release(GRANT)
        except Refused as refused:
            came_to = refused.reason
        except Indeterminate:
            came_to = "in doubt"
    assert (came_to, ask.call_count) == (outcome, 1)


def test_a_node_is_closed_while_another_thread_takes_its_connection() -> None:
    """As a renewal does that is still under way when the worker ends."""

    class Taken(list[object]):
        def __bool__(self) -> bool:
            return True  # seen just before the other thread took the last one

    node = RedisNode("127.0.0.1:1", 0.1)
    node._idle = Taken()
    node.close()
