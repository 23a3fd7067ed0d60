"""The general search: states, tables, budgets, keys, and the order of its answers."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from checkers.engines.kernel import always
from checkers.engines.search import Searched, search, search_keys
from checkers.engines.search_plan import plan
from checkers.engines.search_states import StateSearch
from checkers.engines.search_table import FOUND, MEMORY_SPENT, NONE_FOUND, STEPS_SPENT, search_table, table
from checkers.models.model import ILLEGAL, UNSET, Illegal, Model, Operation, State
from checkers.models.operations import WHOLE, ByKey, Operations, Source
from checkers.row_format import INFINITY, NONE, F
from checkers.tests.build import INFO, Book


class Cell(Model):
    """A register; `sees` leaves processes out."""

    sees: Sequence[str] = ("f", "outcome", "value")
    initial: State = NONE

    def step(self, state: State, operation: Operation) -> State | Illegal:
        written: State = operation.value
        if operation.f == F.WRITE:
            return written
        return state if written == state else ILLEGAL

    def changes(self, operation: Operation) -> bool:
        return operation.f == F.WRITE


def of(book: Book) -> Operations:
    history = book.history()
    return Operations(Source(history), np.arange(len(history)))


FAR = float("inf")


def many_unknown(writes: int) -> Book:
    """Valid but for its last read; as many unknown writes, of different values, may each have happened or not."""
    book = Book(keys=("a",))
    for n in range(writes):
        book.write(1, 0, 100 + n, n, INFO)
    for n in range(writes):
        book.read(10 + 10 * n, 11 + 10 * n, 1, n)
    return book.read(10 + 10 * writes, 11 + 10 * writes, 1, 0)


def test_invalid_says_where_it_is_stuck() -> None:
    book = Book().write(1, 2, 1, 7).write(3, 4, 1, 8).read(5, 9, 2, 7).read(6, 8, 3, 8)
    found = search(of(book), Cell())
    assert found.valid is False
    assert found.stuck.rows == (2,)
    assert found.stuck.states == (8,)


def test_many_unknown_writes_are_no_explosion() -> None:
    """Without the rule that fewer spent are better there are 2^60 sets of them."""
    for _, ended, found in forms(of(many_unknown(60)), steps=100_000):
        assert ended
        assert found.valid is False


def test_interchangeable_operations_are_tried_once() -> None:
    book = Book(keys=("a",))
    for n in range(12):
        book.write(1, 100 + n, n + 1, 7)
    book.read(50, 60, 99, 8)
    planned = plan(of(book), Cell(), FAR)
    states = StateSearch(planned, Cell(), FAR)
    assert states.run(100)
    assert states.tried <= 13


def test_wide_masks() -> None:
    """More operations in flight than bits in a word."""
    book = Book(keys=("a",))
    for n in range(150):
        book.write(1, 1000 + n, n + 1, n)
    for n in range(100):
        book.write(2, 0, 200 + n, 200 + n, INFO)
    for n in (0, 1, 200, 299, 149, 77):
        book.read(500 + n, 501 + n, 999, n)
    for _, ended, found in forms(of(book), steps=100_000):
        assert ended
        assert found.valid
        assert len(found.order) >= 150 + 6
        assert len(set(found.order)) == len(found.order)


def forms(operations: Operations, steps: int) -> Iterator[tuple[str, bool, Searched]]:
    """Each form of the search, whether it ended within so many steps, and its answer."""
    planned = plan(operations, Cell(), FAR)
    states = StateSearch(planned, Cell(), FAR)
    yield "states", states.run(steps), Searched(states.order is not None, states.order or ())
    made = table(planned, Cell(), 10_000_000, FAR)
    assert made is not None
    with always(compiled=False):
        answer, order, _, _ = search_table(made, steps, 1_000_000)
    yield "table", answer in (FOUND, NONE_FOUND), Searched(answer == FOUND, tuple(planned.rows[order].tolist()))


def test_a_table_merges_what_cannot_be_told_apart() -> None:
    """An answered and an unanswered write of one value leave every state alike."""
    book = Book().write(1, 2, 1, 7).write(1, 0, 2, 7, INFO).read(3, 4, 3, 7)
    planned = plan(of(book), Cell(), FAR)
    assert len(planned.examples) == 3
    made = table(planned, Cell(), 100, FAR)
    assert made is not None
    assert len(set(made.kinds.tolist())) == 2
    assert sorted(made.reading.tolist()) == [0, 1]
    assert table(planned, Cell(), 3, FAR) is None


def test_a_table_is_given_up_where_steps_or_memory_are_spent() -> None:
    planned = plan(of(many_unknown(12)), Cell(), FAR)
    made = table(planned, Cell(), 10_000, FAR)
    assert made is not None
    with always(compiled=False):
        assert search_table(made, 20, 1_000_000).answer == STEPS_SPENT
        assert search_table(made, 1_000_000, 20).answer == MEMORY_SPENT


def test_the_budget_is_honoured_where_steps_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a step takes, one more is the most that is asked for: the clock here stands still between steps."""
    now = 100.0

    class Slow(Cell):
        sees = ("row",)

        def step(self, state: State, operation: Operation) -> State | Illegal:
            nonlocal now
            now += 0.02
            return super().step(state, operation)

    book = Book(keys=("a",))
    for n in range(100):
        book.write(1, 1000 + n, n + 1, n)
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: now)
        found = search(of(book), Slow(), 0.5)
    assert 100.5 < now < 100.53
    assert found.valid is None
    assert found.reason.startswith("the budget was spent after")


def test_the_budget_is_honoured_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that only the table's steps move, a tenth of a millisecond each."""
    now = 100.0

    class Slow:
        fast = True

        def sized(self, *arguments: Any) -> Any:
            nonlocal now
            found = search_table.sized(*arguments)
            now += found.taken * 1e-4
            return found

    rng = Random(3)
    book = Book(keys=("a",))
    for n in range(24):
        book.write(1, 1000 + n, n + 1, n)
    for n in range(12):
        book.read(2, 900, 100 + n, rng.randrange(24))
    book.read(901, 902, 99, 77)
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: now)
        patched.setattr("checkers.engines.search.search_table", Slow())
        found = search(of(book), Cell(), 1.0)
    assert found.valid is None
    assert 101 <= now < 101.1


def test_a_bad_key_is_found_beside_one_that_explodes() -> None:
    book = Book(keys=("a", "b"))
    for n in range(30):
        book.write(1, 1000 + n, n + 1, n)
    book.read(900, 902, 99, 77)
    book.write(1, 2, 1, 7, key=1).read(3, 4, 1, 8, key=1)
    by_key = ByKey(book.history(), (F.READ, F.WRITE))
    found = search_keys({key: by_key[key] for key in by_key.keys}, Cell(), 600.0)
    assert found[1].valid is False
    assert 0 not in found


def test_operations_are_read_from_columns() -> None:
    history = Book(keys=("a", "b")).write(3, 4, 5, 7, token=9, key=1).read(1, 0, 2, NONE, INFO).history()
    operations = Operations(Source(history), np.arange(2))
    read, write = operations
    assert read == Operation(0, F.READ, INFO, 1, INFINITY, 2, "a", 2, NONE, NONE, NONE)
    assert write == operations[1] == operations[-1]
    assert (write.key, write.token, write.value, write.row, write.ok) == ("b", 9, 7, 1, True)
    assert list(operations[1:]) == [write]


def test_values_of_files_from_elsewhere_are_told_in_their_words() -> None:
    history = replace(Book().write(1, 2, 1, 1).read(3, 4, 1, 0).read(5, 6, 1, NONE).history(), values=(None, "x"))
    operations = Operations(Source(history), np.arange(3))
    assert [o.value for o in operations] == ["x", None, UNSET]
    assert [o.row for o in operations.where(value="x")] == [0]


def test_operations_are_looked_up() -> None:
    book = Book(keys=("a",))
    book.write(1, 2, 1, 7, token=3).write(3, 4, 2, 8, token=4).read(5, 6, 2, 7, token=4)
    book.write(7, 0, 3, 7, INFO, token=9)
    operations = of(book)

    def rows(*kinds: F, **conditions: Any) -> list[int]:
        return [o.row for o in operations.where(*kinds, **conditions)]

    assert rows() == [0, 1, 2, 3]
    assert rows(F.WRITE) == [0, 1, 3]
    assert rows(F.WRITE, value=7) == [0, 3]
    assert rows(value=7, owner=2) == [2]
    assert rows(owner=77) == rows(value="seven") == []
    assert rows(tokens=(4, 8)) == [1, 2]
    assert rows(meets=(4, 5)) == [1, 2]
    assert rows(meets=(100, 200)) == [3]


def test_without_keys_all_operations_stand_together() -> None:
    book = Book(keys=("a", "b")).write(1, 2, 1, 7).write(1, 2, 1, 8, key=1).acquire(1, 2, 3)
    by_key = ByKey(book.history(), (F.READ, F.WRITE), keyed=False)
    assert by_key.keys == [WHOLE]
    assert [o.key for o in by_key[WHOLE]] == ["a", "b"]
    assert len(ByKey(book.history(), (F.READ, F.WRITE))[77]) == 0
