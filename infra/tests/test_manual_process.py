"""A process in the place of workers: which may be hit, and how one that was frozen is found again. Nobody is hurt."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from infra.__main__ import main
from infra.cluster import frozen
from infra.docker import owner
from infra.errors import Failed, UnknownName
from infra.faults import manual
from infra.faults.manual import OneProcess
from infra.faults.plan import compile_plan
from infra.faults.target import Aim

FREEZE, KILL = Aim("between-read-and-write", "freeze"), Aim("after-acquire", "kill")
Sent = list[tuple[int, int]]  # signals that would have been sent to whom


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def sent() -> Iterator[Sent]:
    sent: Sent = []
    with pytest.MonkeyPatch.context() as patch:  # undone before the sleeper ends
        patch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
        yield sent


class TestWhoMayBeHit:
    @pytest.mark.parametrize("text", ["-1", "0", "1", "-4711", "+7", "4711.0", "all", ""])
    def test_only_a_process_number_is_accepted(self, text: str, sent: Sent, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["fault", "freeze-holder", "redis", f"--pid={text}"]) == 2
        assert f"must be the number of your client's process, not {text!r}" in capsys.readouterr().err
        assert sent == []

    def test_this_command_and_its_parent_may_not_be_hit(self, sent: Sent) -> None:
        living = {pid for pid in (os.getpid(), os.getppid(), os.getpgrp()) if Path(f"/proc/{pid}").exists()}
        for pid in living - {0, 1}:  # whoever began our process group may have ended since
            with pytest.raises(UnknownName, match=f"process {pid} is this command, or runs it"):
                manual.pid(str(pid))
        assert {number for _, number in sent} <= {0}

    def test_the_grandparent_of_the_command_may_not_be_hit(self) -> None:
        code = f"from infra.faults import manual; manual.pid('{os.getpid()}')"
        run = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"
        done = subprocess.run([sys.executable, "-c", run, code], check=False, capture_output=True, text=True)
        assert f"process {os.getpid()} is this command, or runs it" in done.stderr

    def test_a_living_process_may_be_hit(self, sleeper: subprocess.Popen[bytes]) -> None:
        assert manual.pid(str(sleeper.pid)) == sleeper.pid
        sleeper.kill()
        sleeper.wait()
        with pytest.raises(UnknownName, match=f"there is no process {sleeper.pid}"):
            manual.pid(str(sleeper.pid))
        with pytest.raises(UnknownName, match="there is no process 9999999999999999999"):
            manual.pid("9999999999999999999")

    def test_one_of_ours(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: int) -> None:
            raise PermissionError

        monkeypatch.setattr(os, "kill", refuse)
        with pytest.raises(UnknownName, match="process 4711 is not ours to signal"):
            manual.pid("4711")


class TestOneProcess:
    def test_it_is_frozen_noted_and_thawed(self, sleeper: subprocess.Popen[bytes], sent: Sent) -> None:
        actors = OneProcess(sleeper.pid, 1.0, "env")
        actors.arm("by hand", FREEZE)
        assert len(list(frozen._noted("env"))) == 1
        actors.release_all()
        assert (sent, frozen._noted("env")) == ([(sleeper.pid, signal.SIGSTOP), (sleeper.pid, signal.SIGCONT)], [])

    def test_a_later_process_of_its_number_is_left_alone(
        self, sleeper: subprocess.Popen[bytes], sent: Sent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        actors = OneProcess(sleeper.pid, 1.0, "env")
        monkeypatch.setattr(owner, "_started", lambda _: "another time")
        with pytest.raises(Failed, match=f"process {sleeper.pid} has ended"):
            actors.arm("by hand", KILL)
        assert sent == []


class TestWhatCanBeDone:
    def check(self, fault: str, backend: str, *, movable: bool) -> None:
        cluster = SimpleNamespace(nodes=[SimpleNamespace(process=SimpleNamespace(has_clock=lambda: movable))])
        environment = SimpleNamespace(name="env", clusters={"redis": cluster}, cluster=lambda _: cluster)
        manual._check_possible(compile_plan([fault], 1, backend, 1.0), cast("Any", environment))

    def test_the_clocks_of_an_image_of_the_user_s_own_cannot_be_moved(self) -> None:
        self.check("clock-jump-back", "redis", movable=True)
        self.check("kill-server", "redis", movable=False)
        with pytest.raises(UnknownName, match=r"clock-jump-back does not apply to redis: .* an image of your own"):
            self.check("clock-jump-back", "redis", movable=False)

    def test_a_backend_that_is_not_there_is_brought_up_where_it_is_missing(self) -> None:
        with pytest.raises(UnknownName, match=r"etcd does not run in env; python -m infra up etcd --env env$"):
            self.check("kill-server", "etcd", movable=True)


class TestFrozen:
    def test_whoever_heals_finds_it(self, sleeper: subprocess.Popen[bytes]) -> None:
        OneProcess(sleeper.pid, 1.0, "env").arm("by hand", FREEZE)
        os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED)
        assert frozen.active("env") == [f"process {sleeper.pid} is frozen"]
        frozen.note("env.b", sleeper.pid)
        assert frozen.active("en") == frozen.active("another") == []
        frozen.thaw("another")
        frozen.thaw("env")
        os.waitid(os.P_PID, sleeper.pid, os.WCONTINUED)
        frozen.thaw("env")
        assert frozen.active("env") == []

    def test_one_that_goes_on_and_a_later_process_of_its_number_are_left_alone(
        self, sleeper: subprocess.Popen[bytes], sent: Sent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        frozen.note("env", sleeper.pid)
        assert frozen.active("env") == []
        monkeypatch.setattr(owner, "_started", lambda _: "another time")
        assert frozen.active("env") == []
        frozen.thaw("env")
        assert (sent, frozen._noted("env")) == ([], [])
