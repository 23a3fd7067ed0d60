"""Known histories of lists that nothing may be lost from, and of jobs and sales that are done once."""

from typing import Any

from checkers.check import applicable, missing
from checkers.history.view import View
from checkers.properties.updates import DUPLICATES, FORKS, JOBS, LOST, PER_JOBS
from checkers.row_format import NONE, F
from checkers.tests.build import INFO, Book
from checkers.tests.compare import GOOD, VALID, known, result_on

UPDATES = "no-lost-update"


def overwritten(**facts: Any) -> Book:
    """Worker 1 reads the empty list; worker 2 adds 20 and worker 3 adds 30; then worker 1 writes back its [10]."""
    book = Book(workload="set", keys=("a",), **facts)
    book.acquire(1, 2, 1).read(3, 4, 1, -1)
    book.acquire(3, 10, 2).read(11, 12, 2, -1).write(13, 14, 2, 20, base=-1).release(15, 16, 2)
    book.acquire(17, 18, 3).read(19, 20, 3, 20).write(21, 22, 3, 30, base=20).release(23, 24, 3)
    return book.write(30, 31, 1, 10, base=-1).release(32, 33, 1)


def final(value: int, length: int) -> Book:
    return overwritten().final(40, 41, value, length)


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
# Each lost branch is judged by itself: what excuses the one does not excuse the other.
THREE = Book(workload="set", keys=("a",))
for owner in (1, 2, 3):
    THREE.acquire(owner, 5 + owner, owner).read(10, 11, owner, -1).write(20 + owner, 30, owner, owner, base=-1)
THREE.final(40, 41, 2, 1)

test_lists = known(
    UPDATES,
    ("a fork", final(10, 1), FORK),
    ("the stale write is lost", STALE, {"at": 15, "owners": (1, 2)}),
    ("three branches are two forks", THREE, {"kinds": ["lost-update", "lost-update"]}),
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
    (violation,) = result_on(final(10, 1), UPDATES).violations
    assert final(10, 1).history().columns["value"][list(violation.rows)].tolist() == [-1, -1, 20, 10, 10]


def test_while_a_trial_runs_only_what_is_missing_besides_counts() -> None:
    assert missing(overwritten().history(), [UPDATES]) == {}
    assert UPDATES in missing(Book(workload="set").acquire(1, 2, 1).history(), [UPDATES])


def jobs(*done: int) -> Book:
    """Two workers in turn, the second waiting for the first, one job each."""
    book = Book(workload="once", keys=("a",))
    for owner, job in enumerate(done, 1):
        at = 10 * owner
        book.acquire(at - 8, at + 1, owner).add(F.EFFECT, at + 2, at + 2, owner=owner, process=owner, value=job)
        book.release(at + 4, at + 5, owner)
    return book


def sales(*bases: int) -> Book:
    book = Book(workload="inventory", keys=("a",))
    for owner, base in enumerate(bases, 1):
        at = 10 * owner
        book.acquire(at - 8, at + 1, owner).read(at + 2, at + 2, owner, base)
        book.write(at + 3, at + 4, owner, 100 * owner, base=base).release(at + 5, at + 6, owner)
    return book


SOLD = ("worker 3's write of 300",)
TWICE = {"kinds": ["done-twice", "done-twice"], DUPLICATES: 2, PER_JOBS: 1000}

test_jobs_and_sales = known(
    "no-duplicate",
    ("each job once", jobs(0, 1, 2), {**GOOD, JOBS: 3}),
    ("a job done again, and again", jobs(0, 1, 1, 1), TWICE),
    ("the two that did it", jobs(0, 1, 1), {"owners": (2, 3), "told": ("worker 2 did job 1 at 0.000 s",)}),
    ("two sales from one list", sales(NONE, 100, 100), {"kind": "sold-twice", "at": 33, "told": SOLD}),
    ("no job", jobs(), {"unexercised": "no jobs done, 2 needed"}),
    ("one job", jobs(3), {"unexercised": "1 job done, 2 needed"}),
)

test_sales_are_a_list_of_updates = known(UPDATES, ("too", sales(NONE, 100).final(60, 61, 200, 2), GOOD))


def test_what_a_history_shows_is_asked() -> None:
    assert all("no-duplicate" in applicable(View(book.history())) for book in (jobs(0), sales(NONE)))
