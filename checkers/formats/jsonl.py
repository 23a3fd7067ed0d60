"""JSON, one event a line."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from checkers.formats import lines
from checkers.formats.event_columns import FIELDS, EventColumns
from checkers.formats.source import SourceFile
from checkers.history.foreign_values import DEEPEST, encodable, finite, frozen_map, no_value, whole

_BLANK: Final = " \t\r\n"
_STRING: Final = r'"[^"\\\x00-\x1f]*"'
_OTHER: Final = rf"(?:{lines.NUMBER}(?:\.[0-9]{{1,18}})?|{_STRING}|true|false|null)"


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written."""


def parse(source: SourceFile) -> EventColumns:
    """Raises BadHistory."""
    events = EventColumns(source)
    lines.read(events, _NOTATION)
    for row in np.flatnonzero(~events.read).tolist():
        text = source.text(row, row + 1)
        if text.strip(_BLANK):
            try:
                events.add(row, _event(text))
            except ValueError as error:
                raise source.bad(row, str(error)) from error
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
    return encodable(value) if isinstance(value, str) and not value.isascii() else value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_Pairs, parse_int=whole, parse_float=finite, parse_constant=no_value
)


def _spans(line: str) -> Iterator[tuple[str, int, int]]:
    """The keys of an object, each with where its value begins and ends. Raises ValueError if the line is no object."""
    pairs = _decoded(line)
    if not isinstance(pairs, _Pairs):
        raise ValueError("not an object")  # noqa: TRY004
    end = 0
    for key, _ in pairs:
        end = _DECODER.raw_decode(line, _behind(line, end, "{,"))[1]
        begin = _behind(line, end, ":")
        end = _DECODER.raw_decode(line, begin)[1]
        yield key, begin, end


def _behind(line: str, at: int, marks: str) -> int:
    """The first place from `at` on where neither a mark nor a blank stands."""
    return len(line) - len(line[at:].lstrip(marks + _BLANK))


_NOTATION: Final = lines.Notation(
    partial(lines.shape_of_map, spans=_spans, nested=("value",), words=(_STRING,), other=_OTHER, blank=_BLANK),
    value_of,
    f"(?:{lines.NUMBER}|null|{_STRING})",
    ", ?",
    bytes,
)
