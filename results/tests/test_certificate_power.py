"""How often a certificate finds a regression in trials drawn as in `test_compare_power`, and when for a weakness."""

import random
from dataclasses import replace
from functools import cache
from itertools import combinations, product

import pytest

from checkers.claims import Verdict
from checkers.tests.build import cases
from results.certificate.certify import Certificate, Decision, certify
from results.certificate.promise_losses import weaknesses
from results.record import Cell
from results.stages import ALONE, BASELINE, CANDIDATE, MIXED
from results.storage.reading import RunContents
from results.tests.test_compare_power import CHANGES, DRAWINGS, DRAWS, Draw
from results.tests.trials import SLOW_SERVER, Trial, contents, load
from results.tests.upgrades import cell, of

UPGRADES = dict.fromkeys(("redis", "zookeeper", "etcd", "postgres"), ("1", "2"))
_known: dict[int, Trial] = {}


@cache
def staged(trial: int, stage: str, change: str) -> RunContents:
    """The contents of a stored trial (trial: its `id`), changed as named, in one stage of an upgrade."""
    found = contents([CHANGES[change](_known[trial])])
    cells = tuple(replace(cell, stage=stage) for cell in found.cells)
    return replace(found, cells=cells, lanes=tuple(replace(lane, stage=stage) for lane in found.lanes))


def certified(draw: Draw, seed: int, change: str = "nothing") -> Certificate:
    made: list[RunContents] = []
    for stage, trials, how in zip(ALONE, draw(random.Random(seed)), ("nothing", change), strict=True):
        _known.update({id(trial): trial for trial in trials})
        made += [staged(id(trial), stage, how) for trial in trials]
    cells = [cell for one in made for cell in one.cells]
    # While versions change, the verdicts are those of the candidate.
    cells += [replace(cell, stage=MIXED) for cell in cells if cell.stage == CANDIDATE]
    return certify(RunContents(tuple(cells), tuple(lane for one in made for lane in one.lanes), ()), UPGRADES)


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_version_is_never_a_regression_of_itself(draw: Draw) -> None:
    for seed in range(DRAWINGS):
        found = certified(draw, seed)
        assert found.comparison.timed
        assert found.comparison.common > 100
        assert (found.regressed, found.slower) == ((), ())
        assert found.decision is not Decision.REGRESSION


def test_a_version_that_is_three_times_slower_is_a_regression() -> None:
    found = [certified(DRAWS["from one run each"], seed, "all of it").decision for seed in range(DRAWINGS)]
    assert found.count(Decision.REGRESSION) >= 0.95 * DRAWINGS - 1


@pytest.mark.parametrize("backend", ["redis", "etcd"])
def test_a_slow_server_is_a_regression(backend: str) -> None:
    trials = [trial for trial in load(SLOW_SERVER) if trial.backend == backend]
    sound, slow = sorted({trial.run for trial in trials})

    def draw(rng: random.Random) -> tuple[list[Trial], list[Trial]]:
        faults = {fault for fault in sorted({trial.fault for trial in trials}) if rng.random() < 0.7}
        chosen = [trial for trial in trials if trial.fault in faults]
        return [trial for trial in chosen if trial.run == sound], [trial for trial in chosen if trial.run == slow]

    for seed in range(DRAWINGS):
        found = certified(draw, seed)
        assert (found.decision, found.regressed) == (Decision.REGRESSION, ())
        assert "release p10" in {speed.measure for speed in found.slower}
        assert all("release" in speed.measure or "acquire" in speed.measure for speed in found.slower)


def shown(old: int, new: int, of_old: int = 5, of_new: int = 5, broken: Verdict = Verdict.WEAKNESS_SHOWN) -> list[Cell]:
    """Cells of trials with two lanes each. A weakness showed in `old` of `of_old` and `new` of `of_new` trials."""
    because = "explained by revoked-early"
    return [
        cell(stage, word, lane=f"etcd/set/{lane}", trial=f"{stage}-{seed}", seed=seed, because=because)
        for stage, hits, trials in ((BASELINE, old, of_old), (CANDIDATE, new, of_new))
        for seed in range(trials)
        for lane, word in enumerate((broken if seed < hits else Verdict.NOT_PROMISED_HELD,) * 2)
    ]


@pytest.mark.parametrize("broken", [Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_BROKEN])
@cases(
    "old, new, of_each, what",
    *((old, new, 5, "lost") for old, new in ((0, 4), (1, 5))),
    *((old, new, 5, "") for old, new in ((1, 3), (4, 0), (5, 5))),
    (0, 1, 1, "undecided"), (0, 2, 2, "undecided"), (0, 2, 4, "warned"), (0, 3, 5, "warned"), (1, 2, 2, ""),
)  # fmt: skip
def test_weaknesses_regress_only_if_counts_decide(old: int, new: int, of_each: int, what: str, broken: Verdict) -> None:
    made = of(*shown(old, new, of_each, of_each, broken))
    counts = f"it showed in {new} of {of_each} trials of the new version, in {old} of {of_each} of the old one"
    decisions = {"lost": Decision.REGRESSION, "undecided": Decision.INCONCLUSIVE}
    assert made.decision is decisions.get(what, Decision.NO_REGRESSION)
    assert any(counts in words for words in made.doubts) == (what == "undecided")
    assert any(counts in words for words in made.warnings) == (what == "warned")
    assert [loss.why for loss in made.regressed] == [counts] * 2 * (what == "lost"), "a lane each"


def test_the_chance_of_the_counts_is_the_share_of_all_possible_deals() -> None:
    for old, new in product(range(4), range(5)):
        deals = list(combinations(range(7), old + new))
        alike = sum(sum(trial >= 3 for trial in deal) >= new for deal in deals) / len(deals)
        found = weaknesses(shown(old, new, 3, 4))
        assert [each.chance for each in found] == ([pytest.approx(alike)] if new * 3 > old * 4 else [])
