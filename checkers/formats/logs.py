r"""Jepsen's ``history.txt``, and its log lines as Porcupine keeps them.

An event is a line of words with tabs or blanks between: process, type, f, value and maybe an error. In a log something
stands before it (``INFO  jepsen.util - 0\t:invoke\t:cas\t[1 2]``), and other lines stand between.
"""

import re
from typing import Any, Final

import numpy as np

from checkers.formats import edn, lines
from checkers.formats.event_columns import EventColumns
from checkers.formats.jepsen import notation
from checkers.formats.lines import LineShape
from checkers.formats.source import SourceFile
from checkers.history.foreign_values import shown

_EVENT: Final = re.compile(
    r"(?P<process>-?[0-9]+|:?[A-Za-z][\w.-]*)[ \t]+(?P<type>:[a-z]+)[ \t]+(?P<f>:[\w.*+!?<>=/-]+)[ \t]+(?P<rest>[^\n]*)"
)
_LOGGED: Final = re.compile(
    r"(?P<prefix>[^\t\n]*?(?:\t[A-Z]+\t[^\t\n]*?)?(?: - |: ))(?=[^\t\n ]+[ \t]+:(?:invoke|ok|fail|info)[ \t])"
)
_LOGGER: Final = re.compile(r"(?:^|\s)(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\s")
_OURS: Final = re.compile(r"jepsen\.(?:util|print)(?: - |: )")
_TYPED: Final = re.compile(r"\t:(?:invoke|ok|fail|info)\b")


def recognised(head: str) -> bool | None:
    """Whether a text holds such events, with something before them (True) or not (False); None if it holds none."""
    for line in head.split("\n"):
        at = _prefix(line)
        if _EVENT.match(line, at):
            return at > 0
    return None


def parse(source: SourceFile, *, log: bool) -> EventColumns:
    """log: messages of other loggers are passed over. Raises BadHistory."""
    events = EventColumns(source)
    lines.read(events, notation(_shape))
    foreign = False
    for row in np.flatnonzero(~events.read).tolist():
        text = source.text(row, row + 1).rstrip("\r\n")
        event = _EVENT.match(text, _prefix(text)) if log else _EVENT.match(text.lstrip())
        if event is not None:
            try:
                events.add(row, _event(event))
            except ValueError as error:
                raise source.bad(row, str(error)) from error
            foreign = False
        elif not text.strip():
            continue
        elif log and not _TYPED.search(text) and not _OURS.search(text) and (foreign or _LOGGER.search(text)):
            foreign = True  # and lines without a level belong to it, until the next event
        else:
            raise source.bad(row, f"not an event: {shown(text.strip())}")
    return events.close()


def _prefix(line: str) -> int:
    logged = _LOGGED.match(line)
    return logged.end() if logged else 0


def _event(groups: re.Match[str]) -> dict[str, Any]:
    rest = groups["rest"]
    reader = edn.Reader(rest)
    value = reader.form() if rest.strip() else None
    tail = rest[reader.at :]
    if tail.strip() and not tail.startswith("\t" if groups["type"] in (":invoke", ":ok") else ("\t", " ")):
        raise ValueError(f"not one value: {shown(rest)}")
    event = {"process": edn.value_of(groups["process"]), "type": groups["type"], "f": groups["f"], "value": value}
    if tail.strip():
        event["error"] = tail.strip()
    return event


def _shape(line: str) -> LineShape | None:
    prefix = _prefix(line)
    if _EVENT.match(line, prefix) is None or not line.isascii():
        return None
    before = re.sub("[0-9]+", "[0-9]+", re.escape(line[:prefix]))
    words = r"(?P<process>-?[0-9]+)[ \t]+(?P<type>:[a-z]+)[ \t]+(?P<f>:[a-z-]+)[ \t]+(?P<value>[^\t\r\n]*)"
    return LineShape(rf"^{before}{words}\r?\n?$", ("process", "type", "f", "value"))
