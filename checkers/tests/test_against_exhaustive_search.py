"""Every checker against exhaustive search on random tiny histories. `python -m checkers.tests.fuzz` does more of it."""

from __future__ import annotations

from random import Random

import pytest

from checkers.tests import brute, generate
from checkers.tests.compare import Disagreement
from checkers.tests.fuzz import CHECKS, run

COUNT = 1000


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_agrees_with_exhaustive_search(name: str) -> None:
    seen = run(name, COUNT, seed=7)
    # Both answers must be common, or the agreement says little.
    for word in ("valid", "invalid"):
        assert sum(count for key, count in seen.items() if key.split(",")[0] == word) > COUNT / 30, seen


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
