"""The first look at a fenced store: what is normal passes, and nothing else does, of whatever size."""

import numpy as np
import pytest

from checkers.bench.generate import GENERATORS, HistoryShape
from checkers.engines.fenced import fenced_store, posed, screened
from checkers.models.model import Settings
from checkers.models.stores import RULES
from checkers.tests.build import Book


def test_a_value_of_two_keys_is_no_reason_to_pass_either() -> None:
    book = Book(store="fence-writes").write(1, 2, 1, 10, token=1).write(3, 4, 1, 10, token=1, key=1)
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
