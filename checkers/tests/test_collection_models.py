"""Sets, what became of their elements, counters, and identities."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

from checkers.engines.counters import counter
from checkers.engines.set_full import certify, set_full
from checkers.engines.sets import set_
from checkers.engines.unique_ids import unique_ids
from checkers.history import BadHistory
from checkers.models.accumulators import Counter, Elements, Set
from checkers.models.model import UNSET, Settings
from checkers.operations import Operations, Source
from checkers.tests.acts import Act, history_of, replays, together
from checkers.tests.fuzz_accumulators import CHECKS, KINDS
from checkers.wire import F

PLAIN = Settings()


def add(value: Any, inv: int, ret: int, outcome: str = "ok", **more: Any) -> Act:
    return Act(F.ADD, outcome, value, inv, ret, **more)


def read(value: Any, inv: int, ret: int, **more: Any) -> Act:
    return Act(F.READ, "ok", value, inv, ret, **more)


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_some_histories_of_each_kind_agree_with_exhaustive_search(name: str) -> None:
    for n in range(40):
        CHECKS[name](Random(f"tests/{n}"))


@pytest.mark.parametrize("name", sorted(KINDS))
def test_keys_do_not_disturb_each_other(name: str) -> None:
    for n in range(3):
        assert len(together(Random(f"tests/{n}"), kind=KINDS[name], keys=100)) == 100


def kinds(answer: Any) -> list[str]:
    return [conflict.kind for conflict in answer.conflicts]


@pytest.mark.parametrize(
    ("kind", "acts"),
    [
        ("element-missing", [add(1, 1, 2), read((), 3, 4)]),
        ("element-missing", [add(1, 1, 0, "info"), read((1,), 3, 4), read((), 5, 6)]),
        ("element-missing", [add(1, 1, 9), add(2, 1, 9), read((1,), 1, 9), read((2,), 1, 9)]),
        ("value-never-written", [read((7,), 1, 2)]),
        ("refused-value-read", [add(7, 1, 2, "fail"), read((7,), 3, 4)]),
        ("element-missing", [read((1,), 1, 2), add(1, 3, 4)]),
        ("not-a-collection", [read(5, 1, 2)]),
    ],
)
def test_what_a_set_cannot_have_shown(kind: str, acts: list[Act]) -> None:
    answer = set_(history_of(acts), PLAIN)
    assert kinds(answer) == [kind]


def test_a_set_is_decided_with_its_order() -> None:
    acts = [
        add(1, 1, 9),
        add(2, 2, 3),
        add(2, 5, 6),
        read((2,), 4, 5),
        read(frozenset((1, 2)), 7, 8),
        add(3, 1, 0, "info"),
    ]
    history = history_of(acts)
    answer = set_(history, PLAIN)
    assert not answer.conflicts
    operations = Operations(Source(history), np.arange(len(history)))
    assert replays(operations, Set(PLAIN), answer.order().tolist()) is None
    given = Settings(initial=(4,))
    assert not set_(history_of([read((4,), 1, 2)]), given).conflicts
    assert kinds(set_(history_of([read((), 1, 2)]), given)) == ["element-missing"]


def test_what_became_of_each_element() -> None:
    acts = [
        add("lost", 1, 2),
        add("stale", 1, 2),
        add("stable", 1, 2),
        read(("stable",), 10, 11),
        read(("stable", "stale", "unconfirmed"), 20, 21),
        add("unconfirmed", 15, 0, "info"),
        add("late", 30, 31),
        add("never", 1, 0, "info"),
    ]
    history = history_of(acts)
    (conflict,) = set_full(history, PLAIN).conflicts
    assert (conflict.kind, conflict.rows) == ("element-lost", (0, 6))
    assert certify(history, PLAIN, False, conflict.rows) is None
    assert certify(history, PLAIN, False, (1, 2)) is not None
    assert certify(history, PLAIN, True, range(len(acts))) is not None


def test_an_element_that_came_back_is_not_lost() -> None:
    acts = [add(1, 1, 2), read((), 3, 4), read((1,), 5, 6)]
    history = history_of(acts)
    assert not set_full(history, PLAIN).conflicts
    assert certify(history, PLAIN, True, (0, 1, 2)) is None
    assert certify(history, PLAIN, True, (0, 1)) is not None
    assert kinds(set_(history, PLAIN)) == ["element-missing"]


@pytest.mark.parametrize(
    ("kind", "acts"),
    [
        ("element-duplicated", [add(1, 1, 2), read((1, 1), 3, 4)]),
        ("value-never-written", [read((1,), 3, 4)]),
        ("refused-value-read", [add(1, 1, 2, "fail"), read((1,), 3, 4)]),
        ("value-read-before-write", [read((1,), 1, 2), add(1, 3, 4)]),
        ("not-a-collection", [read("x", 1, 2)]),
    ],
)
def test_reads_of_elements_that_cannot_be_right(kind: str, acts: list[Act]) -> None:
    history = history_of(acts)
    answer = set_full(history, PLAIN)
    assert kinds(answer) == [kind]
    assert certify(history, PLAIN, False, answer.conflicts[0].rows) is None


def test_an_element_added_twice_may_stand_twice() -> None:
    assert not set_full(history_of([add(1, 1, 2), add(1, 1, 0, "info"), read((1, 1), 3, 4)]), PLAIN).conflicts


def test_what_no_read_showed_is_not_exercised() -> None:
    answer = set_full(history_of([add(1, 1, 2)]), PLAIN)
    assert not answer.conflicts
    assert "unexercised" in answer.undecided[0]


@pytest.mark.parametrize(
    ("kind", "acts"),
    [
        ("impossible-count", [add(1, 1, 2), read(0, 3, 4)]),
        ("impossible-count", [read(1, 1, 2), add(1, 3, 4)]),
        ("impossible-count", [add(2, 1, 0, "info"), read(1, 3, 4)]),
        ("impossible-count", [add(-1, 1, 0, "info"), read(1, 3, 4)]),
        ("counts-out-of-order", [add(1, 1, 0, "info"), read(1, 3, 4), read(0, 5, 6)]),
        ("impossible-count", [add(1, 1, 0, "info"), read(1, 3, 4), add(1, 5, 6), read(1, 7, 8)]),
        ("not-a-number", [read("x", 1, 2)]),
    ],
)
def test_what_a_counter_cannot_have_shown(kind: str, acts: Sequence[Act]) -> None:
    assert kinds(counter(history_of(acts), PLAIN)) == [kind]


def test_several_reads_constrain_each_other() -> None:
    """Each read alone is within its bounds: two additions are under way all the time, and one is done."""
    acts = [add(1, 1, 20), add(1, 1, 20), add(1, 5, 6), read(1, 2, 3), read(1, 8, 9)]
    assert kinds(counter(history_of(acts), PLAIN)) == ["impossible-count"]
    assert not counter(history_of([*acts[:4], read(2, 8, 9)]), PLAIN).conflicts


def test_counters_are_left_to_the_search_where_that_is_said() -> None:
    mixed = counter(history_of([add(1, 1, 2), add(-1, 1, 2), read(0, 3, 4)]), PLAIN)
    assert "both signs" in mixed.undecided[0]
    fractions = counter(history_of([add(0.5, 1, 2), read(0.5, 3, 4)]), PLAIN)
    assert "not whole" in fractions.undecided[0]
    assert not counter(history_of([add(1, 1, 2), add(3, 1, 2), read(4, 3, 4)]), PLAIN).undecided


def test_an_addition_without_a_value_adds_one() -> None:
    for nothing in (None, UNSET):
        assert not counter(history_of([add(nothing, 1, 2), read(6, 3, 4)]), Settings(initial=5)).conflicts
    assert not counter(history_of([add(1 << 70, 1, 2), read(1 << 70, 3, 4)]), PLAIN).conflicts
    with pytest.raises(BadHistory, match="'x'"):
        Counter.of(history_of([add("x", 1, 2)]), PLAIN)


def test_identities() -> None:
    def generated(value: Any, inv: int, outcome: str = "ok", **more: Any) -> Act:
        return Act(F.GENERATE, outcome, value, inv, inv + 1, **more)

    acts = [generated(1, 1), generated(2, 3), generated(1, 5), generated(UNSET, 7, "info"), generated(1, 9)]
    (conflict,) = unique_ids(history_of(acts), PLAIN).conflicts
    assert conflict == ("handed-out-twice", 0, (0, 2))
    apart = unique_ids(history_of([generated(1, 1), generated(1, 3, key="b"), generated(2, 5, "fail")]), PLAIN)
    assert not apart.conflicts
    assert sorted(apart.order().tolist()) == [0, 1]


def test_sets_share_memory_with_what_they_grew_from() -> None:
    first = Elements((1, 2))
    left, right = first.grown(3), first.grown(4)
    assert list(left) == [1, 2, 3]
    assert list(right) == [1, 2, 4]
    assert (list(first), 3 in first, 3 in left, 3 in right) == ([1, 2], False, True, False)
    assert Elements((3, 2, 1)) == left != right
    assert hash(Elements((3, 2, 1))) == hash(left)
    assert left.grown(3) is left
    assert repr(first) == "{1, 2}"
    assert first != {1, 2}
