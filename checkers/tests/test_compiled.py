"""Every engine's kernels answer the same, compiled and as plain Python. They are compiled only here, in one process."""

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from checkers import __main__ as command
from checkers.bench.generate import GENERATORS, HistoryShape
from checkers.engines import locks_by_owner
from checkers.engines.fenced import fenced_store
from checkers.engines.kernel import LARGE, always
from checkers.engines.tokens import fencing_tokens
from checkers.history.history import History, save
from checkers.models.all_models import MODELS
from checkers.models.engine_answer import Engine, EngineAnswer
from checkers.models.model import Settings
from checkers.models.stores import RULES, FencedStore
from checkers.tests import fuzz_fenced, fuzz_locks
from checkers.tests.batches import Batched, names, sorted_history
from checkers.tests.build import FACTS, Book, replayed, there
from checkers.tests.fuzz_data import CHECKS

pytest.importorskip("numba", reason="kernels are compiled by numba, the extra [fast], which is not installed")

PLAIN = Settings()


def in_both_forms(engine: Engine, history: History, settings: Settings = PLAIN) -> EngineAnswer:
    """The answer of the engine, which must be the same in both forms."""
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
    rng = Random(mode)
    many = [fuzz_fenced.shop(rng, mode=mode).told for _ in range(500)]
    small = fuzz_fenced.Judged([one for one in many if one.scale == (1, 1)], mode).history
    for history in (small, fuzz_fenced.Judged(many, mode).history):
        replayed(history, in_both_forms(fenced_store, history), FencedStore.of(history, PLAIN))


@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("wide", [0, 40])
@pytest.mark.parametrize("name", GENERATORS)
def test_histories_of_the_benchmark(name: str, wide: int, bad: bool) -> None:
    history = GENERATORS[name](HistoryShape(3_000, 10, 20, unknown=60, bad=bad))
    for column in ("value", "base"):
        numbers = history.columns[column]
        history.columns[column][:] = np.where(numbers > 0, numbers << wide, numbers)
    model = MODELS[name].make(history, PLAIN)
    answer = in_both_forms(there(MODELS[name].engine), history)
    assert bool(answer.conflicts) is bad
    if model is not None:
        replayed(history, answer, model)


def test_fencing_tokens() -> None:
    rng = Random(3)
    book = Book(keys=("a", "b"))
    for n in range(2000):
        inv = 4 * n + rng.randint(1, 30)
        book.acquire(inv, inv + rng.randint(0, 9), n + 1, token=n + rng.choice((0, 0, 0, 3)), key=n % 2)
    assert {conflict.key for conflict in in_both_forms(fencing_tokens, book.history()).conflicts} == {0, 1}


@pytest.mark.parametrize("name", list(fuzz_locks.CHECKS))
def test_locks_with_many_keys(name: str) -> None:
    rng, base = Random(name), name.removesuffix("-strict")
    settings = Settings(permits=2 if base == "semaphore" else 1, strict_try=base != name)
    stories = [fuzz_locks.story(rng, base, settings.permits) for _ in range(300)]
    rows = [fuzz_locks.row_of(op, key, op.owner) for key, story in enumerate(stories) for op in story]
    history, _ = sorted_history(replace(FACTS, keys=names(300)), rows)
    answer = in_both_forms(there(MODELS[base].engine), history, settings)
    replayed(history, answer, there(MODELS[base].make(history, settings)))


both = pytest.mark.parametrize("compiled", [False, True])


@both
@pytest.mark.parametrize("name", ["register", "cas-register"])
def test_keys_do_not_disturb_each_other(name: str, compiled: bool) -> None:
    check = CHECKS[name]
    assert isinstance(check, Batched)
    with always(compiled=compiled):
        assert len(check.together(Random(f"tests/{n}") for n in range(2_000))) == 2_000


def test_owners_may_be_any_numbers() -> None:
    rng = np.random.default_rng(1)
    names = rng.integers(-(1 << 62), 1 << 62, 40).tolist() + [(n + 1) << 40 for n in range(40)]
    small, wide = Book(keys=tuple("abc")), Book(keys=tuple("abc"))
    for n in range(400):
        owner, key, at = int(rng.integers(80)), int(rng.integers(3)), 3 * n + 1
        for book, who in ((small, owner + 1), (wide, names[owner])):
            book.acquire(at, at + 1, who, key=key, process=1).release(at + 1, at + 2, who, key=key, process=1)
    slots, expected = (locks_by_owner.slots(book.history()).of.tolist() for book in (wide, small))
    assert len(set(zip(slots, expected, strict=True))) == len(set(slots)) == len(set(expected))


@both
@pytest.mark.parametrize("strays", [0, 1, 5])
def test_each_owner_has_one_slot_for_each_of_its_keys(strays: int, compiled: bool) -> None:
    rng = np.random.default_rng(strays)
    book, pairs = Book(keys=tuple(map(str, range(20)))), []
    for n in range(200):
        owner, at = int(rng.integers(1, 100)), 3 * n + 1
        pairs.append((owner, int(rng.integers(20)) if n >= 200 - strays else owner % 20))
        book.acquire(at, at + 1, owner, key=pairs[-1][1], process=1)
    with always(compiled=compiled):
        slots = locks_by_owner.slots(book.history())
    of = slots.of.tolist()
    assert len(set(zip(of, pairs, strict=True))) == len(set(of)) == len(set(pairs))
    assert set(of) <= set(range(slots.total))


def test_a_large_file_takes_the_compiled_form_in_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for bad in (False, True):
        save(GENERATORS["mutex"](HistoryShape(LARGE + 100, 10, 100, bad=bad)), tmp_path / f"{bad}.arrow")
    assert command.main([str(tmp_path), "--model", "mutex"]) == 1
    output, errors = capsys.readouterr()
    assert output.startswith(f"{tmp_path}/False.arrow: valid")
    assert f"{tmp_path}/True.arrow: invalid" in output
    assert errors == ""
