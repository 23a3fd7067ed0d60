"""Registers, several at once, and maps with append."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from checkers.bench.generate import HistoryShape
from checkers.bench.generate import cas_register as cas_register_of
from checkers.engines.registers import cas_register, kv, register
from checkers.history.history import BadHistory, History
from checkers.linearizability import decide
from checkers.models.engine_answer import EngineAnswer
from checkers.models.kv import Kv
from checkers.models.model import Operation, Settings
from checkers.models.operations import Operations, Source
from checkers.models.registers import CasRegister, MultiRegister
from checkers.row_format import F
from checkers.tests.acts import Act, history_of
from checkers.tests.build import FACTS

PLAIN = Settings()


def write(value: Any, inv: int, ret: int, outcome: str = "ok", **more: Any) -> Act:
    return Act(F.WRITE, outcome, value, inv, ret, **more)


def read(value: Any, inv: int, ret: int, **more: Any) -> Act:
    return Act(F.READ, "ok", value, inv, ret, **more)


def cas(base: Any, value: Any, inv: int, ret: int, outcome: str = "ok", **more: Any) -> Act:
    return Act(F.CAS, outcome, value, inv, ret, base=base, **more)


def asked(acts: Sequence[Act], settings: Settings = PLAIN) -> EngineAnswer:
    return cas_register(history_of(acts), settings)


@pytest.mark.parametrize(
    ("kind", "acts", "rows"),
    [
        ("value-never-written", [write(1, 1, 2), read(7, 3, 4)], {1}),
        ("value-never-written", [write(1, 1, 2), cas(7, 8, 3, 4)], {1}),
        ("refused-value-read", [write(1, 1, 2, "fail"), read(1, 3, 4)], {0, 1}),
        ("value-read-before-write", [read(1, 1, 2), write(1, 3, 4)], {0, 1}),
        ("value-replaced-twice", [write(1, 1, 2), cas(1, 2, 3, 4), cas(1, 3, 5, 6)], {1, 2}),
        ("values-in-a-circle", [cas(2, 1, 1, 9), cas(1, 2, 2, 8)], {0}),
        ("not-the-latest-value", [write(1, 1, 2), cas(1, 2, 3, 4), read(1, 5, 6)], {1, 2}),
        ("no-order-of-values", [write(1, 1, 2), write(2, 3, 4), read(1, 5, 6)], {0, 1, 2}),
        ("no-order-of-values", [write(1, 1, 2), read(None, 3, 4)], {0, 1}),
        ("failed-without-reason", [write(1, 1, 2), cas(1, 2, 3, 4, "fail"), read(1, 5, 6)], {0, 1, 2}),
    ],
)
def test_each_contradiction_is_named_with_its_rows(kind: str, acts: list[Act], rows: set[int]) -> None:
    answer = asked(acts)
    assert not answer.undecided
    (conflict,) = answer.conflicts
    assert conflict.kind == kind
    assert set(conflict.rows) >= rows


def test_values_written_twice_are_left_to_the_search_unless_nobody_saw_them() -> None:
    twice = [write(1, 1, 2), write(1, 3, 4)]
    assert asked([*twice, read(1, 5, 6)]).undecided == {0: "a value that was seen was written repeatedly"}
    answer = asked([*twice, write(2, 5, 6), read(2, 7, 8)])
    assert not answer.undecided
    assert answer.order().tolist() == [0, 1, 2, 3]
    assert asked([*twice, write(0, 5, 6), read(0, 7, 8)], Settings(initial=0)).undecided


def test_what_repeated_values_do_not_touch_still_contradicts_itself() -> None:
    twice = [write(1, 1, 2), write(1, 3, 4), read(1, 5, 6)]
    answer = asked([*twice, write(2, 7, 8), write(3, 9, 10), read(2, 11, 12)])
    assert [conflict.kind for conflict in answer.conflicts] == ["no-order-of-values"]
    assert not answer.undecided
    early = [read(1, 1, 2), write(1, 3, 4), write(1, 3, 4)]
    assert [conflict.kind for conflict in asked(early).conflicts] == ["value-read-before-write"]


def test_a_register_knows_no_compare_and_set() -> None:
    assert not register(history_of([write(1, 1, 2), cas(1, 2, 3, 4), read(1, 5, 6)]), PLAIN).conflicts


def test_late_times_and_the_same_values_under_all_keys_change_nothing() -> None:
    history = cas_register_of(HistoryShape(400, 10, 4, unknown=8, bad=True))
    assert cas_register(history, PLAIN).conflicts
    moved = {**history.columns}
    for name in ("inv", "ret"):
        moved[name] = np.where(moved[name] > 0, moved[name] + (1 << 62), 0)
    late = cas_register(History(FACTS, moved), PLAIN)
    assert late[:2] == cas_register(history, PLAIN)[:2]
    wide = {**history.columns}
    for name in ("value", "base"):
        wide[name] = np.where(wide[name] > 0, wide[name] << 30, wide[name])
    assert cas_register(History(FACTS, wide), PLAIN)[:2] == late[:2]


def transact(parts: tuple[Any, ...], inv: int, ret: int, outcome: str = "ok") -> Act:
    return Act(F.TRANSACT, outcome, parts, inv, ret)


def test_transactions_read_and_write_several_registers_at_once() -> None:
    torn = [transact((("w", "x", 1), ("r", "x", 2)), 1, 2)]
    stale = [transact((("w", "x", 1), ("w", "y", 1)), 1, 2), transact((("r", "y", None),), 3, 4)]
    for acts in (torn, stale):
        judgement = decide(history_of([*acts, transact((("w", "z", 1),), 5, 6)]), "multi-register", PLAIN)
        assert (judgement.valid, judgement.rows) == (False, tuple(range(len(acts))))
    given = Settings(initial={"y": 5})
    assert decide(history_of([transact((("r", "y", 5),), 1, 2)]), "multi-register", given).valid


def test_a_transaction_that_is_none_is_refused() -> None:
    for odd in (5, (("x", "y"),), (("add", "x", 1),)):
        history = history_of([Act(F.TRANSACT, "ok", odd, 1, 2)])
        with pytest.raises(BadHistory, match="a transaction"):
            MultiRegister.of(history, PLAIN)


def append(value: Any, inv: int, ret: int, outcome: str = "ok") -> Act:
    return Act(F.APPEND, outcome, value, inv, ret)


@pytest.mark.parametrize(
    ("acts", "valid"),
    [
        ([read("x 0 yx 1 y", 5, 6)], True),
        ([read("x 1 y", 5, 6)], False),
        ([read("x 0 y", 5, 6), read("x 0 yx 1 yx 2 y", 5, 6)], False),
        ([read("x 0 yx 1 yx 2 y", 5, 6), read("x 0 yx 1 y", 5, 6)], True),
        ([read("x 0 yx 1", 5, 6)], False),
        ([read("x 0 yx 0 y", 5, 6)], False),
        ([append("x", 5, 6), read("x 0 yx 1 yx", 7, 8)], True),
    ],
)
def test_appended_strings_are_taken_apart(acts: list[Act], valid: bool) -> None:
    before = [append("x 0 y", 1, 2), append("x 1 y", 3, 4), append("x 2 y", 3, 0, "info")]
    assert decide(history_of([*before, *acts]), "kv", PLAIN).valid is valid


@pytest.mark.parametrize("nothing", [None, "", ()])
def test_nothing_is_nil_an_empty_string_and_an_empty_list(nothing: Any) -> None:
    for acts in (
        [read(nothing, 1, 2), append("a", 3, 4), read("a", 5, 6)],
        [read(nothing, 1, 2), write(1, 3, 4), read(1, 5, 6)],
    ):
        assert decide(history_of(acts), "kv", PLAIN).valid


def test_appended_keys_are_left_to_the_search() -> None:
    acts = [append("a", 1, 2), read("a", 3, 4), write(1, 1, 2, key="b"), read(None, 3, 4, key="b")]
    answer = kv(history_of(acts), PLAIN)
    assert ([conflict.key for conflict in answer.conflicts], list(answer.undecided)) == ([1], [0])


def operations(acts: Sequence[Act]) -> Operations:
    history = history_of(acts)
    return Operations(Source(history), np.arange(len(history)))


def needed(model: Any, acts: Sequence[Act], row: int) -> set[int]:
    peers = operations(acts)
    operation: Operation = peers[row]
    rows = model.needs(operation, peers)
    assert rows is not None
    return set(rows)


def test_what_must_stay_with_an_operation() -> None:
    acts = [write(1, 1, 2), write(2, 3, 4), cas(2, 3, 5, 6), read(3, 7, 8), cas(1, 4, 9, 10, "fail"), write(1, 11, 12)]
    model = CasRegister(PLAIN)
    assert needed(model, acts, 3) == {2}
    assert needed(model, acts, 2) == {1}
    assert model.needs(operations(acts)[4], operations(acts)) is None
    assert needed(model, acts, 0) == set()
    listed = [append("a", 1, 2), append("b", 3, 4), read("b", 5, 6)]
    assert needed(Kv(PLAIN), listed, 2) == {1}
    torn = [transact((("w", "x", 1), ("w", "y", 1)), 1, 2), transact((("r", "y", 1),), 3, 4), write(2, 1, 2)]
    assert needed(MultiRegister(PLAIN), torn, 2) == {0}
