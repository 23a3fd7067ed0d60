"""Known histories of the set workload."""

from typing import Any

from checkers.check import missing
from checkers.properties.no_lost_update import FORKS, LOST
from checkers.tests.build import INFO, Book
from checkers.tests.compare import VALID, known, result_on

NAME = "no-lost-update"


def overwritten(**facts: Any) -> Book:
    """Worker 1 reads the empty list; worker 2 adds 20 and worker 3 adds 30; then worker 1 writes back its [10]."""
    book = Book(workload="set", keys=("a",), **facts)
    book.acquire(1, 2, 1).read(3, 4, 1, -1)
    book.acquire(3, 10, 2).read(11, 12, 2, -1).write(13, 14, 2, 20, base=-1).release(15, 16, 2)
    book.acquire(17, 18, 3).read(19, 20, 3, 20).write(21, 22, 3, 30, base=20).release(23, 24, 3)
    return book.write(30, 31, 1, 10, base=-1).release(32, 33, 1)


def final(value: int, length: int) -> Book:
    return overwritten().final(40, 41, value, length)


def three() -> Book:
    """Each lost branch is judged by itself: what excuses the one does not excuse the other."""
    book = Book(workload="set", keys=("a",))
    for owner in (1, 2, 3):
        book.acquire(owner, 5 + owner, owner).read(10, 11, owner, -1).write(20 + owner, 30, owner, owner, base=-1)
    return book.final(40, 41, 2, 1)


def delayed(sent: int) -> Book:
    """A write without an answer, and a fault on the way to the store until 38."""
    book = overwritten(fault_names=("store-reply-lost",)).acquire(33, 34, 4).write(sent, 0, 4, 40, INFO, base=10)
    return book.fault("store-reply-lost", 20, 38, target="replies of the store to clients c1").final(50, 51, 10, 1)


# As behind a fence on writes alone: the stale write lands between its successor's read and write.
STALE = Book(workload="set", keys=("a",)).acquire(1, 2, 1).read(3, 4, 1, -1).acquire(3, 10, 2).read(11, 12, 2, -1)
STALE.write(13, 14, 1, 10, base=-1).write(15, 16, 2, 20, base=-1).final(40, 41, 20, 1)
TWO_KEYS = Book(workload="set").acquire(1, 2, 1).write(3, 4, 1, 10, base=-1).acquire(3, 5, 2, key=1)
TWO_KEYS.write(6, 7, 2, 20, base=-1, key=1).final(40, 41, 10, 1).final(42, 43, 20, 1, key=1)
# A register's writes name no base: none of them is lost for that.
REGISTER = Book(keys=("a",)).acquire(1, 2, 1).write(3, 4, 1, 10).write(5, 6, 1, 11).final(7, 8, 11)
FORK = {"kind": "lost-update", "at": 30, "owners": (1, 2), LOST: 2, FORKS: 1, "unexercised": None}
NO_LIST = {"valid": True, "unexercised": "the workload register keeps no list of updates"}

test_lists = known(
    NAME,
    ("a fork", final(10, 1), FORK),
    ("the stale write is lost", STALE, {"at": 15, "owners": (1, 2)}),
    ("three branches are two forks", three(), {"kinds": ["lost-update", "lost-update"]}),
    ("a list of another length", final(10, 2), {"kinds": ["lost-update", "corrupt-list"]}),
    ("an element that nobody wrote", final(99, 1), {"kinds": ["value-never-written"]}),
    ("what nothing overwrote", final(20, 1), {"kinds": ["vanished", "lost-update"]}),
    ("keys have lists of their own", TWO_KEYS, VALID),
    ("no final read", overwritten(), {"valid": True, "unexercised": "no final read of a"}),
    ("other workloads keep no list", REGISTER, NO_LIST),
    ("a fault met a write", delayed(36), {"unexercised": None}),
    ("it met none", delayed(39), {"unexercised": "store-reply-lost left no write without an answer"}),
)


def test_a_fork_names_both_writers_and_their_reads() -> None:
    (violation,) = result_on(final(10, 1), NAME).violations
    assert final(10, 1).history().columns["value"][list(violation.rows)].tolist() == [-1, -1, 20, 10, 10]


def test_while_a_trial_runs_only_what_is_missing_besides_counts() -> None:
    assert missing(overwritten().history(), [NAME]) == {}
    assert NAME in missing(Book(workload="set").acquire(1, 2, 1).history(), [NAME])
