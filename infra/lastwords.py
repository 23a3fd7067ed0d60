"""Why a server ended, by its own last words."""

import re
from typing import Final

_FATAL: Final = re.compile(
    rb'"level":"(?:fatal|panic)".*?"msg":"(?P<json>[^"]*)"|.*(?:FATAL: |ERROR |panic: | [CFE] \| | # )(?P<text>.*)'
)
"""A line in which a server says why it ends: etcd's, PostgreSQL's, ZooKeeper's, Redis'."""


def last_words(said: bytes) -> str:
    """The first of the last lines that sound like a reason, else the last line. said: a log with times."""
    lines = [line.partition(b" ")[2] for line in said.splitlines() if line.strip()]
    words = lines[-1] if lines else b"it said nothing"
    told = False
    for line in reversed(lines):
        if found := _FATAL.search(line):
            words, told = found["json"] or found["text"], True
        elif told:
            break
    return words.decode(errors="replace").strip()
