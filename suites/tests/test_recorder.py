"""What is recorded is read back, from several threads and after SIGKILL. A gate does once what it is armed for."""

import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from checkers.history.history import read_recording
from checkers.row_format import NONE, Action, F, Gate, Outcome, Reason
from suites.lock import Grant
from suites.tests.bench import SOON, held
from suites.worker import gates, recorder
from suites.worker.gates import Gates
from suites.worker.pool import ROOT
from suites.worker.recorder import Recorder, RecordingFull


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "worker.rec"
    recorder.create(path, 1000)
    return path


def test_recordings_are_kept_in_memory_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    with recorder.folder() as folder:
        in_memory = Path(folder).parent == recorder.MEMORY
    assert in_memory == (shutil.disk_usage(recorder.MEMORY).free > recorder.ROOM)
    monkeypatch.setattr(recorder, "ROOM", 1 << 62)
    with recorder.folder() as folder:
        assert Path(folder).parent == Path(tempfile.gettempdir())


def test_every_field_of_a_grant_is_read_back(path: Path) -> None:
    record = Recorder(path)
    record.granted(record.invoke(F.ACQUIRE, 3, 2), Grant("", 1, 33, 11, 22, 99, 55), owner=44)
    (read,) = read_recording(path)
    expected = {"f": F.ACQUIRE, "process": 3, "key": 2, "sent": 11, "ttl": 22, "token": 33, "owner": 44, "session": 55}
    assert {name: read[name] for name in expected} == expected
    assert read["outcome"] == Outcome.OK
    assert 0 < read["inv"] <= read["ret"]
    record.granted(record.invoke(F.ACQUIRE, 0), Grant("", 1, None, 1, 1, 2), owner=1)
    assert read_recording(path)["token"].tolist() == [33, NONE]


def test_the_number_of_an_error_text_is_its_line_even_if_another_thread_is_faster(path: Path) -> None:
    writing, go_on = Event(), Event()

    def masked(text: str) -> str:
        if text == "slow":
            writing.set()
            go_on.wait()
        return text

    record = Recorder(path, masked)
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(record.note, "slow")
        writing.wait()
        quick = pool.submit(record.note, "quick")
        go_on.set()
    assert [recorder.read_errors(path)[number.result() - 1] for number in (slow, quick)] == ["slow", "quick"]


def test_outcomes_reasons_and_error_texts_are_read_back(path: Path) -> None:
    record = Recorder(path)
    record.ok(record.invoke(F.READ, 0, owner=1), value=7)
    record.fail(record.invoke(F.WRITE, 0, owner=1, value=8, base=7), Reason.STALE_TOKEN)
    record.info(record.invoke(F.RELEASE, 0, owner=1), "timed out\nat redis1")
    record.info(record.invoke(F.RELEASE, 4, owner=1), "timed out\nat redis1")
    rows = read_recording(path)
    assert rows["outcome"].tolist() == [Outcome.OK, Outcome.FAIL, Outcome.INFO, Outcome.INFO]
    assert rows["reason"].tolist() == [0, Reason.STALE_TOKEN, 0, 0]
    assert (rows["value"].tolist(), rows["error"].tolist()) == ([7, 8, NONE, NONE], [0, 0, 1, 1])
    assert recorder.read_errors(path) == ["timed out\\nat redis1"]


def test_what_was_invoked_survives_sigkill_as_pending(path: Path) -> None:
    program = (
        "import sys, os, signal\nfrom pathlib import Path\nfrom checkers.row_format import F\n"
        "from suites.worker.recorder import Recorder\nr = Recorder(Path(sys.argv[1]))\n"
        "r.ok(r.invoke(F.READ, 1), 5)\nr.invoke(F.WRITE, 1, value=6)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    assert read_recording(path)["outcome"].tolist() == [Outcome.OK, Outcome.PENDING]


def test_a_loss_says_when_it_was_due_even_if_the_worker_is_killed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Recorder(path)
    record.lost(3, 2, owner=44, token=33, due=11, sure=9)
    monkeypatch.setattr(Recorder, "_end", lambda *_: None)
    record.lost(3, 2, owner=44, token=33, due=11, sure=9)
    rows = read_recording(path)
    assert rows["outcome"].tolist() == [Outcome.OK, Outcome.PENDING]
    for name, value in {"f": F.LOST, "process": 3, "key": 2, "sent": 11, "token": 33, "owner": 44, "base": 9}.items():
        assert rows[name].tolist() == [value, value]


def test_threads_never_share_a_row(tmp_path: Path) -> None:
    path = tmp_path / "threads.rec"
    recorder.create(path, 8000)
    record = Recorder(path)

    def many(process: int) -> None:
        for value in range(2000):
            record.ok(record.invoke(F.WRITE, process, value=value))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(many, range(4)))
    rows = read_recording(path)
    assert {(row["process"], row["value"]) for row in rows} == {(p, v) for p in range(4) for v in range(2000)}
    assert (rows["outcome"] == Outcome.OK).all()


def test_a_full_recording_is_an_error_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "small.rec"
    recorder.create(path, 2)
    record = Recorder(path)
    for _ in range(2):
        record.invoke(F.READ, 0)
    with pytest.raises(RecordingFull, match="2 operations"):
        record.invoke(F.READ, 0)
    assert len(read_recording(path)) == 2


def test_the_worker_side_imports_where_nothing_is_installed() -> None:
    program = "import checkers.row_format, suites.worker.recorder, suites.worker.worker; print('ok')"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-S", "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "ok\n", done.stderr


HELD = (77, 1, 5)  # owner, key, process


@pytest.fixture
def page(path: Path) -> mmap.mmap:
    return recorder.map_page(path)


@contextmanager
def reaching(page: mmap.mmap, gate: Gate) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=Gates(page).reach, args=(gate, *HELD))
    thread.start()
    yield thread
    thread.join(SOON)
    assert not thread.is_alive()


@pytest.mark.parametrize("gate", Gate)
def test_a_gate_catches_only_who_holds_its_key_and_only_when_armed(page: mmap.mmap, gate: Gate) -> None:
    Gates(page).reach(gate, *HELD)
    for armed in set(Gate) - {gate}:
        gates.arm(page, armed, Action.KILL, lambda: True)
        Gates(page).reach(gate, *HELD)
    assert [each for each in Gate if gates.caught(page, each)] == []
    gates.arm(page, gate, Action.KILL, lambda: True, key=1)
    Gates(page).reach(gate, 0, 1, 5)
    Gates(page).reach(gate, 77, 0, 5)
    assert gates.caught(page, gate) is None
    gates.arm(page, gate, Action.CALL, lambda: True, key=1)
    Gates(page).reach(gate, 77, 1, 5)
    caught = held(page, gate)
    Gates(page).reach(gate, 77, 1, 5)
    assert gates.caught(page, gate) == caught, "only once"


@pytest.mark.parametrize("gate", Gate)
def test_a_stalled_thread_waits_until_it_is_thawed(page: mmap.mmap, gate: Gate) -> None:
    gates.arm(page, gate, Action.STALL, lambda: True)
    before = time.monotonic_ns()
    with reaching(page, gate) as thread:
        caught = held(page, gate)
        assert before <= caught.at <= time.monotonic_ns()
        assert (caught.owner, caught.key, caught.process) == HELD
        gates.disarm(page, gate, lambda: True)
        thread.join(timeout=0.05)
        assert thread.is_alive()
        assert not gates.thawed(page, gate)
        gates.thaw(page, gate)
    assert gates.thawed(page, gate)


def test_a_freeze_within_a_request_waits_for_the_request(path: Path) -> None:
    page = recorder.map_page(path)
    gates.arm(page, Gate.BEFORE_RELEASE, Action.FREEZE, lambda: True, seconds=0.05)
    child = os.fork()
    if child == 0:
        mine = Gates(recorder.map_page(path))
        mine.reach(Gate.BEFORE_RELEASE, *HELD)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})
        time.sleep(0.1)  # the machine does not run it for longer than the freeze waits
        asked = time.monotonic_ns()
        mine.asks()
        signal.sigtimedwait({signal.SIGCONT}, 60)  # frozen meanwhile
        caught = gates.caught(page, Gate.BEFORE_RELEASE)
        os._exit(caught is None or caught.at < asked + 50_000_000)
    _, status = os.waitpid(child, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    os.kill(child, signal.SIGCONT)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


class TestTwoThreads:
    def test_both_are_held_at_once_and_each_is_let_go_by_itself(self, page: mmap.mmap) -> None:
        gates.arm(page, Gate.AFTER_ACQUIRE, Action.STALL, lambda: True)
        with reaching(page, Gate.AFTER_ACQUIRE) as main:
            held(page, Gate.AFTER_ACQUIRE)
            gates.disarm(page, Gate.AFTER_ACQUIRE, lambda: True)
            gates.arm(page, Gate.IN_RENEWAL, Action.STALL, lambda: True)
            with reaching(page, Gate.IN_RENEWAL):
                held(page, Gate.IN_RENEWAL)
                gates.disarm(page, Gate.IN_RENEWAL, lambda: True)
                gates.thaw(page, Gate.IN_RENEWAL)
            assert main.is_alive()
            assert gates.caught(page, Gate.AFTER_ACQUIRE) is not None
            gates.thaw(page, Gate.AFTER_ACQUIRE)

    @pytest.mark.parametrize("gate", [Gate.AFTER_ACQUIRE, Gate.BETWEEN_READ_AND_WRITE, Gate.BEFORE_RELEASE])
    def test_a_passing_thread_does_not_hide_the_held_one(self, page: mmap.mmap, gate: Gate) -> None:
        gates.arm(page, gate, Action.STALL, lambda: True)
        with reaching(page, gate):
            held(page, gate)
            Gates(page).reach(Gate.IN_RENEWAL, *HELD)
            gates.thaw(page, gate)
            gates.arm(page, gate, Action.STALL, lambda: True)  # waits until the held thread has gone on
        assert gates.caught(page, gate) is None
