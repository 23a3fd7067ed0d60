"""Workers end with the process that started them, break the trial loudly, and are replaced under new numbers."""

import os
import re
import signal
import sys
import venv
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from zipfile import ZipFile

import psycopg
import pytest

from checkers import row_format
from checkers.history.history import read_recording
from checkers.row_format import Action, Command, F, Gate, Outcome, Reason, State
from checkers.tests.build import cases, message_of, there
from suites.lanes.lane import lanes_of
from suites.lock import Grant, now
from suites.locks import registry
from suites.locks.antipatterns.tutorial import SetnxNoTtl
from suites.selection.trial import Trial
from suites.tests.bench import LANE, MODULE, SOON, await_gone, gone, running, specs, worked
from suites.tests.selections import lock_file
from suites.trial import lane_history
from suites.trial.worker_control import WorkerControl
from suites.worker import python_environment, recorder
from suites.worker.forkserver import NICE, in_a_line
from suites.worker.pool import ROOT, ForkServer, Handle, TrialBroke, WorkerBroke

HARNESS = """
import os, signal, sys, time
from contextlib import closing
from suites.tests.bench import MODULE, SOON, specs
from suites.worker.pool import ForkServer
from checkers.row_format import Command, State
with closing(ForkServer([f"{MODULE}:Free"])) as server:
    handles = server.spawn(specs(sys.argv[1], "Free"))
    server.await_state(handles, State.READY, SOON)
    for handle in handles[1:]:
        handle.ask(Command.GO)
    server.await_state(handles[1:], State.RUNNING, SOON)
    os.kill(handles[-1].pid, signal.SIGSTOP)
    server.await_condition(handles[-1].frozen, SOON)
    print(server._forks[0].process.pid, *(handle.pid for handle in handles), flush=True)
    sys.stdin.read()
"""  # prints the pids of the fork server and of a waiting, a working and a frozen worker; ends with its input
MINE = f"from {MODULE} import Free\n\n\nclass Mine(Free): ...\n"
NO_TOKEN = "BadGrant: BadToken.acquire returned a Grant whose token is 'tok-1' (str): an int from 0 to "


@pytest.fixture
def server() -> Iterator[ForkServer]:
    with closing(ForkServer([f"{MODULE}:Free"])) as server:
        yield server


def test_workers_have_a_lower_priority_than_the_harness_and_the_fork_server(server: ForkServer, tmp_path: Path) -> None:
    (worker, *_) = running(server, tmp_path)
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, server._forks[0].process.pid) == mine
    assert os.getpriority(os.PRIO_PROCESS, worker.pid) == min(mine + NICE, 19)


def run_on(server: ForkServer, folder: Path, lock: str) -> None:
    running(server, folder, lock)
    server.await_condition(lambda: False, SOON)


@pytest.mark.usefixtures("interruptible")
class TestTheirEnd:
    @pytest.mark.parametrize("how", [signal.SIGKILL, None])
    def test_workers_end_with_the_harness_however_it_ends(self, tmp_path: Path, how: signal.Signals | None) -> None:
        command = [sys.executable, "-c", HARNESS, str(tmp_path)]
        with Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True) as harness:
            pids = [int(pid) for pid in there(harness.stdout).readline().split()]
            assert len(pids) == 4
            assert not any(gone(pid) for pid in pids)
            if how is None:
                there(harness.stdin).close()
            else:
                harness.send_signal(how)
            harness.wait(SOON)
        await_gone(pids)

    @pytest.mark.parametrize("closed", [False, True])
    def test_workers_end_with_the_fork_server_and_its_death_is_reported(self, tmp_path: Path, closed: bool) -> None:
        server = ForkServer([f"{MODULE}:Free"])
        handles = running(server, tmp_path)
        handles[0].signal(signal.SIGSTOP)
        end = server.close if closed else server._forks[0].process.kill
        end()
        await_gone([handle.pid for handle in handles if closed or handle.spec.number % 2 == 0])
        calls = (lambda: server.await_condition(lambda: False, SOON), lambda: server.spawn([handles[0].spec]))
        for call in () if closed else calls:
            with pytest.raises(TrialBroke, match="the fork server ended with status -9"):
                call()
        server.close()
        await_gone([handle.pid for handle in handles])

    def test_workers_end_when_they_are_asked(self, server: ForkServer, tmp_path: Path) -> None:
        handles = running(server, tmp_path)
        assert server.await_condition(lambda: all(worked(handle) for handle in handles), SOON)
        assert server.finish(handles, SOON) == []
        assert [(handle.exited, handle.state) for handle in handles] == [(0, State.DONE)] * 3
        assert server.handles == {}
        for handle in handles:
            assert set(read_recording(handle.spec.recording)["outcome"]) == {Outcome.OK}

    def test_a_worker_that_does_not_end_is_killed_and_named(self, server: ForkServer, tmp_path: Path) -> None:
        first, second, third = running(server, tmp_path)
        for handle in (first, second):
            handle.signal(signal.SIGSTOP)
        assert server.await_condition(lambda: first.frozen() and second.frozen(), SOON)
        first.ask(Command.FINISH)
        os.kill(first.pid, signal.SIGKILL)
        assert server.finish([first, third], SOON) == [first], "somebody else killed it"
        assert server.finish([second], 0.1) == [second]
        assert (first.killed, second.killed) == (False, True)
        await_gone([second.pid])


class TestABug:
    @pytest.mark.parametrize("lock", ["BreaksInOpen", "BreaksInRelease", "BreaksInRenew"])
    def test_a_bug_of_the_adapter_breaks_the_trial(self, server: ForkServer, tmp_path: Path, lock: str) -> None:
        place = lock.removeprefix("BreaksIn").lower()
        with pytest.raises(WorkerBroke) as caught:
            run_on(server, tmp_path, lock)
        first, *rest = str(caught.value).splitlines()
        told = rf"worker [012] of {LANE} broke: LookupError: planted in {place} \(standin.py:\d+, in {place}\)"
        assert re.fullmatch(told, first)
        assert caught.value.lanes == {LANE}
        assert rest[0] == "Traceback (most recent call last):"
        assert any(f"in {place}" in line and "standin.py" in line for line in rest)
        assert f"LookupError: planted in {place}" in rest

    @cases("lock, told", ("it exits", "Exits", "SystemExit: 3"), ("no token", "BadToken", NO_TOKEN))
    def test_exits_and_bad_tokens_break_a_trial(self, server: ForkServer, tmp_path: Path, lock: str, told: str) -> None:
        assert message_of(WorkerBroke, run_on, server, tmp_path, lock).partition(" broke: ")[2].startswith(told)

    def test_an_unexpected_death_of_a_worker_breaks_the_trial(self, server: ForkServer, tmp_path: Path) -> None:
        os.kill(running(server, tmp_path)[2].pid, signal.SIGKILL)
        with pytest.raises(WorkerBroke, match=r"worker 2 of .* broke: exit status -9$"):
            server.await_condition(lambda: False, SOON)

    def test_a_worker_that_does_not_get_ready_is_named(self, server: ForkServer, tmp_path: Path) -> None:
        handles = server.spawn(specs(str(tmp_path), "Free"))
        with pytest.raises(WorkerBroke, match=r"these are not yet: worker 0 of .*, worker 1 of") as caught:
            server.await_state(handles, State.RUNNING, 0.5)
        assert caught.value.lanes == {LANE}

    @cases(
        "error, told",
        ("two lines", ValueError("one\ntwo"), "ValueError: one"),
        ("no text", KeyError("k"), "KeyError: 'k'"),
        ("an empty line", OSError("\n  late"), "OSError: late"),
        ("nothing", SystemExit(), "SystemExit"),
    )
    @pytest.mark.parametrize("lock", ["redis", "no.such.module:Lock"])
    def test_an_error_outside_the_locks_files_names_no_place(self, error: BaseException, told: str, lock: str) -> None:
        with pytest.raises(type(error)) as caught:
            raise error
        assert in_a_line(caught.value, lock) == told

    def test_an_error_in_an_inherited_method_names_the_file_of_the_base_class(self, tmp_path: Path) -> None:
        lock = f"from {MODULE} import BreaksInRelease\n\n\nclass Mine(BreaksInRelease):\n"
        lock += "    def release(self, grant):\n        super().release(grant)\n"
        spelling = registry.spelling(lock_file(tmp_path, lock))
        told = r"LookupError: planted in release \(standin.py:\d+, in release\)\n"
        with closing(ForkServer([spelling])) as server, pytest.raises(WorkerBroke, match=told):
            run_on(server, tmp_path, spelling)

    @pytest.mark.parametrize("text", ["a\\nb", "a\nb", "\\\\n", "C:\\new\n", "\\"])
    def test_the_text_of_an_error_is_read_as_it_was_written(self, tmp_path: Path, text: str) -> None:
        (spec, *_) = specs(str(tmp_path), "Free")
        recorder.create(spec.recording, 1)
        record = recorder.Recorder(spec.recording)
        record.note(text)
        record.page[row_format.STATE] = State.BROKEN
        assert Handle(spec, 1, record.page).reason() == text.rstrip()


class TestAnotherInterpreter:
    @pytest.fixture
    def environment(self, tmp_path: Path) -> Path:
        """A virtual environment with a library that ours does not have, and without psycopg."""
        venv.create(tmp_path / "venv", symlinks=True)
        (site,) = (tmp_path / "venv" / "lib").glob("*/site-packages")
        (site / "only_there.py").write_text("__version__ = '7.1'")
        return tmp_path / "venv"

    def test_own_libraries_are_used(self, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(python_environment.BadInterpreter, match="workers need psycopg there"):
            python_environment.ask(str(environment))
        (site,) = (environment / "lib").glob("*/site-packages")
        (site / "ours.pth").write_text(str(Path(psycopg.__file__).parents[1]))
        python = python_environment.ask(str(environment))
        assert (python.path, python.no_skew) == (str(environment / "bin" / "python"), "")
        assert python_environment.ask(python.path) == python
        monkeypatch.setattr(sys, "path", [*sys.path])
        python.lend()
        lock = registry.spelling(lock_file(tmp_path, f"import only_there\n{MINE}"))
        with closing(ForkServer([lock], [python.path])) as server:
            running(server, tmp_path, lock)
            assert server.clients["only_there"] == "7.1"

    def test_interpreters_may_differ_in_library_releases(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for version in ("1.0", "2.0.1", "2.0.2"):
            name = f"a_client-{version}"
            with ZipFile(tmp_path / f"{name}-py3-none-any.whl", "w") as wheel:
                wheel.writestr("a_client.py", "")
                wheel.writestr(f"{name}.dist-info/METADATA", f"Name: a-client\nVersion: {version}")
                wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any")
                wheel.writestr(f"{name}.dist-info/RECORD", "")
        settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": tmp_path, "XDG_CACHE_HOME": tmp_path / "cache"}
        for setting, value in settings.items():
            monkeypatch.setenv(setting, str(value))
        ours = python_environment.ask(sys.executable)
        old, new = (python_environment.with_libraries(ours, {"a-client": release}) for release in ("1.0", "2.0"))
        assert [each.release("a-client") for each in (ours, old, new)] == ["", "1.0", "2.0.2"]
        assert new.modules("a-client") == {"a_client"}
        assert new == python_environment.with_libraries(ours, {"a-client": "2.0"})
        missing = r"a-client==3.\*: .*No matching distribution found"
        with pytest.raises(python_environment.BadInterpreter, match=missing):
            python_environment.with_libraries(ours, {"a-client": "3"})
        assert len([*(tmp_path / "cache").glob("fencepost/libraries/*")]) == 2
        lock = registry.spelling(lock_file(tmp_path, f"import a_client\n{MINE}"))
        with closing(ForkServer([lock], [old.path, new.path])) as server:
            workers = running(server, tmp_path, lock)
            assert server.clients["a_client"] == "1.0, 2.0.2"
            parents = [Path(f"/proc/{worker.pid}/stat").read_text().split()[3] for worker in workers]
            forks = [str(mine.process.pid) for mine in server._forks]
            assert parents == [forks[worker.spec.number % 2] for worker in workers]


class TestReplacement:
    def test_the_dead_get_successors_under_new_process_numbers(self, server: ForkServer, tmp_path: Path) -> None:
        handles = running(server, tmp_path)
        control = WorkerControl(server, {"lane": handles}, ttl=0.3)
        killed = handles[1]
        assert server.await_condition(lambda: worked(killed), SOON)
        server.kill(killed)
        assert server.await_condition(lambda: killed.exited is not None, SOON)
        control.fill_up()
        assert [(handle.spec.number, handle.spec.generation) for handle in handles] == [(0, 0), (1, 0), (2, 0), (1, 1)]
        assert server.await_condition(lambda: worked(handles[3]), SOON)
        control.fill_up()
        assert len(handles) == 4, "nobody died since"
        server.finish(handles, SOON)
        of = [set(read_recording(handle.spec.recording)["process"].tolist()) for handle in handles]
        assert of[1] <= {1, 4}
        assert of[3].isdisjoint(of[1])
        assert {process % 3 for process in of[3]} == {1}

    def test_a_death_for_which_the_machine_took_long_is_a_stall(self, tmp_path: Path) -> None:
        spec = specs(str(tmp_path), "Free")[1]
        recorder.create(spec.recording, 10)
        handle = Handle(spec, 0, recorder.map_page(spec.recording), ended=2_000_000_000)
        assert len(lane_history._dying(handle)) == 0, "it ended by itself"
        handle.page[row_format.RENEWAL + row_format.ARMED_ACTION] = Action.KILL
        row_format.reach(handle.page, row_format.RENEWAL, Gate.AFTER_RENEWAL, 500_000_000, 77, 0, 4)
        [row] = lane_history._dying(handle)
        assert [row[name] for name in ("f", "inv", "ret", "process")] == [F.STALL, 500_000_000, 2_000_000_000, 1]
        handle.ended = 510_000_000
        assert len(lane_history._dying(handle)) == 0, "it ended at once"
        handle.exited = -signal.SIGKILL
        row_format.WORD.pack_into(handle.page, row_format.ALIVE, 200_000_000)
        assert lane_history._dying(handle)["inv"] == [200_000_000], "its sentinel was silent before it came by the gate"

    def test_the_silence_of_a_sentinel_before_a_kill_is_a_stall(self, server: ForkServer, tmp_path: Path) -> None:
        killed, stopped, _ = handles = running(server, tmp_path)
        assert server.await_condition(lambda: bool(row_format.word(stopped.page, row_format.ALIVE)), SOON)
        stopped.signal(signal.SIGSTOP)
        assert server.await_condition(stopped.frozen, SOON)
        silent = row_format.word(stopped.page, row_format.ALIVE)
        assert server.await_condition(lambda: now() - silent > 500_000_000, SOON)
        for handle in (killed, stopped):
            server.kill(handle)
        assert server.await_condition(lambda: killed.exited is not None and stopped.exited is not None, SOON)
        [row] = lane_history._dying(stopped)
        assert (row["f"], row["ret"]) == (F.STALL, stopped.ended)
        assert silent <= row["inv"] < stopped.ended - 150_000_000
        server.finish(handles, SOON)

    def test_a_lane_goes_on_when_each_of_its_keys_was_granted_since(self, tmp_path: Path) -> None:
        """A lock that nobody frees any more must not be overlooked while work goes on under another key."""
        (spec, *_) = specs(str(tmp_path), "Free")
        (lane, *_) = lanes_of("redis", registry.load("redis"))
        recorder.create(spec.recording, 10)
        running = lane_history.RunningLane(lane, spec.keys, [Handle(spec, 0, recorder.map_page(spec.recording))])
        record = recorder.Recorder(spec.recording)

        def granted(key: int) -> int:
            return record.granted(record.invoke(F.ACQUIRE, 0, key), Grant("", 1, None, 1, 1, 2), owner=1)

        assert not running.granted_since(0)
        first = granted(0)
        granted(0)
        assert not running.granted_since(0)
        granted(1)
        assert running.granted_since(0)
        assert running.granted_since(first), "the other grant of the first key came later"
        record.invoke(F.ACQUIRE, 0, 1)
        assert not running.granted_since(granted(0))
        assert running.answered_since(0)
        record.fail(record.invoke(F.ACQUIRE, 0, 1), Reason.UNAVAILABLE, "")
        assert not running.answered_since(0)
        record.info(record.invoke(F.ACQUIRE, 0, 1, ttl=5), "it had no time for an answer")
        assert not running.answered_since(0)
        assert running.answered_since(granted(0))

        running.lane = next(lanes_of("it", SetnxNoTtl))
        trials = (Trial("redis", name, 1, (running.lane,)) for name in ("none", "kill-holder"))
        begun = [lane_history.warm(trial, running) for trial in trials]
        assert begun == [True, False], "after the kill nobody is granted it: updates must come before"
