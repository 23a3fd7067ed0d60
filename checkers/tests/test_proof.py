"""The verifier: that it accepts what is proven, and nothing else."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from checkers.history.history import History
from checkers.models.all_models import MODELS, Specification
from checkers.models.model import Settings
from checkers.proofs.verify_proof import verify_invalid, verify_valid
from checkers.row_format import NONE, F, Reason
from checkers.tests.build import FAIL, INFO, Book

SETTINGS = Settings(initial=NONE, strict_try=True)


def valid(book: Book, order: Sequence[int], model: str = "register") -> str | None:
    return verify_valid(book.history(), MODELS[model], SETTINGS, order)


def invalid(book: Book, rows: Sequence[int], model: str = "register") -> str | None:
    return verify_invalid(book.history(), MODELS[model], SETTINGS, rows)


def good() -> Book:
    """Rows: 0 write 7, 1 read 7, 2 unknown write 8, 3 read 8."""
    return Book(keys=("a",)).write(1, 4, 1, 7).read(2, 3, 2, 7).write(3, 0, 3, 8, INFO).read(5, 6, 2, 8)


def bad() -> Book:
    """Rows: 0 write 7, 1 write 8, 2 read 7, 3 read 8 (can be spared)."""
    return Book(keys=("a",)).write(1, 2, 1, 7).write(3, 4, 1, 8).read(5, 6, 2, 7).read(7, 8, 2, 8)


@pytest.mark.parametrize(
    ("order", "wrong"),
    [
        ((1, 0, 2, 3), "row 1 cannot have ended as it did"),
        ((0, 1, 3, 2), "row 3 cannot have ended as it did"),
        ((0, 1, 3), "row 3 cannot have ended as it did"),
        ((0, 1, 2), "row 3 is missing"),
        ((0, 1, 2, 2, 3), "row 2 stands twice"),
        ((0, 1, 2, 3, 99), "row 99 stands twice in the order, or does not belong there"),
        ((), "row 0 is missing"),
    ],
)
def test_no_order(order: Sequence[int], wrong: str) -> None:
    assert wrong in str(valid(good(), order))


def test_real_time() -> None:
    book = Book(keys=("a",)).write(1, 2, 1, 7).write(3, 4, 1, 8)
    assert valid(book, (0, 1)) is None
    assert "stands behind row 1, but had returned before" in str(valid(book, (1, 0)))
    far = Book(keys=("a",)).write(1, 9, 1, 7).write(2, 3, 2, 8).write(4, 5, 3, 9).read(6, 7, 3, 8)
    assert "stands behind row 2" in str(valid(far, (0, 2, 1, 3)))


def test_each_key_has_its_own_time_and_state() -> None:
    book = Book(keys=("a", "b")).write(1, 2, 1, 7).write(3, 4, 1, 8, key=1).read(5, 6, 1, 7)
    assert valid(book, (1, 0, 2)) is None
    assert "is missing" in str(valid(book, (0, 2)))


def test_failed_operations_stand_in_the_order_only_as_evidence() -> None:
    book = Book(keys=("a",)).acquire(1, 2, 1)
    book.acquire(3, 4, 2, outcome=FAIL)
    assert valid(book, (0,), "mutex") is None
    assert "does not belong there" in str(valid(book, (0, 1), "mutex"))
    assert valid(good().write(7, 8, 1, 9, FAIL), (0, 1, 2, 3)) is None


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ((0, 1, 2, 3), "row 3 can be left out"),
        ((1, 2), "row 2 needs row 0, which is missing"),
        ((0, 2), "some order explains all of them"),
        ((0, 1, 2, 2), "one of them twice"),
        ((), "none"),
    ],
)
def test_no_contradiction(rows: Sequence[int], wrong: str) -> None:
    assert wrong in str(invalid(bad(), rows))


def test_operations_of_several_keys_contradict_nothing() -> None:
    assert "several keys" in str(invalid(bad().write(1, 2, 1, 7, key=1), (0, 1, 2, 4)))


def test_what_failed_without_proving_anything_is_no_proof() -> None:
    assert "proves nothing" in str(invalid(bad().write(9, 10, 1, 9, FAIL), (0, 1, 2, 4)))


def test_a_refused_try_is_evidence() -> None:
    book = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1)
    book.add(F.TRY_ACQUIRE, 5, 6, FAIL, owner=2, process=2, reason=Reason.HELD)
    assert "cannot have ended as it did" in str(valid(book, (0, 1, 2), "mutex"))
    assert "is missing" in str(valid(book, (0, 1), "mutex"))
    assert invalid(book, (2,), "mutex") is None or invalid(book, (0, 1, 2), "mutex") is None


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
    assert verify_valid(good().history(), statement, SETTINGS, (1,)) == "no"
    assert verify_invalid(good().history(), statement, SETTINGS, (2,)) is None
    assert asked == [(True, (1,)), (False, (2,))]
    assert verify_valid(good().history(), replace(statement, certify=None), SETTINGS, ()) == "nothing can verify this"
