"""`pytest suites/ --collect-only`: it starts nothing, and the tests stand in the order in which trials answer them."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from infra.backends import BACKENDS
from suites.locks import registry
from suites.tests.selections import USAGE, collected
from suites.worker.pool import ROOT


class TestCollecting:
    def test_starts_nothing_and_writes_nothing(self, tmp_path: Path) -> None:
        """Without an engine to be had, without a folder for results, and without a subprocess."""
        runs = tmp_path / "runs"
        program = (
            "import sys, pytest\n"
            "def forbidden(event, args):\n"
            "    if event in ('subprocess.Popen', 'socket.connect', 'os.fork', 'os.mkdir'):\n"
            "        sys.exit(f'{event} {args}')\n"
            "sys.addaudithook(forbidden)\n"
            "sys.exit(pytest.main(sys.argv[1:]))"
        )
        argv = ["suites/", "--collect-only", "-q", "-p", "no:cacheprovider", "--results", str(runs), "--profile=smoke"]
        command = [sys.executable, "-B", "-c", program, *argv]
        env = {**os.environ, "DOCKER_HOST": "tcp://127.0.0.1:9"}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert "redis/register/unfenced-freeze-holder" in done.stdout
        assert not runs.exists()

    def test_the_tests_of_one_trial_stand_together(self) -> None:
        done = collected("--lock", "redis", "--lock", "etcd", "--faults", "none,freeze-holder")
        assert done.stderr == "", "not a word of the client libraries"
        assert "suites/tests" not in done.stdout, "the project's own tests are not the product"
        trials = [
            (line.partition("[")[2].partition("/")[0], line.rstrip("]").endswith("-none"))
            for line in done.stdout.splitlines()
            if "[" in line and "NOTSET" not in line
        ]
        assert len(trials) > 20
        assert len([1 for one, other in pairwise(trials) if one != other]) == 3

    def test_a_word_too_many_is_said_before_anything_begins(self, tmp_path: Path) -> None:
        """That is what `--faults none freeze-holder` is; pytest by itself would say so when the run has its folder."""
        done = collected("--faults", "none", "freeze-holder", "--results", str(tmp_path))
        assert done.returncode == USAGE
        assert "not found: freeze-holder (an option takes one value: --faults a,b" in done.stderr


def test_the_help_of_an_option_names_what_there_is() -> None:
    text = " ".join(collected("--help").stdout.split())
    assert ", ".join(registry.LOCKS) in text
    assert ", ".join(BACKENDS) in text
    assert "results/runs" in text
