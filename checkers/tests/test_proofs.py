"""The verifier accepts what is proven and nothing else; what the shrinker leaves is bad, closed and minimal."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from checkers.engines.search import Searched, search
from checkers.history.history import History
from checkers.models.all_models import MODELS, Specification
from checkers.models.model import Model, Settings
from checkers.models.operations import Operations
from checkers.proofs.shrink import Shrunk, shrink
from checkers.proofs.verify_proof import verify_invalid, verify_valid
from checkers.row_format import NONE, F, Reason
from checkers.tests.build import FAIL, INFO, Book, cases
from checkers.tests.test_search import FAR, Cell, of

SETTINGS = Settings(initial=NONE, strict_try=True)


def invalid(book: Book, rows: Sequence[int], model: str = "register") -> str | None:
    return verify_invalid(book.history(), MODELS[model], SETTINGS, rows)


# Rows: 0 write 7, 1 write 8, 2 read 7, 3 read 8 (can be spared).
BAD = Book(keys=("a",)).write(1, 2, 1, 7).write(3, 4, 1, 8).read(5, 6, 2, 7).read(7, 8, 2, 8)
# Rows: 0 write 7, 1 read 7, 2 unknown write 8, 3 read 8.
GOOD = Book(keys=("a",)).write(1, 4, 1, 7).read(2, 3, 2, 7).write(3, 0, 3, 8, INFO).read(5, 6, 2, 8)
TWO = Book(keys=("a",)).write(1, 2, 1, 7).write(3, 4, 1, 8)
FAR_APART = Book(keys=("a",)).write(1, 9, 1, 7).write(2, 3, 2, 8).write(4, 5, 3, 9).read(6, 7, 3, 8)
TWO_KEYS = Book().write(1, 2, 1, 7).write(3, 4, 1, 8, key=1).read(5, 6, 1, 7)
REFUSED = Book(keys=("a",)).acquire(1, 2, 1).acquire(3, 4, 2, outcome=FAIL)
TRIED = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1)
TRIED.add(F.TRY_ACQUIRE, 5, 6, FAIL, owner=2, process=2, reason=Reason.HELD)


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
def test_orders(model: str, book: Book, order: Sequence[int], wrong: str | None) -> None:
    found = verify_valid(book.history(), MODELS[model], SETTINGS, order)
    assert found is None if wrong is None else wrong in str(found)


@cases(
    "book, rows, wrong",
    ("one can be left out", BAD, (0, 1, 2, 3), "row 3 can be left out"),
    ("one that is needed is missing", BAD, (1, 2), "row 2 needs row 0, which is missing"),
    ("some order explains them", BAD, (0, 2), "some order explains all of them"),
    ("one twice", BAD, (0, 1, 2, 2), "one of them twice"),
    ("none", BAD, (), "none"),
    ("several keys", BAD.then().write(1, 2, 1, 7, key=1), (0, 1, 2, 4), "several keys"),
    ("what failed", BAD.then().write(9, 10, 1, 9, FAIL), (0, 1, 2, 4), "proves nothing"),
)
def test_no_contradiction(book: Book, rows: Sequence[int], wrong: str) -> None:
    assert wrong in str(invalid(book, rows))


def test_a_refused_try_contradicts() -> None:
    assert invalid(TRIED, (2,), "mutex") is None or invalid(TRIED, (0, 1, 2), "mutex") is None


def test_unknown_operations_need_not_have_happened() -> None:
    book = Book(keys=("a",)).write(1, 0, 1, 7, INFO).read(5, 6, 2, 9)
    assert invalid(book, (1,)) is None
    assert "row 0 can be left out" in str(invalid(book, (0, 1)))


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
    model = MODELS["register"].make(book.history(), SETTINGS)
    assert model is not None
    return model


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many operations each search was given."""
    sizes: list[int] = []

    def counting(operations: Operations, model: Model, seconds: float) -> Searched:
        sizes.append(len(operations))
        return search(operations, model, seconds)

    monkeypatch.setattr("checkers.proofs.shrink.search", counting)
    return sizes


def long(count: int) -> Book:
    """A correct register, read after each write; at the end a value is read that was overwritten long ago."""
    book = Book(keys=("a",))
    for n in range(count):
        book.write(10 * n + 1, 10 * n + 2, 1, n).read(10 * n + 3, 10 * n + 4, 2, n)
    return book.read(10 * count + 1, 10 * count + 2, 3, count - 2)


def test_what_can_be_spared_is() -> None:
    book = long(50)
    shrunk = shrink(of(book), register(book), [100], FAR)
    rows = shrunk.rows or ()
    assert verify_invalid(book.history(), MODELS["register"], SETTINGS, rows) is None
    assert (shrunk.minimal, len(rows), rows[0], rows[-1]) == (True, 3, 96, 100)  # 96: the write of what was read


def test_suspects_that_are_bad_by_themselves_are_looked_at_alone(searched: list[int]) -> None:
    """However long the history is beside them."""
    book = long(20_000)
    operations, model = of(book), register(book)
    shrunk = shrink(operations, model, [39_996, 39_998, 40_000], FAR)
    assert max(searched) == 3
    assert shrunk == Shrunk((39_996, 39_998, 40_000), minimal=True)


def test_a_wrong_suspicion_is_refuted() -> None:
    book = Book(keys=("a",)).write(1, 2, 1, 7).read(3, 4, 2, 7)
    assert shrink(of(book), register(book), [1], FAR) == Shrunk(None, refuted=True)


def test_without_time_there_is_no_answer() -> None:
    book = long(50)
    assert shrink(of(book), register(book), [100], 0.0) == Shrunk(None)


def test_models_that_do_not_say_what_is_needed_keep_what_came_before() -> None:
    """`Model.needs` as it is by default: whatever may have changed the state by then."""
    book = long(20).write(300, 301, 1, 99)
    shrunk = shrink(of(book), Cell(), [40], FAR)
    rows = shrunk.rows or ()
    assert [row for row in rows if row % 2 == 0 and row < 40] == list(range(0, 40, 2))
    assert (shrunk.minimal, rows[-1], 41 in rows) == (True, 40, False)


def test_many_operations_are_left_out_at_once(searched: list[int]) -> None:
    """Hundreds of unknown writes that have nothing to do with it."""
    rng = Random(5)
    book = Book(keys=("a",))
    for n in range(300):
        book.write(rng.randint(1, 1000), 0, 1000 + n, 1000 + n, INFO)
    book.write(2000, 2001, 1, 7).write(2002, 2003, 1, 8).read(2004, 2005, 1, 7)
    shrunk = shrink(of(book), register(book), list(range(295, 303)), FAR)
    assert sum(searched) < 100
    assert shrunk.rows == (300, 301, 302)
