"""The attempts to hold of a history, as arrays: what the model `lease` is judged by.

An attempt is an acquire and all that its owner did to the same key until its next acquire (checkers/CONDITIONS.md,
sections 1 and 16). Owners may be used again, as processes are in histories from elsewhere, as long as it is clear which
of its attempts an operation belongs to: where it is not, or where nothing says how long a lease lasts, the history is
refused rather than judged by a guess. O(n), but for the sorting of rows by their owners.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from checkers.engines.kernel import Column
from checkers.engines.lease_fold import (
    AMBIGUOUS,
    EARLY,
    OVERLAPPING,
    UNANSWERED,
    Answers,
    Folded,
    LeaseCalls,
    fold,
    is_refusal,
)
from checkers.engines.lease_kernels import Ints, Renewals
from checkers.engines.lease_session_lives import LONGEST, Life, column, gathered, kind_of, lengths, place_of
from checkers.history.counting import any_of
from checkers.history.history import History
from checkers.history.holds_and_leases import next_asked
from checkers.history.view import View
from checkers.models.model import Settings, Unusable
from checkers.row_format import INFINITY, NESTED, NONE, SHARED, F, Outcome

_WRONG: Final = {
    EARLY: "asked for by an owner whose acquire had not been answered yet",
    OVERLAPPING: "an owner acquires again before its earlier operations were answered",
    AMBIGUOUS: "an owner acquires again after an operation that was never answered: each attempt needs its own owner",
    UNANSWERED: "renewed by an owner whose acquire was never answered",
}

_refusal = is_refusal.plain_form()


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts to hold; arrays with an element for each, times in ns.

    rows         the acquire, or the first operation of who never acquired.
    start        earliest instant of the grant; ret: when it was answered.
    length       the least that its lease adds to it, drift and grain of the server's clock deducted.
    session      index into `lives`, -1 for a lease of its own.
    again        when its session asked for the same key again.
    touch        whether each acknowledged request prolongs the session, not only keep-alives.
    answers      what their clients were told; the renewals of all of them.
    order        rows of all operations of attempts, those of an attempt together from its `answers.acquire` on.
    group        of each of `order`: a number that owner and key have in common.
    asked_again  acquire row → when its session asked for the same key again.
    """

    history: History
    rows: Ints
    key: Ints
    start: Ints
    ret: Ints
    length: Ints
    token: Ints
    session: Ints
    again: Ints
    touch: bool
    answers: Answers
    renewals: Renewals
    order: Column
    group: Column
    asked_again: Mapping[int, int]
    lives: Sequence[Life]

    def __len__(self) -> int:
        return len(self.rows)

    def operations(self, attempt: int) -> list[int]:
        """Rows of an attempt, in order of invocation."""
        place = self.answers.acquire
        begin = int(place[attempt])
        end = int(place[attempt + 1]) if attempt + 1 < len(place) else len(self.order)
        rows: list[int] = self.order[begin:end][self.group[begin:end] == self.group[begin]].tolist()
        return rows

    def refusals(self, attempt: int) -> list[int]:
        """Rows of the attempt's operations that were told that the lock is not its owner's, once it had been."""
        c = self.history.columns
        if self.answers.answered[attempt] != 1:
            return []
        return [
            row
            for row in self.operations(attempt)
            if c["outcome"][row] == Outcome.FAIL
            and c["f"][row] in (F.RENEW, F.RELEASE)
            and _refusal(int(c["reason"][row]))
        ]

    def prolonging(self) -> Ints:
        """Attempts that may never have begun, whose acknowledged releases prolonged their sessions all the same."""
        answers = self.answers
        return np.flatnonzero((answers.answered == 0) & (answers.frees > 0) & (self.session >= 0) & self.touch)


def gather(history: History, settings: Settings) -> Attempts:
    """Raises Unusable."""
    c = history.columns
    _fit(history, settings)
    f = c["f"]
    mask = any_of(f, (F.ACQUIRE, F.TRY_ACQUIRE, F.RENEW, F.RELEASE))
    mask &= (c["flags"] & NESTED == 0) & (c["owner"] != 0)
    order: Column = np.flatnonzero(mask).astype(np.int32)
    order = order[np.argsort(c["owner"][order], kind="stable")]
    another, elsewhere = _differs(c["owner"][order]), _differs(c["key"][order])
    if (elsewhere & ~another).any():
        order = order[np.argsort(c["key"][order], kind="stable")]
        another, elsewhere = _differs(c["owner"][order]), _differs(c["key"][order])
    group = np.cumsum(another | elsewhere, dtype=np.int32)
    folded = fold(order, group, LeaseCalls(*[c[name] for name in LeaseCalls._fields]))
    asked_again = next_asked(history.once(View)) if kind_of(history) != "grant" else {}
    return _attempts(history, settings, folded, (order, group), asked_again, None)


def restrict(attempts: Attempts, settings: Settings, rows: Set[int]) -> Attempts:
    """The same with the operations in `rows` only; it is as if the others had never been told of."""
    kept = np.isin(attempts.order, list(rows))
    order, group = attempts.order[kept], attempts.group[kept]
    c = attempts.history.columns
    # Few: only what they need is worth a look.
    folded = fold(
        np.arange(len(order), dtype=np.int32), group, LeaseCalls(*[c[name][order] for name in LeaseCalls._fields])
    )
    return _attempts(attempts.history, settings, folded, (order, group), attempts.asked_again, rows)


def _attempts(
    history: History,
    settings: Settings,
    folded: Folded,
    grouped: tuple[Column, Column],
    asked_again: Mapping[int, int],
    kept: Set[int] | None,
) -> Attempts:
    """grouped: order and group of `Attempts`. kept: the only rows that count, None for all. Raises Unusable."""
    c = history.columns
    order, group = grouped
    answers = folded.answers
    rows = order[answers.acquire]
    if folded.wrong:
        raise Unusable(f"{place_of(history, int(order[folded.where]))}: {_WRONG[folded.wrong]}")
    granted = answers.answered >= 0
    sent, inv = c["sent"][rows], c["inv"][rows]
    start = np.where((sent > 0) & granted, sent, inv)
    impossible = (answers.answered == 1) & (start > c["ret"][rows])
    if impossible.any():
        raise Unusable(f"{place_of(history, int(rows[np.argmax(impossible)]))}: answered before its request was sent")
    kind = kind_of(history)
    session = np.where(granted, c["session"][rows], 0) if kind != "grant" else np.zeros(len(rows), np.int64)
    names = np.unique(session[session != 0])
    index = np.where(session != 0, np.searchsorted(names, session), -1)
    ttl = np.where(granted, c["ttl"][rows], 0)
    lives = gathered(history, settings, names.tolist(), (index, np.where(answers.answered == 1, ttl, 0)), kept)
    in_session = index >= 0
    if in_session.any():
        start = np.where(in_session, np.maximum(start, column(lives, "opened")[index]), start)
        ttl = np.where(in_session, column(lives, "ttl")[index], ttl)
    ttl = np.minimum(np.where(ttl == 0, min(settings.ttl or history.facts.ttl, LONGEST), ttl), LONGEST)
    endless = (answers.answered == 1) & (ttl <= 0)
    if endless.any():
        worst = int(rows[np.argmax(endless)])
        raise Unusable(f"{place_of(history, worst)}: nothing says how long its lease lasts (a TTL is needed)")
    again = np.full(len(rows), INFINITY, np.int64)
    if asked_again:
        again[in_session] = [asked_again.get(row, INFINITY) for row in rows[in_session].tolist()]
    return Attempts(
        history=history,
        rows=rows,
        key=c["key"][rows].astype(np.int64),
        start=start,
        ret=c["ret"][rows],
        length=lengths(ttl, history, settings),
        token=np.where(granted & (answers.answered == 1), c["token"][rows], NONE),
        session=index,
        again=again,
        touch=kind == "touch",
        answers=answers,
        renewals=folded.renewals,
        order=order,
        group=group,
        asked_again=asked_again,
        lives=lives,
    )


def _fit(history: History, settings: Settings) -> None:
    """Whether these are leases, and times are times. Raises Unusable."""
    c, facts = history.columns, history.facts
    if history.clock is not None:
        raise Unusable("leases need times: this history has only an order of events")
    if facts.lease in ("none", "quorum"):
        what = "without a lease" if facts.lease == "none" else "given by a majority, at no single instant"
        raise Unusable(f"these locks are {what}")
    if settings.drift < 0:
        raise Unusable("the drift of a clock is a bound, and not negative")
    if facts.permits > 1 or settings.permits > 1:
        raise Unusable("several may hold at once: a lease has one holder")
    shared = any_of(c["f"], (F.ACQUIRE, F.TRY_ACQUIRE)) & (c["flags"] & SHARED != 0)
    if shared.any():
        raise Unusable(f"{place_of(history, int(np.argmax(shared)))}: a reader's acquire: a lease has one holder")


def _differs(column: Any) -> Any:
    """Rows whose value is not that of the row before; the first is one."""
    return np.append(np.ones(min(1, len(column)), bool), column[1:] != column[:-1])
