"""Locks without their servers: those that need none, and what Redlock makes of votes."""

import os
import time
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest

from checkers.row_format import Reason
from suites.lock import Grant, Indeterminate, Refused
from suites.locks.antipatterns import lockfile
from suites.locks.antipatterns.lockfile import LockFile
from suites.locks.redis_node import RedisNode
from suites.locks.redlock import Redlock, Votes
from suites.locks.without.no_lock import NoLock
from suites.tests.bench import granted, refusal


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lockfile, "FOLDER", tmp_path / "locks")
    return tmp_path / "locks"


class TestLockFile:
    def test_one_at_a_time(self, folder: Path) -> None:
        one, other = LockFile.open((), 0.6), LockFile.open((), 0.6)
        grant = granted(one.acquire("a/b", 1.0))
        assert len(list(folder.iterdir())) == 1
        assert refusal(lambda: other.acquire("a/b", 0)) is Reason.HELD
        assert other.acquire("a/b", 0.05) is None
        assert other.acquire("c", 0) is not None
        one.release(grant)
        assert other.acquire("a/b", 0) is not None

    def test_what_is_gone_cannot_be_released(self, folder: Path) -> None:
        lock = LockFile.open((), 0.6)
        grant = granted(lock.acquire("a", 0))
        next(folder.iterdir()).unlink()
        assert refusal(lambda: lock.release(grant)) is Reason.NOT_OWNER

    def test_only_what_was_left_behind_long_ago_is_cleared_away(self, folder: Path) -> None:
        lock = LockFile.open((), 0.6)
        assert lock.acquire("fresh", 0) is not None
        assert lock.acquire("stale", 0) is not None
        (stale,) = (file for file in folder.iterdir() if file.name == lockfile._file("stale").name)
        long_ago = time.time() - lockfile.FORGOTTEN - 1
        os.utime(stale, (long_ago, long_ago))
        LockFile.open((), 0.6)
        assert [file.name for file in folder.iterdir()] == [lockfile._file("fresh").name]


def test_without_a_lock_everybody_is_let_in() -> None:
    one, other = NoLock.open((), 0.6), NoLock.open((), 0.6)
    assert len({granted(client.acquire("a", 0)).owner for client in (one, other)}) == 2


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
