"""A lock whose workers break a trial takes no other lock along, and its reason is told once at length."""

from pathlib import Path

import pytest

from checkers.claims import Verdict
from suites.selection.selection import Case, Selection
from suites.tests.selections import asked
from suites.tests.world import SEED, World, breaks, with_redlock
from suites.trial.run_trials import TrialFailed
from suites.worker.pool import TrialBroke, WorkerBroke

LINE = "worker 1 of redlock/register/unfenced broke: ValueError: bad (mine.py:22, in acquire)"
LANES = ("redlock/register/unfenced",)


@pytest.fixture
def both() -> Selection:
    """Two locks that share a trial."""
    run = asked(lock=["redis", "redlock"], faults=["none"], seed=SEED)
    assert len(run.parts("redis", "none")) == 1
    return run


def cases(run: Selection, lock: str) -> list[Case]:
    found = [case for case in run.cases("server-exclusion") if case.lane.lock_name == lock and case.because is None]
    assert len(found) > 1
    return found


@pytest.mark.parametrize("first", ["redis", "redlock"])
def test_the_others_are_tried_without_it(world: World, both: Selection, first: str) -> None:
    world.script = breaks(WorkerBroke(f"{LINE}\nTraceback", LANES), with_redlock)
    session = world.session(both)
    good, bad = cases(both, "redis"), cases(both, "redlock")
    if first == "redis":
        assert session.answer(good[0]).judgement.word is Verdict.UPHELD
    with pytest.raises(WorkerBroke) as caught:
        session.answer(bad[0])
    assert str(caught.value) == f"{LINE}\nTraceback", "the first of its cases says why at length"
    for case in bad:
        with pytest.raises(TrialFailed) as failed:
            session.answer(case)
        assert str(failed.value) == f"not judged, its trial came to no verdict: {LINE}"
    assert {session.answer(case).judgement.word for case in good} == {Verdict.UPHELD}
    assert [{lane.lock_name for lane in trial.lanes} for trial in world.trials] == [{"redis", "redlock"}, {"redis"}]
    assert [trial.name for trial in world.trials] == [f"redis-none-{SEED}", f"redis-none-{SEED}-part2"]
    assert world.trials[1].lanes == tuple(lane for lane in both.runnable("redis", "none") if lane.lock_name == "redis")
    assert [environment.closed for environment in world.environments] == [True, False]


@pytest.mark.parametrize(
    "error",
    [
        TrialBroke(LINE),
        WorkerBroke(LINE),
        WorkerBroke(LINE, ["elsewhere/register/unfenced"]),
        WorkerBroke(LINE, [*LANES, "redis/register/unfenced"]),
    ],
    ids=["unclean", "nobody", "elsewhere", "everybody"],
)
def test_where_nobody_alone_can_be_blamed_it_is_not_run_again(world: World, both: Selection, error: TrialBroke) -> None:
    world.script = breaks(error, with_redlock)
    session = world.session(both)
    with pytest.raises(TrialBroke):
        session.answer(cases(both, "redis")[0])
    for case in cases(both, "redlock"):
        with pytest.raises(TrialFailed):
            session.answer(case)
    assert len(world.trials) == 1
    assert [LINE in str(problem) for problem in world.run.read().problems] == [True], "the report says why"


def test_the_report_and_the_progress_have_it_in_a_line_and_the_page_in_full(world: World, both: Selection) -> None:
    world.script = breaks(WorkerBroke(f"{LINE}\nTraceback\n  File 'mine.py'", LANES), with_redlock)
    world.session(both).answer(cases(both, "redis")[0])
    (problem,) = world.run.read().problems
    assert problem.endswith(f"aborted: {LINE}")
    assert [event.text("text") for event in world.told if event.name == "broke"] == [LINE]
    (page,) = (Path(world.run.path) / "trials" / f"redis-none-{SEED}").glob("index.html")
    assert "mine.py&#39;" in page.read_text() or "mine.py'" in page.read_text()
