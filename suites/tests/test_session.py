"""A trial runs once for all its cases, positive controls get three, and no verdict hides a heavier one."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.claims import Verdict, heaviest
from checkers.judging.judgement import Judgement
from checkers.properties.check_result import Violation
from checkers.tests.build import cases, message_of
from infra.errors import Failed
from results.record import settled
from results.stages import BASELINE, CANDIDATE
from results.tests import samples
from suites.selection.selection import Selection
from suites.tests.bench import raising
from suites.tests.selections import asked
from suites.tests.world import SEED, World, askable, breaks, case_of, every_case, key_of, shown_by, with_redlock
from suites.trial.broken_trial import TrialFailed
from suites.trial.budget import TrialBudget
from suites.trial.case_answer import CaseAnswer, counting
from suites.trial.run_trials import CONTROLS
from suites.worker.pool import TrialBroke, WorkerBroke

POSSIBLE = tuple(word for word in Verdict if word is not Verdict.NOT_APPLICABLE)
LINE = "worker 1 of redlock/register/unfenced broke: ValueError: bad (mine.py:22, in acquire)"
UPGRADE = {"from_": ["etcd=3.4"], "to": ["etcd=3.5"]}
LANES = ("redlock/register/unfenced",)
UNJUDGED = "not judged, its trial came to no verdict:"


class TestOneTrialForAllCases:
    def test_a_trial_runs_once_on_one_environment_with_every_lane(self, world: World, fences: Selection) -> None:
        session = world.session(fences)
        assert world.environments == [], "nothing is started before a case is asked"
        assert len([session.answer(case) for case in every_case(fences, "none")]) > 20
        lanes = fences.runnable("redis", "none")
        assert [(trial.name, trial.lanes) for trial in world.trials] == [(f"redis-none-{SEED}", lanes)]
        session.close()
        assert [environment.closed for environment in world.environments] == [True]

    def test_each_case_gets_the_word_of_its_own_lane_and_property(self, world: World, fences: Selection) -> None:
        told, session = {("redis/register/unfenced", "holder-exclusion"): Verdict.UNKNOWN}, world.session(fences)
        world.script = lambda _: told
        words = {key_of(case): session.answer(case).judgement.word for case in every_case(fences, "none")}
        assert {key: word for key, word in words.items() if word is not Verdict.UPHELD} == told

    def test_the_version_that_was_asked_for_is_booted(self, world: World) -> None:
        run = asked(lock=["redis"], faults=["none"], version_of=["redis=image:mine:1"])
        world.session(run).answer(run.cases("server-exclusion")[0])
        assert world.environments[0].backends == [("redis", "image:mine:1")]

    def test_a_cluster_whose_members_disagree_is_closed_after_the_trial(self, world: World, fences: Selection) -> None:
        """Nothing undoes the difference, so the next trial would be judged by what this one found."""
        case = case_of(fences, "members-agree", "none")
        world.script = lambda _: {key_of(case): Verdict.VIOLATED}
        session = world.session(fences)
        for each in (case, case_of(fences, "server-exclusion", "freeze-holder")):
            session.answer(each)
        session.close()
        assert [environment.closed for environment in world.environments] == [True, True]


class TestWhatIsTold:
    def test_the_cluster_is_started_once_and_each_trial_ends(self, world: World, fences: Selection) -> None:
        session = world.session(fences)
        for fault in fences.faults:
            session.answer(case_of(fences, "server-exclusion", fault))
        assert [trial.column for trial in world.trials] == ["none", "freeze-holder"]
        assert [event.name for event in world.told] == ["boot", "ready", "step", "done", "step", "done"]
        assert [event.text("column") for event in world.told if event.name == "done"] == ["none", "freeze-holder"]
        assert {str(word) for event in world.told for word in event.facts.get("words", ())} == {"upheld"}

    def test_a_failing_verdict_is_reported_with_lane_property_and_word(self, world: World, fences: Selection) -> None:
        case = case_of(fences, "server-exclusion", "none")
        world.script = lambda _: {key_of(case): Verdict.VIOLATED}
        world.session(fences).answer(case)
        place = {"lane": case.lane.name, "property": "server-exclusion", "fault": "none"}
        told = [event.facts for event in world.told if event.name == "verdict"]
        assert told == [{**place, "word": "violated", "because": "because"}]


class TestParts:
    @pytest.fixture
    def parts(self, both: Selection, monkeypatch: pytest.MonkeyPatch) -> Selection:
        """Two locks whose lanes do not fit into one trial."""
        monkeypatch.setattr("suites.selection.selection.WORKERS", 25)
        assert len(both.parts("redis", "none")) == 2
        return both

    def test_each_part_is_a_trial_of_its_own_on_one_environment(self, world: World, parts: Selection) -> None:
        session = world.session(parts)
        for case in every_case(parts, "none"):
            if case.because is None:
                session.answer(case)
        names = [f"redis-none-{SEED}", f"redis-none-{SEED}-part2"]
        made = list(zip(names, parts.parts("redis", "none"), strict=True))
        assert ([(trial.name, trial.lanes) for trial in world.trials], len(world.environments)) == (made, 1)

    def test_a_part_that_breaks_does_not_break_the_others(self, world: World, parts: Selection) -> None:
        world.script = breaks(TrialBroke("the first"), lambda trial: trial.part == 1)
        session = world.session(parts)
        first, second = (askable(parts, lock)[0] for lock in ("redis", "redlock"))
        assert message_of(TrialBroke, session.answer, first) == "the first"
        assert session.answer(second).judgement.word is Verdict.UPHELD
        assert message_of(TrialFailed, session.answer, first) == f"{UNJUDGED} the first"

    def test_a_control_is_tried_again_in_its_part(self, world: World, parts: Selection) -> None:
        (case, *_) = askable(parts, "redlock")
        world.script = shown_by(case, 2)
        world.session(parts).answer(case)
        assert [(trial.part, trial.seed) for trial in world.trials] == [(2, SEED), (2, SEED + 1)]


class TestATrialThatBroke:
    @cases(
        "why, error",
        ("worker 1 broke: KeyError", WorkerBroke("worker 1 broke: KeyError\nTraceback")),
        ("no leader", Failed("no leader")),
        ("KeyError: 'a bug of ours'", KeyError("a bug of ours")),
    )
    def test_a_broken_trial_is_not_run_again(self, world: World, fences: Selection, why: str, error: Exception) -> None:
        world.script = breaks(error, lambda trial: trial.column == "none")
        session = world.session(fences)
        first, *others = every_case(fences, "none")
        assert message_of(type(error), session.answer, first) == str(error)
        assert [environment.closed for environment in world.environments] == [True]
        assert {message_of(TrialFailed, session.answer, case) for case in others} == {f"{UNJUDGED} {why}"}
        assert len(world.trials) == 1
        assert session.answer(case_of(fences, "server-exclusion", "freeze-holder")).judgement.word is Verdict.UPHELD
        assert [environment.closed for environment in world.environments] == [True, False]

    def test_a_later_attempt_that_breaks_ends_the_column(self, world: World, fences: Selection) -> None:
        case = case_of(fences, "holder-exclusion", "freeze-holder")
        world.script = breaks(TrialBroke("the second"), lambda trial: trial.attempt == 2, shown_by(case, None))
        session = world.session(fences)
        assert message_of(TrialBroke, session.answer, case) == "the second"
        other = case_of(fences, "server-exclusion", "freeze-holder")
        assert message_of(TrialFailed, session.answer, other) == f"{UNJUDGED} the second"
        assert len(world.trials) == 2


def pairs(*attempts: int) -> list[tuple[str, int]]:
    return [(stage, attempt) for attempt in attempts for stage in (CANDIDATE, BASELINE)]


class TestPositiveControls:
    @pytest.mark.parametrize("fires", [1, 2, 3, None])
    def test_only_silent_lanes_get_the_next_seeds(self, world: World, fences: Selection, fires: int | None) -> None:
        case = case_of(fences, "holder-exclusion", "freeze-holder")
        world.script = shown_by(case, fires)
        answer = world.session(fences).answer(case)
        attempts, every = fires or CONTROLS, fences.runnable("redis", "freeze-holder")
        assert [(trial.seed, trial.attempt) for trial in world.trials] == [(SEED + n, n + 1) for n in range(attempts)]
        assert [len(trial.lanes) for trial in world.trials] == [len(every), 1, 1][:attempts]
        assert {trial.lanes for trial in world.trials[1:]} <= {(case.lane,)}
        assert answer.attempts == attempts
        assert answer.judgement.word is (Verdict.WEAKNESS_SHOWN if fires else Verdict.WEAKNESS_NOT_SHOWN)
        assert len({trial.name for trial in world.trials}) == attempts, "all are stored"
        told = [event.text("word") for event in world.told if event.name == "verdict"]
        assert told == ([] if fires else ["known weakness did not show"])
        assert [event.number("again") for event in world.told if event.name == "done"] == [1, 1, 0][3 - attempts :]

    def test_each_lane_stops_when_its_own_weakness_has_been_shown(self, world: World, fences: Selection) -> None:
        stores = ("unfenced", "fence-writes")
        first, second = (case_of(fences, "holder-exclusion", "freeze-holder", store) for store in stores)
        world.script = lambda trial: shown_by(first, 2)(trial) | shown_by(second, 3)(trial)
        world.session(fences).answer(first)
        assert [len(trial.lanes) for trial in world.trials] == [len(fences.runnable("redis", "freeze-holder")), 2, 1]
        assert world.trials[2].lanes == (second.lane,)

    @cases(
        "stage, shows, attempts, budget",
        ("no upgrade", "", {"": 1}, [("", 1)], None),
        ("the old version", BASELINE, {BASELINE: 1}, [(BASELINE, 1)], 9.0),
        ("never", CANDIDATE, {}, [(CANDIDATE, 1), (CANDIDATE, 4)], 9.0),
        ("at once", CANDIDATE, {CANDIDATE: 1}, [(CANDIDATE, 1), *pairs(4, 5, 6, 7)], 9.0),
        ("at the second chance", CANDIDATE, {CANDIDATE: 4}, [(CANDIDATE, 1), *pairs(4, 5, 6, 7)], 9.0),
        ("on both", CANDIDATE, {CANDIDATE: 1, BASELINE: 4}, [(CANDIDATE, 1), *pairs(4, 5)], 9.0),
        ("no time left", CANDIDATE, {CANDIDATE: 1}, [(CANDIDATE, 1)], 0.1),
    )
    def test_a_weakness_that_only_the_new_version_may_show_is_then_tried_on_both(
        self, world: World, stage: str, shows: dict[str, int], attempts: list[tuple[str, int]], budget: float | None
    ) -> None:
        """shows: stage → the first attempt in which the weakness shows; it shows in all later ones, too."""
        versions = UPGRADE if stage else {}
        run = asked(lock=["etcd"], faults=["stall-disk", "kill-server"], seed=SEED, budget=budget, **versions)
        places = [(fault, stage) for fault in run.faults]
        cases = [next(it for it in run.cases("server-exclusion") if (it.fault, it.stage) == each) for each in places]
        shown = {key_of(case): Verdict.WEAKNESS_SHOWN for case in cases}
        world.because = "explained by revoked-early"
        world.script = lambda trial: shown if trial.attempt >= shows.get(trial.stage, 9) else {}
        session = world.session(run)
        for case in cases:
            session.answer(case)
        assert [trial.attempt for trial in world.trials if trial.column == "kill-server"] == [1]
        tried = [trial for trial in world.trials if trial.column == "stall-disk"]
        assert [(trial.stage, trial.attempt) for trial in tried] == attempts
        assert all(trial.seed == SEED + trial.attempt - 1 for trial in tried)
        of = {BASELINE: "3.4", CANDIDATE: "3.5"}
        assert not stage or [trial.version for trial in tried] == [of[trial.stage] for trial in tried]

    @cases(
        "old, new, attempts",
        ("at once", {8}, {1}, [(BASELINE, 8)]),
        ("later", {9}, {1, 8}, [(BASELINE, 8), (CANDIDATE, 8), (BASELINE, 9)]),
        ("no more on the new one", set[int](), {1, 8}, pairs(10, 9, 8)[::-1]),
        ("on the new one alone", set[int](), {1, 8, 10, 11}, pairs(11, 10, 9, 8)[::-1]),
    )
    def test_an_unpromised_break_is_tried_on_both_until_the_old_version_shows_it_too(
        self, world: World, old: set[int], new: set[int], attempts: list[tuple[str, int]]
    ) -> None:
        """old, new: the attempts in which that version breaks the property."""
        run = asked(lock=["etcd", "etcd-key"], faults=["kill-server"], seed=SEED, **UPGRADE)
        case = next(it for it in run.cases("fenced-store") if it.stage == CANDIDATE and it.because is None)
        broken = {key_of(case): Verdict.NOT_PROMISED_BROKEN}
        world.script = lambda trial: broken if trial.attempt in (old if trial.stage == BASELINE else new) else {}
        assert world.session(run).answer(case).judgement.word is Verdict.NOT_PROMISED_BROKEN
        first, *again = world.trials
        assert (len(first.lanes) > 1, {trial.lanes for trial in again}) == (True, {(case.lane,)})
        assert [(trial.stage, trial.attempt) for trial in again] == attempts

    @cases("budget, stressed, tries", ("second", None, 2, [1, 2]), ("never", None, 9, [1, 2, 3]), ("late", 0.1, 2, [1]))
    def test_what_a_certificate_did_not_stress_is_tried_again_within_the_budget(
        self, world: World, budget: float | None, stressed: int, tries: list[int]
    ) -> None:
        run = asked(lock=["etcd"], faults=["kill-server"], seed=SEED, budget=budget, **UPGRADE)
        case = next(it for it in run.cases("fenced-store") if it.stage == BASELINE and it.because is None)
        world.script = lambda trial: {key_of(case): Verdict.NOT_STRESSED} if trial.attempt < stressed else {}
        answer = world.session(run).answer(case)
        assert [(trial.attempt, trial.seed - SEED + 1) for trial in world.trials] == [(n, n) for n in tries]
        assert {trial.lanes for trial in world.trials[1:]} <= {(case.lane,)}
        word = Verdict.UPHELD if len(tries) == stressed else Verdict.NOT_STRESSED
        assert (answer.judgement.word, answer.attempts) == (word, len(tries))
        assert sum(event.name == "verdict" for event in world.told) == word.fails

    def test_further_trials_leave_time_for_the_first_ones_that_are_to_come(self, world: World) -> None:
        run = asked(lock=["etcd"], faults=["stall-disk", "kill-server"], seed=SEED, **UPGRADE)
        first = {trial.name: trial for trial in run.trials()}
        for name in list(first)[:2]:
            world.run.save_trial(world.run_trial(first.pop(name), world.start()))
        further = world.trials[0].again(2)
        needed = (2 * 4.0 + sum(trial.seconds for trial in first.values()) + further.seconds) / 60
        for minutes, number, fits in ((needed, 1, True), (needed - 0.01, 1, False), (needed - 0.01, 2, True)):
            budget = TrialBudget(replace(run, budget=minutes), world.run.path, {"etcd": number})
            assert (budget.allows(further), budget.allows(world.trials[0])) == (fits, True)

    @pytest.mark.parametrize("word", [word for word in POSSIBLE if word is not Verdict.WEAKNESS_NOT_SHOWN])
    def test_nothing_else_is_ever_tried_again(self, world: World, fences: Selection, word: Verdict) -> None:
        case = case_of(fences, "holder-exclusion", "freeze-holder")
        world.script = lambda _: {key_of(case): word}
        assert world.session(fences).answer(case).judgement.word is word
        assert len(world.trials) == 1

    def test_a_violation_in_a_retry_counts(self, world: World, fences: Selection) -> None:
        silent = case_of(fences, "holder-exclusion", "freeze-holder")
        other = case_of(fences, "server-exclusion", "freeze-holder")
        retry = {key_of(silent): Verdict.WEAKNESS_SHOWN, key_of(other): Verdict.VIOLATED}
        world.script = lambda trial: retry if trial.attempt > 1 else {key_of(silent): Verdict.WEAKNESS_NOT_SHOWN}
        answer = world.session(fences).answer(other)
        assert (answer.judgement.word, answer.attempts) == (Verdict.VIOLATED, 2)


def told(*words: Verdict) -> list[CaseAnswer]:
    return [CaseAnswer(Judgement("p", word, ""), Path(f"{n}"), n) for n, word in enumerate(words, 1)]


def test_only_a_shown_control_hides_a_heavier_verdict_in_the_session_and_the_report() -> None:
    every = itertools.chain(zip(Verdict), itertools.product(POSSIBLE, repeat=CONTROLS))
    for words, stage in itertools.product(every, ("", CANDIDATE)):
        left = set(words)
        if stage and left - {Verdict.NOT_STRESSED, Verdict.UNKNOWN, Verdict.NOT_APPLICABLE}:
            left.discard(Verdict.NOT_STRESSED)
        if Verdict.WEAKNESS_SHOWN in left:
            left.discard(Verdict.WEAKNESS_NOT_SHOWN)
        heavier = min(left, key=lambda word: word.weight)
        assert counting(told(*words), stage).judgement.word is heavier, words
        cells = [samples.cell(word, seed=SEED + n, attempt=n + 1, stage=stage) for n, word in enumerate(words)]
        assert heaviest(cell.word for cell in settled(cells)) is heavier, words


@pytest.mark.parametrize("word", Verdict)
def test_the_failing_four_fail(word: Verdict) -> None:
    violation = Violation("overlap", 0, (), (), ("who was inside",))
    answer = CaseAnswer(Judgement("p", word, "the reason", None, violation), Path("page.html"), 1)
    if word in (Verdict.VIOLATED, Verdict.WEAKNESS_NOT_SHOWN, Verdict.UNKNOWN, Verdict.NOT_STRESSED):
        message = message_of(pytest.fail.Exception, answer.must_hold)
        says = (str(word), "the reason", "who was inside", "page.html")
        assert [text for text in says if text not in message] == []
    else:
        answer.must_hold()


def test_the_story_is_that_of_the_page_and_has_no_unprintable_characters() -> None:
    judgement = Judgement("p", Verdict.VIOLATED, "", None, Violation("overlap", 0, (), (), tuple("abcdefgh")))
    assert CaseAnswer(judgement, Path("page.html"), 1).story == tuple("abcdefgh")
    assert CaseAnswer(judgement, Path("page.html"), 1, page_story=("a\x1b", "b")).story == ("a\\x1b", "b")
    violation = Violation("overlap", 0, (), (), ("\x1b[2Jwho\ud800",))
    hostile = CaseAnswer(Judgement("p", Verdict.VIOLATED, "\x07", None, violation), Path("page\x1b.html"), 1)
    message = message_of(pytest.fail.Exception, hostile.must_hold)
    assert all(line.isprintable() for line in message.splitlines())
    assert "\\x1b[2Jwho\\ud800" in message


def test_a_broken_environment_is_not_kept(world: World, fences: Selection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suites.tests.world.FakeEnvironment.ensure", raising(Failed("no image")))
    assert message_of(Failed, world.session(fences).answer, case_of(fences, "server-exclusion", "none")) == "no image"
    assert world.environments[0].closed


@pytest.mark.parametrize("first", ["redis", "redlock"])
def test_other_locks_are_tried_again_without_the_lock_that_broke(world: World, both: Selection, first: str) -> None:
    world.script = breaks(WorkerBroke(f"{LINE}\nTraceback", LANES), with_redlock)
    session = world.session(both)
    good, bad = askable(both, "redis"), askable(both, "redlock")
    if first == "redis":
        assert session.answer(good[0]).judgement.word is Verdict.UPHELD
    at_length = message_of(WorkerBroke, session.answer, bad[0])
    assert at_length == f"{LINE}\nTraceback", "the first of its cases says why at length"
    for case in bad:
        assert message_of(TrialFailed, session.answer, case) == f"{UNJUDGED} {LINE}"
    assert {session.answer(case).judgement.word for case in good} == {Verdict.UPHELD}
    assert [{lane.lock_name for lane in trial.lanes} for trial in world.trials] == [{"redis", "redlock"}, {"redis"}]
    assert [trial.name for trial in world.trials] == [f"redis-none-{SEED}", f"redis-none-{SEED}-part2"]
    assert world.trials[1].lanes == tuple(lane for lane in both.runnable("redis", "none") if lane.lock_name == "redis")
    assert [environment.closed for environment in world.environments] == [True, False]


@cases(
    "error",
    ("unclean", TrialBroke(LINE)),
    ("nobody", WorkerBroke(LINE)),
    ("elsewhere", WorkerBroke(LINE, ["elsewhere/register/unfenced"])),
    ("everybody", WorkerBroke(LINE, [*LANES, "redis/register/unfenced"])),
)
def test_a_trial_is_not_rerun_if_no_single_lock_is_to_blame(world: World, both: Selection, error: TrialBroke) -> None:
    world.script = breaks(error, with_redlock)
    session = world.session(both)
    assert message_of(TrialBroke, session.answer, askable(both, "redis")[0]) == LINE
    others = askable(both, "redlock")
    assert {message_of(TrialFailed, session.answer, case) for case in others} == {f"{UNJUDGED} {LINE}"}
    assert len(world.trials) == 1
    assert [LINE in str(problem) for problem in world.run.read().problems] == [True], "the report says why"


def test_report_and_progress_show_one_line_of_an_error_and_the_page_shows_all(world: World, both: Selection) -> None:
    world.script = breaks(WorkerBroke(f"{LINE}\nTraceback\n  File 'mine.py'", LANES), with_redlock)
    world.session(both).answer(askable(both, "redis")[0])
    (problem,) = world.run.read().problems
    assert problem.endswith(f"aborted: {LINE}")
    assert [event.text("text") for event in world.told if event.name == "broke"] == [LINE]
    (page,) = (Path(world.run.path) / "trials" / f"redis-none-{SEED}").glob("index.html")
    assert "mine.py&#39;" in page.read_text() or "mine.py'" in page.read_text()
