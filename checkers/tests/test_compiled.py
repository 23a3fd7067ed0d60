"""Engines say the same in plain Python and compiled. All that compiles them stands here: one test process does so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest

from checkers import __main__ as command
from checkers.bench import generate
from checkers.bench.generate import Shape
from checkers.engines import locks_slots
from checkers.engines.engine import Answer
from checkers.engines.fenced import fenced_store
from checkers.engines.kernel import LARGE, always, kernel
from checkers.engines.leases import lease
from checkers.engines.registers import cas_register
from checkers.engines.sorting import by_number, sorted_within
from checkers.engines.tokens import fencing_tokens
from checkers.history import History, save
from checkers.models.model import ILLEGAL, Settings
from checkers.models.stores import FencedStore
from checkers.operations import ByKey
from checkers.tests import fuzz_locks
from checkers.tests.acts import together
from checkers.tests.build import INFO, OK, Book
from checkers.tests.fuzz_data import KINDS
from checkers.tests.test_fenced_engines import MODES, large
from checkers.tests.test_register_engines import made
from checkers.wire import F

pytest.importorskip("numba", reason="kernels are compiled by numba, the extra [fast], which is not installed")


def both(engine: Callable[[History, Settings], Answer], history: History, settings: Settings | None = None) -> Answer:
    """The answer, once it is the same in both forms."""
    answers, orders = [], []
    for compiled in (False, True):
        with always(compiled=compiled):
            answers.append(engine(history, settings or Settings()))
            orders.append(answers[-1].order().tolist())
    assert answers[0][:2] == answers[1][:2]
    assert orders[0] == orders[1]
    return answers[0]


@pytest.mark.parametrize("name", list(fuzz_locks.CHECKS))
def test_locks_of_many_keys(name: str) -> None:
    rng, keys = Random(name), 300
    book = Book(keys=tuple(str(key) for key in range(keys)))
    base, permits = name.removesuffix("-strict"), 2 if name.startswith("semaphore") else 1
    for key in range(keys):
        fuzz_locks.book(fuzz_locks.story(rng, base, permits), key, book)
    history, settings = book.history(), Settings(permits=permits, strict_try=name.endswith("-strict"))
    engine, model = fuzz_locks.MODELS[base]
    answer = both(engine, history, settings)
    settled = set(range(keys)) - {conflict.key for conflict in answer.conflicts} - set(answer.undecided)
    fuzz_locks.replayed(history, answer.order().tolist(), model(settings), settled)


@pytest.mark.parametrize("degenerate", [False, True])
def test_owners_may_be_any_numbers(degenerate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    names = rng.integers(-(1 << 62), 1 << 62, 40).tolist() + [(n + 1) << 40 for n in range(40)]
    small, wide = Book(keys=tuple("abc")), Book(keys=tuple("abc"))
    for n in range(400):
        owner, key, at = int(rng.integers(80)), int(rng.integers(3)), 3 * n + 1
        for book, who in ((small, owner + 1), (wide, names[owner])):
            book.acquire(at, at + 1, who, key=key, process=1).release(at + 1, at + 2, who, key=key, process=1)
    if degenerate:  # in plain Python alone: compiled forms are kept, and this is none to keep
        monkeypatch.setattr(locks_slots, "PROBES", -10_000)
        monkeypatch.setattr(locks_slots, "_looked_up", kernel(locks_slots._looked_up.function))
    for compiled in (False, not degenerate):
        with always(compiled=compiled):
            slots, expected = locks_slots.slots(wide.history()), locks_slots.slots(small.history())
        pairs = set(zip(slots.of.tolist(), expected.of.tolist(), strict=True))
        assert len(pairs) == len(set(slots.of.tolist())) == len(set(expected.of.tolist()))


@pytest.mark.parametrize("strays", [0, 1, 5])
def test_owners_of_one_key_each_have_a_slot_each_and_others_one_for_each_key(strays: int) -> None:
    rng = np.random.default_rng(strays)
    book, pairs = Book(keys=tuple(map(str, range(20)))), []
    for n in range(200):
        owner, at = int(rng.integers(1, 100)), 3 * n + 1
        pairs.append((owner, int(rng.integers(20)) if n >= 200 - strays else owner % 20))
        book.acquire(at, at + 1, owner, key=pairs[-1][1], process=1)
    for compiled in (False, True):
        with always(compiled=compiled):
            slots = locks_slots.slots(book.history())
        of = slots.of.tolist()
        assert len(set(zip(of, pairs, strict=True))) == len(set(of)) == len(set(pairs))
        assert set(of) <= set(range(slots.total))


def test_leases() -> None:
    book = Book(ttl=10)
    for number in range(1, 30):
        at, key = number * 10, number % 2
        book.acquire(at, at + 1, number, key=key).renew(at + 2, at + 3, number, key=key)
        book.release(at + 5, at + 6, number, OK if number % 3 else INFO, key=key)
    both(lease, book.history())


@pytest.mark.parametrize("name", sorted(KINDS))
def test_registers_of_many_keys(name: str) -> None:
    with always(compiled=True):
        for n in range(3):
            assert len(together(Random(f"tests/{n}"), kind=KINDS[name], keys=100)) == 100


@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("wide", [1, 1 << 40])
def test_registers(bad: bool, wide: int) -> None:
    answer = both(cas_register, made(7, 20, 3000, spread=30, bad=bad, wide=wide))
    assert bool(answer.conflicts) is bad


@pytest.mark.parametrize("mode", MODES)
def test_fenced_stores(mode: str) -> None:
    for seed in range(12):
        rng = Random(seed)
        history = large(
            rng, mode, rng.choice((50, 400, 1500)), wrong=rng.choice((0.0, 0.0, 0.003)), spread=rng.choice((4, 30, 200))
        )
        answer = both(fenced_store, history)
        for key in range(5):
            if all(conflict.key != key for conflict in answer.conflicts) and key not in answer.undecided:
                replayed(history, answer, key)


def replayed(history: History, answer: Answer, key: int) -> None:
    model = FencedStore.of(history, Settings())
    operations = {operation.row: operation for operation in ByKey(history, (F.READ, F.WRITE))[key]}
    order = [row for row in answer.order().tolist() if row in operations]
    state, latest = model.initial, 0
    for row in order:
        operation = operations[row]
        assert operation.ret >= latest
        latest = max(latest, operation.inv)
        state = model.step(state, operation)
        assert state is not ILLEGAL
    must = {row for row, o in operations.items() if o.ok or (o.failed and model.evidence(o))}
    assert must <= set(order)
    assert len(set(order)) == len(order)


def test_tokens() -> None:
    rng = Random(3)
    book = Book(keys=("a", "b"))
    for n in range(2000):
        inv = 4 * n + rng.randint(1, 30)
        book.acquire(inv, inv + rng.randint(0, 9), n + 1, token=n + rng.choice((0, 0, 0, 3)), key=n % 2)
    answer = both(fencing_tokens, book.history())
    assert {conflict.key for conflict in answer.conflicts} == {0, 1}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("wide", [1, 7, 1 << 40])
@pytest.mark.parametrize("count", [0, 1, 2, 300])
def test_rows_by_one_column_of_any_numbers(count: int, wide: int, compiled: bool) -> None:
    numbers = np.random.default_rng(count).integers(-wide, wide, count)
    with always(compiled=compiled):
        np.testing.assert_array_equal(by_number(numbers), np.argsort(numbers, kind="stable"))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_rows_by_two_columns_within_each_group(count: int, compiled: bool) -> None:
    group, first, second = np.random.default_rng(count).integers(0, 9, (3, count))
    with always(compiled=compiled):
        rows = sorted_within(by_number(group), group, first, second)
    np.testing.assert_array_equal(rows, np.lexsort((second, first, group)))


def test_a_large_file_takes_the_compiled_form_and_nothing_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for bad in (False, True):
        save(generate.mutex(Shape(LARGE + 100, 10, 100, bad=bad)), tmp_path / f"{bad}.arrow")
    assert command.main([str(tmp_path), "--model", "mutex"]) == 1
    output, errors = capsys.readouterr()
    assert output.startswith(f"{tmp_path}/False.arrow: valid")
    assert f"{tmp_path}/True.arrow: invalid" in output
    assert errors == ""
