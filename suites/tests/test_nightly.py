"""A night runs every shard once, and missing ones again. It is red only for what was not there the night before."""

import json
import shutil
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from html import unescape
from pathlib import Path
from unittest.mock import patch

import pytest

from checkers.claims import Verdict
from checkers.command.exit_status import to_the_end
from checkers.judging.judgement import Judgement
from checkers.tests.build import cases
from results.record import LaneRecord, TrialRecord
from results.run import Run
from results.tests.samples import stale_result, stale_write, upheld
from suites.__main__ import main as suites
from suites.commands import nightly
from suites.selection.shards import Shard

LITTLE = ("--lock", "redis", "--faults", "none,freeze-holder")
RUN_JOB = nightly._run_job
ONE = (*LITTLE, "--version-of", "redis=8.0")

Words = Mapping[str, Verdict]  # property → its verdict in a night
NOT_ASKED: Words = {"holder-exclusion": Verdict.WEAKNESS_SHOWN}
UPHELD, VIOLATED, UNKNOWN, NOT_STRESSED = (
    {**NOT_ASKED, "token-order": word}
    for word in (Verdict.UPHELD, Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.NOT_STRESSED)
)
SILENT: Words = {**UPHELD, "holder-exclusion": Verdict.WEAKNESS_NOT_SHOWN}


class Suite:
    """Stands for `pytest suites/`: each shard stores one trial, whose verdicts are `words`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.words: Words = UPHELD
        self.statuses: dict[str, int] = {}
        self.ran: list[str] = []
        self.where: list[Path] = []

    def run(self, night: nightly.Night, job: nightly.Job, results: Path) -> int:
        self.ran.append(job.name)
        self.where.append(results)
        status = self.statuses.get(job.name, int(any(word.fails for word in self.words.values())))
        about = {name: night.product[name] for name in ("seed", "profile")}
        about |= {"shard": str(job.shard), "versions": {job.backend: job.version}}
        run = Run.create(results, {**about, "command": ["pytest", *job.words(night.options, results)]})
        history = stale_write()
        broke = stale_result(history)
        judgements = tuple(
            Judgement(name, word, "because", broke, broke.violations[0])
            if word is Verdict.VIOLATED
            else Judgement(name, word, "because", upheld(name))
            for name, word in self.words.items()
        )
        told = {"backend": job.backend, "version": job.version, "seed": 1, "attempt": 1, "column": "freeze-holder"}
        run.save_trial(TrialRecord("redis-freeze-holder-1", told, (LaneRecord(history, judgements),)))
        if status != pytest.ExitCode.INTERRUPTED:
            run.close({"exit status": status})
        return status

    def night(self, *more: str, asked: Sequence[str] = ONE) -> int:
        return suites(["nightly", "run", *asked, "--results", str(self.folder), *more])

    def told(self) -> str:
        return (max((self.folder / "nightly").iterdir()) / nightly.SUMMARY).read_text()

    def runs(self) -> list[Path]:
        return list(self.folder.glob("*-night"))


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    made = Suite(tmp_path)
    monkeypatch.setattr(nightly, "_run_job", made.run)
    monkeypatch.setattr(nightly, "_stamp", iter([f"2026112{n}T010000Z" for n in range(1, 9)]).__next__)
    return made


def plan(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert suites(["nightly", "plan", "--json", *options]) == 0
    names: list[str] = json.loads(capsys.readouterr().out)
    return names


class TestPlan:
    def test_a_plan_has_every_backend_in_every_available_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert plan(capsys, "--profile", "smoke") == [
            "redis-8.0-1of1", "redis-7.0-1of1", "zookeeper-3.9-1of1", "zookeeper-3.8-1of1", "etcd-3.5-1of1",
            "etcd-3.4-1of1",
        ]  # fmt: skip

    def test_a_long_night_has_several_shards(self, capsys: pytest.CaptureFixture[str]) -> None:
        names = plan(capsys, "--profile", "default", "--minutes", "2", "--version-of", "redis=7.0", "--backend=redis")
        assert names == [f"redis-7.0-{i}of{len(names)}" for i in range(1, len(names) + 1)]
        assert 2 <= len(names) <= 4

    def test_a_plan_has_only_the_named_versions_despite_other_options(self, capsys: pytest.CaptureFixture[str]) -> None:
        names = plan(capsys, *LITTLE, "--version-of", "redis=7.0", "--version-of", "redis=image:mine:1")
        assert names == ["redis-7.0-1of1", "redis-image-mine-1-1of1"]
        names = plan(capsys, *LITTLE, "--version-of", "valkey=8", "--version-of", "redis=8.0")
        assert names == ["redis-valkey-8-1of1", "redis-8.0-1of1"]
        assert plan(capsys, *ONE, "-n", "2", "-q", "--junitxml", "x.xml") == ["redis-8.0-1of1"]

    @cases(
        "options, says",
        ("lock", ("--lock", "nope"), "no lock 'nope'"),
        ("backend", ("--backend", "nope"), "unknown backend"),
        ("version", ("--version-of", "redis=latest"), "redis latest is not to be had"),
        ("no version", ("--version-of", "redis"), "expected BACKEND=VERSION"),
        ("version of nothing", ("--version-of", "nope=1"), "expected BACKEND=VERSION"),
        ("minutes", ("--minutes", "0"), "more than 0"),
        ("shard", ("--shard", "1/2"), "by itself"),
        ("target", ("--target", "redis=a:1"), "by itself"),
        ("nothing", ("--lock", "etcd", "--faults", "promote-replica"), "none of that can be tried"),
    )
    def test_bad_input_is_said(self, options: Sequence[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert suites(["nightly", "plan", *options]) == 2
        assert says in capsys.readouterr().err


def test_a_job_asks_for_its_own_part_only() -> None:
    assert nightly.Job("redis", "7.0", Shard(2, 3)).words(["--profile", "smoke", "-q"], Path("r")) == [
        "suites/", "--profile", "smoke", "-q", "--backend", "redis", "--version-of", "redis=7.0",
        "--shard", "2/3", "--results", "r",
    ]  # fmt: skip


class TestNights:
    def test_the_first_night_has_no_night_before_and_becomes_one_run(self, suite: Suite) -> None:
        assert (suite.night(asked=LITTLE), suite.ran) == (0, ["redis-8.0-1of1", "redis-7.0-1of1"])
        (run,) = suite.runs()
        assert len(list((run / "trials").iterdir())) == 2
        assert (run / "index.html").exists()
        assert "There is no night before" in suite.told()
        assert list(suite.folder.glob("nightly/*/shards")) == [], "they stand in the run"

    @cases(
        "words, exits, says",
        ("a failure is red once and then known", (VIOLATED, VIOLATED), (1, 0), "### Known"),
        ("a new violation", (UPHELD, UPHELD, VIOLATED), (0, 0, 1), "### New"),
        ("a control that fell silent", (UPHELD, SILENT), (0, 1), "a known weakness no longer shows"),
        ("evidence that is lost is not red", (UPHELD, NOT_STRESSED), (0, 3), ""),
        ("a night without a verdict counts for nothing", (VIOLATED, {}, VIOLATED), (1, 3, 0), "### Known"),
        ("nor one without evidence or gone", (VIOLATED, UNKNOWN, NOT_ASKED, VIOLATED), (1, 3, 3, 0), "### Known"),
        ("what was well in between is new again", (VIOLATED, UPHELD, UNKNOWN, VIOLATED), (1, 0, 3, 1), "### New"),
    )
    def test_a_night_is_compared(self, suite: Suite, words: Sequence[Words], exits: Sequence[int], says: str) -> None:
        assert tuple(suite.night() for suite.words in words) == exits
        assert says in suite.told()
        assert ("worker 3 was granted the lock with token 41" in suite.told()) == (words[-1] is VIOLATED)

    def test_a_night_is_compared_with_nights_of_the_same_options_and_with_named_ones(self, suite: Suite) -> None:
        suite.words = VIOLATED
        assert suite.night() == 1
        (run,) = suite.runs()
        assert suite.night(asked=(*ONE, "--seed", "2")) == 1, "there was none of this seed"
        assert suite.night(asked=(*ONE, "-q", "-n", "2")) == 0, "how it is told does not matter"
        assert suite.night("--previous", str(run), asked=(*ONE, "--seed", "3")) == 0
        assert suite.night("--previous", "nonsense") == 2

    def test_a_missing_verdict_is_inconclusive(self, suite: Suite) -> None:
        """A bug of ours that ends most tests looks like this: pytest's status is that of a failing verdict."""
        assert suite.night() == 0
        suite.words = NOT_ASKED
        suite.statuses["redis-8.0-1of1"] = 1
        assert suite.night() == 3
        assert "1 verdict of before missing" in suite.told()
        assert "- 1 verdict of <code>redis</code> under <code>freeze-holder</code> on redis" in suite.told()

    def test_the_summary_is_appended(self, suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
        file = suite.folder / "summary"
        file.write_text("before\n")
        assert suite.night("--summary", str(file)) == 0
        assert file.read_text() == "before\n" + suite.told()
        assert suite.night("--summary", str(suite.folder / "none" / "file")) == 2
        assert "none/file" in capsys.readouterr().err


class TestInterrupted:
    def test_missing_shards_are_run(self, suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
        suite.statuses["redis-7.0-1of1"] = pytest.ExitCode.INTERRUPTED
        assert suite.night(asked=LITTLE) == 2
        assert "--resume goes on with" in capsys.readouterr().err
        assert suite.runs() == []
        suite.statuses.clear()
        assert suite.night("--resume", asked=LITTLE) == 0
        assert suite.ran == ["redis-8.0-1of1", "redis-7.0-1of1", "redis-7.0-1of1"]
        assert len(list((suite.folder / "nightly").iterdir())) == 1

    def test_a_shard_without_environment_is_missing(self, suite: Suite) -> None:
        suite.statuses["redis-8.0-1of1"] = 4
        assert suite.night(asked=LITTLE) == 3
        assert "did not run to their end: redis-8.0-1of1" in unescape(suite.told())
        suite.statuses.clear()
        assert suite.night("--resume", asked=LITTLE) == 0
        assert suite.ran == ["redis-8.0-1of1", "redis-7.0-1of1", "redis-8.0-1of1"]
        (run,) = suite.runs()
        assert len(list((run / "trials").iterdir())) == 2

    def test_a_night_without_any_shard_is_an_error_and_a_missing_shard_hides_no_red_one(self, suite: Suite) -> None:
        suite.statuses["redis-8.0-1of1"] = 4
        assert suite.night() == 2
        suite.words = VIOLATED
        assert suite.night(asked=LITTLE) == 1

    def test_a_finished_run_is_not_resumed(self, suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
        assert suite.night() == 0
        assert suite.night("--resume") == 0
        assert "this is a new one" in capsys.readouterr().out
        assert len(suite.runs()) == 2


def test_neither_an_interrupt_nor_a_bug_ends_with_the_status_of_a_worse_lock(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gc.freeze", lambda: None)
    with patch.object(nightly, "digest", side_effect=ZeroDivisionError), pytest.raises(SystemExit, match="2"):
        to_the_end(lambda _: suite.night())
    assert "ZeroDivisionError" in capsys.readouterr().err
    monkeypatch.setattr(nightly, "_run_job", RUN_JOB)
    with patch("subprocess.Popen") as started:
        started.return_value.wait.side_effect = partial(signal.raise_signal, signal.SIGINT)
        assert suite.night() == 2
    assert "--resume goes on with" in capsys.readouterr().err


class TestOnSeveralMachines:
    def test_a_planned_shard_succeeds_with_a_violation(self, suite: Suite, capsys: pytest.CaptureFixture[str]) -> None:
        suite.words = VIOLATED
        assert suites(["nightly", "shard", "redis-8.0-1of1", *LITTLE, "--results", str(suite.folder)]) == 0
        suite.statuses["redis-7.0-1of1"] = 4
        assert suites(["nightly", "shard", "redis-7.0-1of1", *LITTLE, "--results", str(suite.folder)]) == 4
        assert suites(["nightly", "shard", "redis-8.0-1of9", *LITTLE]) == 2
        assert "there are redis-8.0-1of1, redis-7.0-1of1" in capsys.readouterr().err

    def test_shards_are_merged_from_any_folder_and_left_in_place(self, suite: Suite, tmp_path: Path) -> None:
        for name in ("redis-8.0-1of1", "redis-7.0-1of1"):
            suites(["nightly", "shard", name, *LITTLE, "--results", str(tmp_path / "shards" / f"shard-{name}")])
        into = tmp_path / "nights" / "2"
        assert suites(["nightly", "conclude", str(tmp_path / "shards"), str(into), *LITTLE]) == 0
        assert {cell.version for cell in Run.open(into).read().cells} == {"8.0", "7.0"}
        assert len(list((tmp_path / "shards").iterdir())) == 2, "what was not ours is left"

    @pytest.mark.parametrize("why", ["it did not arrive", "it is of another night", "it is damaged"])
    def test_unusable_shards_count_as_missing(self, suite: Suite, why: str, capsys: pytest.CaptureFixture[str]) -> None:
        shards = suite.folder / "shards"
        first, second = ("redis-8.0-1of1", "redis-7.0-1of1")
        suites(["nightly", "shard", first, *LITTLE, "--results", str(shards / first)])
        if why != "it did not arrive":
            seed = ("--seed", "2") if why == "it is of another night" else ()
            suites(["nightly", "shard", second, *LITTLE, *seed, "--results", str(shards / second)])
        if why == "it is damaged":
            (damaged,) = (shards / second).glob("*/summary.json")
            damaged.write_text("{")
        assert suites(["nightly", "conclude", str(shards), str(suite.folder / "nights" / "1"), *LITTLE]) == 3
        assert f"{second}: missing" in capsys.readouterr().err
        shutil.rmtree(shards / first)
        assert suites(["nightly", "conclude", str(shards), str(suite.folder / "nights" / "2"), *LITTLE]) == 2

    def test_older_nights_can_be_named_too(self, suite: Suite) -> None:
        nights: list[str] = []
        statuses = []
        for number, suite.words in enumerate((VIOLATED, NOT_STRESSED, VIOLATED)):
            shards, made = suite.folder / f"shards{number}", str(suite.folder / "nights" / str(number))
            suites(["nightly", "shard", "redis-8.0-1of1", *ONE, "--results", str(shards)])
            previous = [option for name in reversed(nights) for option in ("--previous", name)]
            statuses.append(suites(["nightly", "conclude", str(shards), made, *ONE, *previous]))
            nights.append(made)
        assert statuses == [1, 3, 0]

    def test_a_relative_folder_is_below_the_current_folder(self, suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(suite.folder)
        suites(["nightly", "shard", "redis-8.0-1of1", *ONE, "--results", "shards"])
        assert suite.where == [suite.folder / "shards"]
