"""Why a server ended, out of its log."""

import pytest

from infra.cluster.exit_reason import last_words


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("1:M # WARNING|1:M * loading|1:M # Can't handle RDB 12|1:M # Error, aborted", "Can't handle RDB 12"),
        ("2026 C | membership: cluster cannot be downgraded", "membership: cluster cannot be downgraded"),
        ('{"level":"info","msg":"hello"}|{"level":"fatal","ts":"1","msg":"no downgrade","v":"3"}', "no downgrade"),
        ("2026 UTC [1] FATAL:  files of another version|2026 UTC [1] DETAIL:  By 17.", "files of another version"),
        ("one|the end", "the end"),
        ("", "it said nothing"),
    ],
)
def test_last_words(said: str, words: str) -> None:
    log = "".join(f"T {line}\n" for line in said.split("|") if line)
    assert last_words(log.encode()) == words
