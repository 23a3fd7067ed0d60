"""The tap between a worker and its server: what it counts, and what it does at the n-th message."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from checkers import row_format
from checkers.row_format import MAIN, Action, F, Gate
from infra.backends import BACKENDS
from infra.faults.link_probe import EVERY, PATIENCE, Prober, Watch
from suites.tests.bench import SOON, await_, gone, held
from suites.worker import gates, recorder
from suites.worker.message_tap import TappedWorker, Taps
from suites.worker.pool import Handle
from suites.worker.process_spec import Spec

GIVES_UP = """
import signal, time
signal.signal(signal.SIGUSR1, lambda *_: print("told to give up", flush=True))
print("ready", flush=True)
time.sleep(600)
"""


class Server:
    """Answers each line in capitals; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.left = 0  # how many connections have ended
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._answer, args=(self._listener.accept()[0],), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb", buffering=0) as lines, contextlib.suppress(OSError):
            for line in lines:
                self.asked.append(line.strip())
                lines.write(line.upper())
        self.left += 1

    def close(self) -> None:
        self._listener.close()


@dataclass
class Tapped:
    """A worker as the tap knows it: its control page, the process that is frozen or killed, and its connection."""

    record: recorder.Recorder
    handle: Handle
    process: subprocess.Popen[str]
    server: Server
    client: socket.socket

    def ask(self, text: bytes) -> bytes:
        """The answer, b"" for a connection that was closed."""
        self.client.sendall(text + b"\n")
        return self.hear()

    def hear(self) -> bytes:
        return self.client.recv(100).strip()

    def begins(self, f: F = F.RELEASE, key: int = 0) -> None:
        self.record.asks(self.record.invoke(f, process=7, key=key, owner=5))

    def arm(self, gate: Gate, action: Action, message: int, verb: F = F.RELEASE) -> None:
        gates.arm(self.handle.page, gate, action, lambda: True, verb=verb, message=message)

    def begins_under(self, gate: Gate, action: Action, message: int, verb: F = F.RELEASE) -> None:
        self.arm(gate, action, message, verb)
        self.begins(verb)

    def caught(self, gate: Gate = Gate.AT_ANSWER) -> bool:
        return gates.caught(self.handle.page, gate) is not None


@pytest.fixture
def tapped(spec: Spec) -> Iterator[Tapped]:
    server, taps = Server(), Taps()
    recorder.create(spec.recording, 100)
    record = recorder.Recorder(spec.recording)
    process = subprocess.Popen([sys.executable, "-c", GIVES_UP], stdout=subprocess.PIPE, text=True)
    row_format.WORD.pack_into(record.page, row_format.PID, process.pid)
    (endpoint,) = taps.endpoints((server.endpoint,), "redis", spec)
    host, _, port = endpoint.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=SOON) as client:
            yield Tapped(record, Handle(spec, process.pid, record.page), process, server, client)
    finally:
        process.kill()
        process.communicate()
        taps.close()
        server.close()


def test_the_tap_passes_everything_on_and_counts_the_messages_of_each_verb(tapped: Tapped) -> None:
    assert tapped.ask(b"before") == b"BEFORE"  # belongs to no verb
    for number in range(3):
        tapped.begins()
        assert [tapped.ask(b"a"), *([tapped.ask(b"b")] if number else [])][0] == b"A"
    places = [row_format.messages_at(F.RELEASE, number) for number in (1, 2, 3)]
    assert [row_format.COUNT.unpack_from(tapped.handle.page, at)[0] for at in places] == [3, 2, 0]


def test_a_watch_through_the_tap_shows_when_the_machine_does_not_run_the_tap() -> None:
    server, taps = Server(), Taps()
    ways = taps.endpoints((server.endpoint, server.endpoint))
    watch = Watch(Prober(BACKENDS["etcd"]), ways)  # answers are not in its protocol, which the tap of a worker expects
    try:
        watch.begin()
        await_(lambda: len(server.asked) > 2)
        taps.process.send_signal(signal.SIGSTOP)
        time.sleep(EVERY + 2 * PATIENCE)
        taps.process.send_signal(signal.SIGCONT)
        await_(lambda: bool(watch.silences))
        watch.end()
    finally:
        taps.close()
        server.close()


def test_the_worker_is_frozen_when_the_message_is_on_its_way(tapped: Tapped) -> None:
    tapped.begins_under(Gate.AT_ANSWER, Action.FREEZE, message=2)
    assert tapped.ask(b"a") == b"A"
    assert not tapped.caught()
    assert tapped.ask(b"b") == b"B"  # the worker has the message to read when it goes on
    assert tapped.handle.frozen()
    caught = held(tapped.handle.page, Gate.AT_ANSWER)
    assert (caught.owner, caught.key, caught.process) == (5, 0, 7)


def test_a_thawed_worker_may_go_on_even_if_the_gate_is_armed_again(tapped: Tapped) -> None:
    worker = TappedWorker(str(tapped.handle.spec.recording).removesuffix(".0.rec"))
    worker.connects()
    assert worker.let_go(MAIN)
    tapped.begins_under(Gate.AT_ANSWER, Action.FREEZE, message=1)
    tapped.ask(b"a")
    assert not worker.let_go(MAIN)
    gates.thaw(tapped.handle.page, Gate.AT_ANSWER)
    assert worker.let_go(MAIN)
    tapped.arm(Gate.AT_ANSWER, Action.FREEZE, message=2)
    assert worker.let_go(MAIN)


@pytest.mark.parametrize("other", ["verb", "key", "number", "nothing asked"])
def test_nothing_is_done_at_another_message(tapped: Tapped, other: str) -> None:
    message = 3 if other == "number" else 1
    key = 1 if other == "key" else row_format.NONE
    gates.arm(tapped.handle.page, Gate.AT_ANSWER, Action.RESET, lambda: True, key=key, verb=F.RELEASE, message=message)
    if other != "nothing asked":
        tapped.begins(F.ACQUIRE if other == "verb" else F.RELEASE)
    assert [tapped.ask(b"a"), tapped.ask(b"b")] == [b"A", b"B"]
    assert not tapped.caught()


def test_a_message_is_lost_and_the_next_request_wherever_it_is_sent(tapped: Tapped) -> None:
    tapped.begins_under(Gate.AT_ANSWER, Action.LOSE, message=1)
    tapped.client.sendall(b"a\n")
    await_(tapped.caught)
    tapped.client.settimeout(0.2)
    with pytest.raises(TimeoutError):
        tapped.hear()
    tapped.client.settimeout(SOON)
    for again in (b"b", b"c"):
        with socket.create_connection(tapped.client.getpeername(), timeout=SOON) as other:
            other.sendall(again + b"\n")
            if again == b"b":
                with pytest.raises(ConnectionResetError):
                    other.recv(100)
            else:
                assert other.recv(100) == b"C\n"
    assert tapped.server.asked == [b"a", b"c"]
    tapped.begins()
    with pytest.raises(ConnectionResetError):
        tapped.hear()


def test_a_connection_is_reset_in_place_of_a_message(tapped: Tapped) -> None:
    tapped.begins_under(Gate.AT_ANSWER, Action.RESET, message=1)
    with pytest.raises(ConnectionResetError):
        tapped.ask(b"a")


def test_the_worker_is_killed(tapped: Tapped) -> None:
    tapped.begins_under(Gate.AT_ANSWER, Action.KILL, message=1)
    tapped.ask(b"a")
    await_(lambda: gone(tapped.handle.pid))


def test_a_worker_that_must_give_up_gets_the_message_once_it_is_thawed(tapped: Tapped) -> None:
    assert tapped.process.stdout is not None
    assert tapped.process.stdout.readline() == "ready\n"
    tapped.begins_under(Gate.AT_ANSWER, Action.CANCEL, message=1, verb=F.ACQUIRE)
    tapped.client.sendall(b"a\n")
    assert tapped.process.stdout.readline() == "told to give up\n"
    assert tapped.caught()
    tapped.client.settimeout(0.2)
    with pytest.raises(TimeoutError):
        tapped.hear()
    gates.thaw(tapped.handle.page, Gate.AT_ANSWER)
    tapped.client.settimeout(SOON)
    assert tapped.hear() == b"A"


@pytest.mark.parametrize("hangs_up", [False, True])
def test_a_request_comes_late_whether_somebody_waits_for_its_answer_or_not(tapped: Tapped, hangs_up: bool) -> None:
    tapped.begins_under(Gate.AT_REQUEST, Action.LATE, message=2)
    assert tapped.ask(b"a") == b"A"
    tapped.client.sendall(b"b\nc\n")
    await_(lambda: tapped.caught(Gate.AT_REQUEST))
    if hangs_up:
        tapped.client.close()
    assert tapped.server.asked == [b"a"]
    gates.thaw(tapped.handle.page, Gate.AT_REQUEST)
    await_(lambda: tapped.server.asked == [b"a", b"b", b"c"])
    assert hangs_up or tapped.hear().startswith(b"B")


def test_the_bytes_of_a_client_that_hangs_up_early_still_reach_the_server(tapped: Tapped) -> None:
    for _ in range(30):
        with socket.create_connection(tapped.client.getpeername(), timeout=SOON) as client:
            client.sendall(b"a\n")
    await_(lambda: tapped.server.left == 30)
    assert tapped.server.asked == [b"a"] * 30


def test_the_tap_knows_the_successor_of_a_worker_by_its_new_connection(tapped: Tapped, spec: Spec) -> None:
    successor = replace(spec, generation=spec.generation + 1)
    recorder.create(successor.recording, 100)
    record = recorder.Recorder(successor.recording)
    with socket.create_connection(tapped.client.getpeername(), timeout=SOON) as client:
        record.asks(record.invoke(F.RELEASE, process=8))
        client.sendall(b"a\n")
        assert client.recv(100) == b"A\n"
    assert row_format.COUNT.unpack_from(record.page, row_format.messages_at(F.RELEASE, 1))[0] == 1
    assert row_format.word(tapped.handle.page, MAIN + row_format.CURRENT) == 0
