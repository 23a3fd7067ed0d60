"""Histories written by hand, one operation a line; their verdicts; and the comparison with exhaustive search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pytest

from checkers.check import check
from checkers.claims import Verdict
from checkers.history.history import DTYPE, Facts, FaultInterval, History, from_rows
from checkers.judging.judgement import judge
from checkers.measures.measure_result import Gauge
from checkers.measures.measured_history import MeasuredHistory
from checkers.models.engine_answer import EngineAnswer
from checkers.models.model import Illegal, Model, Settings
from checkers.models.operations import Operations
from checkers.properties.check_result import CheckResult
from checkers.properties.conclusions import COSTS
from checkers.row_format import FIELDS, FINAL, NONE, F, Outcome, Reason

OK, FAIL, INFO = Outcome.OK, Outcome.FAIL, Outcome.INFO

LANE = "redis/register/unfenced"
FACTS = Facts("t", LANE, "redis", "redis", "register", "unfenced", ("none",), 1, ("a", "b"), "grant", ttl=10, workers=4)
T = TypeVar("T")
EMPTY = dict.fromkeys((name for name, _ in FIELDS), 0) | dict.fromkeys(("token", "value", "base"), NONE)


def cases(names: str, *rows: tuple[Any, ...]) -> pytest.MarkDecorator:
    """A test for each row. A row may begin with the name of its case."""
    asked = names.split(", ")
    ids = [row[0] if len(row) > len(asked) else None for row in rows]
    return pytest.mark.parametrize(asked, [row[-len(asked) :] for row in rows], ids=ids)


def there(value: T | None) -> T:
    """The value, which must not be None."""
    assert value is not None
    return value


def message_of(error: type[BaseException], call: Callable[..., object], *given: Any, **named: Any) -> str:
    """The text of the error that the call must raise."""
    with pytest.raises(error) as caught:
        call(*given, **named)
    return str(caught.value)


class Book:
    """Collects operations; times are small positive integers."""

    def __init__(self, **facts: Any) -> None:
        self.facts = replace(FACTS, **facts)
        self.rows: list[tuple[Any, ...]] = []
        self.faults: list[FaultInterval] = []

    def add(self, f: F, inv: int, ret: int = 0, outcome: Outcome = OK, *, given_up: int = 0, **more: int) -> Book:
        """more: the values of other columns. given_up: when an unanswered operation was given up."""
        row = {**EMPTY, "inv": inv, "ret": given_up if outcome == INFO else ret, "f": f, "outcome": outcome, **more}
        assert len(row) == len(EMPTY), f"no columns: {row.keys() - EMPTY.keys()}"
        self.rows.append(tuple(row.values()))
        return self

    def acquire(self, inv: int, ret: int, owner: int, **more: Any) -> Book:
        return self.add(F.ACQUIRE, inv, ret, owner=owner, process=more.pop("process", owner), **more)

    def release(self, inv: int, ret: int, owner: int, outcome: Outcome = OK, **more: Any) -> Book:
        return self.add(F.RELEASE, inv, ret, outcome, owner=owner, process=more.pop("process", owner), **more)

    def renew(self, inv: int, ret: int, owner: int, outcome: Outcome = OK, **more: Any) -> Book:
        return self.add(F.RENEW, inv, ret, outcome, owner=owner, process=more.pop("process", owner), **more)

    def lost(self, at: int, owner: int, **more: Any) -> Book:
        return self.add(F.LOST, at, at, owner=owner, process=more.pop("process", owner), **more)

    def read(self, inv: int, ret: int, owner: int, value: int, outcome: Outcome = OK, **more: Any) -> Book:
        more = {"process": owner, "reason": Reason.STALE_TOKEN if outcome == FAIL else Reason.NONE, **more}
        return self.add(F.READ, inv, ret, outcome, owner=owner, value=value, **more)

    def write(self, inv: int, ret: int, owner: int, value: int, outcome: Outcome = OK, **more: Any) -> Book:
        more = {"process": owner, "reason": Reason.STALE_TOKEN if outcome == FAIL else Reason.NONE, **more}
        return self.add(F.WRITE, inv, ret, outcome, owner=owner, value=value, **more)

    def final(self, inv: int, ret: int, value: int, length: int = 0, key: int = 0) -> Book:
        return self.add(F.READ, inv, ret, value=value, base=length, process=-1, key=key, flags=FINAL)

    def fault(self, name: str, begun: int, healed: int, **more: Any) -> Book:
        more = {"kind": "cut", "target": "", "applied": begun, "healing": healed, **more}
        self.faults.append(FaultInterval(name=name, begun=begun, healed=healed, **more))
        return self

    def then(self, **facts: Any) -> Book:
        """A copy with other facts, to which a test can add operations."""
        book = Book()
        book.facts, book.rows, book.faults = replace(self.facts, **facts), [*self.rows], [*self.faults]
        return book

    def history(self) -> History:
        return from_rows(self.facts, np.array(self.rows, DTYPE), self.faults)


class Disagreement(AssertionError):
    """The checker and exhaustive search differ. The text contains the history."""


def compare(valid: bool | None, truth: bool, what: object) -> str:
    """The verdict, as a word, on which checker and exhaustive search agree. Raises Disagreement if they differ."""
    if valid is not truth:
        raise Disagreement(f"checker says {valid}, exhaustive search {truth}:\n{what}")
    return "valid" if truth else "invalid"


def sound(valid: bool | None, truth: bool, what: object) -> str:
    """As `compare`, for a checker that may miss violations; what it does not call valid must be invalid."""
    if truth and not valid:
        raise Disagreement(f"a false alarm:\n{what}")
    return f"{'valid' if truth else 'invalid'}, {'seen' if valid is truth else 'missed'}"


def counted(result: CheckResult, truth: int, what: object) -> str:
    """As `compare`; the checker must report exactly `truth` violations."""
    if len(result.violations) != truth:
        raise Disagreement(f"{len(result.violations)} violations reported, {truth} exist:\n{what}")
    return compare(result.valid, not truth, what)


def result_on(book: Book, name: str) -> CheckResult:
    """The result of one property. Asserts that its violations have stories, and rows of the history."""
    history = book.history()
    (result,) = check(history, [name])
    for violation in result.violations:
        assert violation.story[-1].endswith(COSTS[violation.kind])
        assert all(0 <= row < len(history) for row in (*violation.rows, *violation.holders))
    return result


VALID, INVALID = {"valid": True}, {"valid": False}
GOOD = {"valid": True, "unexercised": None}
VIOLATED, DOCUMENTED = {"word": Verdict.VIOLATED}, {"word": Verdict.WEAKNESS_SHOWN}


def known(of: str | Gauge, *rows: tuple[str, Book | MeasuredHistory, Mapping[str, object]]) -> Callable[..., None]:
    """A test of a property or a measure for each row: the name of the case, a history, and the expected answers."""

    @cases("subject, expected", *rows)
    def test(subject: Book | MeasuredHistory, expected: Mapping[str, object]) -> None:
        if isinstance(of, str):
            assert isinstance(subject, Book)
            found = answers(of, subject, expected)
        else:
            measure = of(measured(subject) if isinstance(subject, Book) else subject)
            found = {name: getattr(measure, name) if hasattr(measure, name) else measure[name] for name in expected}
        assert found == expected, f"{found}, not {expected}"

    return test


def measured(book: Book) -> MeasuredHistory:
    return MeasuredHistory(book.history(), Settings())


def answers(name: str, book: Book, expected: Mapping[str, Any]) -> dict[str, object]:
    """What a property says of a book, by the names in `expected`: a counter, or a field of `CheckResult`; the ``word``
    of the verdict; the ``kinds`` and ``moments`` of all violations. If there is only one violation also: a field of it;
    the ``owners`` of its grants; the invocations of its rows (``sent``); and as ``told`` its story, or the expected
    parts if the story has all of them.
    """
    history, result = book.history(), result_on(book, name)
    found: dict[str, object] = {**result.counters}
    found |= {of: getattr(result, of) for of in ("valid", "unexercised", "reason")}
    found |= {"kinds": [v.kind for v in result.violations], "moments": [v.at for v in result.violations]}
    if "word" in expected:
        judgement = judge(result, history)
        assert bool(judgement.violation) == bool(result.violations)
        found["word"] = judgement.word
    if len(result.violations) == 1:
        (violation,) = result.violations
        found |= {of: getattr(violation, of) for of in ("kind", "at", "rows", "holders")}
        found["owners"] = tuple(history.columns["owner"][list(violation.holders)].tolist())
        found["sent"] = tuple(history.columns["inv"][list(violation.rows)].tolist())
        story, parts = " ".join(violation.story), expected.get("told", ())
        found["told"] = parts if all(part in story for part in parts) else story
    return {of: found.get(of) for of in expected}


def replayed(history: History, answer: EngineAnswer, model: Model) -> None:
    """Raises Disagreement unless each valid key's order has all rows that it must, and respects time and the model."""
    invalid = {conflict.key for conflict in answer.conflicts}
    open_keys = invalid | answer.undecided.keys()
    operations = list(Operations(history, np.arange(len(history))))
    key = history.columns["key"].tolist()
    rows = [row for row in answer.order().tolist() if key[row] not in invalid]
    expected = {
        operation.row
        for operation in operations
        if key[operation.row] not in open_keys and (operation.ok or (operation.failed and model.evidence(operation)))
    }
    given = {row for row in rows if not operations[row].unknown}
    if given != expected or len(set(rows)) != len(rows):
        raise Disagreement(f"in the order {rows} are {given}, not {expected}")
    states: dict[int, Any] = {}
    latest: dict[int, int] = {}
    for row in rows:
        operation, at = operations[row], key[row]
        if operation.ret < latest.get(at, 0):
            raise Disagreement(f"row {row} of the order {rows} had returned before")
        latest[at] = max(latest.get(at, 0), operation.inv)
        state = model.step(states.get(at, model.initial), operation)
        if isinstance(state, Illegal):
            raise Disagreement(f"row {row} of the order {rows} is not possible there")
        states[at] = state
