"""Registers, alone and several at once, maps with append, sets and their elements, counters, and identities."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from checkers.bench.generate import HistoryShape
from checkers.bench.generate import cas_register as cas_register_of
from checkers.engines.registers import cas_register, kv, register
from checkers.engines.set_full import certify, set_full
from checkers.history.history import BadHistory, History
from checkers.linearizability import decide
from checkers.models.accumulators import Counter, Elements
from checkers.models.engine_answer import EngineAnswer
from checkers.models.kv import Kv
from checkers.models.model import Settings
from checkers.models.operations import Operations
from checkers.models.registers import CasRegister, MultiRegister
from checkers.row_format import F
from checkers.tests.acts import Act, history_of
from checkers.tests.build import FACTS, cases, there

PLAIN, NO_TIME = Settings(), Settings(budget=0)


def act(f: F, value: Any, inv: int, ret: int, outcome: str = "ok", **more: Any) -> Act:
    return Act(f, outcome, value, inv, ret, **more)


write, read, append, add, transact, generate = (
    partial(act, f) for f in (F.WRITE, F.READ, F.APPEND, F.ADD, F.TRANSACT, F.GENERATE)
)


def cas(base: Any, value: Any, inv: int, ret: int, outcome: str = "ok") -> Act:
    return Act(F.CAS, outcome, value, inv, ret, base)


def asked(acts: Sequence[Act], settings: Settings = PLAIN) -> EngineAnswer:
    return cas_register(history_of(acts), settings)


@cases(
    "kind, acts, rows",
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


def test_repeated_values_do_not_hide_a_contradiction() -> None:
    answer = asked([write(1, 1, 2), write(1, 3, 4), read(1, 5, 6), write(2, 7, 8), write(3, 9, 10), read(2, 11, 12)])
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


def test_transactions_read_and_write_several_registers_at_once() -> None:
    torn = [transact((("w", "x", 1), ("r", "x", 2)), 1, 2)]
    stale = [transact((("w", "x", 1), ("w", "y", 1)), 1, 2), transact((("r", "y", None),), 3, 4)]
    for acts in (torn, stale):
        judgement = decide(history_of([*acts, transact((("w", "z", 1),), 5, 6)]), "multi-register", PLAIN)
        assert (judgement.valid, judgement.rows) == (False, tuple(range(len(acts))))
    assert decide(history_of([transact((("r", "y", 5),), 1, 2)]), "multi-register", Settings(initial={"y": 5})).valid


def test_a_malformed_transaction_or_addition_is_refused() -> None:
    with pytest.raises(BadHistory, match='"x"'):
        Counter.of(history_of([add("x", 1, 2)]), PLAIN)
    for odd in (5, (("x", "y"),), (("add", "x", 1),)):
        history = history_of([Act(F.TRANSACT, "ok", odd, 1, 2)])
        with pytest.raises(BadHistory, match="a transaction"):
            MultiRegister.of(history, PLAIN)


APPENDED = [append("x 0 y", 1, 2), append("x 1 y", 3, 4), append("x 2 y", 3, 0, "info")]


# fuzz_data compares sets and counters with exhaustive search; these are values that it does not draw.
@cases(
    "model, acts, valid",
    ("strings one behind the other", "kv", [*APPENDED, read("x 0 yx 1 y", 5, 6)], True),
    ("the first is missing", "kv", [*APPENDED, read("x 1 y", 5, 6)], False),
    ("the second too", "kv", [*APPENDED, read("x 0 y", 5, 6), read("x 0 yx 1 yx 2 y", 5, 6)], False),
    ("the last may", "kv", [*APPENDED, read("x 0 yx 1 yx 2 y", 5, 6), read("x 0 yx 1 y", 5, 6)], True),
    ("half a string", "kv", [*APPENDED, read("x 0 yx 1", 5, 6)], False),
    ("one string twice", "kv", [*APPENDED, read("x 0 yx 0 y", 5, 6)], False),
    ("a string that others begin with", "kv", [*APPENDED, append("x", 5, 6), read("x 0 yx 1 yx", 7, 8)], True),
    ("what is no set", "set", [read(5, 1, 2)], False),
    ("what is no number", "counter", [read("x", 1, 2)], False),
    ("a number without end", "counter", [add(1 << 70, 1, 2), read(1 << 70, 3, 4)], True),
    ("a broken number", "counter", [add(0.5, 1, 2), read(0.5, 3, 4)], True),
    ("the same identity under another key", "unique-ids", [generate(1, 1, 2), generate(1, 3, 4, key="b")], True),
    ("a set that lost an element for a while", "set", [add(1, 1, 2), read((), 3, 4), read((1,), 5, 6)], False),
)
def test_only_impossible_reads_make_a_history_invalid(model: str, acts: list[Act], valid: bool) -> None:
    judgement = decide(history_of(acts), model, PLAIN)
    assert judgement.valid is valid
    assert valid or judgement.minimal


def test_appended_keys_are_left_to_the_search() -> None:
    acts = [append("a", 1, 2), read("a", 3, 4), write(1, 1, 2, key="b"), read(None, 3, 4, key="b")]
    answer = kv(history_of(acts), PLAIN)
    assert ([conflict.key for conflict in answer.conflicts], list(answer.undecided)) == ([1], [0])


def operations(acts: Sequence[Act]) -> Operations:
    history = history_of(acts)
    return Operations(history, np.arange(len(history)))


def needed(model: Any, acts: Sequence[Act], row: int) -> set[int]:
    peers = operations(acts)
    (operation,) = peers.only([row])
    return set(there(model.needs(operation, peers)))


def test_each_model_names_the_operations_that_an_operation_needs() -> None:
    acts = [write(1, 1, 2), write(2, 3, 4), cas(2, 3, 5, 6), read(3, 7, 8), cas(1, 4, 9, 10, "fail"), write(1, 11, 12)]
    model = CasRegister(PLAIN)
    assert (needed(model, acts, 3), needed(model, acts, 2)) == ({2}, {1})
    assert model.needs(list(operations(acts))[4], operations(acts)) is None
    assert needed(model, acts, 0) == set()
    assert needed(Kv(PLAIN), [append("a", 1, 2), append("b", 3, 4), read("b", 5, 6)], 2) == {1}
    torn = [transact((("w", "x", 1), ("w", "y", 1)), 1, 2), transact((("r", "y", 1),), 3, 4), write(2, 1, 2)]
    assert needed(MultiRegister(PLAIN), torn, 2) == {0}


def test_sets_and_counters_of_many_unanswered_additions_need_no_search() -> None:
    acts = [*[add(n, n, 0, "info") for n in range(1, 100)], *(add(n, n, 0, "info") for n in range(101, 200))]
    assert decide(history_of([*acts, read(tuple(range(1, 100)), 500, 501)]), "set", NO_TIME).valid
    once = [act._replace(value=1) for act in acts]
    assert decide(history_of([*once, read(99, 500, 501)]), "counter", NO_TIME).valid
    assert decide(history_of([*once, read(199, 500, 501)]), "counter", NO_TIME).valid is False


def test_a_lost_element_is_reported_with_its_rows() -> None:
    acts = [add("lost", 1, 2), add("stale", 1, 2), add("stable", 1, 2), add("never", 1, 0, "info")]
    acts += [read(("stable",), 10, 11), read(("stable", "stale", "unconfirmed"), 20, 21)]
    acts += [add("unconfirmed", 15, 0, "info"), add("late", 30, 31)]
    history = history_of(acts)
    (conflict,) = set_full(history, PLAIN).conflicts
    assert (conflict.kind, conflict.rows) == ("element-lost", (0, 6))
    assert certify(history, PLAIN, False, conflict.rows) is None
    assert certify(history, PLAIN, False, (1, 2)) is not None
    assert certify(history, PLAIN, True, range(len(acts))) is not None


def test_an_element_may_come_back_or_stand_twice_if_it_was_added_twice() -> None:
    assert not set_full(history_of([add(1, 1, 2), add(1, 1, 0, "info"), read((1, 1), 3, 4)]), PLAIN).conflicts
    history = history_of([add(1, 1, 2), read((), 3, 4), read((1,), 5, 6)])
    assert not set_full(history, PLAIN).conflicts
    assert certify(history, PLAIN, True, (0, 1, 2)) is None
    assert certify(history, PLAIN, True, (0, 1)) is not None


@cases(
    "kind, acts",
    ("element-duplicated", [add(1, 1, 2), read((1, 1), 3, 4)]),
    ("value-never-written", [read((1,), 3, 4)]),
    ("refused-value-read", [add(1, 1, 2, "fail"), read((1,), 3, 4)]),
    ("value-read-before-write", [read((1,), 1, 2), add(1, 3, 4)]),
    ("not-a-collection", [read("x", 1, 2)]),
)
def test_an_impossible_read_of_elements_is_reported(kind: str, acts: list[Act]) -> None:
    history = history_of(acts)
    answer = set_full(history, PLAIN)
    assert [conflict.kind for conflict in answer.conflicts] == [kind]
    assert certify(history, PLAIN, False, answer.conflicts[0].rows) is None


def test_a_set_that_nobody_reads_is_not_exercised() -> None:
    answer = set_full(history_of([add(1, 1, 2)]), PLAIN)
    assert not answer.conflicts
    assert "unexercised" in answer.undecided[0]


def test_a_grown_set_leaves_its_origin_unchanged() -> None:
    first = Elements((1, 2))
    left, right = first.grown(3), first.grown(4)
    assert (list(left), list(right)) == ([1, 2, 3], [1, 2, 4])
    assert (list(first), 3 in first, 3 in left, 3 in right) == ([1, 2], False, True, False)
    assert Elements((3, 2, 1)) == left != right
    assert hash(Elements((3, 2, 1))) == hash(left)
    assert left.grown(3) is left
    assert repr(first) == "{1, 2}"
    assert first != {1, 2}
