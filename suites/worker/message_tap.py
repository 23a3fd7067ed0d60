"""The tap: a process between the workers of a trial and their links, which counts requests and answers of each verb.

A worker says in its control page which request for a lock each of its threads has under way (`row_format.CURRENT`), so
the tap knows to which verb a message belongs, whatever client library sent it. The harness arms a gate AT_REQUEST or
AT_ANSWER in that page. The tap does the action exactly at the n-th message of a verb, since no message gets past the
tap. It writes the worker's part of the page (see `suites.worker.gates`): who was caught, and when.

It speaks one JSON object a line: ``{"recording": ..., "nodes": [...], "backend": ...}`` is answered with the endpoints
to give to that worker. It ends when its standard input closes. Run as ``python -m suites.worker.message_tap``.
"""

import asyncio
import contextlib
import functools
import json
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

from checkers import row_format
from checkers.row_format import MAIN, RENEWAL, Action, F, Gate
from infra.backends import BACKENDS
from infra.backends.messages import PUSHED, InTurns, Messages
from suites.worker.pool import ROOT, state_of
from suites.worker.process_spec import Spec
from suites.worker.recorder import map_page

_LOOK: Final = 0.005  # seconds between checks whether a held request may go on, or a process has been stopped
_RESETS: Final = struct.pack("ii", 1, 0)  # SO_LINGER: a socket that is closed with it resets its connection


class TappedWorker:
    """The control page of a worker, and the messages counted for each of its threads.

    recording: the common beginning of the names of the recordings of the worker and of those that replace it.
    """

    def __init__(self, recording: str) -> None:
        self._recording = recording
        self._generation = -1
        self._page: mmap.mmap
        self._counts: dict[int, list[int]] = {}
        """Thread → the row of its request for a lock, how many messages it sent and got in that request, and whether
        the next one that it sends is lost."""

    def connects(self) -> None:
        """Called when a worker connects, which may be a new one in the place of a dead one."""
        while (file := Path(f"{self._recording}.{self._generation + 1}.rec")).exists():
            self._generation += 1
            self._page = map_page(file)
            self._counts.clear()

    def asker(self, before: int | None) -> int | None:
        """The thread whose request is sent at this moment; None: the message belongs to no verb.

        before: the thread that sent the previous request there, if the connection belongs to one thread.
        """
        under_way = [thread for thread in (MAIN, RENEWAL) if self._generation >= 0 and self._count(thread)[0]]
        if len(under_way) < 2:
            return under_way[0] if under_way else None
        if before is not None:
            return before
        return MAIN if self._count(RENEWAL)[1] else RENEWAL  # a renewal takes one request, as a rule

    def request(self, thread: int) -> Action | None:
        """Count a request that is not passed on yet. Returns the action to take; the page says who was caught."""
        count = self._count(thread)
        count[1] += 1
        if count[3]:
            count[3] = False
            return Action.RESET
        return self._caught(thread, Gate.AT_REQUEST if thread == MAIN else Gate.AT_RENEWAL_REQUEST, count[1])

    def answer(self, thread: int) -> Action | None:
        """Count an answer that is not passed on yet. Returns as `request` does.

        After a lost answer the next request is lost, too: by it the client tries again, or undoes what it asked for.
        """
        count = self._count(thread)
        if not count[0]:
            return None
        count[2] += 1
        if count[2] <= row_format.MOST_MESSAGES:
            at = row_format.messages_at(self._verb(count[0]), count[2])
            row_format.COUNT.pack_into(self._page, at, min(row_format.COUNT.unpack_from(self._page, at)[0] + 1, 0xFFFF))
        action = self._caught(thread, Gate.AT_ANSWER if thread == MAIN else Gate.AT_RENEWAL_ANSWER, count[2])
        count[3] |= action is Action.LOSE
        return action

    def request_of(self, thread: int) -> int:
        """The row of the request for a lock that the thread has under way, 0 for none."""
        return self._count(thread)[0]

    def let_go(self, thread: int) -> bool:
        """Whether the caught thread may go on: it was thawed, and the gate may have been armed anew since then."""
        return bool(self._page[thread + row_format.THAWED]) or not self._page[thread + row_format.REACHED_GATE]

    def send(self, number: signal.Signals) -> None:
        """Send the worker a signal, if it lives."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(row_format.word(self._page, row_format.PID), number)

    def runs(self) -> bool:
        return state_of(row_format.word(self._page, row_format.PID)) not in "TZ"

    def _count(self, thread: int) -> list[int]:
        """The counts of a thread, which begin anew with each request for a lock."""
        current = row_format.word(self._page, thread + row_format.CURRENT)
        count = self._counts.setdefault(thread, [0, 0, 0, False])
        if count[0] != current:
            count[:] = [current, 0, 0, False]
        return count

    def _verb(self, row: int) -> F:
        return row_format.VERBS[F(row_format.ROW.unpack_from(self._page, row)[12])]

    def _caught(self, thread: int, gate: Gate, number: int) -> Action | None:
        """The action of the gate if it is armed for this message, which then catches the thread; else None."""
        page, row = self._page, self._count(thread)[0]
        page[thread + row_format.TAPPING] = 1
        try:
            if page[thread + row_format.ARMED_GATE] != gate or page[thread + row_format.REACHED_GATE]:
                return None
            armed = page[thread + row_format.ARMED_VERB], page[thread + row_format.ARMED_MESSAGE]
            if armed != (self._verb(row), number):
                return None
            fields = row_format.ROW.unpack_from(page, row)
            owner, process, key = fields[5], fields[9], fields[11]
            if row_format.word(page, thread + row_format.ARMED_KEY) not in (key, row_format.NONE):
                return None
            row_format.reach(page, thread, gate, time.monotonic_ns(), owner, key, process)
            return Action(page[thread + row_format.ARMED_ACTION])
        finally:
            page[thread + row_format.TAPPING] = 0


class Line(asyncio.Protocol):
    """One connection of a worker, to one node."""

    def __init__(self, worker: TappedWorker, messages: type[Messages], node: str) -> None:
        """node: `host:port`."""
        self._worker = worker
        self._messages = messages()
        self._node = node
        self._client: asyncio.Transport | None = None
        self._server: asyncio.Transport | None = None
        self._waiting = bytearray()
        """Bytes for the server, kept while there is no connection to it or a request is held."""
        self._held_by: int | None = None  # the thread whose request is held; whatever comes after that waits, too
        self._askers: dict[int, int | None] = {}  # exchange → the thread that it belongs to
        self._stopping: int | None = None
        """The thread at whose message the worker is about to be stopped; bytes for the client wait until it is stopped.
        A worker that only gives up runs on, so the bytes wait until it is thawed."""
        self._for_client = bytearray()
        self._deaf = False  # whether the server's bytes are no longer passed on
        self._left = False  # whether the client has hung up

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client = cast(asyncio.Transport, transport)
        self._worker.connects()
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        host, _, port = self._node.rpartition(":")
        try:
            answers = functools.partial(_Answers, self)
            self._server, _ = await asyncio.get_running_loop().create_connection(answers, host, int(port))
        except OSError:
            self._end(reset=True)
            return
        self._go_on()
        if self._left and self._held_by is None:  # the client hung up meanwhile: its bytes arrive all the same
            self._end(reset=False)

    def data_received(self, data: bytes) -> None:
        for piece in self._messages.asked(data):
            if piece.exchange is not None:
                before = self._askers.get(piece.exchange)
                asker = self._askers[piece.exchange] = self._worker.asker(before)
                match self._worker.request(asker) if asker is not None else None:
                    case Action.LATE:
                        self._held_by = asker
                        self._look()
                    case Action.RESET:
                        self._end(reset=True)
                        return
            self._waiting += piece.data
        self._go_on()

    def connection_lost(self, error: Exception | None) -> None:
        """The client hung up. A held request is delivered all the same."""
        self._left = True
        if self._held_by is None:
            self._end(reset=error is not None)

    def answered(self, data: bytes) -> None:
        waits = self._stopping is not None
        for piece in self._messages.answered(data):
            if piece.exchange is not None and not self._deaf:
                asker = MAIN if piece.exchange == PUSHED else self._askers.get(piece.exchange)
                match self._worker.answer(asker) if asker is not None else None:
                    case Action.FREEZE | Action.CANCEL as action:
                        self._worker.send(signal.SIGSTOP if action is Action.FREEZE else signal.SIGUSR1)
                        self._stopping = asker
                    case Action.KILL:
                        self._worker.send(signal.SIGKILL)
                    case Action.LOSE if asker is not None:
                        self._deaf = True
                        self._break_off(asker, self._worker.request_of(asker))
                    case Action.RESET:
                        self._end(reset=True)
                        return
            if not self._deaf:
                self._for_client += piece.data
        if not waits:
            self._tell()

    def server_left(self, error: Exception | None) -> None:
        """The server hung up. A client that gets no bytes any more does not hear that, either."""
        self._server = None
        if not self._deaf:
            self._end(reset=error is not None)

    def _tell(self) -> None:
        """Pass on the bytes for the client. A frozen client gets them once nothing of it runs, or it was thawed."""
        if self._stopping is not None and self._worker.runs() and not self._worker.let_go(self._stopping):
            asyncio.get_running_loop().call_later(_LOOK, self._tell)
            return
        self._stopping = None
        if self._client is not None and self._for_client:
            self._client.write(bytes(self._for_client))
            self._for_client.clear()

    def _go_on(self) -> None:
        if self._server is not None and self._held_by is None:
            self._server.write(bytes(self._waiting))
            self._waiting.clear()

    def _look(self) -> None:
        """Look again and again until the held request may go on."""
        if self._held_by is not None and self._worker.let_go(self._held_by):
            self._held_by = None
            self._go_on()
            if self._left:
                self._end(reset=False)
        else:
            asyncio.get_running_loop().call_later(_LOOK, self._look)

    def _break_off(self, asker: int, request: int) -> None:
        """Reset the connection when the request of which an answer was lost is over: a client that goes on with the
        connection would have no answer for ever, long after the fault.
        """
        if self._left:
            return
        if self._worker.request_of(asker) != request:
            self._end(reset=True)
        else:
            asyncio.get_running_loop().call_later(_LOOK, self._break_off, asker, request)

    def _end(self, *, reset: bool) -> None:
        for transport in (self._client, self._server):
            if transport is not None and reset:
                transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESETS)
                transport.abort()
            elif transport is not None:
                transport.close()


class _Answers(asyncio.Protocol):
    """The server's side of a line."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def data_received(self, data: bytes) -> None:
        self._line.answered(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._line.server_left(error)


async def _serve() -> None:
    """Make taps as they are asked for, until standard input closes."""
    loop = asyncio.get_running_loop()
    asked = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
    while line := await asked.readline():
        tapped = json.loads(line)
        worker, backend = TappedWorker(tapped["recording"]), tapped["backend"]
        messages = BACKENDS[backend].messages if backend else InTurns
        endpoints = []
        for node in tapped["nodes"]:
            listener = await loop.create_server(functools.partial(Line, worker, messages, node), "127.0.0.1", 0)
            endpoints.append(f"127.0.0.1:{listener.sockets[0].getsockname()[1]}")
        print(json.dumps(endpoints), flush=True)


# The harness's side


class Taps:
    """The tap of a trial's workers."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "suites.worker.message_tap"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            start_new_session=True,  # as for the fork server
        )

    def endpoints(self, nodes: Sequence[str], backend: str = "", spec: Spec | None = None) -> tuple[str, ...]:
        """The tap's endpoints for these nodes, for a worker and its successors; without `spec` nothing is counted."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        recording = str(spec.recording).removesuffix(f".{spec.generation}.rec") if spec else ""
        print(json.dumps({"recording": recording, "nodes": [*nodes], "backend": backend}), file=stdin, flush=True)
        return tuple(json.loads(stdout.readline()))

    def close(self) -> None:
        self.process.communicate()


if __name__ == "__main__":
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the harness, which then ends us
    asyncio.run(_serve())
