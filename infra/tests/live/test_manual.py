"""`python -m infra fault`, as a person uses it: another process sees what the fault does, and `heal` undoes it."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.__main__ import main
from infra.backends import BACKENDS
from infra.docker.compose import ROOT
from infra.faults.plan import compile_plan
from infra.own_environment import OwnEnvironment
from infra.tests.environments import await_unclean
from infra.tests.fakes import HANGS_AFTER
from infra.tests.live.hurting import await_

pytestmark = pytest.mark.needs("redis")


@pytest.fixture
def command(environment: OwnEnvironment, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command on the environment. What the command prints."""

    def run(*argv: str) -> str:
        assert main([*argv, "--env", environment.name]) == 0
        return capsys.readouterr().out

    return run


def test_a_fault_stays_until_heal(environment: OwnEnvironment, command: Callable[..., str]) -> None:
    argv = ["fault", "pause-server", "redis", "--set", "nodes=redis2", "--env", environment.name]
    said = subprocess.check_output([sys.executable, "-m", "infra", *argv], cwd=ROOT, text=True)
    assert said.startswith("pause redis2 ...\npause-server: applied after ")
    assert f"it stays; python -m infra heal --env {environment.name} undoes it" in said
    assert environment.node("redis2").state() == "paused"
    command("fault", "cut-client-drop", "redis", "--set", "group=c2")
    assert len(environment.unclean()) > 1
    command("heal")


def test_a_fault_for_a_while_heals_itself(command: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    unclean, late = OwnEnvironment.unclean, iter([["zk1 does not serve"]])  # for a moment, after the heal
    monkeypatch.setattr(OwnEnvironment, "unclean", lambda environment: next(late, None) or unclean(environment))
    said = command("fault", "kill-server", "redis", "--set", 'nodes=["redis3"]', "--for", "0.2")
    first, applied, healing, healed = said.splitlines()
    assert first == "after 0.0 s: kill redis3 for 0.2 s"
    assert applied.startswith("kill-server: applied after ")
    assert applied.endswith(" s: redis3")
    assert healing == "kill-server: healing"
    assert healed.startswith("kill-server: healed in ")


def test_a_fault_that_is_broken_off_heals_itself(environment: OwnEnvironment) -> None:
    command = [sys.executable, "-m", "infra", "fault", "pause-server", "redis", "--set", "nodes=redis2,redis3"]
    command += ["--for", "600", "--env", environment.name]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout
        while "applied after" not in (line := process.stdout.readline()) or "redis3" not in line:
            assert line
        for _ in range(2):
            process.send_signal(signal.SIGINT)
        said, complaint = process.communicate(timeout=HANGS_AFTER)
    assert process.returncode == 128 + signal.SIGINT
    broken_off, healed = said.splitlines()
    assert broken_off == "broken off, healing everything"
    assert healed.startswith("healed in ")
    assert "Traceback" not in complaint


def test_a_plan_heals_what_it_does(command: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(compile_plan(["cut-client-drop", "pause-server"], 1, "redis", 1.0).to_json()))
    said = command("fault", "--plan", str(file))
    assert "meanwhile, after" in said
    assert "cut-client-drop: applied after " in said
    assert " s: redis1\n" in said


def test_a_process_is_frozen_and_goes_on(
    environment: OwnEnvironment, command: Callable[..., str], sleeper: subprocess.Popen[bytes]
) -> None:
    command("fault", "freeze-holder", "redis", "--pid", str(sleeper.pid))
    await_unclean(environment, f"process {sleeper.pid} is frozen")
    command("heal")
    await_(lambda: Path(f"/proc/{sleeper.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S")


def test_the_error_for_an_impossible_fault_says_why(
    environment: OwnEnvironment, sleeper: subprocess.Popen[bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    def said(*argv: str) -> str:
        assert main(["fault", *argv, "--env", environment.name]) == 2
        return capfd.readouterr().err

    assert "no fault 'nope'; there are cut-client-refuse" in said("nope", "redis")
    assert "did you mean pause-server" in said("pause-sever", "redis")
    for backend in set(BACKENDS) - set(environment.clusters):  # others may have been booted by other tests
        assert f"python -m infra up {backend} --env {environment.name}" in said("kill-server", backend)
    assert "must be seconds, more than 0, not -1" in said("kill-server", "redis", "--ttl", "-1")
    assert "by hand with --set node=NODE" in said("replace-version", "redis")
    assert "no backend 'nope'" in said("kill-server", "nope")
    assert "say NAME and BACKEND, or --plan FILE" in said("kill-server")
    assert "--pid says which process is yours" in said("freeze-holder", "redis")
    assert "isolate-leader-drop does not apply to redis" in said("isolate-leader-drop", "redis")
    assert "options.nodes: must be" in said("kill-server", "redis", "--set", "nodes=1")
    assert "stall-holder needs a gate inside the worker" in said("stall-holder", "redis", "--pid", str(sleeper.pid))
