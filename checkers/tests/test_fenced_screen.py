"""The first look at a fenced store: each way to be wrong is seen, and what is normal passes."""

import numpy as np
import pytest

from checkers.bench.generate import GENERATORS, HistoryShape
from checkers.engines.fenced import fenced_store, posed, screened
from checkers.models.model import Settings
from checkers.models.stores import RULES
from checkers.tests.build import FAIL, INFO, Book


def store(*writes: tuple[int, int, int, int], mode: str = "fence-writes") -> Book:
    """writes: inv, ret, value and token of each."""
    book = Book(store=mode, keys=("a",))
    for inv, ret, value, token in writes:
        book.write(inv, ret, token, value, token=token)
    return book


UNANSWERED = store((2, 3, 11, 1)).write(1, 0, 1, 10, INFO, token=1)
BAD = {
    "overtaken": store((3, 4, 20, 2), (5, 6, 10, 1)),
    "read-overtaken": store((1, 2, 10, 1), (3, 9, 20, 2)).read(4, 5, 2, 20).read(6, 7, 1, 10),
    "initial-value-after-a-write": store((1, 2, 10, 1)).read(3, 4, 1, -1),
    "never-written": store((1, 2, 10, 1)).read(3, 4, 1, 11),
    "written-later": store((3, 4, 10, 1)).read(1, 2, 1, 10),
    "never-written-between": store((1, 2, 10, 1), (3, 4, 12, 1)).read(5, 6, 1, 11),
    "refused": store((1, 20, 20, 2)).write(3, 4, 1, 10, FAIL, token=1).read(5, 6, 1, 10),
    "read-while-refused": store((1, 2, 20, 2)).read(3, 9, 1, 10).write(4, 5, 1, 10, FAIL, token=1),
    "needless": store((3, 4, 20, 2)).write(1, 2, 1, 10, FAIL, token=1),
    "needless-at-its-own-token": store((1, 2, 10, 1)).write(3, 4, 1, 11, FAIL, token=1),
    "second": store((1, 2, 10, 1), (3, 4, 11, 1), mode="fence-writes-strict"),
    "first-again": store((1, 2, 10, 1), (3, 4, 11, 1)).read(5, 6, 1, 10),
    "first-again-after-a-read": store((1, 2, 10, 1), (3, 20, 11, 1)).read(4, 5, 1, 11).read(6, 7, 1, 10),
    "unanswered-again": UNANSWERED.read(5, 6, 1, 10).read(7, 8, 1, 11).read(9, 10, 1, 10),
}


@pytest.mark.parametrize("name", BAD)
def test_each_way_to_be_wrong_is_seen(name: str) -> None:
    assert fenced_store(BAD[name].history(), Settings()).conflicts


def test_a_value_of_two_keys_is_no_reason_to_pass_either() -> None:
    book = store((1, 2, 10, 1)).write(3, 4, 1, 10, token=1, key=1)
    book.write(5, 6, 1, 11, token=1).write(7, 8, 1, 11, token=1, key=1)
    assert not fenced_store(book.history(), Settings()).conflicts
    book.read(9, 10, 1, 10, key=1)
    (conflict,) = fenced_store(book.history(), Settings()).conflicts
    assert conflict.key == 1


@pytest.mark.parametrize("processes", [2, 50])
def test_what_is_normal_passes_and_what_is_not_is_judged_alone(processes: int) -> None:
    shape = HistoryShape(20_000, processes, 20, unknown=50)
    history = GENERATORS["fenced-store"](shape)
    doubt = screened(*posed(history, Settings(), RULES["fence-writes"]))
    assert not doubt.any()
    bad = GENERATORS["fenced-store"](shape._replace(bad=True, unknown=0))
    doubt = screened(*posed(bad, Settings(), RULES["fence-writes"]))
    assert np.count_nonzero(doubt) == 1
    (conflict,) = fenced_store(bad, Settings()).conflicts
    assert doubt[conflict.key]
    assert {int(bad.columns["key"][row]) for row in conflict.rows} == {conflict.key}
