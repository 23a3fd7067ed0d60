"""The progress of a run, from its events, by a clock that the tests set."""

from typing import Any

import pytest

from results.terminal.event_journal import Event
from results.terminal.progress import MOST, TRUST, Level, Progress, ScreenLine
from results.tests.test_screen import FACTS
from results.text import clock, duration, roughly


class Run:
    """A run whose processes report events at times that the test chooses."""

    def __init__(self, **trials: list[tuple[str, float]]) -> None:
        self.at = 1_000_000.0
        self.progress = Progress()
        self.lines: list[ScreenLine] = []
        for backend, planned in trials.items():
            self.say("main", "plan", backend=backend, trials=[[column, 1, seconds] for column, seconds in planned])

    def say(self, by: str, name: str, **facts: Any) -> list[ScreenLine]:
        new = self.progress.take(Event(name, facts, self.at, by))
        self.lines += new
        return new

    def trial(self, by: str = "main", backend: str = "redis", column: str = "none", **more: Any) -> list[ScreenLine]:
        facts = {**FACTS, "backend": backend, "column": column}
        return self.say(by, "trial", **{**facts, "lanes": 7, "locks": ["redis"], "plan": ["no fault"], **more})

    def done(self, by: str = "main", backend: str = "redis", column: str = "none", again: int = 0) -> list[ScreenLine]:
        facts = {**FACTS, "backend": backend, "column": column, "seconds": 4.0}
        return self.say(by, "done", **facts, words={"upheld": 3}, again=again)

    def texts(self) -> list[str]:
        return [line.text for line in self.progress.live(self.at)]


class TestStanding:
    def test_the_screen_shows_the_trials_done_and_the_work_of_each_process(self) -> None:
        run = Run(redis=[("none", 5), ("kill-server", 5)], etcd=[("kill-server", 5)])
        assert run.progress.live(run.at) == []
        run.trial("gw0")
        run.trial("gw1", "etcd", "kill-server", locks=["etcd", "etcd-key"])
        run.at += 3
        assert run.say("gw0", "repeats", text="once more")[0].text.endswith(" redis none: once more")
        run.say("gw1", "step", text="kill-server: healing")
        first, *others = run.texts()
        assert first.startswith("0 of 3 trials, about 10 s left; 0:03 so far")
        assert others[0] == "redis none: starting its workers, 3 s (once more)"
        assert others[1:] == ["etcd kill-server: healing, 3 s (7 lanes of etcd and etcd-key)"]
        run.done("gw0")
        assert run.texts()[0].startswith("1 of 3 trials")
        assert len(run.texts()) == 2

    def test_failing_verdicts_are_counted_once_and_named_as_they_occur(self) -> None:
        run = Run(redis=[("none", 5)])
        run.trial("gw0")
        facts = {"lane": "redis/set/unfenced", "property": "recovery", "fault": "none", "because": "it never came"}
        (line,) = run.say("gw0", "verdict", **facts, word="violated")
        assert line.level is Level.FAILING
        assert line.text.endswith("violated: recovery in redis/set/unfenced under none: it never came")
        assert run.say("gw0", "verdict", **facts, word="violated") == []
        run.say("gw0", "verdict", **{**facts, "property": "fifo"}, word="not stressed")
        assert "1 violated, 1 not stressed" in run.progress.standing(run.at)

    def test_many_processes_take_few_lines(self) -> None:
        run = Run(redis=[(f"f{n}", 5) for n in range(20)])
        for number in range(20):
            run.trial(f"gw{number}", "redis", f"f{number}")
        assert (len(run.texts()), run.texts()[-1]) == (MOST + 2, f"and {20 - MOST} more")

    def test_a_control_that_is_tried_again_is_one_trial(self) -> None:
        run = Run(redis=[("none", 5)])
        run.trial("gw0")
        (line,) = run.done("gw0", again=2)
        assert line.text.endswith("2 lanes again")
        assert "0 of 1 trials" in run.progress.standing(run.at)
        run.trial("gw0", attempt=2)
        assert "redis none, trial 2:" in run.texts()[1]
        run.done("gw0")
        assert "1 of 1 trials" in run.progress.standing(run.at)

    def test_the_rest_of_a_broken_trial_counts_as_one_more_trial(self) -> None:
        run = Run(redis=[("none", 5)])
        run.trial("gw0")
        (line,) = run.say("gw0", "broke", backend="redis", column="none", part=1, text="redis1 is paused")
        assert (line.level, "redis1 is paused" in line.text) == (Level.FAILING, True)
        run.trial("gw0", part=2)
        assert run.progress.standing(run.at).startswith("1 of 2 trials, 1 broke")

    def test_a_resumed_run_counts_stored_trials_and_nothing_else_of_before(self) -> None:
        run = Run(redis=[("none", 5), ("kill-server", 5), ("freeze-holder", 5)])
        run.trial("gw1", "redis", "none")
        run.done("gw1", "redis", "none")
        run.trial("gw1", "redis", "kill-server")
        run.say("gw1", "broke", backend="redis", column="kill-server", part=1, text="no leader")
        run.trial("gw1", "redis", "freeze-holder")
        run.at += 3600
        (line,) = run.say("main", "resumed", kept=[["redis", "none", 1, 10.0]], stored=1, again=1)
        assert line.text.endswith("resumed: 1 trial stored, 1 trial set aside, to be run again")
        run.say("main", "plan", backend="redis", trials=[[column, 1, 5] for column in ("none", "kill-server", "last")])
        assert run.texts() == ["1 of 3 trials, about 20 s left; 0:00 so far"], "at twice the pace that was expected"
        run.trial("main", "redis", "kill-server")
        run.at += 10
        run.done("main", "redis", "kill-server")
        assert run.texts() == ["2 of 3 trials, about 10 s left; 0:10 so far"]

    def test_a_trial_is_announced_with_its_plan_and_its_locks_counted_or_named_briefly(self) -> None:
        run = Run(redis=[("none", 5)])
        plan = ["after 0.7 s: kill redis1 for 1.5 s", "then that"]
        begins, *steps = lines = run.trial("gw0", "redis", "kill-server", plan=plan)
        assert begins.text[9:] == "redis      kill-server            seed 1: 7 lanes of redis"
        assert [line.text[9:] for line in steps] == [f"  {step}" for step in plan]
        assert {line.level for line in lines} == {Level.BEGUN}
        assert "of 4 locks" in run.trial("gw0", locks=list("abcd"))[0].text
        assert "of Mine" in run.trial("gw0", locks=["some.where:Mine"])[0].text

    @pytest.mark.parametrize("evil", ["\x1b[2J", "a\nb", "\x07", "\ud800", "\u202e"], ids=ascii)
    def test_no_string_steers_the_terminal(self, evil: str) -> None:
        run = Run(redis=[(evil, 5)])
        run.trial("gw0", evil, evil, locks=[evil], plan=[evil])
        run.say("gw0", "step", text=evil)
        run.say("gw0", "verdict", lane=evil, property=evil, fault=evil, word="violated", because=evil)
        run.lines += run.progress.live(run.at)
        run.say("gw0", "broke", backend=evil, column=evil, text=evil)
        run.lines.append(run.progress.beat(run.at))
        assert len(run.lines) > 5
        assert all(line.text.isprintable() for line in run.lines)


class TestTimeLeft:
    def test_the_time_left_begins_as_expected_and_shared_trials_are_divided(self) -> None:
        assert Run().progress.left(0) is None
        assert Run(redis=[("none", 30), ("kill-server", 60)]).progress.left(0) == 90
        run = Run()
        run.progress.processes = 2
        run.say("gw0", "plan", backend="etcd", trials=[["none", 1, 10.0], ["kill-server", 1, 10.0]], shared=True)
        assert run.progress.left(run.at) == pytest.approx(10)

    def test_the_pace_so_far_is_weighed_against_a_minute_at_the_expected_pace(self) -> None:
        run = Run(redis=[("none", TRUST), ("kill-server", TRUST), ("freeze-holder", TRUST)])
        run.trial()
        run.at += 3 * TRUST
        run.done()
        assert run.progress.left(run.at) == pytest.approx(2 * 2 * TRUST)

    def test_starting_the_servers_is_shown_and_says_nothing_about_the_pace(self) -> None:
        run = Run(redis=[("none", 10), ("kill-server", 10)])
        run.say("main", "boot", backend="redis", version="8.0")
        run.at += 100
        assert run.texts()[1] == "redis 8.0 is being started, 100 s"
        run.say("main", "ready", backend="redis", seconds=100.0)
        run.trial()
        assert len(run.texts()) == 2
        run.at += 10
        run.done()
        assert run.progress.left(run.at) == pytest.approx(10)

    def test_each_backend_has_a_pace_of_its_own_and_the_longest_decides(self) -> None:
        trials = [("none", TRUST), ("kill-server", TRUST)]
        run = Run(redis=trials, etcd=trials)
        run.progress.processes = 2
        run.trial("gw0")
        run.trial("gw1", "etcd", "none")
        run.at += TRUST / 2
        run.done("gw0")
        run.at += 5 * TRUST / 2
        run.done("gw1", "etcd", "none")
        assert run.progress.left(run.at) == pytest.approx(2 * TRUST)

    def test_a_running_trial_takes_off_at_most_its_own_time_and_no_time_is_negative(self) -> None:
        run = Run(redis=[("none", 10), ("kill-server", 10)])
        run.trial()
        for after, left in ((4, 16), (10, 10), (1000, 10)):
            assert run.progress.left(run.at + after) == pytest.approx(left)
        run.at -= 3600
        run.done()
        assert (run.progress.left(run.at) or 0) >= 0
        assert "-" not in "".join(run.texts())

    def test_a_time_is_written_in_rough_words_and_as_a_clock(self) -> None:
        rough = {-5: "10 s", 31: "40 s", 57: "1 min", 70: "1 min", 220: "4 min", 3590: "1 h", 4000: "1 h 10 min"}
        assert [roughly(seconds) for seconds in rough] == [f"about {words}" for words in rough.values()]
        assert [duration(ns) for ns in (999_400, 999_600, 999_600_000)] == ["999 µs", "1 ms", "1.00 s"]
        assert [clock(seconds) for seconds in (-1, 7, 750, 3600)] == ["0:00", "0:07", "12:30", "1:00:00"]
