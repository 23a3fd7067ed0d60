"""Why a server ended, out of its log."""

import pytest

from infra.lastwords import last_words


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            b"T 1:M # WARNING\nT 1:M * loading\nT 1:M # Can't handle RDB format version 12\nT 1:M # Error, aborted\n",
            "Can't handle RDB format version 12",
        ),
        (b"T 2026 C | membership: cluster cannot be downgraded\n", "membership: cluster cannot be downgraded"),
        (
            b'T {"level":"info","msg":"hello"}\nT {"level":"fatal","ts":"1","msg":"no downgrade","v":"3"}\n',
            "no downgrade",
        ),
        (
            b"T 2026 UTC [1] FATAL:  database files are incompatible with server\nT 2026 UTC [1] DETAIL:  By 17.\n",
            "database files are incompatible with server",
        ),
        (b"T one\nT the end\n", "the end"),
        (b"", "it said nothing"),
    ],
)
def test_last_words(said: bytes, words: str) -> None:
    assert last_words(said) == words
