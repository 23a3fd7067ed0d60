"""What a comparison with exhaustive search says."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from checkers.check import check
from checkers.history.history import History
from checkers.models.engine_answer import EngineAnswer
from checkers.models.model import Illegal, Model
from checkers.models.operations import Operations, Source
from checkers.properties.check_result import CheckResult
from checkers.tests.build import Book


class Disagreement(AssertionError):
    """The checker and exhaustive search differ; the text has the history."""


def compare(valid: bool | None, truth: bool, what: object) -> str:
    """The word for an agreement."""
    if valid is not truth:
        raise Disagreement(f"checker says {valid}, exhaustive search {truth}:\n{what}")
    return "valid" if truth else "invalid"


def sound(valid: bool | None, truth: bool, what: object) -> str:
    """As `compare`, of a checker that need not see everything: what it calls invalid must be so."""
    if truth and not valid:
        raise Disagreement(f"a false alarm:\n{what}")
    return f"{'valid' if truth else 'invalid'}, {'seen' if valid is truth else 'missed'}"


def counted(result: CheckResult, truth: int, what: object) -> str:
    """As `compare`, where so many violations must be reported, and nothing else."""
    if len(result.violations) != truth:
        raise Disagreement(f"{len(result.violations)} violations reported, {truth} exist:\n{what}")
    return compare(result.valid, not truth, what)


def result_on(book: Book, name: str) -> CheckResult:
    """Of a property; its violations must be fit to be told."""
    history = book.history()
    (result,) = check(history, [name])
    for violation in result.violations:
        assert violation.story
        assert all(0 <= row < len(history) for row in (*violation.rows, *violation.holders))
    return result


VALID, INVALID = {"valid": True}, {"valid": False}
GOOD = {"valid": True, "unexercised": None}


def answers(name: str, book: Book, expected: Iterable[str]) -> dict[str, object]:
    """What a property says of a book, by these names: a field of `CheckResult` or of its only violation; of that also
    ``end``, the last sentence, ``owners`` of its grants, and ``sent``, the invocations of its rows; ``kinds`` and
    ``moments`` of all violations; else a counter.
    """
    result, columns = result_on(book, name), book.history().columns

    def answer(of: str) -> object:
        if of in ("valid", "unexercised", "reason"):
            return getattr(result, of)
        if of in ("kinds", "moments"):
            return [violation.kind if of == "kinds" else violation.at for violation in result.violations]
        if of in ("kind", "at", "rows", "holders", "end", "owners", "sent"):
            (violation,) = result.violations
            if of == "owners":
                return tuple(columns["owner"][list(violation.holders)].tolist())
            if of == "sent":
                return tuple(columns["inv"][list(violation.rows)].tolist())
            return violation.story[-1] if of == "end" else getattr(violation, of)
        return result.counters[of]

    return {of: answer(of) for of in expected}


def replayed(history: History, answer: EngineAnswer, model: Model) -> None:
    """That the order of each valid key is one: all that must be in it, real time, and the specification.

    Raises Disagreement.
    """
    invalid = {conflict.key for conflict in answer.conflicts}
    open_keys = invalid | answer.undecided.keys()
    operations = list(Operations(Source(history), np.arange(len(history))))
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
