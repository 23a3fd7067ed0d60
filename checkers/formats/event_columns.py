"""The events of a file, column by column, as they were written; nothing is interpreted yet."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import numpy as np

from checkers.formats.source import SourceFile
from checkers.history.counting import Ints
from checkers.history.foreign_values import Atoms, shown, spelled

ABSENT: Final = -1  # in a column of atoms: the event does not say
UNSAID: Final = int(np.iinfo(np.int64).min)  # in a column of numbers: the event does not say

NUMBERS: Final = ("index", "time", "token", "ttl")
ATOMS: Final = ("process", "type", "f", "value", "key", "owner", "session", "error", "reason", "shared")
FIELDS: Final = (*NUMBERS, *ATOMS)
"""The fields of an event that have a meaning here. All other fields are read and passed over."""

NEEDED: Final = ("process", "type", "f")  # what every event must say
LARGEST: Final = 1 << 61  # leaves room to shift times and to add a TTL


class EventColumns:
    """Events in the order of lines.

    line     the line of each event, counted from 0.
    columns  field → array: numbers as they are (`UNSAID` for none), others as indexes into `atoms` (`ABSENT` for none).
             A field that no event has is missing. Before `close`: one element a line, valid where `read` is true.
    read     shape (lines,): whether the line is one event that was read with others of its shape.
    """

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.atoms: dict[str, Atoms] = {field: Atoms() for field in ATOMS}
        self.read = np.zeros(len(source), bool)
        self.line: Ints = np.empty(0, np.int64)
        self.columns: dict[str, Ints] = {}
        self._lines: list[int] = []
        self._slow: dict[str, list[int]] = {field: [] for field in FIELDS}

    def __len__(self) -> int:
        return len(self.line)

    def column(self, field: str) -> Ints:
        """One column, even of a field that no event has."""
        column = self.columns.get(field)
        return np.full(len(self), missing(field), np.int64) if column is None else column

    def add(self, line: int, event: Mapping[str, Any]) -> None:
        """One event, from what its map says. Raises BadHistory."""
        for field in NEEDED:
            if event.get(field) is None:
                raise self.source.bad(line, f"an event without {field}")
        self._lines.append(line)
        for field in NUMBERS:
            self._slow[field].append(self._number(line, field, event.get(field)))
        for field in ATOMS:
            given = field in event and (field == "value" or event[field] is not None)
            self._slow[field].append(self.atoms[field].intern(event[field]) if given else ABSENT)

    def close(self) -> Self:
        """Put events that were read by their shape and events that were added into the order of lines."""
        self.line = np.flatnonzero(self.read)
        if len(self.line) < len(self.read):
            self.columns = {field: column[self.line] for field, column in self.columns.items()}
        if self._lines:
            line = np.concatenate((self.line, np.array(self._lines, np.int64)))
            order = np.argsort(line, kind="stable")
            for field, slow in self._slow.items():
                more = np.array(slow, np.int64)
                if field in self.columns or (more != missing(field)).any():
                    self.columns[field] = np.concatenate((self.column(field), more))[order]
            self.line = line[order]
        for field in (name for name in NUMBERS if name in self.columns):
            numbers, low = self.columns[field], -LARGEST if field in ("time", "index") else 0
            bad = (numbers != UNSAID) & ((numbers < low) | (numbers >= LARGEST))
            if bad.any():
                at = int(np.argmax(bad))
                raise self.source.bad(int(self.line[at]), f"{field} {numbers[at]} is out of range")
        return self

    def first(self, field: str, atom: int) -> int:
        """Line of the first event with this atom."""
        return int(self.line[np.argmax(self.columns[field] == atom)])

    def _number(self, line: int, field: str, value: Any) -> int:
        if value is None:
            return UNSAID
        if type(value) is float and value.is_integer() and field == "time":
            value = int(value)
        if type(value) is not int:
            raise self.source.bad(line, f"{field} is {shown(spelled(value))}, not a whole number")
        if abs(value) >= LARGEST:
            raise self.source.bad(line, f"{field} {shown(str(value))} is out of range")
        return value


def different(atoms: Ints) -> list[int]:
    """The atoms that occur in a column; `ABSENT` is not one."""
    seen = np.zeros(int(atoms.max(initial=ABSENT)) + 2, bool)
    seen[atoms] = True
    seen[ABSENT] = False
    return np.flatnonzero(seen).tolist()


def missing(field: str) -> int:
    """The value of a column for an event that does not say."""
    return UNSAID if field in NUMBERS else ABSENT


def named(values: Sequence[Any]) -> list[str]:
    """Texts for values, different for different values. A string stands as it is if no other value has that text."""
    texts = [value if isinstance(value, str) else spelled(value) for value in values]
    counts = Counter(texts)
    return [text if counts[text] == 1 else spelled(value) for text, value in zip(texts, values, strict=True)]
