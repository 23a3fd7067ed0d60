"""JSON, one event a line."""

import json
import re
from math import isfinite
from typing import Any, Final, NoReturn

import numpy as np

from checkers.formats import lines
from checkers.formats.event_columns import FIELDS, NEEDED, NUMBERS, EventColumns
from checkers.formats.lines import LineShape
from checkers.formats.source import SourceFile
from checkers.history.foreign_values import DEEPEST, frozen_map, shown

_BLANK: Final = re.compile(r"[ \t\r\n]*+")
_NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,17})"
_STRING: Final = r'"[^"\\\x00-\x1f]*"'


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written."""


def parse(source: SourceFile) -> EventColumns:
    """Raises BadHistory."""
    events = EventColumns(source)
    lines.read(events, _NOTATION)
    for row in np.flatnonzero(~events.read).tolist():
        text = source.text(row, row + 1)
        if not text.strip(" \t\r\n"):
            continue
        try:
            event = _event(text)
        except ValueError as error:
            raise source.bad(row, str(error)) from error
        events.add(row, event)
    return events.close()


def _event(text: str) -> dict[str, Any]:
    pairs = _decoded(text)
    if not isinstance(pairs, _Pairs):
        raise ValueError("not an object: one event a line is wanted")  # noqa: TRY004
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("an object with a key that stands twice")
    return {key: _frozen(value, 1) for key, value in pairs if key in FIELDS}


def value_of(text: str) -> Any:
    """The value of a JSON text, hashable. Raises ValueError."""
    return _frozen(_decoded(text), 1)


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} (column {error.colno})") from error
    except RecursionError as error:
        raise ValueError(f"nested deeper than {DEEPEST}") from error


def _frozen(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError(f"nested deeper than {DEEPEST}")
    if isinstance(value, _Pairs):
        return frozen_map((key, _frozen(item, depth + 1)) for key, item in value)
    if isinstance(value, list):
        return tuple(_frozen(item, depth + 1) for item in value)
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError("a string with half a character") from error
    return value


def _integer(text: str) -> int:
    if len(text) > 1000:
        raise ValueError("a number of more than 1000 digits")
    return int(text)


def _float(text: str) -> float:
    value = float(text) if len(text) <= 1000 else float("inf")
    if not isfinite(value):
        raise ValueError(f"{shown(text)} is out of range")
    return value


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no value that could be compared")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_int=_integer, parse_float=_float, parse_constant=_constant
)


def _shape(line: str) -> LineShape | None:
    try:
        pairs = _decoded(line)
    except ValueError:
        return None
    keys = [key for key, _ in pairs] if isinstance(pairs, _Pairs) else []
    if not line.isascii() or not set(NEEDED) <= set(keys) or len(set(keys)) < len(keys):
        return None
    pattern, fields, at = "^", [], line.index("{") + 1
    last = 0
    for key, value in pairs:
        begun = line.index(":", _DECODER.raw_decode(line, _blank(line, at))[1]) + 1
        begun = _blank(line, begun)
        ended = _DECODER.raw_decode(line, begun)[1]
        group = _group(key, value)
        if group is None:
            return None
        pattern += re.escape(line[last:begun]) + group
        if key in FIELDS:
            fields.append(key)
        last = ended
        at = _blank(line, ended) + 1
    return LineShape(pattern + re.escape(line[last:].rstrip()) + "[ \\t\\r]*\\n?$", tuple(fields))


def _blank(line: str, at: int) -> int:
    blank = _BLANK.match(line, at)
    return blank.end() if blank else at


def _group(key: str, value: Any) -> str | None:
    """A pattern of what may stand in the place of a value; None if the complete parser should read the line."""
    if key in NUMBERS:
        return f"(?P<{key}>{_NUMBER})" if type(value) is int else None
    if key == "value":
        return "(?P<value>.*)"
    if key not in FIELDS:
        return rf"(?:{_NUMBER}(?:\.[0-9]{{1,18}})?|{_STRING}|true|false|null)"
    simple = _NUMBER if type(value) is int else _STRING if isinstance(value, str) else None
    return None if simple is None else f"(?P<{key}>{simple})"


_NOTATION: Final = lines.Notation(_shape, value_of, f"(?:{_NUMBER}|null|{_STRING})", ", ?", bytes)
