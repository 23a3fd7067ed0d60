"""Reads files with one event a line, column by column.

Most lines of a file differ only in a few places. A `LineShape` is one line with groups in these places, learned from
the file itself. One regular expression reads all lines of the shape at once (RE2, through Arrow), and every different
text in a group is parsed once. A group for nested values takes any text, which counts only if it is exactly one value.
So every line is read as the complete parser would read it, or is left to that parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from checkers.formats.event_columns import ABSENT, FIELDS, NEEDED, NUMBERS, UNSAID, EventColumns, missing
from checkers.formats.source import SourceFile
from checkers.history.counting import Ints

CHUNK: Final = 1 << 18  # lines that Arrow reads at once
ATTEMPTS: Final = 8  # after so many shapes in a row that few lines have, the rest is left to the complete parser
LONGEST: Final = 4000  # characters of a pattern; a line with too many keys for that makes no shape
FEW: Final = 64  # so few lines are not worth a shape
NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,17})"  # a whole number, in JSON and in EDN


class LineShape(NamedTuple):
    """pattern: of RE2, its groups named after `fields`."""

    pattern: str
    fields: tuple[str, ...]


class Notation(NamedTuple):
    """How values are written."""

    learn: Callable[[str], LineShape | None]  # the shape of a line that is one event, None if it cannot have one
    value_of: Callable[[str], Any]  # the value of a text that is exactly one value; raises ValueError for any other
    atom: str  # pattern of an element of a list, of the commonest kinds only
    between: str  # what stands between two elements
    as_json: Callable[[bytes], bytes]  # turns such lists, with commas between them and brackets around them, into JSON

    def lists(self) -> str:
        """Pattern of an atom or a list, nested up to three deep. Every text that it matches is one value."""
        inner = self.atom
        for _ in range(3):
            inner = rf"(?:{inner}|\[(?:{inner}(?:{self.between}{inner})*)?\])"
        return f"^(?:{self.atom}|{inner})$"


def shape_of_map(
    line: str,
    *,
    spans: Callable[[str], Iterator[tuple[str, int, int]]],
    nested: Sequence[str],
    words: Sequence[str],
    other: str,
    blank: str,
) -> LineShape | None:
    """The shape of a line that is one map, None if it cannot have one, or the complete parser should read it.

    spans: the keys of a map, each with where its value begins and ends; raises ValueError for a line that is no map.
    nested: the fields of which any value is taken. words: patterns of the values of other fields that are no numbers.
    other: pattern of the values of keys that are passed over. blank: what may stand before and behind the map.
    """
    line = line.strip(blank)
    try:
        places = [*spans(line)]
    except ValueError:
        return None
    keys = [key for key, _, _ in places]
    if not line.isascii() or not set(NEEDED) <= set(keys) or len(set(keys)) < len(keys):
        return None
    pattern, last = "", 0
    for key, begin, end in places:
        kinds = (NUMBER,) if key in NUMBERS else (NUMBER, *words) if key in FIELDS else (other,)
        kind = ".*" if key in nested else next((kind for kind in kinds if re.fullmatch(kind, line[begin:end])), None)
        if kind is None:
            return None
        pattern += re.escape(line[last:begin]) + (f"(?P<{key}>{kind})" if key in FIELDS else kind)
        last = end
    pattern += re.escape(line[last:])
    return LineShape(f"^[{blank}]*{pattern}[{blank}]*$", tuple(key for key in keys if key in FIELDS))


_NILS: Final = frozenset({b"nil", b"null"})
_STRING: Final = re.compile(rb"""\"[^:'"\\#\x00-\x1f][^"\\\x00-\x1f]*\"\Z""")
"""A string that says the same in JSON and in EDN."""


def read(events: EventColumns, notation: Notation) -> None:
    """Reads every line that has one of the file's shapes."""
    source = events.source
    shapes: list[LineShape] = []
    parsers = {field: _Parser(events, field, notation) for field in events.atoms}
    fruitless = 0
    for first in range(0, len(source), CHUNK):
        end = min(first + CHUNK, len(source))
        lines = source.arrow(first, end)
        left = np.arange(end - first)
        for shape in shapes:
            left = _extract(events, shape, lines, left, first, parsers)
        while len(left) > FEW and fruitless < ATTEMPTS:
            learned = _learned(notation, source, left + first, shapes)
            if learned is None:
                break
            before = len(left)
            left = _extract(events, learned, lines, left, first, parsers)
            if before - len(left) > before // 20:
                shapes.append(learned)
                fruitless = 0
            else:
                fruitless += 1


def _learned(notation: Notation, source: SourceFile, rows: Ints, shapes: Sequence[LineShape]) -> LineShape | None:
    for row in rows[:: len(rows) // ATTEMPTS + 1]:
        shape = notation.learn(source.text(row, row + 1))
        if shape is not None and len(shape.pattern) <= LONGEST and shape not in shapes:
            return shape
    return None


def _extract(
    events: EventColumns, shape: LineShape, lines: pa.Array, left: Ints, first: int, parsers: dict[str, _Parser]
) -> Ints:
    """Read those lines among `left` that have the shape; return those that are still left."""
    import pyarrow.compute as pc

    if not len(left):
        return left
    chosen = lines if len(left) == len(lines) else lines.take(pa.array(left))
    groups = pc.extract_regex(chosen, shape.pattern)
    fits = np.array(groups.is_valid())
    if not fits.any():
        return left
    values = {}
    good = np.ones(int(fits.sum()), bool)
    matched = groups if fits.all() else groups.filter(pa.array(fits))
    for place, field in enumerate(shape.fields):
        texts = matched.field(place)
        if field in NUMBERS:
            values[field] = texts.cast(pa.large_string()).cast(pa.int64()).to_numpy(zero_copy_only=False)
        else:
            values[field] = parsers[field].parse(texts)
            good &= values[field] != UNSAID
    rows = left[fits] + first
    if not good.all():
        rows, values = rows[good], {field: column[good] for field, column in values.items()}
        fits[np.flatnonzero(fits)[~good]] = False
    events.read[rows] = True
    for field, column in values.items():
        if field not in events.columns:
            events.columns[field] = np.full(len(events.read), missing(field), np.int64)
        events.columns[field][rows] = column
    rest: Ints = left[~fits]
    return rest


class _Parser:
    """Parses every different text of one field once."""

    def __init__(self, events: EventColumns, field: str, notation: Notation) -> None:
        self._atoms = events.atoms[field]
        self._notation = notation
        self._nil = field == "value"
        self._none = UNSAID if field in NEEDED else ABSENT
        self._lists = notation.lists()
        self._known: dict[bytes, int] = {}

    def parse(self, texts: pa.Array) -> Ints:
        """Indexes of the atoms; `UNSAID` for a text that is not exactly one value."""
        encoded = texts.dictionary_encode()
        known = self._known
        different = encoded.dictionary.to_pylist()
        self._learn_lists([text for text in different if text not in known])
        table = np.fromiter((known[text] if text in known else self._learn(text) for text in different), np.int64)
        indices: Ints = table[encoded.indices.to_numpy(zero_copy_only=False)]
        return indices

    def _learn_lists(self, texts: list[bytes]) -> None:
        """Parse the common texts all at once: numbers, other atoms, and lists of them."""
        import pyarrow.compute as pc

        if len(texts) <= FEW:
            return
        array = pa.array(texts, pa.large_binary())
        common = array.filter(pc.match_substring_regex(array, self._lists)).to_pylist()
        values = json.loads(self._notation.as_json(b"[" + b",".join(common) + b"]"))
        self._known.update(zip(common, self._atoms.intern_all(map(_tuples, values), simple=True), strict=True))
        if not self._nil:
            for nil in _NILS & self._known.keys():
                self._known[nil] = self._none

    def _learn(self, text: bytes) -> int:
        try:
            value = text[1:-1].decode() if _STRING.match(text) else self._notation.value_of(text.decode())
        except ValueError:
            code = UNSAID
        else:
            code = self._atoms.intern(value) if self._nil or value is not None else self._none
        self._known[text] = code
        return code


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if type(value) is list else value
