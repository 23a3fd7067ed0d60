"""The general search and its orders; the proofs that the verifier accepts, and the rows that the shrinker leaves."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from checkers.engines import search_states
from checkers.engines.kernel import always
from checkers.engines.search import Searched, search, search_keys
from checkers.engines.search_plan import plan
from checkers.engines.search_states import StateSearch
from checkers.engines.search_table import FOUND, MEMORY_SPENT, NONE_FOUND, STEPS_SPENT, search_table, table
from checkers.history.finding import OutOfBudget
from checkers.history.history import History
from checkers.models.all_models import MODELS, Specification
from checkers.models.model import ILLEGAL, UNSET, Illegal, Model, Operation, Settings, State
from checkers.models.operations import WHOLE, ByKey, Operations
from checkers.proofs.shrink import Shrunk, shrink
from checkers.proofs.verify_proof import verify_invalid, verify_valid
from checkers.row_format import INFINITY, NONE, F, Reason
from checkers.tests.build import FAIL, INFO, Book, cases, there


class Cell(Model):
    """A register whose `sees` leaves out the process."""

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
    return Operations(history, np.arange(len(history)))


FAR = float("inf")


def overlapping(writes: int) -> Book:
    book = Book(keys=("a", "b"))
    for n in range(writes):
        book.write(1, 1000 + n, n + 1, n)
    return book


def many_unknown(writes: int) -> Book:
    """Valid but for the last read. Each of the unknown writes, of different values, may have happened or not."""
    book = Book(keys=("a",))
    for n in range(writes):
        book.write(1, 0, 100 + n, n, INFO)
    for n in range(writes):
        book.read(10 + 10 * n, 11 + 10 * n, 1, n)
    return book.read(10 + 10 * writes, 11 + 10 * writes, 1, 0)


def test_invalid_says_where_it_is_stuck() -> None:
    found = search(of(Book().write(1, 2, 1, 7).write(3, 4, 1, 8).read(5, 9, 2, 7).read(6, 8, 3, 8)), Cell())
    assert (found.valid, found.stuck.rows, found.stuck.states) == (False, (2,), (8,))


def test_many_unknown_writes_do_not_explode_the_search() -> None:
    """The rule that fewer spent writes are better saves the search from 2^60 sets of them."""
    for _, ended, found in forms(of(many_unknown(60)), steps=100_000):
        assert ended
        assert found.valid is False


def test_interchangeable_operations_are_tried_once() -> None:
    book = Book(keys=("a",))
    for n in range(12):
        book.write(1, 100 + n, n + 1, 7)
    book.read(50, 60, 99, 8)
    states = StateSearch(plan(of(book), Cell(), FAR), Cell(), FAR)
    assert states.run(100)
    assert states.tried <= 13


def test_more_operations_than_a_word_has_bits_may_be_in_flight() -> None:
    book = overlapping(150)
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
    """The name of each form of the search, whether it ended within `steps`, and its answer."""
    planned = plan(operations, Cell(), FAR)
    states = StateSearch(planned, Cell(), FAR)
    yield "states", states.run(steps), Searched(states.order is not None, states.order or ())
    made = there(table(planned, Cell(), 10_000_000, FAR))
    with always(compiled=False):
        answer, order, _, _ = search_table(made, steps, 1_000_000)
    yield "table", answer in (FOUND, NONE_FOUND), Searched(answer == FOUND, tuple(planned.rows[order].tolist()))


def test_a_table_merges_operations_with_the_same_effect() -> None:
    planned = plan(of(Book().write(1, 2, 1, 7).write(1, 0, 2, 7, INFO).read(3, 4, 3, 7)), Cell(), FAR)
    assert len(planned.examples) == 3
    made = there(table(planned, Cell(), 100, FAR))
    assert len(set(made.kinds.tolist())) == 2
    assert (made.changing.operations.tolist(), made.reading.operations.tolist()) == ([0], [1])
    assert table(planned, Cell(), 3, FAR) is None


def test_a_table_is_given_up_where_steps_or_memory_are_spent() -> None:
    made = there(table(plan(of(many_unknown(12)), Cell(), FAR), Cell(), 10_000, FAR))
    with always(compiled=False):
        assert search_table(made, 20, 1_000_000).answer == STEPS_SPENT
        assert search_table(made, 1_000_000, 20).answer == MEMORY_SPENT


def test_configurations_of_a_table_are_small_however_long_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.engines.search.TABLE_AFTER", 0)
    monkeypatch.setattr("checkers.engines.search.FIRST_STEPS", 10)
    monkeypatch.setattr("checkers.engines.search.TABLE_BYTES", 300 * 5_000)
    assert search(of(long(5_000, values=5))[:-1], Cell()).valid


@pytest.mark.parametrize("limit", ["MEMORY", "FLYING"])
def test_a_search_is_given_up_where_memory_is_spent(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(search_states, limit, 5)
    answer = search(of(overlapping(100)), Cell())
    assert (answer.valid, answer.reason) == (None, "all the memory allowed was spent after 0 steps on 100 operations")


def test_the_budget_is_honoured_where_steps_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a step takes, at most one step follows the end of the budget. Only steps move this clock."""
    now = 100.0

    class Slow(Cell):
        sees = ("row",)

        def step(self, state: State, operation: Operation) -> State | Illegal:
            nonlocal now
            now += 0.02
            return super().step(state, operation)

    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: now)
        found = search(of(overlapping(100)), Slow(), 0.5)
    assert 100.5 < now < 100.53
    assert found.valid is None
    assert found.reason.startswith("the budget was spent after")


def test_the_budget_is_honoured_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the steps of the table move this clock, by a tenth of a millisecond each."""
    now = 100.0

    class Slow:
        fast = True

        def sized(self, *arguments: Any) -> Any:
            nonlocal now
            found = search_table.sized(*arguments)
            now += found.taken * 1e-4
            return found

    rng = Random(3)
    book = overlapping(24)
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
    book = overlapping(30)
    book.read(900, 902, 99, 77)
    book.write(1, 2, 1, 7, key=1).read(3, 4, 1, 8, key=1)
    by_key = ByKey(book.history(), (F.READ, F.WRITE))
    found = search_keys({key: by_key[key] for key in by_key.keys}, Cell(), 600.0)
    assert found[1].valid is False
    assert 0 not in found


def test_operations_are_read_from_columns() -> None:
    history = Book(keys=("a", "b")).write(3, 4, 5, 7, token=9, key=1).read(1, 0, 2, NONE, INFO).history()
    operations = Operations(history, np.arange(2))
    read, write = operations
    assert read == Operation(0, F.READ, INFO, 1, INFINITY, 2, "a", 2, NONE, NONE, NONE)
    assert (write.key, write.token, write.value, write.row, write.ok) == ("b", 9, 7, 1, True)
    assert list(operations[1:]) == [write]


def test_values_of_foreign_files_are_those_that_the_file_names() -> None:
    history = replace(Book().write(1, 2, 1, 1).read(3, 4, 1, 0).read(5, 6, 1, NONE).history(), values=(None, "x"))
    operations = Operations(history, np.arange(3))
    assert [o.value for o in operations] == ["x", None, UNSET]
    assert [o.row for o in operations.where(value="x")] == [0]


def test_operations_are_looked_up() -> None:
    book = Book(keys=("a",))
    book.write(1, 2, 1, 7, token=3).write(3, 4, 2, 8, token=4).read(5, 6, 2, 7, token=4)
    book.write(7, 0, 3, 7, INFO, token=9)
    operations = of(book)

    def rows(*kinds: F, **conditions: Any) -> list[int]:
        return [o.row for o in operations.where(*kinds, **conditions)]

    assert (rows(), rows(F.WRITE)) == ([0, 1, 2, 3], [0, 1, 3])
    assert (rows(F.WRITE, value=7), rows(value=7, owner=2)) == ([0, 3], [2])
    assert rows(owner=77) == rows(value="seven") == []
    assert rows(tokens=(4, 8)) == rows(meets=(4, 5)) == [1, 2]
    assert rows(meets=(100, 200)) == [3]


def test_a_model_without_keys_sees_all_operations_together() -> None:
    book = Book(keys=("a", "b")).write(1, 2, 1, 7).write(1, 2, 1, 8, key=1).acquire(1, 2, 3)
    by_key = ByKey(book.history(), (F.READ, F.WRITE), keyed=False)
    assert by_key.keys == [WHOLE]
    assert [o.key for o in by_key[WHOLE]] == ["a", "b"]
    assert len(ByKey(book.history(), (F.READ, F.WRITE))[77]) == 0


SETTINGS = Settings(initial=NONE, strict_try=True)


# Rows: 0 write 7, 1 write 8, 2 read 7, 3 read 8 (not needed).
BAD = Book(keys=("a",)).write(1, 2, 1, 7).write(3, 4, 1, 8).read(5, 6, 2, 7).read(7, 8, 2, 8)
# Rows: 0 write 7, 1 read 7, 2 unknown write 8, 3 read 8.
GOOD = Book(keys=("a",)).write(1, 4, 1, 7).read(2, 3, 2, 7).write(3, 0, 3, 8, INFO).read(5, 6, 2, 8)
TWO = Book(keys=("a",)).write(1, 2, 1, 7).write(3, 4, 1, 8)
FAR_APART = Book(keys=("a",)).write(1, 9, 1, 7).write(2, 3, 2, 8).write(4, 5, 3, 9).read(6, 7, 3, 8)
TWO_KEYS = Book().write(1, 2, 1, 7).write(3, 4, 1, 8, key=1).read(5, 6, 1, 7)
REFUSED = Book(keys=("a",)).acquire(1, 2, 1).acquire(3, 4, 2, outcome=FAIL)
TRIED = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1)
TRIED.add(F.TRY_ACQUIRE, 5, 6, FAIL, owner=2, process=2, reason=Reason.HELD)
UNKNOWN = Book(keys=("a",)).write(1, 0, 1, 7, INFO).read(5, 6, 2, 9)


@cases(
    "model, book, order, wrong",
    ("a read before its write", "register", GOOD, (1, 0, 2, 3), "row 1 cannot have ended as it did"),
    ("a read before an unknown write", "register", GOOD, (0, 1, 3, 2), "row 3 cannot have ended as it did"),
    ("a read without its write", "register", GOOD, (0, 1, 3), "row 3 cannot have ended as it did"),
    ("one left out", "register", GOOD, (0, 1, 2), "row 3 is missing"),
    ("one twice", "register", GOOD, (0, 1, 2, 2, 3), "row 2 stands twice"),
    ("one too many", "register", GOOD, (0, 1, 2, 3, 99), "row 99 stands twice in the order, or does not belong"),
    ("none", "register", GOOD, (), "row 0 is missing"),
    ("in real time", "register", TWO, (0, 1), None),
    ("against real time", "register", TWO, (1, 0), "stands behind row 1, but had returned before"),
    ("against real time, and not side by side", "register", FAR_APART, (0, 2, 1, 3), "stands behind row 2"),
    ("each key has its own time and state", "register", TWO_KEYS, (1, 0, 2), None),
    ("one key left out", "register", TWO_KEYS, (0, 2), "is missing"),
    ("without what failed", "mutex", REFUSED, (0,), None),
    ("with what failed and is no evidence", "mutex", REFUSED, (0, 1), "does not belong there"),
    ("without a write that failed", "register", GOOD.then().write(7, 8, 1, 9, FAIL), (0, 1, 2, 3), None),
    ("a refused try is evidence", "mutex", TRIED, (0, 1, 2), "cannot have ended as it did"),
    ("a refused try must be there", "mutex", TRIED, (0, 1), "is missing"),
)
def test_only_a_full_possible_order_is_a_proof(model: str, book: Book, order: Sequence[int], wrong: str | None) -> None:
    found = verify_valid(book.history(), MODELS[model], SETTINGS, order)
    assert found is None if wrong is None else wrong in str(found)


@cases(
    "model, book, rows, wrong",
    ("one can be left out", "register", BAD, (0, 1, 2, 3), "row 3 can be left out"),
    ("one that is needed is missing", "register", BAD, (1, 2), "row 2 needs row 0, which is missing"),
    ("what came between is missing", "register", BAD.then().write(5, 9, 3, 7), (2, 4), "row 2 needs row 1, which"),
    ("some order explains them", "register", BAD, (0,), "some order explains all of them"),
    ("one twice", "register", BAD, (0, 1, 2, 2), "one of them twice"),
    ("none", "register", BAD, (), "none"),
    ("several keys", "register", BAD.then().write(1, 2, 1, 7, key=1), (0, 1, 2, 4), "several keys"),
    ("what failed", "register", BAD.then().write(9, 10, 1, 9, FAIL), (0, 1, 2, 4), "proves nothing"),
    ("a refused try contradicts by itself", "mutex", TRIED, (2,), None),
    ("a read that no unknown write explains", "register", UNKNOWN, (1,), None),
    ("an unknown write need not have happened", "register", UNKNOWN, (0, 1), "row 0 can be left out"),
)
def test_only_a_least_contradiction_is_a_proof(model: str, book: Book, rows: Sequence[int], wrong: str | None) -> None:
    found = verify_invalid(book.history(), MODELS[model], SETTINGS, rows)
    assert found is None if wrong is None else wrong in str(found)


def test_a_proof_of_which_too_many_orders_must_be_tried_is_neither_right_nor_wrong() -> None:
    with pytest.raises(OutOfBudget):
        verify_invalid(BAD.history(), MODELS["register"], Settings(budget=-1), (0, 1, 2))


def test_a_class_without_a_specification_has_its_own_verifier() -> None:
    asked = []

    def certify(history: History, settings: Settings, valid: bool, rows: Sequence[int]) -> str | None:
        asked.append((valid, tuple(rows)))
        return "no" if valid else None

    statement = Specification("own", frozenset(), lambda history, settings: None, certify=certify)
    assert verify_valid(GOOD.history(), statement, SETTINGS, (1,)) == "no"
    assert verify_invalid(GOOD.history(), statement, SETTINGS, (2,)) is None
    assert asked == [(True, (1,)), (False, (2,))]
    assert verify_valid(GOOD.history(), replace(statement, certify=None), SETTINGS, ()) == "nothing can verify this"


def register(book: Book) -> Model:
    return there(MODELS["register"].make(book.history(), SETTINGS))


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of operations that each search was given."""
    sizes: list[int] = []

    def counting(operations: Operations, model: Model, seconds: float) -> Searched:
        sizes.append(len(operations))
        return search(operations, model, seconds)

    monkeypatch.setattr("checkers.proofs.shrink.search", counting)
    return sizes


def long(count: int, values: int = 1 << 20) -> Book:
    """A correct register, read after each write. The last read returns a value that had been overwritten.
    values: how many there are; they are written again and again.
    """
    book = Book(keys=("a",))
    for n in range(count):
        book.write(10 * n + 1, 10 * n + 2, 1, n % values).read(10 * n + 3, 10 * n + 4, 2, n % values)
    return book.read(10 * count + 1, 10 * count + 2, 3, (count - 2) % values)


@pytest.mark.parametrize("book", [long(50), long(50, values=5)])
def test_the_shrinker_leaves_only_the_needed_rows(book: Book) -> None:
    shrunk = shrink(of(book), register(book), [100], FAR)
    rows = shrunk.rows or ()
    assert verify_invalid(book.history(), MODELS["register"], SETTINGS, rows) is None
    assert (shrunk.minimal, len(rows), rows[0], rows[-1]) == (True, 3, 96, 100)  # row 96 wrote what row 100 read


def test_suspects_that_are_bad_by_themselves_are_looked_at_alone(searched: list[int]) -> None:
    book = long(20_000)
    operations, model = of(book), register(book)
    shrunk = shrink(operations, model, [39_996, 39_998, 40_000], FAR)
    assert max(searched) == 3
    assert shrunk == Shrunk((39_996, 39_998, 40_000), minimal=True)


@cases(
    "book, suspect, seconds, shrunk",
    ("refuted", Book(keys=("a",)).write(1, 2, 1, 7).read(3, 4, 2, 7), 1, FAR, Shrunk(None, refuted=True)),
    ("without time", long(50), 100, 0.0, Shrunk(None)),
)
def test_a_wrong_or_unchecked_suspicion_gives_no_rows(book: Book, suspect: int, seconds: float, shrunk: Shrunk) -> None:
    assert shrink(of(book), register(book), [suspect], seconds) == shrunk


def test_a_model_without_needs_keeps_all_earlier_changes() -> None:
    """The default of `Model.needs` is every operation that may have changed the state by then."""
    shrunk = shrink(of(long(20).write(300, 301, 1, 99)), Cell(), [40], FAR)
    rows = shrunk.rows or ()
    assert [row for row in rows if row % 2 == 0 and row < 40] == list(range(0, 40, 2))
    assert (shrunk.minimal, rows[-1], 41 in rows) == (True, 40, False)


def test_many_operations_are_left_out_at_once(searched: list[int]) -> None:
    rng = Random(5)
    book = Book(keys=("a",))
    for n in range(300):
        book.write(rng.randint(1, 1000), 0, 1000 + n, 1000 + n, INFO)
    book.write(2000, 2001, 1, 7).write(2002, 2003, 1, 8).read(2004, 2005, 1, 7)
    shrunk = shrink(of(book), register(book), list(range(295, 303)), FAR)
    assert sum(searched) < 100
    assert shrunk.rows == (300, 301, 302)
