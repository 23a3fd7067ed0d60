"""Known histories of the set workload."""

from dataclasses import replace

from checkers.check import missing
from checkers.tests.build import INFO, Book
from checkers.tests.compare import asking

result = asking("no-lost-update")


def overwritten() -> Book:
    """Worker 1 reads the empty list; worker 2 adds 20 and worker 3 adds 30; then worker 1 writes back its [10]."""
    book = Book(workload="set", keys=("a",))
    book.acquire(1, 2, 1).read(3, 4, 1, -1)
    book.acquire(3, 10, 2).read(11, 12, 2, -1).write(13, 14, 2, 20, base=-1).release(15, 16, 2)
    book.acquire(17, 18, 3).read(19, 20, 3, 20).write(21, 22, 3, 30, base=20).release(23, 24, 3)
    return book.write(30, 31, 1, 10, base=-1).release(32, 33, 1)


def test_a_fork_names_both_writers_and_their_reads() -> None:
    book = overwritten().final(40, 41, 10, 1)
    found = result(book)
    (violation,) = found.violations
    history = book.history()
    values = history.columns["value"][list(violation.rows)].tolist()
    assert violation.kind == "lost-update"
    assert violation.at == 30
    assert history.columns["owner"][list(violation.holders)].tolist() == [1, 2]
    assert values == [-1, -1, 20, 10, 10]
    assert found.counters["lost updates"] == 2
    assert found.counters["lists that were written back twice"] == 1
    assert found.unexercised is None


def test_the_other_way_round_the_stale_write_is_lost() -> None:
    """As behind a fence on writes alone: the stale write lands between its successor's read and write."""
    book = Book(workload="set", keys=("a",)).acquire(1, 2, 1).read(3, 4, 1, -1)
    book.acquire(3, 10, 2).read(11, 12, 2, -1).write(13, 14, 1, 10, base=-1).write(15, 16, 2, 20, base=-1)
    (violation,) = result(book.final(40, 41, 20, 1)).violations
    assert violation.at == 15
    assert book.history().columns["owner"][list(violation.holders)].tolist() == [1, 2]


def test_three_branches_are_two_forks() -> None:
    """Each lost branch is judged by itself: what excuses the one does not excuse the other."""
    book = Book(workload="set", keys=("a",))
    for owner in (1, 2, 3):
        book.acquire(owner, 5 + owner, owner).read(10, 11, owner, -1).write(20 + owner, 30, owner, owner, base=-1)
    assert len(result(book.final(40, 41, 2, 1)).violations) == 2


def test_lists_that_no_writer_wrote() -> None:
    def kinds(value: int, length: int) -> list[str]:
        return [v.kind for v in result(overwritten().final(40, 41, value, length)).violations]

    assert kinds(10, 2) == ["lost-update", "corrupt-list"]
    assert kinds(99, 1) == ["value-never-written"]
    assert kinds(20, 1) == ["vanished", "lost-update"]
    assert "vanished" in kinds(-1, 0)


def test_keys_have_lists_of_their_own() -> None:
    book = Book(workload="set").acquire(1, 2, 1).write(3, 4, 1, 10, base=-1).acquire(3, 5, 2, key=1)
    book.write(6, 7, 2, 20, base=-1, key=1).final(40, 41, 10, 1).final(42, 43, 20, 1, key=1)
    assert result(book).valid


def test_without_a_final_read_nothing_is_known() -> None:
    found = result(overwritten())
    assert found.valid
    assert found.unexercised == "no final read of a"
    # While the trial runs, only what is missing besides counts.
    assert missing(overwritten().history(), ["no-lost-update"]) == {}
    assert "no-lost-update" in missing(Book(workload="set").acquire(1, 2, 1).history(), ["no-lost-update"])


def test_other_workloads_keep_no_list() -> None:
    """A register's writes name no base: none of them is lost for that."""
    book = Book(keys=("a",)).acquire(1, 2, 1).write(3, 4, 1, 10).write(5, 6, 1, 11).final(7, 8, 11)
    found = result(book)
    assert found.valid
    assert found.unexercised == "the workload register keeps no list of updates"


def test_a_fault_on_the_way_to_the_store_must_meet_a_write() -> None:
    def delayed(sent: int) -> Book:
        book = overwritten()
        book.facts = replace(book.facts, fault_names=("store-reply-lost",))
        book.acquire(33, 34, 4).write(sent, 0, 4, 40, INFO, base=10)
        return book.fault("store-reply-lost", 20, 38, target="replies of the store to clients c1").final(50, 51, 10, 1)

    assert result(delayed(36)).unexercised is None
    assert result(delayed(39)).unexercised == "store-reply-lost left no write without an answer"
