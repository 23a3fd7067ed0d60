"""The shrinker: what it leaves is bad, closed and minimal; on large histories too, and with few searches."""

from random import Random

import pytest

from checkers.engines.search import Searched, search
from checkers.models.all_models import MODELS
from checkers.models.model import Model, Settings
from checkers.models.operations import Operations
from checkers.proofs.shrink import Shrunk, shrink
from checkers.proofs.verify_proof import verify_invalid
from checkers.row_format import NONE
from checkers.tests.build import INFO, Book
from checkers.tests.test_search import Cell, of

SETTINGS = Settings(initial=NONE)


def register(book: Book) -> Model:
    model = MODELS["register"].make(book.history(), SETTINGS)
    assert model is not None
    return model


FAR = float("inf")


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
    assert shrunk.minimal
    assert verify_invalid(book.history(), MODELS["register"], SETTINGS, shrunk.rows or ()) is None
    assert shrunk.rows is not None
    assert len(shrunk.rows) == 3
    assert shrunk.rows[0] == 96  # the write of what was read
    assert shrunk.rows[-1] == 100


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
    assert shrunk.minimal
    assert shrunk.rows is not None
    writes = [row for row in shrunk.rows if row % 2 == 0 and row < 40]
    assert writes == list(range(0, 40, 2))
    assert shrunk.rows[-1] == 40
    assert 41 not in shrunk.rows


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
