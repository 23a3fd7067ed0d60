"""Finds requests and answers in the bytes between a client and a server, as far as a backend needs it.

`suites.worker.message_tap` stands between the two, and counts how many requests a verb of a lock takes. Messages that
keep a connection alive or control its flow are neither requests nor answers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME: Final = 9
_DATA, _HEADERS = 0, 1
_ENDS_STREAM: Final = 1

_PING: Final = -2
PUSHED: Final = -1  # the exchange of a message that the server sends unasked: an event that the client watches for


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes to be passed on, in order. exchange: the exchange of the connection that they count for; None: for none."""

    data: bytes
    exchange: int | None = None


class Messages(Protocol):
    """One connection. Both methods take bytes that arrived, and return them all as soon as they know what these are."""

    def asked(self, data: bytes) -> list[Piece]:
        """Bytes from the client."""

    def answered(self, data: bytes) -> list[Piece]:
        """Bytes from the server."""


class InTurns:
    """One request at a time, and one answer to each. Each begins with a side's first bytes after the other side's."""

    def __init__(self) -> None:
        self._turn = "server"

    def asked(self, data: bytes) -> list[Piece]:
        return self._said("client", data)

    def answered(self, data: bytes) -> list[Piece]:
        return self._said("server", data)

    def _said(self, who: str, data: bytes) -> list[Piece]:
        first, self._turn = self._turn != who, who
        return [Piece(data, 0 if first else None)]


class ZooKeeperMessages:
    """Each frame begins with its length and the number of its request; a session's first frames have no number.

    https://zookeeper.apache.org/doc/current/zookeeperProgrammers.html; as of `ReplyHeader` in its zookeeper.jute.
    """

    def __init__(self) -> None:
        self._to_server = _Frames()
        self._to_client = _Frames()

    def asked(self, data: bytes) -> list[Piece]:
        return list(self._to_server.take(data))

    def answered(self, data: bytes) -> list[Piece]:
        return list(self._to_client.take(data))


class _Frames:
    """Splits the bytes of one direction into frames."""

    def __init__(self) -> None:
        self._rest = b""
        self._first = True

    def take(self, data: bytes) -> Iterator[Piece]:
        """Every complete frame. Requests are numbered from 1, so that an event cannot be taken for an answer."""
        self._rest += data
        while len(self._rest) >= 4 and len(self._rest) >= (end := 4 + int.from_bytes(self._rest[:4], "big")):
            frame, self._rest = self._rest[:end], self._rest[end:]
            number = 0 if self._first else int.from_bytes(frame[4:8], "big", signed=True)
            yield Piece(frame, None if number == _PING else number)
            self._first = False


class EtcdMessages:
    """gRPC over HTTP/2, or HTTP/1.1 of its gateway, where client and server take turns; both without TLS.

    A call of gRPC is a stream. A request begins with its headers. Each piece of data from the server is an answer; in a
    call without data, the headers that end it are the answer (RFC 9113, sections 3.4, 4.1, 6.1 and 6.2).
    """

    def __init__(self) -> None:
        self._to_server = b""
        self._to_client = b""
        self._in_turns: InTurns | None = None
        self._begun = False
        self._answered: set[int] = set()

    def asked(self, data: bytes) -> list[Piece]:
        if self._in_turns is not None:
            return self._in_turns.asked(data)
        self._to_server += data
        pieces: list[Piece] = []
        if not self._begun:
            if not _PREFACE.startswith(self._to_server[: len(_PREFACE)]):
                self._in_turns = InTurns()
                return self._in_turns.asked(self._to_server)
            if len(self._to_server) < len(_PREFACE):
                return []
            self._begun, self._to_server = True, self._to_server[len(_PREFACE) :]
            pieces.append(Piece(_PREFACE))
        frames, self._to_server = _http2_frames(self._to_server)
        return pieces + [Piece(frame, stream if kind == _HEADERS else None) for kind, _, stream, frame in frames]

    def answered(self, data: bytes) -> list[Piece]:
        if self._in_turns is not None:
            return self._in_turns.answered(data)
        frames, self._to_client = _http2_frames(self._to_client + data)
        return [
            Piece(frame, stream if self._answers(kind, flags, stream) else None)
            for kind, flags, stream, frame in frames
        ]

    def _answers(self, kind: int, flags: int, stream: int) -> bool:
        if kind == _DATA:
            self._answered.add(stream)
            return True
        return kind == _HEADERS and bool(flags & _ENDS_STREAM) and stream not in self._answered


def _http2_frames(data: bytes) -> tuple[list[tuple[int, int, int, bytes]], bytes]:
    """(type, flags, stream, frame) of every frame that is complete, and the bytes that are left."""
    frames = []
    while len(data) >= _FRAME and len(data) >= (end := _FRAME + int.from_bytes(data[:3], "big")):
        frames.append((data[3], data[4], int.from_bytes(data[5:9], "big") & 0x7FFFFFFF, data[:end]))
        data = data[end:]
    return frames, data
