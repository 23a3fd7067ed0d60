"""What the model `lease` is judged by: the attempts to hold of a history, as arrays, and the lives of its sessions.

An attempt is an acquire and all that its owner did to the same key until its next acquire (checkers/CONDITIONS.md,
sections 1 and 16). An owner may come again, as processes do in histories from elsewhere, as long as it is clear which
of its attempts an operation belongs to. If that is not clear, or nothing says how long a lease lasts, the history is
refused rather than judged by a guess. A session's lease lasts at least L from the invocation of each request that
prolonged it (sections 3, 5 and 16). A history is also refused if, by its client's own order, a session is used before
its creation. O(n), but for the sorting of rows by their owners.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from checkers.engines.codes import calls_of
from checkers.engines.kernel import Column
from checkers.engines.lease_kernels import (
    AMBIGUOUS,
    EARLY,
    OVERLAPPING,
    UNANSWERED,
    Answers,
    Folded,
    Ints,
    Renewals,
    fold,
    is_refusal,
)
from checkers.history.counting import any_of
from checkers.history.history import History
from checkers.history.holds_and_lease_ends import next_asked, shortest
from checkers.history.view import View
from checkers.models.model import Settings, Unusable
from checkers.row_format import INFINITY, NESTED, NONE, SHARED, F, Outcome

LONGEST: Final = INFINITY >> 2
"""ns, more than thirty years; a longer TTL counts as this."""

_ABOUT: Final = (F.SESSION_OPEN, F.KEEP_ALIVE, F.SESSION_CLOSE)

_refusal = is_refusal.plain_form


@dataclass(slots=True)
class Life:
    """One session; ns."""

    lived: int = 0  # when it last certainly lived (creation, keep-alives)
    length: int = 0  # the least that a creation or keep-alive adds to its lease
    ttl: int = 0
    opened: int = 0  # when it was created at the earliest, 0 if that is not known
    answered: int = 0  # when its creation was answered
    used: bool = False
    shut: int = INFINITY  # from here on its client may have closed it
    dead: int = INFINITY  # by then it was over, if refusals are believed
    closed: int = INFINITY  # by then it was over, if acknowledged closings are believed
    kept: list[tuple[int, int]] = field(default_factory=list)  # returns and invocations of acknowledged keep-alives
    # Invocations and returns (`INFINITY`: unanswered) of closings that may have happened.
    closings: list[tuple[int, int]] = field(default_factory=list)
    proof: list[int] = field(default_factory=list)  # rows of creation, acknowledged keep-alives and closings, refusals

    @property
    def until(self) -> int:
        """ns; its lease lasts at least until then."""
        return self.lived + self.length if self.lived else 0

    @property
    def trusted(self) -> int:
        """ns; its lease lasts at least until then, even if keep-alives of an ended session were acknowledged."""
        end = self.opened + self.length if self.opened else 0
        for ret, inv in sorted(self.kept):
            if ret < end:
                end = max(end, inv + self.length)
        return end


def column(lives: Sequence[Life], name: str) -> Ints:
    """One field of all lives."""
    return np.array([getattr(life, name) for life in lives], np.int64)


def gathered(
    history: History, settings: Settings, names: Sequence[int], granted: tuple[Ints, Ints], kept: Set[int] | None
) -> list[Life]:
    """The sessions of these names. Raises Unusable.

    granted: of each attempt its session, -1 for none, and the TTL that it was granted, 0 for none. kept: the only rows
    that count, None for all.
    """
    c = history.columns
    lives = [Life() for _ in names]
    life_of = dict(zip(names, lives, strict=True))
    rows = np.flatnonzero(any_of(c["f"], _ABOUT)).tolist() if names and kept is None else sorted(kept or ())
    for row in rows:
        life = life_of.get(int(c["session"][row]))
        if life is not None and c["f"][row] in _ABOUT:
            _add(history, row, life)
    session, ttls = granted
    for attempt in np.flatnonzero((session >= 0) & (ttls > 0)).tolist():
        life = lives[session[attempt]]
        life.ttl = min(life.ttl or int(ttls[attempt]), int(ttls[attempt]))
    for life in lives:
        life.ttl = min(life.ttl or settings.ttl or history.facts.ttl, LONGEST)
    for life, length in zip(lives, lengths(column(lives, "ttl"), history, settings).tolist(), strict=True):
        life.length = length
    return lives


def _add(history: History, row: int, life: Life) -> None:
    """Adds to `life` what one row about the session says. Raises Unusable."""
    c = history.columns
    kind, outcome, inv, ret = (int(c[name][row]) for name in ("f", "outcome", "inv", "ret"))
    if kind == F.SESSION_OPEN:
        if outcome == Outcome.OK:
            if life.used:
                raise Unusable(f"{place_of(history, row)}: created a session that had been asked something")
            life.opened, life.ttl, life.answered = inv, int(c["ttl"][row]), ret
            life.lived = max(life.lived, inv)
            life.proof.append(row)
        return
    life.used = True
    refused = outcome == Outcome.FAIL and _refusal(int(c["reason"][row]))
    early = inv < life.answered  # clients that choose the id themselves need not wait for the answer
    if early and outcome == Outcome.FAIL:
        return  # perhaps the session did not exist yet
    if outcome != Outcome.FAIL or refused:
        life.proof.append(row)
    if kind == F.KEEP_ALIVE:
        if outcome == Outcome.OK:
            life.lived = max(life.lived, inv)
            if not early:
                life.kept.append((ret, inv))
        elif refused:
            life.dead = min(life.dead, ret)
    elif outcome != Outcome.FAIL:
        life.shut = min(life.shut, inv)
        life.closings.append((inv, ret if outcome == Outcome.OK else INFINITY))
        if outcome == Outcome.OK:
            life.closed = min(life.closed, ret)


def kind_of(history: History) -> str:
    """What extends a hold, as in `Facts.lease`; in histories from elsewhere the rows about sessions show it."""
    c = history.columns
    if history.facts.lease == "grant" and (any_of(c["f"], _ABOUT) & (c["session"] != 0)).any():
        return "session"
    return history.facts.lease


def lengths(ttl: Ints, history: History, settings: Settings) -> Ints:
    """ns; the shortest that leases of these TTLs can last."""
    drift, grain = settings.drift or history.facts.drift, history.facts.grain
    if len(ttl) and (ttl == ttl[0]).all():
        return np.full(len(ttl), shortest(int(ttl[0]), drift, grain), np.int64)
    values, index = np.unique(ttl, return_inverse=True)
    table = np.array([shortest(value, drift, grain) for value in values.tolist()], np.int64)
    return table[index.reshape(-1)] if len(ttl) else ttl


def place_of(history: History, row: int) -> str:
    """Where a row came from, for people."""
    if history.lines is not None:
        return f"line {int(history.lines[row][0])}"
    return f"row {row}"


_WRONG: Final = {
    EARLY: "asked for by an owner whose acquire had not been answered yet",
    OVERLAPPING: "an owner acquires again before its earlier operations were answered",
    AMBIGUOUS: "an owner acquires again after an operation that was never answered: each attempt needs its own owner",
    UNANSWERED: "renewed by an owner whose acquire was never answered",
}


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts to hold; arrays with an element for each, times in ns."""

    history: History
    rows: Ints  # the acquire, or the first operation of an owner that never acquired
    key: Ints
    start: Ints  # earliest instant of the grant
    ret: Ints  # when it was answered
    length: Ints  # the shortest that its lease can last, drift and grain of the server's clock deducted
    token: Ints
    session: Ints  # index into `lives`, -1 for a lease of its own
    again: Ints  # when its session asked for the same key again
    touch: bool  # whether each acknowledged request prolongs the session, not only keep-alives
    answers: Answers  # what their clients were told
    renewals: Renewals  # of all attempts
    order: Column  # rows of all operations of attempts, those of an attempt together from its `answers.acquire` on
    group: Column  # of each of `order`: a number that owner and key have in common
    asked_again: Mapping[int, int]  # acquire row → when its session asked for the same key again
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
        """Rows of the attempt's operations that were told, after its grant, that the lock is not its owner's."""
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
    """The attempts of a history. Raises Unusable."""
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
    folded = fold(order, group, calls_of(history))
    asked_again = next_asked(history.once(View)) if kind_of(history) != "grant" else {}
    return _attempts(history, settings, folded, (order, group), asked_again, None)


def restrict(attempts: Attempts, settings: Settings, rows: Set[int]) -> Attempts:
    """The attempts with the operations in `rows` only, as if the others had never been recorded."""
    kept = np.isin(attempts.order, list(rows))
    order, group = attempts.order[kept], attempts.group[kept]
    # The rows are few: only their columns are worth a look.
    folded = fold(np.arange(len(order), dtype=np.int32), group, calls_of(attempts.history, order))
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
    """Raises Unusable unless locks have leases and one holder each, times are times, and the drift is not negative."""
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


def _differs(numbers: Any) -> Any:
    """Of each row whether its value differs from that of the row before; true for the first row."""
    return np.append(np.ones(min(1, len(numbers)), bool), numbers[1:] != numbers[:-1])
