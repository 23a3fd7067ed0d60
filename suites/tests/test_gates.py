"""A gate does what it is armed for, once, and tells when and holding what."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from checkers.wire import Action, Gate
from suites import gates, recorder
from suites.gates import Gates, Position


def ALIVE() -> bool:  # noqa: N802
    return True


HELD = Position(owner=77, key=1, process=5)


@pytest.fixture
def page_path(tmp_path: Path) -> Path:
    path = tmp_path / "worker.rec"
    recorder.create(path, 1)
    return path


def test_an_unarmed_gate_lets_through(page_path: Path) -> None:
    page = recorder.map_page(page_path)
    Gates(page, lambda: HELD).reach(Gate.AFTER_ACQUIRE)
    assert gates.caught(page) is None


def test_another_gate_is_not_taken(page_path: Path) -> None:
    page = recorder.map_page(page_path)
    gates.arm(page, Gate.BEFORE_RELEASE, Action.KILL, ALIVE)
    Gates(page, lambda: HELD).reach(Gate.AFTER_ACQUIRE)
    assert gates.caught(page) is None


def test_a_stalled_thread_waits_until_disarmed(page_path: Path) -> None:
    page = recorder.map_page(page_path)
    gates.arm(page, Gate.BETWEEN_READ_AND_WRITE, Action.STALL, ALIVE)
    thread = threading.Thread(target=Gates(page, lambda: HELD).reach, args=(Gate.BETWEEN_READ_AND_WRITE,))
    before = time.monotonic_ns()
    thread.start()
    while (caught := gates.caught(page)) is None:
        time.sleep(0.001)
    assert caught.at >= before
    assert caught.position == HELD
    gates.disarm(page, ALIVE)
    assert thread.is_alive()
    gates.thaw(page)
    thread.join(timeout=5)
    assert not thread.is_alive()


@pytest.mark.parametrize(("action", "signalled"), [(Action.FREEZE, os.WIFSTOPPED), (Action.KILL, os.WIFSIGNALED)])
def test_a_process_is_frozen_or_killed_at_the_gate(page_path: Path, action: Action, signalled: object) -> None:
    page = recorder.map_page(page_path)
    gates.arm(page, Gate.AFTER_ACQUIRE, action, ALIVE)
    child = os.fork()
    if child == 0:
        Gates(recorder.map_page(page_path), lambda: HELD).reach(Gate.AFTER_ACQUIRE)
        os._exit(0)
    _, status = os.waitpid(child, os.WUNTRACED)
    assert callable(signalled)
    assert signalled(status)
    caught = gates.caught(page)
    assert caught is not None
    assert caught.position == HELD
    if action is Action.FREEZE:
        os.kill(child, signal.SIGCONT)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0


def test_a_thread_that_passes_by_does_not_hide_one_that_is_held(page_path: Path) -> None:
    page = recorder.map_page(page_path)
    worker = Gates(page, lambda: HELD)
    gates.arm(page, Gate.BETWEEN_READ_AND_WRITE, Action.STALL, ALIVE)
    thread = threading.Thread(target=worker.reach, args=(Gate.BETWEEN_READ_AND_WRITE,))
    thread.start()
    while gates.caught(page) is None:
        time.sleep(0.001)
    worker.reach(Gate.IN_RENEWAL)
    gates.thaw(page)
    gates.arm(page, Gate.BETWEEN_READ_AND_WRITE, Action.STALL, ALIVE)  # waits until the held thread has gone on
    thread.join(timeout=5)
    assert not thread.is_alive()
