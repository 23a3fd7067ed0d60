"""Every engine's kernels in both forms: compiled they say what they say as plain Python.

All tests that compile stand here, so that one process compiles, and a machine without numba lacks this file alone.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from checkers.engines import lease_kernels, locks_slots
from checkers.engines.engine import Answer, Engine
from checkers.engines.fenced import fenced_store
from checkers.engines.kernel import always
from checkers.engines.leases import lease
from checkers.engines.registers import cas_register
from checkers.engines.sorting import by_number, sorted_within
from checkers.engines.tokens import fencing_tokens
from checkers.history import History
from checkers.models.model import Settings
from checkers.models.stores import RULES
from checkers.tests import fuzz_locks, test_fenced_engines, test_register_engines
from checkers.tests.acts import together
from checkers.tests.build import INFO, OK, Book
from checkers.tests.fuzz_data import KINDS

PLAIN = Settings()


def in_both_forms(engine: Engine, history: History, settings: Settings = PLAIN) -> Answer:
    """The answer, which must be the same."""
    with always(compiled=False):
        plain = engine(history, settings)
        order = plain.order().tolist()
    with always(compiled=True):
        compiled = engine(history, settings)
        assert compiled.order().tolist() == order
    assert compiled[:2] == plain[:2]
    return plain


@pytest.mark.parametrize("mode", RULES)
def test_fenced_stores(mode: str) -> None:
    for seed in range(12):
        rng = Random(seed)
        size, wrong, spread = rng.choice((50, 400, 1500)), rng.choice((0.0, 0.0, 0.003)), rng.choice((4, 30, 200))
        history = test_fenced_engines.large(rng, mode, size, wrong=wrong, spread=spread)
        answer = in_both_forms(fenced_store, history)
        for key in set(range(5)) - {conflict.key for conflict in answer.conflicts} - set(answer.undecided):
            test_fenced_engines.replayed(history, answer, key)


def test_fencing_tokens() -> None:
    rng = Random(3)
    book = Book(keys=("a", "b"))
    for n in range(2000):
        inv = 4 * n + rng.randint(1, 30)
        book.acquire(inv, inv + rng.randint(0, 9), n + 1, token=n + rng.choice((0, 0, 0, 3)), key=n % 2)
    answer = in_both_forms(fencing_tokens, book.history())
    assert {conflict.key for conflict in answer.conflicts} == {0, 1}


def test_leases() -> None:
    book = Book(ttl=10)
    for number in range(1, 30):
        at, key = number * 10, number % 2
        book.acquire(at, at + 1, number, key=key).renew(at + 2, at + 3, number, key=key)
        book.release(at + 5, at + 6, number, OK if number % 3 else INFO, key=key)
    in_both_forms(lease, book.history())
    assert lease_kernels.settle.loaded


@pytest.mark.parametrize("name", list(fuzz_locks.CHECKS))
def test_locks_with_many_keys(name: str) -> None:
    rng, base = Random(name), name.removesuffix("-strict")
    settings = Settings(permits=2 if base == "semaphore" else 1, strict_try=base != name)
    book = Book(keys=tuple(map(str, range(300))))
    for key in range(300):
        fuzz_locks.book(fuzz_locks.story(rng, base, settings.permits), key, book)
    history = book.history()
    engine, model = fuzz_locks.MODELS[base]
    answer = in_both_forms(engine, history, settings)
    settled = set(range(300)) - {conflict.key for conflict in answer.conflicts} - set(answer.undecided)
    fuzz_locks.replayed(history, answer.order().tolist(), model(settings), settled)


@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("wide", [1, 1 << 40])
def test_registers(bad: bool, wide: int) -> None:
    answer = in_both_forms(cas_register, test_register_engines.made(7, 20, 3000, spread=30, bad=bad, wide=wide))
    assert bool(answer.conflicts) is bad


both = pytest.mark.parametrize("compiled", [False, True])


@both
@pytest.mark.parametrize("name", sorted(KINDS))
def test_keys_do_not_disturb_each_other(name: str, compiled: bool) -> None:
    with always(compiled=compiled):
        for n in range(3):
            assert len(together(Random(f"tests/{n}"), kind=KINDS[name], keys=100)) == 100


@both
@pytest.mark.parametrize("wide", [1, 7, 1 << 40])
@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_rows_sorted_by_one_column_of_any_numbers(count: int, wide: int, compiled: bool) -> None:
    numbers = np.random.default_rng(count).integers(-wide, wide, count)
    with always(compiled=compiled):
        np.testing.assert_array_equal(by_number(numbers), np.argsort(numbers, kind="stable"))


@both
@pytest.mark.parametrize("count", [0, 1, 300])
def test_rows_sorted_by_two_columns_within_each_group(count: int, compiled: bool) -> None:
    group, first, second = np.random.default_rng(count).integers(0, 9, (3, count))
    with always(compiled=compiled):
        rows = sorted_within(by_number(group), group, first, second)
    np.testing.assert_array_equal(rows, np.lexsort((second, first, group)))


@both
@pytest.mark.parametrize("probes", [locks_slots.PROBES, -10_000])
def test_owners_may_be_any_numbers(probes: int, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    names = rng.integers(-(1 << 62), 1 << 62, 40).tolist() + [(n + 1) << 40 for n in range(40)]
    small, large = Book(keys=tuple("abc")), Book(keys=tuple("abc"))
    for n in range(400):
        owner, key, at = int(rng.integers(80)), int(rng.integers(3)), 3 * n + 1
        for book, who in ((small, owner + 1), (large, names[owner])):
            book.acquire(at, at + 1, who, key=key, process=1).release(at + 1, at + 2, who, key=key, process=1)
    monkeypatch.setattr(locks_slots, "PROBES", probes)
    with always(compiled=compiled):
        slots, expected = (locks_slots.slots(book.history()).of.tolist() for book in (large, small))
    assert len(set(zip(slots, expected, strict=True))) == len(set(slots)) == len(set(expected))


@both
@pytest.mark.parametrize("strays", [0, 1, 5])
def test_owners_of_one_key_each_have_a_slot_each_and_others_one_for_each_key(strays: int, compiled: bool) -> None:
    rng = np.random.default_rng(strays)
    book, pairs = Book(keys=tuple(map(str, range(20)))), []
    for n in range(200):
        owner, at = int(rng.integers(1, 100)), 3 * n + 1
        pairs.append((owner, int(rng.integers(20)) if n >= 200 - strays else owner % 20))
        book.acquire(at, at + 1, owner, key=pairs[-1][1], process=1)
    with always(compiled=compiled):
        slots = locks_slots.slots(book.history())
    of = slots.of.tolist()
    assert len(set(zip(of, pairs, strict=True))) == len(set(of)) == len(set(pairs))
    assert set(of) <= set(range(slots.total))
