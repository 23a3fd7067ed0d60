"""A store that compares fencing tokens: exact in near-linear time.

Source: checkers/CONDITIONS.md, sections 17 and 18. If the fence is on writes alone, most keys pass a first look
(`checkers.engines.fenced_screen`) and need no more. What is left to the search: `REPEATED` and `LOOSE`.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from checkers.engines.comparable_values import Values, compact, values_of
from checkers.engines.fenced_accesses import (
    HIGHEST,
    LOWEST,
    REFUSED,
    UNKNOWN,
    UNREAD,
    AccessColumns,
    Accesses,
    Terms,
    classified,
    grouped,
    sequential,
    settled,
    traced,
    unsettled,
)
from checkers.engines.fenced_order import arranged, within
from checkers.engines.fenced_refusals import Reasons, StoreColumns, explanations, needless
from checkers.engines.fenced_screen import doubtful
from checkers.engines.fenced_survey import KINDS, NEEDLESS, PROOF, Findings, carried_over, overtaken, surveyed
from checkers.engines.kernel import SMALL, Column, kernel, no_rows
from checkers.history.counting import Ints
from checkers.history.finding import Finding
from checkers.history.history import History
from checkers.models.engine_answer import Conflict, EngineAnswer
from checkers.models.model import Settings
from checkers.models.stores import Rule, rule_of
from checkers.row_format import NONE, F, Outcome

REPEATED: Final = "several writes of one value, which was read"
LOOSE: Final = "reads without a token, or without a value, that have no place of their own"


class Broken(NamedTuple):
    """Where the rule was broken, and which keys cannot be judged here."""

    kind: Column  # of each finding one of `KINDS`
    at: Column  # of each finding the row that gives its time
    rows: Column  # `PROOF` rows of each finding, which prove it; -1 for none
    readers: Column  # of each of these rows, if it was never answered, the read that proves it accepted; else -1
    repeated: Column  # of each key whether a value that was read was written several times
    loose: Column  # of each key whether it has loose reads


def fenced_store(history: History, settings: Settings) -> EngineAnswer:
    """Judges by the rule of the lane's store, or by that of the settings if it has none. Raises ValueError."""
    columns, terms = posed(history, settings, rule_of(history, settings))
    broken = _judged(columns, terms)
    keys = columns.key[broken.at]
    conflicts = tuple(
        Conflict(KINDS[place.kind], int(columns.key[place.at]), _with_rivals(history, place))
        for place in _places(broken, np.unique(keys, return_index=True)[1])
    )
    return EngineAnswer(conflicts, _undecided(broken, columns), lambda: _order(columns, terms))


def fenced_findings(history: History, rule: Rule) -> tuple[list[Finding], dict[int, str]]:
    """All findings against the rule, over all keys; and keys without findings that only a search can judge."""
    columns, terms = posed(history, Settings(), rule)
    broken = _judged(columns, terms)
    findings = []
    for place in _places(broken, np.arange(len(broken.kind))):
        # For a needless refusal only the refusal itself is told, not what came too late to explain it.
        rows = place.proof[-1:] if place.kind == NEEDLESS else place.proof
        findings.append(Finding(KINDS[place.kind], int(columns.inv[place.at]), rows))
    return findings, _undecided(broken, columns)


class _Place(NamedTuple):
    """A finding; see `Broken`."""

    kind: int
    at: int
    rows: list[int]
    proof: tuple[int, ...]  # the rows that contradict each other; the row that broke the rule comes last


def _places(broken: Broken, chosen: Column) -> Iterator[_Place]:
    """The findings of `broken` with the numbers in `chosen`."""
    kinds, ats = broken.kind[chosen].tolist(), broken.at[chosen].tolist()
    fours = (column.reshape(-1, PROOF)[chosen].tolist() for column in (broken.rows, broken.readers))
    for kind, at, rows, readers in zip(kinds, ats, *fours, strict=True):
        *others, last = (row for row in rows if row >= 0)
        before = dict.fromkeys(row for row in (*others, *readers) if row >= 0 and row != last)
        yield _Place(kind, at, rows, (*before, last))


def _with_rivals(history: History, place: _Place) -> tuple[int, ...]:
    """The proof; of a needless refusal also the accesses that keep a write of a higher token from coming first."""
    rival = place.rows[0]
    if place.kind != NEEDLESS or rival < 0:
        return place.proof
    c = history.columns
    peers = c["key"] == c["key"][rival]
    written = peers & (c["f"] == F.WRITE) & (c["token"] == c["token"][rival])
    read = peers & (c["f"] == F.READ) & (c["outcome"] == Outcome.OK) & np.isin(c["value"], c["value"][written])
    return tuple(dict.fromkeys((*np.flatnonzero(written | read).tolist(), *place.proof)))


def _undecided(broken: Broken, columns: AccessColumns) -> dict[int, str]:
    """Keys without findings that only a search can judge, and why."""
    reasons = dict.fromkeys(np.flatnonzero(broken.repeated).tolist(), REPEATED)
    reasons |= dict.fromkeys(np.flatnonzero(broken.loose).tolist(), LOOSE)
    bad = set(columns.key[broken.at].tolist())
    return {key: why for key, why in reasons.items() if key not in bad}


def _judged(columns: AccessColumns, terms: Terms) -> Broken:
    """What `judged` finds; it is run only on the keys that do not pass the first look."""
    doubt = screened(columns, terms)
    if doubt.all():
        return judged(*numbered(columns, terms))
    if not doubt.any():
        none = np.empty(0, np.int64)
        return Broken(none, none, none, none, doubt, doubt)
    rows = np.flatnonzero(doubt[columns.key])
    part = AccessColumns(*[column[rows] for column in columns])
    part = part._replace(key=(np.cumsum(doubt)[part.key] - 1).astype(part.key.dtype))
    size = len(columns.key) if judged.fast or len(rows) >= SMALL else len(rows)
    broken = judged.sized(size, *numbered(part, terms._replace(keys=int(np.count_nonzero(doubt)))))
    repeated, loose = np.zeros((2, len(doubt)), np.bool_)
    repeated[doubt], loose[doubt] = broken.repeated, broken.loose
    rows = np.append(rows, -1)  # so that -1 remains -1
    return Broken(broken.kind, rows[broken.at], rows[broken.rows], rows[broken.readers], repeated, loose)


def _order(columns: AccessColumns, terms: Terms) -> Ints:
    """The rows of the keys that are decided and not broken, those of each key in an order of linearization points."""
    store, reasons, broken = examined(*numbered(columns, terms))
    store.skip[columns.key[broken.at]] = True
    return arranged(store, reasons)


def posed(history: History, settings: Settings, rule: Rule) -> tuple[AccessColumns, Terms]:
    """Arguments of the kernels."""
    c = history.columns
    values = values_of(history, settings)
    keys = max(len(history.facts.keys), int(c["key"].max(initial=0)) + 1)
    terms = Terms(keys, values.initial, values.nothing, int(rule.reads), int(rule.strict))
    operations = c["f"], c["outcome"], c["reason"], c["flags"], c["key"], c["token"]
    columns = AccessColumns(*operations, values.value, values.inv, values.ret)
    return columns._replace(token=_without_gaps(columns, terms)), terms


def numbered(columns: AccessColumns, terms: Terms) -> tuple[AccessColumns, Terms]:
    """The same with numbers for tokens and values that leave no large gaps, so that there is room for tables over them.

    No two keys have written one value, but for the initial one, unless each has a table of its own.
    """
    columns = columns._replace(token=_without_gaps(columns, terms))
    written = columns.f == F.WRITE
    key, value, room = columns.key[written], columns.value[written], 2 * len(columns.f) + 64
    low = int(value.min()) if len(value) else 0
    span = int(value.max(initial=low)) - low + 1
    if terms.keys * span <= room:
        return columns, terms
    if span <= room:
        home = np.zeros(span, key.dtype)  # of each value the last key that wrote it
        home[value - low] = key
        if ((home[value - low] == key) | (value == terms.initial)).all():
            return columns, terms
    values = Values(columns.value, columns.value, terms.initial, terms.nothing, columns.inv, columns.ret)
    anew, _ = compact(values, columns.key)
    return columns._replace(value=anew.value), terms._replace(initial=anew.initial, nothing=anew.nothing)


def _without_gaps(columns: AccessColumns, terms: Terms) -> Column:
    """The tokens, or in their place ranks that keep their order within each key, if there are large gaps between them.

    Where the fence is on reads too, those without a token keep `NONE`.
    """
    key, token, keys, room = columns.key, columns.token, terms.keys, 4 * len(columns.token) + 64
    if keys * (int(token.max(initial=0)) - int(token.min(initial=0)) + 1) <= room:
        return token
    low, high = np.full(keys, HIGHEST), np.full(keys, LOWEST)
    np.minimum.at(low, key, token)
    np.maximum.at(high, key, token)
    if np.maximum(high.astype(float) - low, 0.0).sum() <= room:
        return token
    order = np.lexsort((token, key))
    same = (key[order][1:] == key[order][:-1]) & (token[order][1:] == token[order][:-1])
    ranks = np.zeros(len(order), np.int64)
    ranks[order[1:]] = np.cumsum(~same)
    return np.where((terms.reads == 1) & (columns.f == F.READ) & (token == NONE), NONE, ranks)


@kernel
def screened(columns: AccessColumns, terms: Terms) -> Column:
    """Of each key whether `judged` has to look at it."""
    if terms.reads:
        return np.full(terms.keys, True, np.bool_)
    kind, tokens, values, odd = classified(columns, terms)
    group, begin = grouped(kind, columns, tokens, odd)
    return doubtful(columns, kind, values, group, begin, terms)


@kernel
def examined(columns: AccessColumns, terms: Terms) -> tuple[StoreColumns, Reasons, Broken]:
    """(all that is known, what may explain refusals, what is wrong)."""
    key, keys = columns.key, terms.keys
    kind, tokens, values, odd = classified(columns, terms)
    loose = unsettled(kind, columns, keys) if odd else np.full(keys, False, np.bool_)
    group, begin = grouped(kind, columns, tokens, odd)
    origin, home = np.full(len(kind), UNREAD, np.int32), no_rows(len(kind))
    accesses = Accesses(kind, key, columns.value, columns.inv, columns.ret, group, begin, origin, home)
    traced(accesses, values, terms.initial)
    settled(accesses, terms.reads)
    turn = sequential(accesses) if terms.reads else np.full(keys, False, np.bool_)
    findings = [(0, 0, 0, 0, 0, 0)][:0]
    survey = surveyed(accesses, turn, terms, findings)
    before, last, skip = overtaken(accesses, survey.early, survey.latest, findings)
    final_write, reader = carried_over(accesses, survey, skip, terms.initial, findings)
    lead = within(accesses, survey, final_write, reader, findings)
    for k in range(keys):
        skip[k] = skip[k] or survey.doubtful[k] or loose[k]
    store = StoreColumns(terms, accesses, survey, before, last, final_write, lead, skip)
    spared = [0][:0]  # the rows of refused and unknown accesses
    for row in range(len(kind)):
        if UNKNOWN <= kind[row] <= REFUSED:
            spared.append(row)
    reasons = explanations(store, spared)
    needless(store, reasons, spared, findings)
    return store, reasons, _broken(findings, store, loose)


@kernel
def _broken(findings: Findings, store: StoreColumns, loose: Column) -> Broken:
    kind, origin, count = store.accesses.kind, store.accesses.origin, len(findings)
    kinds, at = np.empty(count, np.int64), np.empty(count, np.int64)
    rows, readers = np.empty(PROOF * count, np.int64), np.full(PROOF * count, -1, np.int64)
    for n in range(count):
        kinds[n], at[n] = findings[n][0], findings[n][1]
        for place in range(PROOF):
            row = findings[n][2 + place]
            rows[PROOF * n + place] = row
            if row >= 0 and kind[row] == UNKNOWN and origin[row] >= 0:
                readers[PROOF * n + place] = origin[row]
    return Broken(kinds, at, rows, readers, store.survey.doubtful, loose)


@kernel
def judged(columns: AccessColumns, terms: Terms) -> Broken:
    """Judges all keys."""
    return examined(columns, terms)[2]
