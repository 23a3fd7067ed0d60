"""A gate does what it is armed for, once, to a thread that holds, and tells when and holding what."""

import mmap
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from checkers.row_format import Action, Gate
from suites.tests.bench import alive, held
from suites.worker import gates, recorder
from suites.worker.gates import Gates

HELD = (77, 1, 5)  # owner, key, process
MAIN = (Gate.AFTER_ACQUIRE, Gate.BETWEEN_READ_AND_WRITE, Gate.BEFORE_RELEASE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "worker.rec"
    recorder.create(path, 1)
    return path


@pytest.fixture
def page(path: Path) -> mmap.mmap:
    return recorder.map_page(path)


@contextmanager
def reaching(page: mmap.mmap, gate: Gate) -> Iterator[threading.Thread]:
    """A thread of the worker that comes by the gate; it must have gone on at the end."""
    thread = threading.Thread(target=Gates(page).reach, args=(gate, *HELD))
    thread.start()
    yield thread
    thread.join(timeout=5)
    assert not thread.is_alive()


@pytest.mark.parametrize("gate", Gate)
def test_a_gate_catches_only_who_holds_its_key_and_only_when_armed(page: mmap.mmap, gate: Gate) -> None:
    Gates(page).reach(gate, *HELD)
    for armed in set(Gate) - {gate}:
        gates.arm(page, armed, Action.KILL, alive)
        Gates(page).reach(gate, *HELD)
    assert [each for each in Gate if gates.caught(page, each)] == []
    gates.arm(page, gate, Action.KILL, alive, key=1)
    Gates(page).reach(gate, 0, 1, 5)
    Gates(page).reach(gate, 77, 0, 5)
    assert gates.caught(page, gate) is None
    gates.arm(page, gate, Action.CALL, alive, key=1)
    Gates(page).reach(gate, 77, 1, 5)
    assert gates.caught(page, gate) is not None


@pytest.mark.parametrize("gate", Gate)
def test_a_stalled_thread_waits_until_it_is_thawed(page: mmap.mmap, gate: Gate) -> None:
    gates.arm(page, gate, Action.STALL, alive)
    before = time.monotonic_ns()
    with reaching(page, gate) as thread:
        caught = held(page, gate)
        assert before <= caught.at <= time.monotonic_ns()
        assert (caught.owner, caught.key, caught.process) == HELD
        gates.disarm(page, gate, alive)
        thread.join(timeout=0.05)
        assert thread.is_alive()
        assert not gates.thawed(page, gate)
        gates.thaw(page, gate)
    assert gates.thawed(page, gate)


@pytest.mark.parametrize("thawed", [False, True])
def test_a_call_ends_by_itself_after_its_time_unless_it_is_thawed(page: mmap.mmap, thawed: bool) -> None:
    gates.arm(page, Gate.AFTER_ACQUIRE, Action.CALL, alive, seconds=3600 if thawed else 0.2)
    with reaching(page, Gate.AFTER_ACQUIRE):
        caught = held(page, Gate.AFTER_ACQUIRE)
        if thawed:
            gates.thaw(page, Gate.AFTER_ACQUIRE)
    assert thawed or time.monotonic_ns() >= caught.at + 200_000_000
    Gates(page).reach(Gate.AFTER_ACQUIRE, *HELD)  # only once


def test_a_freeze_within_a_request_waits_for_the_request(path: Path) -> None:
    page = recorder.map_page(path)
    gates.arm(page, Gate.BEFORE_RELEASE, Action.FREEZE, alive, seconds=0.05)
    child = os.fork()
    if child == 0:
        mine = Gates(recorder.map_page(path))
        mine.reach(Gate.BEFORE_RELEASE, *HELD)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCONT})
        time.sleep(0.1)  # a machine that does not run it for longer than the freeze is to wait
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
    """The renewal comes by its gate whatever the main thread does at its own."""

    def test_both_are_held_at_once_and_each_is_let_go_by_itself(self, page: mmap.mmap) -> None:
        gates.arm(page, Gate.AFTER_ACQUIRE, Action.STALL, alive)
        with reaching(page, Gate.AFTER_ACQUIRE) as main:
            held(page, Gate.AFTER_ACQUIRE)
            gates.disarm(page, Gate.AFTER_ACQUIRE, alive)
            gates.arm(page, Gate.IN_RENEWAL, Action.STALL, alive)
            with reaching(page, Gate.IN_RENEWAL):
                held(page, Gate.IN_RENEWAL)
                gates.disarm(page, Gate.IN_RENEWAL, alive)
                gates.thaw(page, Gate.IN_RENEWAL)
            assert main.is_alive()
            assert gates.caught(page, Gate.AFTER_ACQUIRE) is not None
            gates.thaw(page, Gate.AFTER_ACQUIRE)

    @pytest.mark.parametrize("gate", MAIN)
    def test_a_passing_thread_does_not_hide_the_held_one(self, page: mmap.mmap, gate: Gate) -> None:
        gates.arm(page, gate, Action.STALL, alive)
        with reaching(page, gate):
            held(page, gate)
            Gates(page).reach(Gate.IN_RENEWAL, *HELD)
            gates.thaw(page, gate)
            gates.arm(page, gate, Action.STALL, alive)  # waits until the held thread has gone on
        assert gates.caught(page, gate) is None
