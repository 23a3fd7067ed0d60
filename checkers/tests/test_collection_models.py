"""Sets, what became of their elements, counters, and identities."""

from collections.abc import Sequence
from typing import Any

import pytest

from checkers.engines.set_full import certify, set_full
from checkers.history.history import BadHistory
from checkers.linearizability import ModelResult, decide
from checkers.models.accumulators import Counter, Elements
from checkers.models.model import UNSET, Settings
from checkers.row_format import F
from checkers.tests.acts import Act, history_of

PLAIN = Settings()


def add(value: Any, inv: int, ret: int, outcome: str = "ok", **more: Any) -> Act:
    return Act(F.ADD, outcome, value, inv, ret, **more)


def read(value: Any, inv: int, ret: int, **more: Any) -> Act:
    return Act(F.READ, "ok", value, inv, ret, **more)


def generated(value: Any, inv: int, outcome: str = "ok", **more: Any) -> Act:
    return Act(F.GENERATE, outcome, value, inv, inv + 1, **more)


def judged(model: str, acts: Sequence[Act], settings: Settings = PLAIN) -> ModelResult:
    return decide(history_of(acts), model, settings)


@pytest.mark.parametrize(
    ("model", "acts"),
    [
        ("set", [add(1, 1, 2), read((), 3, 4)]),
        ("set", [add(1, 1, 0, "info"), read((1,), 3, 4), read((), 5, 6)]),
        ("set", [add(1, 1, 9), add(2, 1, 9), read((1,), 1, 9), read((2,), 1, 9)]),
        ("set", [read((7,), 1, 2)]),
        ("set", [add(7, 1, 2, "fail"), read((7,), 3, 4)]),
        ("set", [read((1,), 1, 2), add(1, 3, 4)]),
        ("set", [read(5, 1, 2)]),
        ("counter", [add(1, 1, 2), read(0, 3, 4)]),
        ("counter", [read(1, 1, 2), add(1, 3, 4)]),
        ("counter", [add(2, 1, 0, "info"), read(1, 3, 4)]),
        ("counter", [add(-1, 1, 0, "info"), read(1, 3, 4)]),
        ("counter", [add(1, 1, 0, "info"), read(1, 3, 4), read(0, 5, 6)]),
        ("counter", [add(1, 1, 0, "info"), read(1, 3, 4), add(1, 5, 6), read(1, 7, 8)]),
        ("counter", [add(1, 1, 20), add(1, 1, 20), add(1, 5, 6), read(1, 2, 3), read(1, 8, 9)]),
        ("counter", [add(1, 1, 2), add(-1, 1, 2), read(1, 3, 4)]),
        ("counter", [read("x", 1, 2)]),
        ("unique-ids", [generated(1, 1), generated(2, 3), generated(1, 5)]),
    ],
)
def test_what_cannot_have_been_answered(model: str, acts: list[Act]) -> None:
    judgement = judged(model, acts)
    assert (judgement.valid, judgement.minimal) == (False, True)


@pytest.mark.parametrize(
    ("model", "acts", "initial"),
    [
        ("set", [add(1, 1, 9), add(2, 2, 3), add(2, 5, 6), read((2,), 4, 5), read(frozenset((1, 2)), 7, 8)], UNSET),
        ("set", [read((4,), 1, 2), add(4, 3, 4), read((4, 4), 5, 6)], (4,)),
        ("counter", [add(1, 1, 20), add(1, 1, 20), add(1, 5, 6), read(1, 2, 3), read(2, 8, 9)], UNSET),
        ("counter", [add(None, 1, 2), add(UNSET, 1, 2), read(7, 3, 4)], 5),
        ("counter", [add(1 << 70, 1, 2), read(1 << 70, 3, 4)], UNSET),
        ("counter", [add(0.5, 1, 2), read(0.5, 3, 4)], UNSET),
        ("counter", [add(1, 1, 2), add(-1, 1, 2), read(0, 3, 4)], UNSET),
        (
            "unique-ids",
            [generated(1, 1), generated(1, 3, key="b"), generated(1, 5, "fail"), generated(UNSET, 7)],
            UNSET,
        ),
    ],
)
def test_what_can_have_been_answered(model: str, acts: list[Act], initial: Any) -> None:
    assert judged(model, acts, Settings(initial=initial)).valid


def test_what_only_grows_needs_no_search() -> None:
    """Two hundred additions without an answer, of which half happened: too many choices to try them."""
    happened = [add(n, n, 0, "info") for n in range(1, 100)]
    acts = [*happened, *(add(n, n, 0, "info") for n in range(101, 200))]
    assert decide(history_of([*acts, read(tuple(range(1, 100)), 500, 501)]), "set", PLAIN, 0).valid
    once = [act._replace(value=1) for act in acts]
    assert decide(history_of([*once, read(99, 500, 501)]), "counter", PLAIN, 0).valid
    assert decide(history_of([*once, read(199, 500, 501)]), "counter", PLAIN, 0).valid is False


def test_only_numbers_are_added_to_a_counter() -> None:
    with pytest.raises(BadHistory, match="'x'"):
        Counter.of(history_of([add("x", 1, 2)]), PLAIN)


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
    assert judged("set", acts).valid is False


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
    assert [conflict.kind for conflict in answer.conflicts] == [kind]
    assert certify(history, PLAIN, False, answer.conflicts[0].rows) is None


def test_an_element_added_twice_may_stand_twice() -> None:
    assert not set_full(history_of([add(1, 1, 2), add(1, 1, 0, "info"), read((1, 1), 3, 4)]), PLAIN).conflicts


def test_what_no_read_showed_is_not_exercised() -> None:
    answer = set_full(history_of([add(1, 1, 2)]), PLAIN)
    assert not answer.conflicts
    assert "unexercised" in answer.undecided[0]


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
