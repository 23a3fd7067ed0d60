"""What the model `lease` is judged by: the attempts to hold of a history, as arrays, and the lives of its sessions.

Source: checkers/CONDITIONS.md, sections 1 and 16. An owner may come again, as processes do in histories from elsewhere.
If it is not clear which of its attempts an operation belongs to, or nothing says how long a lease lasts, the history is
refused rather than judged by a guess. O(n), but for the sorting of rows by their owners.
"""

from collections.abc import Set
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from checkers.engines.kernel import Column
from checkers.engines.lease_kernels import Renewals
from checkers.engines.lease_lives import LONGEST, Lives, first_of, is_refusal, last_of, lengths, lives_of, refuse
from checkers.history.counting import Ints, any_of
from checkers.history.history import History
from checkers.history.holds_and_lease_ends import next_asked
from checkers.history.view import View
from checkers.models.model import Settings, Unusable
from checkers.row_format import ACQUIRES, INFINITY, NESTED, NONE, OF_SESSIONS, SHARED, F, Outcome


def kind_of(history: History) -> str:
    """What extends a hold, as in `Facts.lease`; in histories from elsewhere the rows about sessions show it."""
    c = history.columns
    if history.facts.lease == "grant" and (any_of(c["f"], OF_SESSIONS) & (c["session"] != 0)).any():
        return "session"
    return history.facts.lease


class Answers(NamedTuple):
    """What the client of each attempt was told; ns. A first time that never came is `INFINITY`, a last one -1."""

    acquire: Ints  # the place of its acquire in the order; of its first operation where it has none
    answered: Ints  # 1 if the acquire was acknowledged, 0 if it was not answered, -1 if there is none
    renewed: Ints  # the last invocation of an acknowledged renewal
    proven: Ints  # the first return of an acknowledged renewal
    released: Ints  # the first invocation of a release that may have happened
    freeing: Ints  # the last invocation of an acknowledged release
    freed: Ints  # the first return of an acknowledged release
    frees: Ints  # how many acknowledged releases there are
    refused: Ints  # the first return of a renewal or release that was told that the lock is not its owner's
    first: Ints  # where its acknowledged renewals begin among those of all attempts
    last: Ints  # and where they end


_EARLY, _OVERLAPPING, _AMBIGUOUS, _UNANSWERED = 1, 2, 3, 4
_WRONG: Final = {
    _EARLY: "asked for by an owner whose acquire had not been answered yet",
    _OVERLAPPING: "an owner acquires again before its earlier operations were answered",
    _AMBIGUOUS: "an owner acquires again after an operation that was never answered: each attempt needs its own owner",
    _UNANSWERED: "renewed by an owner whose acquire was never answered",
}
"""Why operations of one owner cannot be told apart, or why no client can have asked for them."""


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
    lives: Lives

    def operations(self, attempt: int) -> list[int]:
        """Rows of an attempt, in order of invocation."""
        place = self.answers.acquire
        begin = int(place[attempt])
        end = int(place[attempt + 1]) if attempt + 1 < len(place) else len(self.order)
        rows: list[int] = self.order[begin:end][self.group[begin:end] == self.group[begin]].tolist()
        return rows

    def refusals(self, attempt: int) -> list[int]:
        """Rows of the attempt's operations that were told, after its grant, that the lock is not its owner's."""
        if self.answers.answered[attempt] != 1:
            return []
        rows = np.array(self.operations(attempt), np.int64)
        refused = is_refusal(self.history, rows) & any_of(self.history.columns["f"][rows], (F.RENEW, F.RELEASE))
        rows_of_refusals: list[int] = rows[refused].tolist()
        return rows_of_refusals

    def prolonging(self) -> Ints:
        """Attempts that may never have begun, whose acknowledged releases prolonged their sessions all the same."""
        answers = self.answers
        return np.flatnonzero((answers.answered == 0) & (answers.frees > 0) & (self.session >= 0) & self.touch)


def gather(history: History, settings: Settings) -> Attempts:
    """The attempts of a history. Raises Unusable."""
    c = history.columns
    _fit(history, settings)
    mask = any_of(c["f"], (F.ACQUIRE, F.TRY_ACQUIRE, F.RENEW, F.RELEASE))
    mask &= (c["flags"] & NESTED == 0) & (c["owner"] != 0)
    order: Column = np.flatnonzero(mask).astype(np.int32)
    order = order[np.argsort(c["owner"][order], kind="stable")]
    another, elsewhere = _differs(c["owner"][order]), _differs(c["key"][order])
    if (elsewhere & ~another).any():
        order = order[np.argsort(c["key"][order], kind="stable")]
        another, elsewhere = _differs(c["owner"][order]), _differs(c["key"][order])
    group = np.cumsum(another | elsewhere, dtype=np.int32)
    return _attempts(history, settings, order, group, None)


def restrict(attempts: Attempts, settings: Settings, rows: Set[int]) -> Attempts:
    """The attempts with the operations in `rows` only, as if the others had never been recorded."""
    kept = np.isin(attempts.order, list(rows))
    return _attempts(attempts.history, settings, attempts.order[kept], attempts.group[kept], rows)


def _asked_again(history: History) -> dict[int, int]:
    """Acquire row → when its session asked for the same key again."""
    return next_asked(history.once(View)) if kind_of(history) != "grant" else {}


def _attempts(history: History, settings: Settings, order: Column, group: Column, kept: Set[int] | None) -> Attempts:
    """order, group: see `Attempts`. kept: the only rows that count, None for all. Raises Unusable."""
    c = history.columns
    answers, renewals = _answers(history, order, group)
    rows = order[answers.acquire]
    granted = answers.answered >= 0
    sent, inv = c["sent"][rows], c["inv"][rows]
    start = np.where((sent > 0) & granted, sent, inv)
    impossible = (answers.answered == 1) & (start > c["ret"][rows])
    refuse(history, rows, impossible, "answered before its request was sent")
    kind = kind_of(history)
    session = np.where(granted, c["session"][rows], 0) if kind != "grant" else np.zeros(len(rows), np.int64)
    names = np.unique(session[session != 0])
    index = np.where(session != 0, np.searchsorted(names, session), -1)
    ttl = np.where(granted, c["ttl"][rows], 0)
    lives = lives_of(history, settings, names, (index, np.where(answers.answered == 1, ttl, 0)), kept)
    in_session = index >= 0
    if in_session.any():
        start = np.where(in_session, np.maximum(start, lives.opened[index]), start)
        ttl = np.where(in_session, lives.ttl[index], ttl)
    ttl = np.minimum(np.where(ttl == 0, min(settings.ttl or history.facts.ttl, LONGEST), ttl), LONGEST)
    endless = (answers.answered == 1) & (ttl <= 0)
    refuse(history, rows, endless, "nothing says how long its lease lasts (a TTL is needed)")
    again = np.full(len(rows), INFINITY, np.int64)
    if asked_again := history.once(_asked_again):
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
        renewals=renewals,
        order=order,
        group=group,
        lives=lives,
    )


def _answers(history: History, order: Column, group: Column) -> tuple[Answers, Renewals]:
    """What the client of each attempt was told, and the acknowledged renewals of all attempts.

    order, group: see `Attempts`. An owner's own order alone says which attempt an operation belongs to. Raises Unusable
    if it does not, or if no client can have asked for an operation.
    """
    f, outcome, inv, ret = (history.columns[name][order] for name in ("f", "outcome", "inv", "ret"))
    acquires, ok = any_of(f, ACQUIRES), outcome == Outcome.OK
    # An acknowledged renewal or release without an acquire begins an attempt of its own, which nothing can explain.
    begins = np.flatnonzero(np.where(acquires, outcome != Outcome.FAIL, ok))
    begins = begins[acquires[begins] | _differs(group[begins])]
    count, answered = len(begins), np.where(acquires[begins], ok[begins], -1)
    attempt = np.full(len(order), 0)
    attempt[begins] = 1
    attempt = np.cumsum(attempt) - 1
    # Of each renewal and release of an attempt:
    deeds = np.flatnonzero(~acquires & (np.append(group[begins], -1)[attempt] == group))
    mine, sent, returned, renewal = attempt[deeds], inv[deeds], ret[deeds], f[deeds] == F.RENEW
    done, unknown = ok[deeds], outcome[deeds] == Outcome.INFO
    renewed, freed, released = renewal & done, ~renewal & done, ~renewal & (done | unknown)
    refused = np.flatnonzero(~done & ~unknown & (answered[mine] == 1))
    refused = refused[is_refusal(history, order[deeds[refused]])]

    busy = np.maximum(np.where(ok[begins], ret[begins], 0), last_of(mine[~unknown], returned[~unknown], count))
    vague = outcome[begins] == Outcome.INFO
    vague[mine[released & unknown]] = True
    another = group[begins[1:]] == group[begins[:-1]]  # the same owner's next attempt
    wrong = np.zeros(len(order), np.int8)
    wrong[begins[1:][another & vague[:-1]]] = _AMBIGUOUS
    wrong[begins[1:][another & (busy[:-1] > inv[begins[1:]])]] = _OVERLAPPING
    wrong[deeds[(answered[mine] == 1) & (sent < ret[begins[mine]])]] = _EARLY
    wrong[deeds[renewal & (answered[mine] == 0)]] = _UNANSWERED
    if wrong.any():
        refuse(history, order, wrong > 0, _WRONG[int(wrong[np.argmax(wrong > 0)])])

    ends = np.cumsum(np.bincount(mine[renewed], minlength=count))
    answers = Answers(
        acquire=begins,
        answered=answered,
        renewed=last_of(mine[renewed], sent[renewed], count),
        proven=first_of(mine[renewed], returned[renewed], count),
        released=first_of(mine[released], sent[released], count),
        freeing=last_of(mine[freed], sent[freed], count),
        freed=first_of(mine[freed], returned[freed], count),
        frees=np.bincount(mine[freed], minlength=count),
        refused=first_of(mine[refused], returned[refused], count),
        first=np.append(0, ends)[:count],
        last=ends,
    )
    return answers, Renewals(sent[renewed], returned[renewed])


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
    shared = any_of(c["f"], ACQUIRES) & (c["flags"] & SHARED != 0)
    refuse(history, np.arange(len(shared)), shared, "a reader's acquire: a lease has one holder")


def _differs(numbers: Any) -> Any:
    """Of each row whether its value differs from that of the row before; true for the first row."""
    return np.append(np.ones(min(1, len(numbers)), bool), numbers[1:] != numbers[:-1])
