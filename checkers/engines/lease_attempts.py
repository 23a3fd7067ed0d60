"""The attempts to hold of a history, as arrays: what leases are judged by.

An attempt is an acquire and all that its owner did to the same key until its next acquire. Owners may be used again,
as processes are in histories from elsewhere, as long as it is clear which of its attempts an operation belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from checkers.engines.lease_fold import AMBIGUOUS, EARLY, OVERLAPPING, UNANSWERED, fold, is_refusal
from checkers.engines.lease_kernels import Ints
from checkers.engines.sorting import Column, by_number
from checkers.history.counting import any_of
from checkers.history.history import History
from checkers.history.holds import shortest
from checkers.models.model import Settings, Unusable
from checkers.wire import INFINITY, NESTED, NONE, SHARED, F, Outcome

_WRONG: Final = {
    EARLY: "asked for by an owner whose acquire had not been answered yet",
    OVERLAPPING: "an owner acquires again before its earlier operations were answered",
    AMBIGUOUS: "an owner acquires again after an operation that was never answered: each attempt needs its own owner",
    UNANSWERED: "renewed by an owner whose acquire was never answered",
}
_LONGEST: Final = INFINITY >> 2
"""ns; a TTL of more than thirty years is as good as that."""

_refusal = is_refusal.plain_form()


@dataclass(frozen=True, slots=True)
class Sessions:
    """What is known of sessions beside their grants; arrays with an element for each, times in ns.

    lived   when it certainly lived (creation, keep-alives); until: its lease lasts until then at least.
    opened  when it was created at the earliest, 0 if that is not known; trusted: its lease lasts until then even if
            keep-alives were acknowledged of what had ended.
    shut    from here on its client may have closed it; dead: by then it was over, if what was refused is believed.
    closed  by then it was over, if what its client was told of its closing is believed.
    closings  from where to where its closings that may have happened are in the next two: their invocations, and their
            returns (`INFINITY`: unanswered).
    proof   rows of creation and acknowledged keep-alives, closings and refusals.
    """

    lived: Ints
    until: Ints
    opened: Ints
    trusted: Ints
    shut: Ints
    dead: Ints
    closed: Ints
    closings: Ints
    closing_inv: Ints
    closing_ret: Ints
    proof: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts to hold; arrays with an element for each, times in ns. The names of the rest: `lease_fold.fold`.

    rows     the acquire, or the first operation of who never acquired.
    start    earliest instant of the grant; ret: when it was answered.
    length   the least that its lease adds to it, drift and grain of the server's clock deducted.
    session  index into `sessions`, -1 for a lease of its own.
    touch    whether each acknowledged request prolongs the session, not only keep-alives.
    order    rows of all operations of attempts, those of an attempt together from its `place` on.
    again    acquire row → when its session asked for the same key again; `asked` is the same for each attempt.
    """

    history: History
    rows: Ints
    key: Ints
    start: Ints
    ret: Ints
    length: Ints
    token: Ints
    session: Ints
    touch: bool
    answered: Ints
    renewed: Ints
    proven: Ints
    released: Ints
    asked: Ints
    freeing: Ints
    freed: Ints
    frees: Ints
    refused: Ints
    believed: Ints
    place: Ints
    first: Ints
    last: Ints
    renewal_inv: Ints
    renewal_ret: Ints
    order: Column
    group: Column
    again: Mapping[int, int]
    sessions: Sessions

    def __len__(self) -> int:
        return len(self.rows)

    def operations(self, attempt: int) -> list[int]:
        """Rows of an attempt, in order of invocation."""
        begin = int(self.place[attempt])
        end = int(self.place[attempt + 1]) if attempt + 1 < len(self.place) else len(self.order)
        mine = self.order[begin:end][self.group[begin:end] == self.group[begin]]
        rows: list[int] = mine[self.history.columns["f"][mine] != F.BELIEF].tolist()
        return rows

    def refusals(self, attempt: int) -> list[int]:
        """Rows of the attempt's operations that were told that the lock is not its owner's, once it had been."""
        c = self.history.columns
        if self.answered[attempt] != 1:
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
        some = (self.answered == 0) & (self.frees > 0) & (self.session >= 0) & self.touch
        return np.flatnonzero(some)


def gather(history: History, settings: Settings) -> Attempts:
    """Raises Unusable."""
    c = history.columns
    _fit(history, settings)
    f = c["f"]
    mask = any_of(f, (F.ACQUIRE, F.TRY_ACQUIRE, F.RENEW, F.RELEASE, F.BELIEF))
    mask &= (c["flags"] & NESTED == 0) & (c["owner"] != 0)
    order: Column = np.flatnonzero(mask).astype(np.int32)
    order = order[by_number(c["owner"][order])]
    another, elsewhere = _differs(c["owner"][order]), _differs(c["key"][order])
    if (elsewhere & ~another).any():
        order = order[by_number(c["key"][order])]
        another, elsewhere = _differs(c["owner"][order]), _differs(c["key"][order])
    group = np.cumsum(another | elsewhere, dtype=np.int32)
    return _folded(history, settings, order, group, _asked_again(history), None)


def restrict(attempts: Attempts, settings: Settings, rows: Set[int]) -> Attempts:
    """The same with the operations in `rows` only; it is as if the others had never been told of."""
    kept = np.isin(attempts.order, list(rows))
    order, group = attempts.order[kept], attempts.group[kept]
    return _folded(attempts.history, settings, order, group, attempts.again, rows)


def _folded(
    history: History, settings: Settings, order: Column, group: Column, again: Mapping[int, int], kept: Set[int] | None
) -> Attempts:
    c, facts = history.columns, history.facts
    columns = [c[name] for name in ("f", "outcome", "reason", "inv", "ret")]
    if kept is None:
        found = fold(order, group, *columns)
    else:  # few: only what they need is worth a look
        found = fold(np.arange(len(order), dtype=np.int32), group, *(column[order] for column in columns))
    place, answered, renewed, proven, released, freeing, freed, frees, refused = found[:9]
    believed, first, last, renewal_inv, renewal_ret, wrong, where = found[9:]
    rows = order[place]
    if wrong:
        raise Unusable(f"{_place(history, int(order[where]))}: {_WRONG[wrong]}")
    granted = answered >= 0
    sent, inv = c["sent"][rows], c["inv"][rows]
    start = np.where((sent > 0) & granted, sent, inv)
    impossible = (answered == 1) & (start > c["ret"][rows])
    if impossible.any():
        raise Unusable(f"{_place(history, int(rows[np.argmax(impossible)]))}: answered before its request was sent")
    kind = _kind(history)
    session = np.where(granted, c["session"][rows], 0) if kind != "grant" else np.zeros(len(rows), np.int64)
    names = np.unique(session[session != 0])
    index = np.where(session != 0, np.searchsorted(names, session), -1)
    ttl = np.where(granted, c["ttl"][rows], 0)
    sessions, ttls = _sessions(history, settings, names.tolist(), index, np.where(answered == 1, ttl, 0), kept)
    in_session = index >= 0
    if in_session.any():
        start = np.where(in_session, np.maximum(start, sessions.opened[index]), start)
        ttl = np.where(in_session, ttls[index], ttl)
    ttl = np.minimum(np.where(ttl == 0, min(settings.ttl or facts.ttl, _LONGEST), ttl), _LONGEST)
    endless = (answered == 1) & (ttl <= 0)
    if endless.any():
        worst = int(rows[np.argmax(endless)])
        raise Unusable(f"{_place(history, worst)}: nothing says how long its lease lasts (a TTL is needed)")
    asked = np.full(len(rows), INFINITY, np.int64)
    if again:
        asked[in_session] = [again.get(row, INFINITY) for row in rows[in_session].tolist()]
    return Attempts(
        history=history,
        rows=rows,
        key=c["key"][rows].astype(np.int64),
        start=start,
        ret=c["ret"][rows],
        length=_lengths(ttl, history, settings),
        token=np.where(granted & (answered == 1), c["token"][rows], NONE),
        session=index,
        touch=kind == "touch",
        answered=answered,
        renewed=renewed,
        proven=proven,
        released=released,
        asked=asked,
        freeing=freeing,
        freed=freed,
        frees=frees,
        refused=refused,
        believed=believed,
        place=place,
        first=first,
        last=last,
        renewal_inv=renewal_inv,
        renewal_ret=renewal_ret,
        order=order,
        group=group,
        again=again,
        sessions=sessions,
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
        raise Unusable(f"{_place(history, int(np.argmax(shared)))}: a reader's acquire: a lease has one holder")


def _kind(history: History) -> str:
    """What extends a hold, as in `Facts.lease`; histories from elsewhere show it."""
    c = history.columns
    if history.facts.lease == "grant":
        about = any_of(c["f"], (F.SESSION_OPEN, F.KEEP_ALIVE, F.SESSION_CLOSE))
        if (about & (c["session"] != 0)).any():
            return "session"
    return history.facts.lease


def _sessions(
    history: History, settings: Settings, names: Sequence[int], of: Ints, ttl: Ints, kept: Set[int] | None
) -> tuple[Sessions, Ints]:
    """The sessions, and the TTL of each (0: not known)."""
    count = len(names)
    index = {name: number for number, name in enumerate(names)}
    lived, opened, known, trusted = (np.zeros(count, np.int64) for _ in range(4))
    kept_alive: list[list[tuple[int, int]]] = [[] for _ in names]
    closing: list[list[tuple[int, int]]] = [[] for _ in names]
    shut, dead, closed = (np.full(count, INFINITY, np.int64) for _ in range(3))
    proof: list[list[int]] = [[] for _ in names]
    c = history.columns
    about = (F.SESSION_OPEN, F.KEEP_ALIVE, F.SESSION_CLOSE)
    rows = np.flatnonzero(any_of(c["f"], about)).tolist() if count and kept is None else sorted(kept or ())
    answered, used = np.zeros(count, np.int64), np.zeros(count, bool)
    for row in rows:
        z = index.get(int(c["session"][row]))
        if z is None or c["f"][row] not in about:
            continue
        kind, outcome, inv, ret = (int(c[name][row]) for name in ("f", "outcome", "inv", "ret"))
        if kind == F.SESSION_OPEN:
            if outcome == Outcome.OK:
                if used[z]:
                    raise Unusable(f"{_place(history, int(row))}: created a session that had been asked something")
                opened[z], known[z], answered[z] = inv, int(c["ttl"][row]), ret
                lived[z] = max(lived[z], inv)
                proof[z].append(int(row))
            continue
        used[z] = True
        early = inv < answered[z]  # clients that choose the id themselves need not wait for the answer
        if early and outcome == Outcome.FAIL:
            continue  # perhaps there was nothing yet
        if outcome != Outcome.FAIL or _refusal(int(c["reason"][row])):
            proof[z].append(int(row))
        if kind == F.KEEP_ALIVE:
            if outcome == Outcome.OK:
                lived[z] = max(lived[z], inv)
                if not early:
                    kept_alive[z].append((ret, inv))
            elif outcome == Outcome.FAIL and _refusal(int(c["reason"][row])):
                dead[z] = min(dead[z], ret)
        elif outcome != Outcome.FAIL:
            shut[z] = min(shut[z], inv)
            closing[z].append((inv, ret if outcome == Outcome.OK else INFINITY))
            if outcome == Outcome.OK:
                closed[z] = min(closed[z], ret)
    for attempt in np.flatnonzero((of >= 0) & (ttl > 0)).tolist():
        z = of[attempt]
        known[z] = min(known[z] or int(ttl[attempt]), int(ttl[attempt]))
    known[known == 0] = min(settings.ttl or history.facts.ttl, _LONGEST)
    length = _lengths(known, history, settings)
    until = np.where(lived > 0, lived + length, 0)
    for z in range(count):
        trusted[z] = opened[z] + length[z] if opened[z] else 0
        for ret, inv in sorted(kept_alive[z]):
            if ret < trusted[z]:
                trusted[z] = max(trusted[z], inv + length[z])
    closings = np.cumsum([0, *map(len, closing)])
    spans = np.array([span for mine in closing for span in mine], np.int64).reshape(-1, 2)
    proofs = tuple(map(tuple, proof))
    invs, rets = spans[:, 0].copy(), spans[:, 1].copy()
    return Sessions(lived, until, opened, trusted, shut, dead, closed, closings, invs, rets, proofs), known


def _asked_again(history: History) -> dict[int, int]:
    """Acquire row → when the same session asked for the same key again: it had given up what it held."""
    c = history.columns
    whole = any_of(c["f"], (F.ACQUIRE, F.TRY_ACQUIRE)) & (c["flags"] & NESTED == 0) & (c["session"] != 0)
    again: dict[int, int] = {}
    latest: dict[tuple[int, int], int] = {}
    if _kind(history) != "grant":
        for row in np.flatnonzero(whole).tolist():
            name = (int(c["session"][row]), int(c["key"][row]))
            if name in latest:
                again[latest[name]] = int(c["inv"][row])
            latest[name] = row
    return again


def _lengths(ttl: Ints, history: History, settings: Settings) -> Ints:
    drift, grain = settings.drift or history.facts.drift, history.facts.grain
    if len(ttl) and (ttl == ttl[0]).all():
        return np.full(len(ttl), shortest(int(ttl[0]), drift, grain), np.int64)
    values, index = np.unique(ttl, return_inverse=True)
    table = np.array([shortest(value, drift, grain) for value in values.tolist()], np.int64)
    return table[index.reshape(-1)] if len(ttl) else ttl


def _place(history: History, row: int) -> str:
    if history.lines is not None:
        return f"line {int(history.lines[row][0])}"
    return f"row {row}"


def _differs(column: Any) -> Any:
    """Rows whose value is not that of the row before; the first is one."""
    return np.append(np.ones(min(1, len(column)), bool), column[1:] != column[:-1])
