"""The workflows of CI: what they run exists, no typed input reaches a shell as script, every job has a time limit."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from results.__main__ import COMMANDS as RESULTS
from results.__main__ import main as results
from suites.__main__ import main as suites
from suites.tests.bench import ENDS
from suites.tests.selections import collected
from suites.worker.pool import ROOT

FILES: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NAMES: Final = [file.name for file in FILES]
HOSTILE: Final = "1.0'\"; touch pwned; $(touch pwned) `touch pwned` ${HOME} --version-of"
STUB: Final = """#!{bash}
printf '%s\\0' "$(basename "$0")" "$@" $'\\n' >> calls
case "$*" in *suites/*) exit "${{SUITES:-0}}" ;; *) exit "${{OTHER:-0}}" ;; esac
"""


@cache
def workflow(name: str) -> dict[Any, Any]:
    read: dict[Any, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return read


def steps(name: str) -> Iterator[dict[str, Any]]:
    for job in workflow(name)["jobs"].values():
        yield from job["steps"]


def script(name: str, part: str) -> str:
    (found,) = [step["run"] for step in steps(name) if part in step.get("run", "")]
    return str(found)


def commands(name: str) -> Iterator[list[str]]:
    for step in steps(name):
        for line in step.get("run", "").replace("\\\n", " ").splitlines():
            yield [word.removeprefix("shards=$(") for word in shlex.split(line.partition(" # ")[0], comments=True)]


@cache
def help_of(*words: str) -> str:
    if words[:1] == ("pytest",):
        return collected("--help").stdout
    command: Callable[[Sequence[str]], int] = results if words[0] == "results" else suites
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert command([*words[1:], "--help"]) == 0
    return out.getvalue()


@pytest.mark.parametrize("name", NAMES)
class TestEach:
    def test_a_workflow_may_only_read_and_has_a_time_limit(self, name: str) -> None:
        assert workflow(name)["permissions"] == {"contents": "read"}
        more = [job["permissions"] for job in workflow(name)["jobs"].values() if "permissions" in job]
        assert {value for given in more for value in given.values()} <= {"read"}
        assert {scope for given in more for scope in given} <= {"contents", "actions"}
        assert {type(job.get("timeout-minutes")) for job in workflow(name)["jobs"].values()} == {int}
        assert workflow(name)["concurrency"]["group"]
        assert "secrets." not in (ROOT / ".github" / "workflows" / name).read_text()

    def test_scripts_are_valid_shell_and_contain_no_typed_input(self, name: str) -> None:
        assert [step["run"] for step in steps(name) if "${{" in step.get("run", "")] == []
        for step in steps(name):
            subprocess.run(["bash", "-n"], input=step.get("run", ""), text=True, check=True, timeout=ENDS)

    def test_a_workflow_uses_only_actions_of_github_in_pinned_versions(self, name: str) -> None:
        """Actions leave no credentials on disk, and overwrite what a job stored before, which is refused otherwise."""
        used = [(step["uses"], step.get("with", {})) for step in steps(name) if "uses" in step]
        assert [action for action, _ in used if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}|\./", action)] == []
        assert {given["persist-credentials"] for action, given in used if "/checkout@" in action} == {False}
        assert {given.get("overwrite") for action, given in used if "/upload-artifact@" in action} <= {True}

    def test_every_make_target_that_a_workflow_calls_exists(self, name: str) -> None:
        there = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
        asked = [words[1] for words in commands(name) if words[:1] == ["make"]]
        assert [target for target in asked if target not in there] == []
        assert asked or ".ci/run" in {words[0] for words in commands(name) if words}

    def test_every_command_that_a_workflow_calls_exists_with_its_options(self, name: str) -> None:
        calls = [words for words in commands(name) if words[:2] == [".venv/bin/python", "-m"]]
        assert calls
        for words in calls:
            named = words[2 : 5 if "nightly" in words else 4 if words[2] in ("suites", "results") else 3]
            if words[2] == "results":
                assert words[3] in RESULTS.commands
            known = help_of(*named) + (help_of("pytest") if "pytest" in words or "nightly" in words else "")
            known += " --junitxml"  # pytest's, which calls it --junit-xml in its help
            options = [word for word in words if re.fullmatch(r"--[a-z-]+", word)]
            assert [option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", known)] == []


def test_ci_runs_what_a_change_has_to_pass() -> None:
    assert NAMES == ["certify.yml", "ci.yml", "nightly.yml"]
    assert [".ci/run"] in list(commands("ci.yml"))
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert workflow("ci.yml")["jobs"]["python"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]


class Place:
    """A folder in which a script of a workflow is run, with a python and a gh that note what they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for stub in (path / ".venv" / "bin" / "python", path / "bin" / "gh"):
            stub.parent.mkdir(parents=True)
            stub.write_text(STUB.format(bash="/usr/bin/env bash"))
            stub.chmod(0o755)

    def run(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]  # as GitHub does
        path = f"{self.path / 'bin'}:{os.environ['PATH']}"
        env = {"PATH": path, "HOME": "/", "GITHUB_STEP_SUMMARY": "summary", "GITHUB_OUTPUT": "output", **variables}
        return subprocess.run(argv, cwd=self.path, env=env, capture_output=True, text=True, check=False, timeout=ENDS)

    def calls(self) -> list[list[str]]:
        text = (self.path / "calls").read_text() if (self.path / "calls").exists() else ""
        return [call.split("\0")[:-1] for call in text.split("\n\0") if call]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_action_passes_its_input_as_words_and_ends_with_the_commands_status(place: Place) -> None:
    (run,) = [step["run"] for step in workflow("../../action.yml")["runs"]["steps"] if step.get("name") == "Run"]
    (place.path / "fencepost").symlink_to(place.path)
    (place.path / "bin" / "gh").rename(place.path / "bin" / "fencepost")
    (place.path / "bin" / "python").symlink_to(sys.executable)
    done = place.run(run, RUNNER_TEMP=str(place.path), ARGUMENTS="certify 'a b' $(touch pwned)", OTHER="5")
    assert (done.returncode, "${{" in run, (place.path / "pwned").exists()) == (5, False, False)
    assert place.calls() == [["fencepost", "certify", "a b", "$(touch", "pwned)"]]


class TestCertify:
    def test_whatever_is_typed_stays_one_word(self, place: Place) -> None:
        done = place.run(script("certify.yml", "--from"), BACKEND="etcd", FROM=HOSTILE, TO="3.5")
        assert done.returncode == 0, done.stderr
        (call,) = place.calls()
        assert [call[call.index(name) + 1] for name in ("--from", "--to")] == [f"etcd={HOSTILE}", "etcd=3.5"]
        assert not (place.path / "pwned").exists()

    @pytest.mark.parametrize("status", [0, 1, 2, 4, 5])
    def test_the_certificate_decides(self, place: Place, status: int) -> None:
        if stored := status != 4:
            (place.path / "certify" / "run").mkdir(parents=True)
            (place.path / "certify" / "run" / "run.json").touch()
        told = {"BACKEND": "etcd", "FROM": "1", "TO": "2", "SUITES": str(status), "OTHER": str(status)}
        done = place.run(script("certify.yml", "--from"), **told)
        assert (done.returncode, "::warning::" in done.stdout) == (status, status == 5)
        assert (place.path / "summary").exists() == stored
        assert [call[3:] for call in place.calls()[1:]] == [["certificate", "certify/run"]] * stored


class TestNightly:
    def test_checkers_are_compared_on_many_histories_that_make_test_does_not_have(self) -> None:
        assert ["make", "fuzz", "ARGS=--count 20000 --seed $GITHUB_RUN_NUMBER"] in commands("nightly.yml")

    @pytest.mark.parametrize(("status", "ends"), [(0, 0), (1, 1), (2, 2), (3, 0)])
    def test_missing_results_are_a_warning_and_new_failures_are_red(self, place: Place, status: int, ends: int) -> None:
        done = place.run(script("nightly.yml", "conclude"), PROFILE="smoke", GITHUB_RUN_NUMBER="7", OTHER=str(status))
        assert (done.returncode, "::warning::" in done.stdout) == (ends, status == 3)

    @pytest.mark.parametrize("there", [0, 1, 3])
    def test_the_nights_before_are_taken_if_there_are_any(self, place: Place, there: int) -> None:
        nights = [f"nights/before-{n}-run-{50 - n}" for n in range(1, there + 1)]
        for night in nights:
            (place.path / night).mkdir(parents=True)
            (place.path / night / "run.json").touch()
        place.run(script("nightly.yml", "conclude"), PROFILE="smoke", GITHUB_RUN_NUMBER="7")
        (call,) = place.calls()
        named = [word.rstrip("/") for option, word in pairwise(call) if option == "--previous"]
        assert named == nights, "the last one first"

    def test_the_last_three_nights_with_results_are_downloaded(self, place: Place) -> None:
        (place.path / "bin" / "gh").write_text(
            '#!/usr/bin/env bash\nif [ "$2" = list ]; then seq 9 -1 1; exit; fi\n'
            'mkdir -p "$7"; touch "$7/run.json"; [ $(($3 % 2)) = 0 ]\n'
        )
        done = place.run(script("nightly.yml", "gh run"), PROFILE="smoke", GITHUB_REF_NAME="main")
        assert done.returncode == 0, done.stderr
        found = sorted(path.name for path in (place.path / "nights").iterdir())
        assert found == ["before-1-run-8", "before-2-run-6", "before-3-run-4"]

    def test_no_night_before_is_no_failure(self, place: Place) -> None:
        done = place.run(script("nightly.yml", "gh run"), PROFILE="smoke", GITHUB_REF_NAME="main", OTHER="1")
        assert done.returncode == 1, "but that GitHub does not answer is"
        (place.path / "bin" / "gh").write_text('#!/usr/bin/env bash\n[ "$2" = list ]\n')
        assert place.run(script("nightly.yml", "gh run"), PROFILE="smoke", GITHUB_REF_NAME="main").returncode == 0

    def test_a_plan_that_fails_fails_its_step(self, place: Place) -> None:
        assert place.run(script("nightly.yml", "plan --json"), PROFILE="smoke", OTHER="2").returncode == 2

    def test_a_shard_that_takes_too_long_is_stored_all_the_same(self) -> None:
        long = {"nightly.yml": ("shard", "nightly shard"), "certify.yml": ("certify", "suites/")}
        for name, (job, part) in {**long, "ci.yml": ("whole", ".ci/run")}.items():
            whole = workflow(name)["jobs"][job]
            (step,) = [step for step in whole["steps"] if part in step.get("run", "")]
            assert step["timeout-minutes"] <= whole["timeout-minutes"] - 10

    def test_every_shard_is_uploaded_and_downloaded_again(self) -> None:
        shard, night = (workflow("nightly.yml")["jobs"][name] for name in ("shard", "night"))
        up, down = (
            next(step["with"] for step in job["steps"] if f"actions/{what}-artifact@" in step.get("uses", ""))
            for job, what in ((shard, "upload"), (night, "download"))
        )
        assert up["name"].replace("${{ matrix.shard }}", "*") == down["pattern"]
        assert set(night["needs"]) == {"plan", "shard"}
