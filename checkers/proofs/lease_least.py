"""Whether none of the rows that prove a contradiction between leases can be spared. Shares no code with the engine.

What can be spared is an attempt with all that belongs to it, or one renewal, refusal, creation or keep-alive. Releases
and closings stay with what they end: without them the other rows would contradict each other more.
"""

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Final

import numpy as np

from checkers.history.history import History
from checkers.models.model import Settings
from checkers.proofs.lease_events import LeaseEvents
from checkers.proofs.lease_proof import EXPLAINED
from checkers.proofs.lease_proof import certify as proven
from checkers.row_format import ACQUIRES, OF_SESSIONS, F

FEW: Final = 40  # the most rows of which it is tried whether any can be spared; for more rows it costs too much


def certify(history: History, settings: Settings, valid: bool, rows: Sequence[int]) -> str | None:  # noqa: FBT001
    """None if the rows prove the result and, where it is invalid, none of them can be spared; else what is wrong."""
    if valid:
        return proven(history, settings, valid, rows)
    if len(rows) > FEW:
        return f"more than {FEW} rows: it was not tried whether any can be spared"
    kind = _kind(history)
    near = _near(history, rows)
    wrong = proven(_only(history, kind, near), settings, valid, np.searchsorted(near, rows).tolist())
    if wrong is not None:
        return wrong
    alone, settings = _only(history, kind, sorted(rows)), replace(settings, budget=settings.budget / len(rows))
    e = LeaseEvents(alone, settings)
    for row, original in enumerate(sorted(rows)):
        part = _part(e, row)
        rest = [other for other in range(len(rows)) if other not in part]
        if part and rest and proven(_only(alone, e.kind, rest), settings, False, range(len(rest))) != EXPLAINED:
            return f"row {original} may be one that can be spared"
    return None


def _kind(history: History) -> str:
    """The kind of a history's leases, as `LeaseEvents` tells it."""
    in_sessions = history.columns["session"][np.isin(history.columns["f"], OF_SESSIONS)].any()
    return "session" if history.facts.lease == "grant" and in_sessions else history.facts.lease


def _near(history: History, rows: Sequence[int]) -> Sequence[int]:
    """All rows that have to do with the given ones: all rows of their keys, and of the sessions that met there."""
    key, session = history.columns["key"], history.columns["session"]
    here = np.isin(key, key[list(rows)])
    met = np.unique(session[here])
    return np.flatnonzero(here | np.isin(session, met[met != 0])).tolist()


def _part(e: LeaseEvents, row: int) -> Set[int]:
    """The rows that must go if a row goes; none if the row can go only together with another one."""
    if e.f[row] in ACQUIRES:
        return {row, *(other for other, mine in enumerate(e.attempt) if mine == row)}
    ends = e.f[row] in (F.RELEASE, F.SESSION_CLOSE) and not e.refused(row)
    return set() if ends and (e.f[row] == F.SESSION_CLOSE or e.attempt[row] >= 0) else {row}


def _only(history: History, kind: str, rows: Sequence[int]) -> History:
    """The rows as a history of their own. kind: the kind of its leases, which some rows alone may not show."""
    columns = {name: column[list(rows)] for name, column in history.columns.items()}
    return replace(history, facts=replace(history.facts, lease=kind), columns=columns, lines=None, clock=None)
