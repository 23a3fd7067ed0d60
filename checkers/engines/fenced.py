"""A store that compares fencing tokens: exact in near-linear time.

Source: checkers/CONDITIONS.md, sections 17 and 18. An access is accepted iff its token is at least the highest one
accepted so far, which it then becomes; strictly, a write needs a larger one. Where the fence is on writes alone,
reads are always answered, and raise nothing. Tokens thus order all accesses up to those of one token: a group. Where
the fence is on writes alone, most keys pass at a first look (`checkers.engines.fenced_screen`) and are done with.

Left to the search are keys in which a value that was read is that of several writes (where the fence is on reads too:
only if accesses of one token overlap, or one of those writes was never answered), and keys in which reads past the
fence met other accesses.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from checkers.engines.engine import Answer, Conflict
from checkers.engines.fenced_groups import classified, grouped, sequential, unanswered, unsettled
from checkers.engines.fenced_order import arranged
from checkers.engines.fenced_origins import origins
from checkers.engines.fenced_refusals import explanations, needless, soonest
from checkers.engines.fenced_screen import doubtful
from checkers.engines.fenced_survey import NEEDLESS, WORDS, bequeathed, overtaken, proven, surveyed
from checkers.engines.fenced_zones import within
from checkers.engines.kernel import SMALL, kernel
from checkers.engines.sorting import Column
from checkers.engines.values import values_of
from checkers.finding import Finding
from checkers.history import History
from checkers.models.model import Settings
from checkers.models.stores import Rule, rule_of
from checkers.wire import F, Outcome

KINDS: Final = (
    "value-never-written",
    "refused-value-read",
    "value-read-before-write",
    "value-read-below-its-token",
    "not-the-latest-value",
    "stale-write-accepted",
    "stale-read",
    "second-write-accepted",
    "overwritten-value-read-later",
    "no-order-within-token",
    "needless-refusal",
)

REPEATED: Final = "several writes of one value, which was read"
COLUMNS: Final = 9
"""Arguments of `judged` that are columns, of which `KEY` is one; they come first, and the number of keys next."""
KEY: Final = 4

LOOSE: Final = "reads without a token, or without a value, that have no place of their own"


def fenced_store(history: History, settings: Settings) -> Answer:
    """Rule of the store: the lane's own, where it has one, else that of the settings. Raises ValueError."""
    rule = rule_of(history, settings)
    arguments = asked(history, settings, rule)
    found, repeated, loose = _judged(arguments)
    key = history.columns["key"]
    places = found.reshape(-1, WORDS)
    keys, first = np.unique(key[places[:, 1]], return_index=True)
    conflicts = tuple(
        Conflict(KINDS[place[0]], int(k), tuple(dict.fromkeys((*_rivals(history, place), *_proof(place)))))
        for k, place in zip(keys.tolist(), places[first].tolist(), strict=True)
    )
    undecided = _undecided(repeated, loose)
    for conflict in conflicts:
        undecided.pop(conflict.key, None)
    return Answer(conflicts, undecided, lambda: judged(1, *arguments)[0])


class Judged(NamedTuple):
    """findings: every place where the rule was broken. undecided: keys without any that only a search can judge."""

    findings: list[Finding]
    undecided: dict[int, str]


def fenced_findings(history: History, rule: Rule) -> Judged:
    """Whether a store can have gone by a rule, in all keys at once."""
    found, repeated, loose = _judged(asked(history, Settings(), rule))
    findings = []
    inv = history.columns["inv"]
    for place in found.reshape(-1, WORDS).tolist():
        # Of a needless refusal what came too late to explain it is no part of the story.
        rows = _proof(place)[-1:] if place[0] == NEEDLESS else _proof(place)
        findings.append(Finding(KINDS[place[0]], int(inv[place[1]]), rows))
    bad = {int(history.columns["key"][finding.rows[0]]) for finding in findings}
    return Judged(findings, {k: why for k, why in _undecided(repeated, loose).items() if k not in bad})


def _proof(finding: list[int]) -> tuple[int, ...]:
    """The rows that contradict each other, the one that broke the rule last."""
    *others, last = (row for row in finding[2:6] if row >= 0)
    return (*dict.fromkeys(row for row in (*others, *finding[6:]) if row >= 0 and row != last), last)


def _rivals(history: History, finding: list[int]) -> tuple[int, ...]:
    """Of a needless refusal, the accesses that keep a write of a higher token from having been first in its group."""
    rival = finding[2]
    if finding[0] != NEEDLESS or rival < 0:
        return ()
    c = history.columns
    peers = c["key"] == c["key"][rival]
    written = peers & (c["f"] == F.WRITE) & (c["token"] == c["token"][rival])
    read = peers & (c["f"] == F.READ) & (c["outcome"] == Outcome.OK) & np.isin(c["value"], c["value"][written])
    return tuple(np.flatnonzero(written | read).tolist())


def _undecided(repeated: Column, loose: Column) -> dict[int, str]:
    reasons = dict.fromkeys(np.flatnonzero(repeated).tolist(), REPEATED)
    return reasons | dict.fromkeys(np.flatnonzero(loose).tolist(), LOOSE)


def _judged(arguments: tuple[Any, ...]) -> tuple[Column, Column, Column]:
    """What `judged` finds, which is asked only about keys that do not pass at the first look."""
    doubt = screened(*arguments)
    if doubt.all():
        return judged(0, *arguments)
    if not doubt.any():
        return np.empty(0, np.int64), doubt, doubt
    columns, rest = arguments[:COLUMNS], arguments[COLUMNS + 1 :]
    rows = np.flatnonzero(doubt[columns[KEY]])
    taken = [column[rows] for column in columns]
    taken[KEY] = (np.cumsum(doubt)[taken[KEY]] - 1).astype(columns[KEY].dtype)
    size = len(columns[KEY]) if judged.fast or len(rows) >= SMALL else len(rows)
    found, *unclear = judged.sized(size, 0, *(*taken, np.count_nonzero(doubt), *rest))
    places = found.reshape(-1, WORDS)
    places[:, 1:] = np.where(places[:, 1:] >= 0, rows[places[:, 1:]], -1)
    repeated, loose = np.zeros((2, len(doubt)), np.bool_)
    repeated[doubt], loose[doubt] = unclear
    return found, repeated, loose


def asked(history: History, settings: Settings, rule: Rule) -> tuple[Any, ...]:
    """Arguments of `screened`, and of `judged` but for its first."""
    c = history.columns
    values = values_of(history, settings)
    keys = max(len(history.facts.keys), int(c["key"].max(initial=0)) + 1)
    columns = tuple(c[name] for name in ("f", "outcome", "reason", "flags", "key", "token"))
    times = (values.value, values.inv, values.ret)
    words = (values.initial, values.nothing, values.absent)
    return *columns, *times, keys, *words, int(rule.reads), int(rule.strict)


@kernel
def screened(
    f: Column,
    outcome: Column,
    reason: Column,
    flags: Column,
    key: Column,
    token: Column,
    value: Column,
    inv: Column,
    ret: Column,
    keys: int,
    initial: int,
    nothing: int,
    absent: int,
    reads: int,
    strict: int,
) -> Column:
    """Of each key whether `judged` has to look at it."""
    if reads:
        return np.full(keys, True, np.bool_)
    kind, low_token, high_token, low_value, high_value, odd = classified(
        f, outcome, reason, flags, key, token, value, keys, nothing, absent, reads
    )
    group, order, begin, _ = grouped(kind, key, token, low_token, high_token, odd)
    return doubtful(kind, key, group, order, begin, value, inv, ret, low_value, high_value, initial, strict)


@kernel
def judged(
    ordered: int,
    f: Column,
    outcome: Column,
    reason: Column,
    flags: Column,
    key: Column,
    token: Column,
    value: Column,
    inv: Column,
    ret: Column,
    keys: int,
    initial: int,
    nothing: int,
    absent: int,
    reads: int,
    strict: int,
) -> tuple[Column, Column, Column]:
    """(findings, keys in which values repeat, keys with loose reads); ordered: rows in order instead of findings."""
    kind, low_token, high_token, low_value, high_value, odd = classified(
        f, outcome, reason, flags, key, token, value, keys, nothing, absent, reads
    )
    loose = unsettled(kind, key, value, inv, ret, keys) if odd else np.full(keys, False, np.bool_)
    group, order, begin, tokens = grouped(kind, key, token, low_token, high_token, odd)
    groups = len(order)
    turn = sequential(kind, key, group, inv, ret, keys, groups) if reads else np.full(keys, False, np.bool_)
    origin = origins(kind, key, value, low_value, high_value, initial)
    early, latest, opener, writer, carried, carried_late, first_ret, last_inv, repeated, found, used = surveyed(
        kind, origin, key, group, tokens, value, inv, ret, turn, reads, strict, groups
    )
    before, last, skip, found, used = overtaken(
        kind, origin, key, group, order, begin, inv, ret, early, latest, reads, found, used
    )
    heir, reader, found, used = bequeathed(
        origin, group, order, begin, value, initial, turn, skip, writer, carried, found, used
    )
    low, second, found, used = within(
        kind, origin, key, group, inv, ret, turn, carried_late, first_ret, last_inv, heir, reader, found, used
    )
    spared, refused = unanswered(kind)
    if not refused and not ordered:
        proven(kind, origin, found, used)
        return found[:used], repeated, loose
    for k in range(keys):
        skip[k] = skip[k] or repeated[k] or loose[k]
    first = soonest(
        kind, origin, key, group, inv, ret, turn, opener, writer, carried, first_ret, last_inv, heir, low, second
    )
    above, upward = explanations(
        spared, kind, origin, group, order, begin, inv, strict, latest, opener, carried, before, first
    )
    found, used = needless(
        spared,
        kind,
        key,
        group,
        order,
        begin,
        tokens,
        inv,
        ret,
        skip,
        strict,
        before,
        last,
        opener,
        carried,
        above,
        upward,
        found,
        used,
    )
    if not ordered:
        proven(kind, origin, found, used)
        return found[:used], repeated, loose
    for n in range(0, used, WORDS):
        skip[key[found[n + 1]]] = True
    rows = arranged(
        kind,
        origin,
        key,
        group,
        order,
        inv,
        ret,
        turn,
        skip,
        reads,
        strict,
        first,
        heir,
        first_ret,
        last_inv,
        above,
        upward,
    )
    return rows, repeated, loose
