"""Known histories of jobs and sales."""

from checkers.check import applicable
from checkers.history.view import View
from checkers.tests.build import Book
from checkers.tests.compare import asking
from checkers.wire import NONE, F

result = asking("no-duplicate")


def jobs(*done: int) -> Book:
    """Two workers in turn, the second waiting for the first, one job each."""
    book = Book(workload="once", keys=("a",))
    for owner, job in enumerate(done, 1):
        at = 10 * owner
        book.acquire(at - 8, at + 1, owner).add(F.EFFECT, at + 2, at + 2, owner=owner, process=owner, value=job)
        book.release(at + 4, at + 5, owner)
    return book


def test_each_job_once() -> None:
    found = result(jobs(0, 1, 2))
    assert found.valid
    assert found.unexercised is None
    assert found.counters["jobs"] == 3


def test_a_job_done_again_names_both_that_did_it() -> None:
    found = result(jobs(0, 1, 1, 1))
    assert [violation.kind for violation in found.violations] == ["done-twice", "done-twice"]
    assert found.counters["duplicates"] == 2
    assert found.counters["duplicates per 1000 jobs"] == 1000
    first = found.violations[0]
    history = jobs(0, 1, 1, 1).history()
    assert history.columns["owner"][list(first.holders)].tolist() == [2, 3]
    assert "worker 2 did job 1 at 0.000 s" in first.story


def sales(*bases: int, outcome: object = None) -> Book:
    book = Book(workload="inventory", keys=("a",))
    for owner, base in enumerate(bases, 1):
        at = 10 * owner
        book.acquire(at - 8, at + 1, owner).read(at + 2, at + 2, owner, base)
        book.write(at + 3, at + 4, owner, 100 * owner, base=base).release(at + 5, at + 6, owner)
    return book


def test_two_sales_from_one_list_sold_one_item() -> None:
    assert result(sales(NONE, 100, 200)).valid
    (violation,) = result(sales(NONE, 100, 100)).violations
    assert (violation.kind, violation.at) == ("sold-twice", 33)
    assert "worker 3's write of 300" in " ".join(violation.story)


def test_sales_are_a_list_of_updates_too() -> None:
    found = result(sales(NONE, 100).final(60, 61, 200, 2), "no-lost-update")
    assert found.valid
    assert found.unexercised is None
    assert result(sales(NONE, NONE).final(60, 61, 200, 1), "no-lost-update").valid is False


def test_what_a_history_shows_is_asked() -> None:
    assert "no-duplicate" in applicable(View(jobs(0).history()))
    assert "no-duplicate" in applicable(View(sales(NONE).history()))


def test_unexercised() -> None:
    assert result(jobs()).unexercised == "no jobs done, 2 needed"
    assert result(jobs(3)).unexercised == "1 job done, 2 needed"
