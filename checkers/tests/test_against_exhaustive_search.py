"""Every checker and engine against exhaustive search on random tiny histories. `make fuzz` does more of it."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path
from random import Random

import pytest

from checkers.tests import brute, fuzz, generate
from checkers.tests.compare import Disagreement
from checkers.tests.fuzz import CHECKS, run

COUNT = 1000
WORDS = ("valid", "invalid")


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_agrees_with_exhaustive_search(name: str) -> None:
    seen = run(name, COUNT, seed=7)
    assert sum(seen.values()) == COUNT
    answers = Counter({word: sum(n for key, n in seen.items() if key.split(",")[0] == word) for word in WORDS})
    if answers.total():  # else it is no question of valid or not
        # Both answers must be common, or the agreement says little.
        assert min(answers.values()) > COUNT / 30, seen


def test_a_wrong_truth_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison itself can fail: with a fence that is off by one in the exhaustive search."""
    wrong = brute.fence(reads=False, strict=True)
    monkeypatch.setattr(brute, "fence", lambda *, reads, strict: wrong)
    with pytest.raises(Disagreement, match="checker says"):
        run("fence-writes", 500, seed=7)


def test_generators_reach_what_is_hard() -> None:
    """Unknown, refused and simultaneous operations, floats, renewals and unanswered releases all occur."""
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


def test_a_disagreement_names_its_history(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(rng: Random) -> str:
        if rng.random() < 0.02:
            raise Disagreement("here")
        return "valid"

    monkeypatch.setattr(fuzz, "CHECKS", {"odd": odd})
    with pytest.raises(Disagreement, match=r"odd, history 3/\d+: here") as raised:
        run("odd", 1_000, seed=3)
    history = str(raised.value).split("history ")[1].split(":")[0]
    with pytest.raises(Disagreement, match="here"):
        fuzz.one("odd", history)
    number = int(history.split("/")[1])
    assert fuzz.one("odd", f"3/{number - 1}") == "valid"
    assert run("odd", number, seed=3) == {"valid": number}


def test_an_engine_that_falls_over_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "CHECKS", {"odd": lambda rng: str(1 // 0)})
    with pytest.raises(Disagreement, match="odd, history 1/0: ZeroDivisionError"):
        run("odd", 1, seed=1)


def test_chunks_are_the_whole() -> None:
    assert list(fuzz._chunks(11, 5)) == [(0, 5), (5, 5), (10, 1)]
