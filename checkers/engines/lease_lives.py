"""What is known of the lives of sessions beside the grants in them: creations, keep-alives, refusals, closings.

Source: checkers/CONDITIONS.md, sections 3, 5 and 16. A session's lease lasts at least L after each request that
prolonged it, from the request's invocation; what precedes its creation by its client's own order is refused as input.
O(n).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from checkers.engines.lease_fold import is_refusal
from checkers.engines.lease_kernels import Ints
from checkers.history.history import History
from checkers.history.holds import shortest
from checkers.history.lists import any_of
from checkers.models.model import Settings, Unusable
from checkers.wire import INFINITY, F, Outcome

LONGEST: Final = INFINITY >> 2
"""ns; a TTL of more than thirty years is as good as that."""

_ABOUT: Final = (F.SESSION_OPEN, F.KEEP_ALIVE, F.SESSION_CLOSE)

_refusal = is_refusal.plain_form()


@dataclass(frozen=True, slots=True)
class Lives:
    """Arrays with an element for each session, times in ns.

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


@dataclass(slots=True)
class _Life:
    """One session, while its rows are walked in order of invocation. answered: when its creation was; kept: returns and
    invocations of its acknowledged keep-alives; closings: invocations and returns.
    """

    lived: int = 0
    opened: int = 0
    ttl: int = 0
    answered: int = 0
    used: bool = False
    shut: int = INFINITY
    dead: int = INFINITY
    closed: int = INFINITY
    kept: list[tuple[int, int]] = field(default_factory=list)
    closings: list[tuple[int, int]] = field(default_factory=list)
    proof: list[int] = field(default_factory=list)

    def trusted(self, length: int) -> int:
        """Up to when its lease lasts as creation and those keep-alives tell that were answered before its end."""
        end = self.opened + length if self.opened else 0
        for ret, inv in sorted(self.kept):
            if ret < end:
                end = max(end, inv + length)
        return end


def gathered(
    history: History, settings: Settings, names: Sequence[int], granted: tuple[Ints, Ints], kept: Set[int] | None
) -> tuple[Lives, Ints]:
    """The sessions of these names, and the TTL of each (0: not known). Raises Unusable.

    granted: of each attempt its session, -1 for none, and the TTL that it was granted, 0 for none. kept: the only rows
    that count, None for all.
    """
    c = history.columns
    lives = {name: _Life() for name in names}
    rows = np.flatnonzero(any_of(c["f"], _ABOUT)).tolist() if names and kept is None else sorted(kept or ())
    for row in rows:
        life = lives.get(int(c["session"][row]))
        if life is not None and c["f"][row] in _ABOUT:
            _add(history, row, life)
    every = list(lives.values())

    def column(name: str) -> Ints:
        return np.array([getattr(life, name) for life in every], np.int64)

    ttl, (session, ttls) = column("ttl"), granted
    for attempt in np.flatnonzero((session >= 0) & (ttls > 0)).tolist():
        z = session[attempt]
        ttl[z] = min(ttl[z] or int(ttls[attempt]), int(ttls[attempt]))
    ttl[ttl == 0] = min(settings.ttl or history.facts.ttl, LONGEST)
    length, lived = lengths(ttl, history, settings), column("lived")
    spans = np.array([span for life in every for span in life.closings], np.int64).reshape(-1, 2)
    return Lives(
        lived=lived,
        until=np.where(lived > 0, lived + length, 0),
        opened=column("opened"),
        trusted=np.array([life.trusted(most) for life, most in zip(every, length.tolist(), strict=True)], np.int64),
        shut=column("shut"),
        dead=column("dead"),
        closed=column("closed"),
        closings=np.cumsum([0, *(len(life.closings) for life in every)]),
        closing_inv=spans[:, 0].copy(),
        closing_ret=spans[:, 1].copy(),
        proof=tuple(tuple(life.proof) for life in every),
    ), ttl


def _add(history: History, row: int, life: _Life) -> None:
    """What one row about a session says of it. Raises Unusable."""
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
        return  # perhaps there was nothing yet
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
    """What extends a hold, as in `Facts.lease`; histories from elsewhere show it."""
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
