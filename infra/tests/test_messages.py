"""What passes between clients and servers, told apart however it is cut into pieces."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.backends import BACKENDS
from infra.backends.messages import PUSHED, EtcdMessages, InTurns, Messages, Piece, ZooKeeperMessages

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, WINDOW = 4, 6, 8
Told = list[tuple[bytes, int | None]]


def zookeeper(number: int, rest: bytes = b"rest") -> bytes:
    body = struct.pack(">i", number) + rest
    return struct.pack(">i", len(body)) + body


def http2(kind: int, stream: int, body: bytes = b"body", flags: int = 0) -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


ZOOKEEPER_ASKED = [(b"\0\0\0\x03new", 0), (zookeeper(1), 1), (zookeeper(-2, b""), None), (zookeeper(2), 2)]
ZOOKEEPER_ANSWERED = [(b"\0\0\0\x03yes", 0), (zookeeper(-2), None), (zookeeper(1), 1), (zookeeper(-1), PUSHED)]
ETCD_ASKED = [
    *((PREFACE, None), (http2(SETTINGS, 0), None), (http2(1, 1), 1), (http2(0, 1), None), (http2(1, 3), 3)),
    *((http2(PING, 0), None), (http2(WINDOW, 3), None)),
]
ETCD_ANSWERED = [
    *((http2(SETTINGS, 0), None), (http2(1, 1), None), (http2(0, 1), 1), (http2(1, 1, flags=1), None)),
    *((http2(1, 3, flags=1), 3), (http2(PING, 0), None), (http2(0, 5), 5), (http2(0, 5), 5)),
]


@pytest.mark.parametrize(
    ("messages", "asked", "answered"),
    [(ZooKeeperMessages, ZOOKEEPER_ASKED, ZOOKEEPER_ANSWERED), (EtcdMessages, ETCD_ASKED, ETCD_ANSWERED)],
)
@given(data=st.data())
def test_messages_are_told_apart_wherever_they_are_cut(
    messages: Callable[[], Messages], asked: Told, answered: Told, data: st.DataObject
) -> None:
    one = messages()
    for side, expected in ((one.asked, asked), (one.answered, answered)):
        whole = b"".join(text for text, _ in expected)
        cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1))))
        pieces = [piece for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) for piece in side(whole[a:b])]
        assert [(piece.data, piece.exchange) for piece in pieces] == expected


def test_in_turns_whoever_speaks_after_the_other_begins_a_message() -> None:
    one = InTurns()
    assert one.asked(b"GET") == [Piece(b"GET", 0)]
    assert one.asked(b" a") == [Piece(b" a", None)]
    assert [one.answered(b"1"), one.answered(b"2")] == [[Piece(b"1", 0)], [Piece(b"2", None)]]
    assert one.asked(b"GET") == [Piece(b"GET", 0)]


def test_the_gateway_of_etcd_is_asked_in_turns() -> None:
    one = EtcdMessages()
    assert one.asked(b"POST /v3/lock/lock HTTP/1.1\r\n") == [Piece(b"POST /v3/lock/lock HTTP/1.1\r\n", 0)]
    assert one.answered(b"HTTP/1.1 200 OK\r\n") == [Piece(b"HTTP/1.1 200 OK\r\n", 0)]


def test_every_backend_says_how_its_messages_are_told_apart() -> None:
    told = {name: backend.messages for name, backend in BACKENDS.items()}
    assert told == {"redis": InTurns, "zookeeper": ZooKeeperMessages, "etcd": EtcdMessages, "postgres": InTurns}
