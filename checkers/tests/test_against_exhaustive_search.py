"""Every checker and engine against exhaustive search on random tiny histories. `make fuzz` does more of it."""

from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from checkers.tests import brute, fuzz, generate
from checkers.tests.batches import Batched
from checkers.tests.build import Disagreement
from checkers.tests.fuzz import CHECKS, run

TOGETHER = 1_000  # histories of a check that judges many in one call, which costs little
WORDS = ("valid", "invalid")


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_each_check_agrees_with_exhaustive_search(name: str) -> None:
    count = TOGETHER if isinstance(CHECKS[name], Batched) else 100
    seen = run(name, count, seed=7)
    assert sum(seen.values()) == count
    answers = Counter({word: sum(n for key, n in seen.items() if key.split(",")[0] == word) for word in WORDS})
    if answers.total():  # else the words of the check are others
        # Both answers must be common, or the agreement says little.
        assert min(answers.values()) > count / 30, seen


def test_a_wrong_truth_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself can fail: here the fence of the exhaustive search is off by one."""
    wrong = brute.fence("fence-writes-strict")
    monkeypatch.setattr(brute, "fence", lambda mode: wrong)
    with pytest.raises(Disagreement, match="checker says"):
        run("fenced-store-writes", 500, seed=7)


def test_generators_draw_the_hard_cases() -> None:
    rng = Random(1)
    ops = [op for _ in range(300) for op in generate.accesses(rng, mode="fence-writes", sequential=False)]
    assert {op.outcome for op in ops} == {"ok", "fail", "info"}
    assert any(op.inv == op.ret for op in ops)
    grants = [lease for _ in range(300) for lease in generate.leases(rng, "grant")]
    assert any(lease.ret - lease.start >= lease.ttl for lease in grants)
    assert any(lease.renewals for lease in grants)
    assert any(lease.release and lease.release[1] == brute.FOREVER for lease in grants)


def test_all_files_of_checks_are_merged() -> None:
    for file in Path(fuzz.__file__).parent.glob("fuzz_*.py"):
        assert CHECKS.keys() >= import_module(f"checkers.tests.{file.stem}").CHECKS.keys() != set(), file


def _odd(numbers: Sequence[float]) -> list[str]:
    if min(numbers) < 0.001:
        raise Disagreement("here")
    return ["valid" for _ in numbers]


@pytest.mark.parametrize(
    "odd",
    [lambda rng: _odd([rng.random()])[0], Batched(lambda rng: rng.random(), lambda number: number < 0.5, _odd)],
    ids=["alone", "among others"],
)
def test_a_disagreement_names_its_history(odd: fuzz.Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "CHECKS", {"odd": odd})
    first = next(n for n in range(10_000) if Random(f"3/{n}").random() < 0.001)
    with pytest.raises(Disagreement, match=f"odd, history 3/{first}: here"):
        run("odd", 10_000, seed=3)
    with pytest.raises(Disagreement, match="here"):
        fuzz.one("odd", f"3/{first}")
    assert fuzz.one("odd", f"3/{first - 1}") == "valid"
    assert run("odd", first, seed=3) == {"valid": first}
    assert sum(run("odd", 10, seed=3, first=first + 1).values()) == 10


def test_histories_that_disagree_only_together_are_named_by_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(numbers: Sequence[float]) -> list[str]:
        if {one, other} <= {*numbers}:
            raise Disagreement("these two")
        return ["valid" for _ in numbers]

    one, other = (Random(f"3/{n}").random() for n in (700, 701))
    monkeypatch.setattr(fuzz, "CHECKS", {"odd": Batched(lambda rng: rng.random(), lambda _: None, odd)})
    with pytest.raises(Disagreement, match="odd, history 3/0-999: these two"):
        run("odd", 1_000, seed=3)
    with pytest.raises(Disagreement, match="these two"):
        fuzz.one("odd", "3/700-701")
    assert fuzz.one("odd", "3/700") == "valid"
    assert fuzz.one("odd", "3/701-703") == "valid; valid; valid"


def test_brute_force_finds_an_order_exactly_when_one_exists() -> None:
    rng = Random(1)
    seen = Counter[bool]()
    for _ in range(1500):
        ops = [(rng.choice("wr"), rng.randint(0, 2)) for _ in range(rng.randint(1, 4))]
        spans = [(inv, inv + rng.randint(0, 4)) for inv in (rng.randint(1, 6) for _ in ops)]
        unknown = [rng.random() < 0.2 for _ in ops]
        spans = [(inv, 99 if lost else ret) for (inv, ret), lost in zip(spans, unknown, strict=True)]
        found = brute.explained(ops, spans, unknown, 0, _register)
        assert found is any(
            _replays(order, ops, spans)
            for size in range(len(ops) + 1)
            for order in permutations(range(len(ops)), size)
            if all(lost or n in order for n, lost in enumerate(unknown))
        )
        seen[found] += 1
    assert min(seen[True], seen[False]) > 200


def _register(state: int, op: tuple[str, int]) -> tuple[int, ...]:
    kind, value = op
    return (value,) if kind == "w" else (state,) if state == value else ()


def _replays(order: Sequence[int], ops: Sequence[tuple[str, int]], spans: Sequence[tuple[int, int]]) -> bool:
    state, latest = 0, 0
    for n in order:
        after = _register(state, ops[n])
        if spans[n][1] < latest or not after:
            return False
        state, latest = after[0], max(latest, spans[n][0])
    return True


def test_an_engine_that_falls_over_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "CHECKS", {"odd": lambda rng: str(1 // 0)})
    with pytest.raises(Disagreement, match="odd, history 1/0: ZeroDivisionError"):
        run("odd", 1, seed=1)
