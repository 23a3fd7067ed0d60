"""Known histories of jobs and sales."""

from checkers.check import applicable
from checkers.history.view import View
from checkers.properties.updates import DUPLICATES, JOBS, PER_JOBS
from checkers.row_format import NONE, F
from checkers.tests.build import Book
from checkers.tests.compare import GOOD, known

NAME, UPDATES = "no-duplicate", "no-lost-update"


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
    NAME,
    ("each job once", jobs(0, 1, 2), {**GOOD, JOBS: 3}),
    ("a job done again, and again", jobs(0, 1, 1, 1), TWICE),
    ("the two that did it", jobs(0, 1, 1), {"owners": (2, 3), "told": ("worker 2 did job 1 at 0.000 s",)}),
    ("two sales from one list", sales(NONE, 100, 100), {"kind": "sold-twice", "at": 33, "told": SOLD}),
    ("no job", jobs(), {"unexercised": "no jobs done, 2 needed"}),
    ("one job", jobs(3), {"unexercised": "1 job done, 2 needed"}),
)

test_sales_are_a_list_of_updates = known(UPDATES, ("too", sales(NONE, 100).final(60, 61, 200, 2), GOOD))


def test_what_a_history_shows_is_asked() -> None:
    assert all(NAME in applicable(View(book.history())) for book in (jobs(0), sales(NONE)))
