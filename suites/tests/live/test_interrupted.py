"""However `pytest suites/` ends, no worker stays. What its environment leaves is removed at once or at the next start.

Everything that a run starts inherits an environment variable, which distinguishes it from what others run here.
"""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Final
from unittest.mock import patch

import pytest
from docker import DockerClient

from infra.docker import client as engine_client
from infra.docker import images, owner, reaper
from infra.waiting import comes_true
from suites.tests.bench import ENDS
from suites.worker.pool import ROOT

pytestmark = pytest.mark.usefixtures("interruptible")

MARK: Final = "FENCEPOST_TEST_RUN"


class Started:
    """A run of the product on PostgreSQL (few containers), and everything that it started, even after it has ended."""

    def __init__(self, results: Path, *argv: str, path: Path | None = None) -> None:
        self._mark = secrets.token_hex(8)
        self.log = results / "log"
        self._pids: set[int] = set()
        argv = ("--lock", "postgres-lease", "--workload", "register", "--faults", "freeze-holder,none", *argv)
        call = [sys.executable, "-m", "pytest", "suites/", "-q", "-pno:cacheprovider", "--results", str(results), *argv]
        env = {**os.environ, MARK: self._mark, **({"PYTHONPATH": str(path)} if path else {})}
        with self.log.open("wb") as log:
            self.process = Popen(call, cwd=ROOT, env=env, stdin=DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def processes(self) -> dict[int, str]:
        """Pid → command line of all processes of the run that live."""
        mark = f"{MARK}={self._mark}".encode()
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # it ended, or is none of ours
        self._pids |= found.keys()
        return found

    def workers(self) -> list[int]:
        """Fork servers and their workers."""
        return [pid for pid, command in self.processes().items() if "suites.worker.forkserver" in command]

    def left(self, client: DockerClient) -> list[str]:
        """This run's environments, except those of which only networks are left that nobody can remove."""
        names = [found.name for found in reaper.find(client) if any(map(self._owns, found.owners))]
        with patch.object(reaper, "LEAKED_LONG", 0.0):
            return [name for name in names if not reaper._only_leaked(client, name)]

    def _owns(self, label: str) -> bool:
        parts = label.split("/")
        return len(parts) == 5 and parts[3].isdecimal() and int(parts[3]) in self._pids

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)
        assert self.process.wait(ENDS) == pytest.ExitCode.INTERRUPTED, self.log.read_text()[-3000:]
        self.await_(lambda: not self.processes())  # processes that watch for its end have yet to see it

    def await_(self, condition: Callable[[], bool]) -> None:
        assert comes_true(condition, ENDS), f"{self.processes()}\n{self.log.read_text()[-3000:]}"


@pytest.fixture
def client() -> DockerClient:
    return engine_client.connect()


BUSY: Final = """
import os, time
from infra.docker import reaper

reap, remove = reaper.reap, reaper.remove
def removed(client, name, **more):
    time.sleep(3600) if name.startswith(f"fp-{os.getpid()}-") else remove(client, name, **more)

def pytest_configure(config):
    if hasattr(config, "workerinput"):
        reaper.remove = removed  # what others have left is removed: it begins with that
    else:
        reaper.reap = lambda *arguments: (reap(*arguments), print("the controller has looked for what is left"))
"""  # a plugin under which no worker ever finishes removing what it has started


@contextmanager
def running(results: Path, client: DockerClient, *argv: str, path: Path | None = None) -> Iterator[Started]:
    """A run whose fork server and workers are at work. path: where else to find modules."""
    run = Started(results, *argv, path=path)
    try:
        run.await_(lambda: len(run.workers()) > 10)
        assert run.left(client) != []
        yield run
    finally:
        for pid in run.processes():
            os.kill(pid, signal.SIGKILL)
        run.process.wait()
        run.await_(lambda: not run.processes())
        for name in run.left(client):
            reaper.remove(client, name)


def test_killed_runs_leave_no_process_and_interrupted_runs_leave_nothing(tmp_path: Path, client: DockerClient) -> None:
    """What a killed run leaves is removed, and the run is resumed. Ctrl-C, for the whole process group, ends that."""
    with running(tmp_path, client) as run:
        run.await_(lambda: len(list(tmp_path.glob("*/trials/*/index.html"))) > 0)
        run.process.kill()
        run.process.wait()
        run.await_(lambda: not run.processes())
        # `OwnEnvironment.start` and `python -m infra down` begin with this. The engine may yet make the last things
        # that it was asked for.
        run.await_(lambda: (reaper.reap(client), run.left(client))[1] == [])
    (folder,) = (file.parent for file in tmp_path.glob("*/run.json"))
    before = {file: file.stat().st_ino for file in folder.glob("trials/*/*.arrow")}
    with running(tmp_path, client, "--resume", "last") as run:
        run.interrupt()
        assert run.left(client) == []
        assert "to go on: .venv/bin/python -m pytest suites/ -q" in run.log.read_text()
    assert {file: file.stat().st_ino for file in before} == before, "what was stored is not run again"
    summary = json.loads((folder / "summary.json").read_text())
    (interruption,) = summary["asked"]["interruptions"]
    assert (interruption["kept"], interruption["again"]) == (1, [])
    assert summary["about"]["interrupted"]
    assert summary["problems"] == []


def test_the_controller_removes_what_its_workers_had_no_time_to_remove(tmp_path: Path, client: DockerClient) -> None:
    (tmp_path / "busy.py").write_text(BUSY)
    with running(tmp_path, client, "-n", "1", "-p", "busy", path=tmp_path) as run:
        run.interrupt()
        assert run.left(client) == []
        assert "the controller has looked for what is left" in run.log.read_text(), "others may have found it first"


def test_the_image_runs_as_the_readme_says_and_leaves_nothing_when_killed(tmp_path: Path, client: DockerClient) -> None:
    """For a user who is not root. The processes in the container cannot be seen from here: the engine knows of them."""
    images.ensure(images.FENCEPOST)
    (words,) = re.findall(r"^\$ docker run --rm ((?:.+\\\n)*.+)", (ROOT / "suites/README.md").read_text(), re.MULTILINE)
    call = ["bash", "-c", f"docker run --detach {words} --workload register --faults kill-holder"]
    user, group = os.getuid() or 4711, None if os.getuid() else Path("/var/run/docker.sock").stat().st_gid
    os.chown(tmp_path, user, -1)
    container = subprocess.check_output(call, cwd=tmp_path, text=True, user=user, group=group).strip()

    def dead() -> list[bool]:
        """Whether its owner is dead, for each environment of the container."""
        return [each.dead for each in reaper.find(client) if container in map(owner.container_of, each.owners)]

    try:
        assert comes_true(lambda: dead() == [False], ENDS)
        assert client.api.wait(container, timeout=int(ENDS))["StatusCode"] < 2, client.api.logs(container)[-3000:]
        assert dead() == []
        (page,) = tmp_path.glob("results/runs/*/trials/*/index.html")
        assert page.stat().st_uid == user
        client.api.start(container)
        assert comes_true(lambda: dead() == [False], ENDS)
        client.api.kill(container)
        assert comes_true(lambda: (reaper.reap(client), dead())[1] == [], ENDS)
    finally:
        client.api.remove_container(container, force=True)
