"""Several registers in one state: what a history of each single one already contradicts.

A transaction is, on each single register, a read, a write or a compare-and-set: what it read there first and wrote
there last. If the whole can be ordered, so can what happened to each register. The reverse does not hold where
transactions join several registers, so a history without a contradiction in a single one is left to the search.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from checkers.engines.engine import Answer, Conflict
from checkers.engines.registers import decide
from checkers.engines.values import NOWHERE, Values, times
from checkers.formats.values import FrozenMap
from checkers.history import History
from checkers.models.model import UNSET, Operation, Settings
from checkers.models.registers import micro_operations
from checkers.operations import WHOLE, ByKey
from checkers.wire import NONE, F

_MANY: Final = "transactions on several registers"


class _Part(NamedTuple):
    """What one operation did to one register."""

    row: int
    f: F | None
    key: Hashable
    value: Any
    base: Any


def multi_register(history: History, settings: Settings) -> Answer:
    """Conflicts: those of `cas_register`, and ``transaction-contradicts-itself``. All else is undecided."""
    parts: list[_Part] = []
    silent = (UNSET, None) if settings.nil_read == "unknown" else (UNSET,)
    operations = ByKey(history, (F.READ, F.WRITE, F.TRANSACT), keyed=False)[WHOLE]
    for operation in operations:
        if operation.failed:
            continue
        for key in dict.fromkeys(micro.key for micro in micro_operations(operation)):
            part = _part(operation, key, silent)
            if part is None:
                conflict = Conflict("transaction-contradicts-itself", WHOLE, (operation.row,))
                return Answer((conflict,), {}, lambda: np.empty(0, np.int64))
            if part.f is not None:
                parts.append(part)
    if not len(operations):
        return Answer((), {}, lambda: np.empty(0, np.int64))
    answer = decide(*_projected(history, parts, settings), swaps=True)
    rows = [part.row for part in parts]
    conflicts = tuple(
        Conflict(one.kind, WHOLE, tuple(dict.fromkeys(rows[row] for row in one.rows))) for one in answer.conflicts
    )
    return Answer(conflicts, {} if conflicts else {WHOLE: _MANY}, lambda: np.empty(0, np.int64))


def _part(operation: Operation, key: Hashable, silent: Container[Any]) -> _Part | None:
    """What an operation did to one of its registers, None if it did not read what it had read or written there."""
    read = written = UNSET
    wrote = False
    for micro in micro_operations(operation):
        if micro.key != key:
            continue
        if micro.write:
            written, wrote = micro.value, True
        elif not operation.unknown and micro.value not in silent:
            known = written if wrote else read
            if known is not UNSET and known != micro.value:
                return None
            if not wrote:
                read = micro.value
    if not wrote:
        f = None if read is UNSET else F.READ
        return _Part(operation.row, f, key, read, UNSET)
    return _Part(operation.row, F.WRITE if read is UNSET else F.CAS, key, written, read)


def _projected(history: History, parts: Sequence[_Part], settings: Settings) -> tuple[History, Settings, Values]:
    """A history with a key for each register, and its values numbered."""
    given = dict(settings.initial) if isinstance(settings.initial, FrozenMap) else settings.initial
    keys: dict[Hashable, int] = {}
    numbers: dict[tuple[int, Any], int] = {}

    def number(key: int, name: Hashable, value: Any) -> int:
        initial = given.get(name) if isinstance(given, Mapping) else None if given is UNSET else given
        return NONE if value == initial else numbers.setdefault((key, value), len(numbers))

    rows = np.array([part.row for part in parts], np.int64)
    here = [keys.setdefault(part.key, len(keys)) for part in parts]
    value = [number(key, part.key, part.value) for key, part in zip(here, parts, strict=True)]
    base = [
        NONE if part.base is UNSET else number(key, part.key, part.base) for key, part in zip(here, parts, strict=True)
    ]
    c = history.columns
    columns = {name: c[name][rows] for name in ("inv", "ret", "outcome")}
    columns["f"] = np.array([part.f for part in parts], np.uint8)
    columns["key"] = np.array(here, np.uint32)
    values = Values(
        np.array(value, np.int64),
        np.array(base, np.int64),
        NONE,
        NOWHERE,
        NOWHERE,
        *times(c["inv"][rows], c["ret"][rows]),
    )
    return replace(history, columns=columns, values=(), lines=None, clock=None), settings, values
