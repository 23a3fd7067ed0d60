"""Registers whose values are unique: exact, O(n log n).

Source: Gibbons and Korach, *Testing shared memories* (1997); checkers/CONDITIONS.md, section 19. A contradiction that
does not depend on what is undecided counts all the same.
"""

from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from checkers.engines.codes import F_CAS, F_WRITE, FAIL, INFO
from checkers.engines.comparable_values import Values, compact, values_of
from checkers.engines.kernel import Column
from checkers.engines.registers_kernels import KINDS, NEVER_WRITTEN, READ, REFUSED, Clusters, Numbering, Roles, roles
from checkers.engines.registers_order import crossings, forced, gaps, numbered
from checkers.history.counting import Flags, Ints
from checkers.history.history import Columns, History
from checkers.models.engine_answer import Conflict, EngineAnswer
from checkers.models.model import Settings
from checkers.row_format import F, Outcome

_SPARE: Final = 1024  # how many more values than rows there may be before they are numbered anew

_SMALL: Final = 1_000
_OFTEN: Final = 4
_FEW: Final = 20
"""Rows, writes of each value, unknown writes: within these bounds searching a key costs less than the engine."""

_REPEATED: Final = "a value that was seen was written repeatedly"
_STUCK: Final = "a failed compare-and-set needs another order of the values"


def kv(history: History, settings: Settings) -> EngineAnswer:
    """Reads and writes, key by key. Keys that somebody appends to are undecided."""
    c = history.columns
    appended = np.unique(c["key"][(c["f"] == F.APPEND) & (c["outcome"] != Outcome.FAIL)])
    others = replace(history, columns={**c, "f": np.where(np.isin(c["key"], appended), 0, c["f"])})
    answer = _decided(others, settings, swaps=False, bare=True)
    return answer._replace(undecided=answer.undecided | dict.fromkeys(appended.tolist(), "it is appended to"))


def _decided(history: History, settings: Settings, *, swaps: bool, bare: bool = False) -> EngineAnswer:
    """The answer. swaps: whether compare-and-sets count; a failed one proves what `Settings.failed_cas` says. bare: see
    `values_of`.
    """
    values, key = values_of(history, settings, bare=bare), history.columns["key"]
    keys = int(key.max(initial=0)) + 1
    if keys == 1 and len(history) < _SMALL and _worn(history, values):
        return EngineAnswer((), {0: _REPEATED}, lambda: np.empty(0, np.int64))
    parts = _roles(history, settings, values, keys, swaps=swaps)
    clusters, chains, wrong = forced(parts)
    order = np.argsort(chains.low)
    crossed = crossings(order, chains, keys)
    kind = np.where(wrong.kind, wrong.kind, crossed.kind)
    rows = np.where(np.repeat(wrong.kind, 4), wrong.rows, crossed.rows)
    bad, repeated, contested = kind != 0, clusters.repeated, clusters.contested
    undecided = dict.fromkeys(np.flatnonzero(repeated & ~bad).tolist(), _REPEATED)
    disputed = contested & ~repeated & ~bad
    if disputed.any():
        stuck = _placed(parts, clusters, chains.head[order], disputed)[1]
        undecided |= dict.fromkeys(np.flatnonzero(stuck).tolist(), _STUCK)
    left = ~bad
    left[list(undecided)] = False
    conflicts = _conflicts(history, values, kind, rows.reshape(-1, 4))
    return EngineAnswer(conflicts, undecided, lambda: _placed(parts, clusters, chains.head[order], left)[0])


register: Final = partial(_decided, swaps=False)  # reads and writes, key by key
cas_register: Final = partial(_decided, swaps=True)  # reads, writes and compare-and-sets, key by key


def _worn(history: History, values: Values) -> bool:
    """Whether few values were written over and over, and little is unknown: then the search ends quickly."""
    c = history.columns
    written = ((c["f"] == F_WRITE) | (c["f"] == F_CAS)) & (c["outcome"] != FAIL)
    unknown = int(np.count_nonzero(written & (c["outcome"] == INFO)))
    again = int(np.count_nonzero(written))
    return unknown <= _FEW and again > _OFTEN and again > _OFTEN * len(set(values.value[written].tolist()))


def _placed(parts: Roles, clusters: Clusters, heads: Column, wanted: Flags) -> tuple[Ints, Flags]:
    """All rows of the wanted keys in order; which keys have a guest (see `gaps`) without a place. heads: of chains."""
    key, mine, number = parts.key, clusters.mine, numbered(heads, clusters)
    rows = np.flatnonzero((mine >= 0) & wanted[key])
    place = number[mine[rows]].astype(np.int64) * 2 + (parts.role[rows] == READ)
    sequence = rows[np.lexsort((place, key[rows]))]
    guests = np.flatnonzero((parts.role >= REFUSED) & wanted[key])
    guests = guests[np.argsort(key[guests], kind="stable")]
    by_ret = np.lexsort((parts.ret[guests], key[guests]))
    chosen, stuck = gaps(sequence, guests, by_ret, parts, mine)
    # At one place guests stand before the operation that is there, in order of their invocations.
    places = np.concatenate((np.arange(len(sequence)) * 2 + 1, chosen * 2))
    merged = np.concatenate((sequence, guests))
    return merged[np.lexsort((places, key[merged]))], stuck


def _conflicts(history: History, values: Values, kind: Column, rows: Column) -> tuple[Conflict, ...]:
    """A conflict for each key that contradicts itself. kind, rows: see `Contradictions`; rows of shape (keys, 4)."""
    c = history.columns
    keys = np.flatnonzero(kind)
    refused: dict[tuple[int, int], int] = {}
    if (kind == NEVER_WRITTEN).any():
        failed = np.flatnonzero((c["outcome"] == Outcome.FAIL) & ((c["f"] == F.WRITE) | (c["f"] == F.CAS)))
        named = zip(c["key"][failed].tolist(), values.value[failed].tolist(), strict=True)
        refused = dict(zip(named, failed.tolist(), strict=True))
    result = []
    for key, what, four in zip(keys.tolist(), kind[keys].tolist(), rows[keys].tolist(), strict=True):
        involved = tuple(dict.fromkeys(row for row in four if row >= 0))
        name = KINDS[what]
        if what == NEVER_WRITTEN:
            row = involved[0]
            seen = values.base if c["f"][row] == F.CAS and values.base[row] != values.value[row] else values.value
            blamed = refused.get((key, int(seen[row])))
            if blamed is not None:
                name, involved = "refused-value-read", (blamed, row)
        result.append(Conflict(name, key, involved))
    return tuple(result)


def _roles(history: History, settings: Settings, values: Values, keys: int, *, swaps: bool) -> Roles:
    """Numbers the values of all keys without large gaps, so that the arrays over these numbers stay small."""
    c = history.columns
    room = len(history) + _SPARE
    low = int(min(values.value.min(initial=0), values.base.min(initial=0)))
    width = int(max(values.value.max(initial=0), values.base.max(initial=0))) - low + 1
    rest = int(swaps), int(settings.failed_cas == "observes"), values.initial, values.nothing
    for apart in (1, 0):
        if width * (keys if apart else 1) <= room:
            parts = _seen(c, values, Numbering(keys, low, width, apart, *rest))
            if parts is not None:
                return parts
    values, width = compact(values, c["key"])
    parts = _seen(c, values, Numbering(keys, 0, width, 0, *rest[:2], values.initial, values.nothing))
    assert parts is not None
    return parts


def _seen(c: Columns, values: Values, numbering: Numbering) -> Roles | None:
    """The roles; None if the numbering does not keep the keys apart and two of them share a value."""
    role, own, expected, right = roles(c["f"], c["outcome"], c["key"], values.value, values.base, numbering)
    first = numbering.width * (numbering.keys if numbering.apart else 1)
    return Roles(role, own, expected, c["key"], values.inv, values.ret, first, numbering.keys) if right else None
