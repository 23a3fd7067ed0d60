"""Known histories of jobs and sales."""

from checkers.check import applicable
from checkers.history.view import View
from checkers.properties.updates import DUPLICATES, JOBS, PER_JOBS
from checkers.row_format import NONE, F
from checkers.tests.build import Book, cases
from checkers.tests.compare import GOOD, answers, result_on

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


TWICE = {"kinds": ["done-twice", "done-twice"], DUPLICATES: 2, PER_JOBS: 1000}


@cases(
    "name, book, expected",
    ("each job once", NAME, jobs(0, 1, 2), {**GOOD, JOBS: 3}),
    ("a job done again, and again", NAME, jobs(0, 1, 1, 1), TWICE),
    ("the two that did it", NAME, jobs(0, 1, 1), {"owners": (2, 3)}),
    ("two sales from one list", NAME, sales(NONE, 100, 100), {"kind": "sold-twice", "at": 33}),
    ("sales are a list of updates too", UPDATES, sales(NONE, 100).final(60, 61, 200, 2), GOOD),
    ("no job", NAME, jobs(), {"unexercised": "no jobs done, 2 needed"}),
    ("one job", NAME, jobs(3), {"unexercised": "1 job done, 2 needed"}),
)
def test_jobs_and_sales(name: str, book: Book, expected: dict[str, object]) -> None:
    assert answers(name, book, expected) == expected


def test_stories_tell_of_jobs_and_sales() -> None:
    assert "worker 2 did job 1 at 0.000 s" in result_on(jobs(0, 1, 1), NAME).violations[0].story
    (violation,) = result_on(sales(NONE, 100, 100), NAME).violations
    assert "worker 3's write of 300" in " ".join(violation.story)


def test_what_a_history_shows_is_asked() -> None:
    assert all(NAME in applicable(View(book.history())) for book in (jobs(0), sales(NONE)))
