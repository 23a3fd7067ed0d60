"""How often a certificate accuses a version of itself, or notices a slow one; as in `test_compare_power`."""

import random
from dataclasses import replace
from functools import cache

import pytest

from results.certificate.certify import Certificate, Decision, certify
from results.stages import ALONE, CANDIDATE, MIXED
from results.storage.reading import RunContents
from results.tests.test_compare_power import CHANGES, DRAWINGS, DRAWS, Draw
from results.tests.trials import SLOW_SERVER, Trial, contents, load

UPGRADES = dict.fromkeys(("redis", "zookeeper", "etcd", "postgres"), ("1", "2"))
_known: dict[int, Trial] = {}


@cache
def staged(trial: int, stage: str, change: str) -> RunContents:
    """A stored trial, by its identity, in one stage of an upgrade."""
    found = contents([CHANGES[change](_known[trial])])
    cells = tuple(replace(cell, stage=stage) for cell in found.cells)
    return replace(found, cells=cells, lanes=tuple(replace(lane, stage=stage) for lane in found.lanes))


def certified(draw: Draw, seed: int, change: str = "nothing") -> Certificate:
    made: list[RunContents] = []
    for stage, trials, how in zip(ALONE, draw(random.Random(seed)), ("nothing", change), strict=True):
        _known.update({id(trial): trial for trial in trials})
        made += [staged(id(trial), stage, how) for trial in trials]
    cells = [cell for one in made for cell in one.cells]
    # While versions change the same is seen again.
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
    """A server that keeps every request for 10 ms, whatever its clients wait for besides: most of the faults."""
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
