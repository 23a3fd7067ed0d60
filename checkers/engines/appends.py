"""Values that are appended to: exact where each part is appended once and nothing is written.

What was appended then stands in the value in the order in which it was appended, so the longest value that was read
says the order of all that any read showed; every other must be a beginning of it. Each append is a stage of its own
(`checkers.engines.growth`). Strings are taken apart into what was appended where that can be done in one way only:
no string that was appended begins with another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from checkers.engines.engine import Answer, Conflict, Rows
from checkers.engines.growth import Order, Place, Stage, Table, contradiction, woven
from checkers.engines.registers import decide
from checkers.engines.values import values_of
from checkers.history import History
from checkers.models.model import UNSET, Settings
from checkers.models.registers import bare, holds_lists
from checkers.wire import F, Outcome

_WRITTEN: Final = "appended to and written"
_REPEATED: Final = "the same was appended repeatedly"
_AMBIGUOUS: Final = "strings were appended of which one begins with another"


def kv(history: History, settings: Settings) -> Answer:
    """Keys that nobody appends to are registers. Conflicts: as of `register`, and ``reads-disagree``."""
    c = history.columns
    keys = int(c["key"].max(initial=0)) + 1
    appended = np.zeros(keys, np.bool_)
    appended[c["key"][(c["f"] == F.APPEND) & (c["outcome"] != Outcome.FAIL)]] = True
    others = replace(history, columns={**c, "f": np.where(appended[c["key"]], 0, c["f"]).astype(np.uint8)})
    plain = decide(others, settings, values_of(history, settings, bare=True), swaps=False)
    if not appended.any():
        return plain
    hidden = replace(history, columns={**c, "f": np.where(appended[c["key"]], c["f"], 0).astype(np.uint8)})
    silent = replace(settings, nil_read="value")
    table = Table(hidden, silent, F.READ, F.WRITE, F.APPEND)
    lists = holds_lists(history)
    conflicts, undecided, orders = list(plain.conflicts), dict(plain.undecided), []
    for key, rows in table.by_key():
        found = _Key(table, rows, settings, lists=lists).judged(key)
        if isinstance(found, Conflict):
            conflicts.append(found)
        elif isinstance(found, str):
            undecided[key] = found
        else:
            orders.append(found)

    def order() -> Rows:
        return np.concatenate((plain.order(), np.array([row for make in orders for row in make()], np.int64)))

    return Answer(tuple(conflicts), undecided, order)


class _Key:
    """One key of a history."""

    def __init__(self, table: Table, rows: Sequence[int], settings: Settings, *, lists: bool) -> None:
        self._table = table
        self._lists = lists
        self._appends = [row for row in rows if table.f[row] == F.APPEND and not table.failed(row)]
        self._written = any(table.f[row] == F.WRITE and not table.failed(row) for row in rows)
        self._refused = {table.value(row): row for row in rows if table.f[row] == F.APPEND and table.failed(row)}
        reads = [row for row in rows if table.f[row] == F.READ and table.ok(row)]
        nothing = settings.nil_read == "unknown"
        self._silent = [
            row for row in reads if table.value(row) is UNSET or (nothing and bare(table.value(row)) is None)
        ]
        silent = set(self._silent)
        self._reads = [row for row in reads if row not in silent]
        initial = bare(None if settings.initial is UNSET else settings.initial)
        self._initial: Any = (() if lists else "") if initial is None else initial

    def judged(self, key: int) -> Conflict | str | Order:
        """What contradicts itself, why it is left undecided, or what makes the order."""
        table = self._table
        if self._written or not isinstance(self._initial, tuple if self._lists else str):
            return _WRITTEN
        by_part: dict[Hashable, int] = {}
        for row in self._appends:
            part = table.value(row)
            if part in by_part:
                return _REPEATED
            if not self._lists and (not isinstance(part, str) or not part):
                return _AMBIGUOUS
            by_part[part] = row
        if not self._lists and _ambiguous(by_part):
            return _AMBIGUOUS
        shown: list[tuple[int, int]] = []
        longest: Sequence[Any] = self._initial
        origin = -1
        for row in self._reads:
            value: Any = bare(table.value(row))
            value = type(longest)() if value is None else value
            if type(value) is not type(longest):
                return Conflict("value-never-written", key, (row,))
            if len(value) > len(longest):
                longest, origin = value, row
            shown.append((len(value), row))
        for length, row in shown:
            value = bare(table.value(row))
            value = type(longest)() if value is None else value
            if longest[:length] != value or length < len(self._initial):
                return Conflict("reads-disagree", key, (row,) if origin in (-1, row) else (origin, row))
        return self._staged(key, longest, origin, shown, by_part)

    def _staged(
        self,
        key: int,
        longest: Sequence[Any],
        origin: int,
        shown: Sequence[tuple[int, int]],
        by_part: dict[Hashable, int],
    ) -> Conflict | Order:
        table = self._table
        if longest[: len(self._initial)] != self._initial:
            return Conflict("value-never-written", key, (origin,))
        parts, ends = self._parts(longest, by_part)
        if ends[-1] != len(longest):
            blamed = self._refused.get(longest[ends[-1]]) if self._lists else None
            if blamed is not None:
                return Conflict("refused-value-read", key, (blamed, origin))
            return Conflict("value-never-written", key, (origin,))
        if len(set(parts)) != len(parts):
            return Conflict("element-duplicated", key, (origin,))
        stages = [Stage([]), *(Stage([row]) for row in parts)]
        for length, row in shown:
            place = bisect_right(ends, length) - 1
            if ends[place] != length:
                return Conflict("value-never-written", key, (row,))
            stages[place].reads.append(row)
        seen = set(parts)
        rest = [row for row in self._appends if row not in seen and table.ok(row)]
        rows = contradiction(stages, rest, table)
        if rows is not None:
            shown_by = () if origin < 0 else (origin,)
            return Conflict("not-the-latest-value", key, tuple(dict.fromkeys((*rows, *shown_by))))
        return partial(self._order, stages, rest)

    def _parts(self, value: Any, by_part: dict[Hashable, int]) -> tuple[list[int], list[int]]:
        """The appends that a value consists of, as far as it does, and where the initial value and each of them end."""
        ends = [len(self._initial)]
        rows: list[int] = []
        ordered = [] if self._lists else sorted(map(str, by_part))
        longest = max(map(len, ordered), default=0)
        while ends[-1] < len(value):
            here = ends[-1]
            if self._lists:
                part = value[here]
            else:  # whatever stands between a string and one that it begins, begins with it too
                place = bisect_right(ordered, value[here : here + longest]) - 1
                part = ordered[place] if place >= 0 and value.startswith(ordered[place], here) else None
            if part not in by_part:
                break
            rows.append(by_part[part])
            ends.append(here + (1 if self._lists else len(part)))
        return rows, ends

    def _order(self, stages: Sequence[Stage], rest: Sequence[int]) -> Sequence[int]:
        inv = self._table.inv
        sequence: list[int] = []
        for stage in stages:
            sequence += stage.first
            sequence += sorted(stage.reads, key=inv.__getitem__)
        sequence += sorted(rest, key=inv.__getitem__)
        return woven(sequence, [Place(row) for row in self._silent], inv, self._table.ret)


def _ambiguous(parts: dict[Hashable, int]) -> bool:
    """Whether one begins with another."""
    ordered = sorted(str(part) for part in parts)
    return any(later.startswith(one) for one, later in pairwise(ordered))
