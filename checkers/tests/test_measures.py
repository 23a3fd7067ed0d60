"""All measures at once: each answers on any history, and every answer can be written down."""

import json
from dataclasses import asdict
from random import Random

import pytest

from checkers.history.history import History
from checkers.measures.all_measures import MEASURES, measures
from checkers.row_format import F, Reason
from checkers.tests import generate
from checkers.tests.build import FAIL, INFO, Book


def full(**facts: object) -> Book:
    """A bit of everything."""
    book = Book(**facts).acquire(1, 2, 1, token=1).renew(3, 4, 1).write(5, 6, 1, 1, token=1).release(7, 8, 1)
    book.acquire(4, 9, 2, token=2).read(10, 11, 2, 1, token=2).write(12, 0, 2, 2, INFO, token=2).release(13, 0, 2, INFO)
    book.acquire(14, 0, 0, process=3, outcome=INFO).add(F.TRY_ACQUIRE, 15, 16, FAIL, process=1, reason=Reason.HELD)
    book.write(17, 18, 1, 3, FAIL, token=1).acquire(19, 30, 5, process=1, token=4).lost(40, 5, process=1)
    return book.fault("pause-server", 3, 16)


def answered(history: History) -> None:
    """Every measure answers, with numbers of its unit and rows of the history, or says why it cannot."""
    found = measures(history)
    assert len({measure.name for measure in found}) == len(found) == len(MEASURES)
    for measure in found:
        assert measure.values or measure.unexercised
        assert all(rows and all(0 <= row < len(history) for row in rows) for rows in measure.rows)
        assert len({(value.name, value.of) for value in measure.values}) == len(measure.values)
        for value in measure.values:
            assert value.number is None or type(value.number) is (float if value.unit == "ratio" else int)


@pytest.mark.parametrize("trial", ["t", ""])
def test_every_measure_answers(trial: str) -> None:
    history = full(trial=trial, store="fence-writes").history()
    answered(history)
    assert all(len(measure.definition) > 40 for measure in measures(history))


def test_it_can_be_written_down() -> None:
    found = measures(full().history())
    text = json.dumps([asdict(measure) for measure in found], allow_nan=False)
    first = json.loads(text)[0]
    assert first["name"] == "definite-overlap"
    assert first["values"][0] == {"name": "pairs", "number": 0, "unit": "count", "of": ""}


@pytest.mark.parametrize("trial", ["t", ""])
def test_nothing_is_measured_of_nothing(trial: str) -> None:
    empty = Book(trial=trial).history()
    assert all(measure.unexercised for measure in measures(empty))
    unknown = Book(trial=trial).acquire(1, 0, 0 if trial else 1, outcome=INFO).history()
    assert all(measure.unexercised for measure in measures(unknown))


def test_any_history_has_an_answer() -> None:
    """Random leases, recorded and from elsewhere."""
    rng = Random(3)
    for _ in range(150):
        kind = rng.choice(("grant", "touch", "session", "quorum", "none"))
        leases = generate.leases(rng, "grant" if kind in ("none", "quorum") else kind)
        book = generate.lease_book(leases, kind, rng)
        answered(book.history())
        book.facts = Book(trial="", keys=("a",), ttl=0).facts
        answered(book.history())
