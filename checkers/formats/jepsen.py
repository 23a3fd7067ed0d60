"""Jepsen's and Knossos' histories in EDN, as text, and behind a logger's words: see `checkers.formats.formats`."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from checkers.formats import edn, lines
from checkers.formats.event_columns import FIELDS, EventColumns
from checkers.formats.lines import LineShape
from checkers.formats.source import SourceFile
from checkers.history.foreign_values import FrozenMap, shown, spelled

_ATOM: Final = r"""[^\s,\[\](){}";#\\^@`~]+"""
_OTHER: Final = rf'(?:{_ATOM}|"[^"\\]*")'
_KEYWORD: Final = r":[A-Za-z][A-Za-z0-9_-]*"
_KEYWORDS: Final = re.compile(_KEYWORD.encode())
_NIL: Final = re.compile(rb"nil(?<=[\[,]nil)(?=[\],])")
_KEYS: Final = {f":{field}": field for field in FIELDS}
_NESTED: Final = ("value", "error")
_AFTER: Final = "something stands after the end of the history"
_EVENT: Final = re.compile(
    r"(?P<process>-?[0-9]+|:?[A-Za-z][\w.-]*)[ \t]+(?P<type>:[a-z]+)[ \t]+(?P<f>:[\w.*+!?<>=/-]+)[ \t]+(?P<rest>[^\n]*)"
)
_LOGGED: Final = re.compile(
    r"(?P<prefix>[^\t\n]*?(?:\t[A-Z]+\t[^\t\n]*?)?(?: - |: ))(?=[^\t\n ]+[ \t]+:(?:invoke|ok|fail|info)[ \t])"
)
_LOGGER: Final = re.compile(r"(?:^|\s)(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\s")
_OURS: Final = re.compile(r"jepsen\.(?:util|print)(?: - |: )")
_TYPED: Final = re.compile(r"\t:(?:invoke|ok|fail|info)\b")


def _notation(learn: Callable[[str], LineShape | None]) -> lines.Notation:
    """The notation of EDN, for files whose line shapes are learned by `learn`."""
    return lines.Notation(learn, edn.value_of, rf"(?:{lines.NUMBER}|nil|{_KEYWORD})", " ", _as_json)


def _as_json(text: bytes) -> bytes:
    text = _NIL.sub(b"null", text.replace(b" ", b","))
    return _KEYWORDS.sub(rb'"\g<0>"', text) if b":" in text else text


def parse(source: SourceFile) -> EventColumns:
    """Raises BadHistory."""
    events = EventColumns(source)
    words = (_KEYWORD, _OTHER)
    shape = partial(lines.shape_of_map, spans=_spans, nested=_NESTED, words=words, other=_OTHER, blank=" \t\r\n,")
    lines.read(events, _notation(shape))
    _Rest(events).read()
    return events.close()


class _Rest:
    """Reads the lines that are no event by themselves. The text between two lines that are events holds whole forms.

    If a form goes on past a line that had been read as an event, that event is dropped: the line is part of the form.
    """

    def __init__(self, events: EventColumns) -> None:
        self._events = events
        self._source = events.source
        self._closing = ""
        self._closed = False
        self._any = False

    def read(self) -> None:
        """Raises BadHistory."""
        read, total = self._events.read, len(self._source)
        edges = np.flatnonzero(np.diff(np.concatenate((np.ones(1, bool), read, np.ones(1, bool))).astype(np.int8)))
        done = 0
        for first, end in [*zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True), (total, total)]:
            if end <= done:
                continue
            first = max(first, done)
            if self._closed and read[done:first].any():
                raise self._source.bad(done + int(np.argmax(read[done:first])), _AFTER)
            self._any = self._any or bool(read[done:first].any())
            done = self._run(first, end)
            read[first:done] = False
        if self._closing and not self._closed:
            raise self._source.bad(max(total - 1, 0), f"the file ends before the {self._closing} of its history")

    def _run(self, first: int, end: int) -> int:
        """Read from line `first` to `end`, or further if a form goes on. Returns the line after the last one read."""
        total = len(self._source)
        state = (self._closing, self._closed, self._any)
        while True:
            try:
                forms = self._forms(first, end)
            except edn.CutShort as error:
                if end >= total:
                    raise self._source.bad(first + error.line, str(error)) from error
                self._closing, self._closed, self._any = state
                end = min(first + 2 * (end - first) + 8, total)
            except edn.Malformed as error:
                raise self._source.bad(first + error.line, str(error)) from error
            else:
                for line, form in forms:
                    self._add(line, form)
                return end

    def _forms(self, first: int, end: int) -> list[tuple[int, Any]]:
        """The forms in some lines, each with the line where it starts. Opens and closes the vector around all forms."""
        text = self._source.text(first, end)
        reader = edn.Reader(text)
        forms = []
        line, counted = first, 0
        while character := reader.peek():
            line, counted = line + text.count("\n", counted, reader.at), reader.at
            if self._closed:
                raise edn.Malformed(line - first, _AFTER)
            if character in "[(" and not self._closing and not self._any:
                self._closing = "]" if character == "[" else ")"
                reader.at += 1
            elif character == self._closing:
                self._closed = True
                reader.at += 1
            else:
                form = reader.form()
                line, counted = line + text.count("\n", counted, reader.begun), reader.begun
                forms.append((line, form))
                self._any = True
        return forms

    def _add(self, line: int, form: Any) -> None:
        if not isinstance(form, FrozenMap):
            raise self._source.bad(line, f"not a map: {shown(spelled(form))}")
        known = ((_KEYS[key], value) for key, value in form if isinstance(key, str) and key in _KEYS)
        # Times are only for display, so those that are no whole numbers are passed over.
        self._events.add(line, {field: value for field, value in known if field != "time" or type(value) is int})


def _spans(line: str) -> Iterator[tuple[str, int, int]]:
    """The keys of a map, each with where its value begins and ends. Raises ValueError if the line is no map alone."""
    reader = edn.Reader(line)
    record = edn.RECORD.match(line)
    reader.at = record.end() if record else 0
    for key, begin, end in reader.spans():
        if not isinstance(key, str) or not key.startswith(":"):
            raise ValueError("not a keyword")
        yield _KEYS.get(key, key), begin, end
    if ";" in line or reader.peek():
        raise ValueError("more than a map")


def recognised(head: str) -> bool | None:
    """Whether something stands before the events of a text (True) or not (False); None if it holds no event."""
    for line in head.split("\n"):
        at = _prefix(line)
        if _EVENT.match(line, at):
            return at > 0
    return None


def parse_text(source: SourceFile, *, log: bool) -> EventColumns:
    """log: messages of other loggers are passed over. Raises BadHistory."""
    events = EventColumns(source)
    lines.read(events, _notation(_text_shape))
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
            foreign = True  # lines without a level belong to this message, until the next event
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


def _text_shape(line: str) -> LineShape | None:
    prefix = _prefix(line)
    if _EVENT.match(line, prefix) is None or not line.isascii():
        return None
    before = re.sub("[0-9]+", "[0-9]+", re.escape(line[:prefix]))
    words = r"(?P<process>-?[0-9]+)[ \t]+(?P<type>:[a-z]+)[ \t]+(?P<f>:[a-z-]+)[ \t]+(?P<value>[^\t\r\n]*)"
    return LineShape(rf"^{before}{words}\r?\n?$", ("process", "type", "f", "value"))
