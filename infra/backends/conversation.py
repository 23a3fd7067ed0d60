"""What backends share when they speak to a server over a socket: ask, read the answer, explain an odd one.

Standard library only, as `infra.backends.backend`.
"""

import hashlib
import socket
from dataclasses import replace
from typing import Final

from infra.access import TLS, Access
from infra.backends.answers import Health, ServerRefused
from infra.backends.backend import Server

PATIENCE: Final = 1.0  # seconds for the answer to a probe; a node that serves answers within milliseconds
EXPLAINS_WITHIN: Final = 3.0  # seconds for a node to say why it does not let us in


def converse(server: Server, question: bytes, *, explain: bool = False) -> str:
    """Ask, and return everything that the other side sends until it closes or falls silent.

    explain: wait for up to `EXPLAINS_WITHIN` seconds instead of `PATIENCE`; raise OSError unless it closed in order.
    """
    reply = b""
    try:
        with server.access.connect(server.endpoint, EXPLAINS_WITHIN if explain else PATIENCE) as connection:
            connection.sendall(question)
            while chunk := connection.recv(65536):
                reply += chunk
    except OSError:
        if explain:
            raise
    return reply.decode(errors="replace")


def exactly(connection: socket.socket, size: int) -> bytes:
    """Reads so many bytes. Raises OSError or ServerRefused."""
    received = b""
    while len(received) < size:
        if not (chunk := connection.recv(size - len(received))):
            raise ServerRefused("it closed the connection")
        received += chunk
    return received


def digest(value: object) -> str:
    """Digest of what a member holds, to compare members with each other."""
    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()


def with_clock(health: Health, now: float, sent: float, answered: float) -> Health:
    """Adds `ahead` and `unsure`. now: the node's clock between `sent` and `answered` of ours; all in s since 1970."""
    return replace(health, ahead=now - (sent + answered) / 2, unsure=(answered - sent) / 2)


def unexpected(reply: str, access: Access) -> str:
    """Why we are not let in by a node that answers nothing, or something that is not its protocol."""
    if not reply.strip() or (not reply.isprintable() and reply.startswith(("\x15", "\0"))):
        hint = "" if access.tls else f" (does it speak TLS? then put {TLS} before the first host)"
        return f"it hangs up without an answer{hint}"
    return f"it answers {' '.join(reply.split())[:100]!r}"
