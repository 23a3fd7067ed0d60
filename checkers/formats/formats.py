"""Loads histories from elsewhere, and our own: each of them becomes a `History`.

    history, family, settings = load_with_defaults(Path("etcd_004.log"))

A format is recognised by what is in the file and never by its name. checkers/README.md says what each format holds,
what its keys mean and which order its events have; keys without a meaning, and messages of other loggers in a log, are
passed over. In edn, text and log, `inv` and `ret` are places in the order of events; times are only for display
(`History.clock`). ``f``: see `vocabulary`.

How events become operations. A process does one operation at a time: a completion ends the last invocation of its
process. After an unknown outcome (info) a process may go on; the unknown operation stays open for ever, which no order
of events can contradict. A read returns the value of its completion. What is written is the value of the invocation,
and the completion must not say otherwise. nil is a value. `:nemesis` tells of faults, not of operations. If the value
of every invocation is a pair, also of reads and locks, and nothing names a key, pairs are independent keys (``[k v]``).

A file that is damaged, contradicts itself or holds values that cannot be told apart (``1`` and ``true``, which compare
as equal) raises `BadHistory` with one line: ``file:line: what is wrong``.
"""

import re
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from checkers.engines.gc_pause import uncollected
from checkers.formats import jepsen, jsonl
from checkers.formats.event_columns import UNSAID
from checkers.formats.history_columns import history
from checkers.formats.pairing import intervals, ordered, pair
from checkers.formats.source import opened
from checkers.history.history import BadHistory, History, load
from checkers.models.model import Settings

_HEAD: Final = 1 << 16  # how many bytes from the beginning of a file are enough to recognise its format
_BLANK: Final = re.compile(rb"(?:[\s,\xef\xbb\xbf]|;[^\n]*+)*+")
_BINARIES: Final = (
    (b"JEPSEN", "Jepsen's binary test file: read its history.edn"),
    (b"FENCEREC", "one worker's recording: the trial's columnar file (.arrow) holds the history"),
    (b"\x1f\x8b", "compressed (gzip): unpack it first"),
    (b"PK\x03\x04", "compressed (zip): unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed (zstd): unpack it first"),
)


class Family(StrEnum):
    """Which format a file has: see above. JSONL without times is FOREIGN_JSONL."""

    RECORDED = "recorded"
    JSONL = "jsonl"
    FOREIGN_JSONL = "jsonl without times"
    EDN = "edn"
    TEXT = "text"
    LOG = "log"

    @property
    def timed(self) -> bool:
        """Whether times are the order. Otherwise nothing can be asked that depends on them: leases, latencies."""
        return self in (Family.RECORDED, Family.JSONL)

    @property
    def settings(self) -> Settings:
        """How the format's own tools read what the format leaves open: the table of formats in checkers/README.md."""
        jepsen_reads = self in (Family.EDN, Family.TEXT)
        return Settings(failed_cas="ignored", nil_read="unknown") if jepsen_reads else Settings()


class Loaded(NamedTuple):
    """A history, the format that it came in, and that format's defaults."""

    history: History
    family: Family
    settings: Settings


def load_with_defaults(path: Path) -> Loaded:
    """Raises BadHistory with one line that names file and line; OSError where the file cannot be read."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if _recognised(path, head) == Family.RECORDED:
        return Loaded(load(path), Family.RECORDED, Family.RECORDED.settings)
    return parse(path, path.read_bytes())


@uncollected()
def parse(path: Path, data: bytes) -> Loaded:
    """The history of a text file, from its bytes. Raises BadHistory."""
    family = _recognised(path, data[:_HEAD])
    source = opened(path, data)
    if family == Family.EDN:
        events = jepsen.parse(source)
    elif family == Family.JSONL:
        events = jsonl.parse(source)
    else:
        events = jepsen.parse_text(source, log=family == Family.LOG)
    if not len(events):
        raise BadHistory(f"{path}: no event")
    if family == Family.JSONL and (events.column("time") == UNSAID).any():
        family = Family.FOREIGN_JSONL
    happened = ordered(events, timed=family.timed)
    if not (happened.process >= 0).any():
        raise BadHistory(f"{path}: no event but those of the nemesis")
    operations, faults = pair(events, happened), intervals(events, happened)
    in_values = family in (Family.TEXT, Family.LOG)
    parsed = history(path.name, operations, faults, timed=family.timed, errors_as_values=in_values)
    return Loaded(parsed, family, family.settings)


def _recognised(path: Path, head: bytes) -> Family:
    """The format, by the first bytes. Raises BadHistory if it is not known."""
    if head.startswith(b"ARROW1"):
        return Family.RECORDED
    if not head:
        raise BadHistory(f"{path}: an empty file")
    for magic, what in _BINARIES:
        if head.startswith(magic):
            raise BadHistory(f"{path}: {what}")
    if b"\0" in head:
        raise BadHistory(f"{path}: a binary file of no known format")
    blank = _BLANK.match(head)
    start = head[blank.end() if blank else 0 :]
    line = head.count(b"\n", 0, len(head) - len(start)) + 1
    if not start and len(head) < _HEAD:
        raise BadHistory(f"{path}: no event")
    if re.match(rb"[\[({#]", start):
        inner = start.lstrip(b"[( \t\r\n,")
        if re.match(rb'\{\s*"', inner):
            if start[:1] == b"{":
                return Family.JSONL
            raise BadHistory(f"{path}:{line}: a JSON array: one event a line is wanted")
        return Family.EDN
    shape = jepsen.recognised(head.decode(errors="replace"))
    if shape is not None:
        return Family.LOG if shape else Family.TEXT
    raise BadHistory(f"{path}:{line}: of no known format: neither our columnar file, JSONL, EDN nor Jepsen's text")
