"""Why a server ended, by the end of its log."""

import re
from typing import Final

from infra.backends import BACKENDS

_FATAL: Final = [re.compile(backend.fatal) for backend in BACKENDS.values()]


def last_words(log: bytes) -> str:
    """The first line of the last run of lines that tell a reason, else the last line. log: a log with times."""
    lines = [line.partition(b" ")[2] for line in log.splitlines() if line.strip()]
    words = lines[-1] if lines else b"it said nothing"
    fatal = False
    for line in reversed(lines):
        if match := next(filter(None, (pattern.search(line) for pattern in _FATAL)), None):
            words, fatal = match[match.lastindex or 0], True
        elif fatal:
            break
    return words.decode(errors="replace").strip()
