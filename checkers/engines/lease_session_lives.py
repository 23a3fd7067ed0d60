"""What is known of the lives of sessions beside the grants in them: creations, keep-alives, refusals, closings.

Source: checkers/CONDITIONS.md, sections 3, 5 and 16. A session's lease lasts at least L after each request that
prolonged it, from the request's invocation; what precedes its creation by its client's own order is refused as input.
O(n).
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from checkers.engines.lease_fold import is_refusal
from checkers.engines.lease_kernels import Ints
from checkers.history.counting import any_of
from checkers.history.history import History
from checkers.history.holds_and_leases import shortest
from checkers.models.model import Settings, Unusable
from checkers.row_format import INFINITY, F, Outcome

LONGEST: Final = INFINITY >> 2
"""ns; a TTL of more than thirty years is as good as that."""

_ABOUT: Final = (F.SESSION_OPEN, F.KEEP_ALIVE, F.SESSION_CLOSE)

_refusal = is_refusal.plain_form()


@dataclass(slots=True)
class Life:
    """One session; ns.

    lived     when it certainly lived (creation, keep-alives); length: the least that each of these adds to its lease.
    opened    when it was created at the earliest, 0 if that is not known; answered: when that was.
    shut      from here on its client may have closed it; dead: by then it was over, if what was refused is believed.
    closed    by then it was over, if what its client was told of its closing is believed.
    kept      returns and invocations of its acknowledged keep-alives.
    closings  invocations and returns (`INFINITY`: unanswered) of closings that may have happened.
    proof     rows of creation and acknowledged keep-alives, closings and refusals.
    """

    lived: int = 0
    length: int = 0
    ttl: int = 0
    opened: int = 0
    answered: int = 0
    used: bool = False
    shut: int = INFINITY
    dead: int = INFINITY
    closed: int = INFINITY
    kept: list[tuple[int, int]] = field(default_factory=list)
    closings: list[tuple[int, int]] = field(default_factory=list)
    proof: list[int] = field(default_factory=list)

    @property
    def until(self) -> int:
        """Its lease lasts until then at least."""
        return self.lived + self.length if self.lived else 0

    @property
    def trusted(self) -> int:
        """Its lease lasts until then even if keep-alives were acknowledged of what had ended."""
        end = self.opened + self.length if self.opened else 0
        for ret, inv in sorted(self.kept):
            if ret < end:
                end = max(end, inv + self.length)
        return end


def column(lives: Sequence[Life], name: str) -> Ints:
    """One field of all of them."""
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
