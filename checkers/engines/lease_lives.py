"""The lives of sessions, as far as their clients were told. O(n log n).

Source: checkers/CONDITIONS.md, sections 3, 5 and 16. A history is refused if, by its client's own order, a session is
used before its creation.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

import numpy as np

from checkers.engines.lease_kernels import Renewals
from checkers.history.counting import Flags, Ints, any_of, grouped
from checkers.history.history import History, place_of
from checkers.history.holds_and_lease_ends import effective
from checkers.models.model import Settings, Unusable
from checkers.row_format import INFINITY, OF_SESSIONS, F, Outcome, Reason

LONGEST: Final = INFINITY >> 2  # ns, more than thirty years; a longer TTL counts as this


@dataclass(frozen=True, slots=True)
class Lives:
    """Sessions; arrays with an element for each, times in ns."""

    ttl: Ints
    length: Ints  # the least that a creation or keep-alive adds to its lease
    opened: Ints  # when it was created at the earliest, 0 if that is not known
    lived: Ints  # when it last certainly lived (creation, keep-alives), 0 if that is not known
    shut: Ints  # from here on its client may have closed it
    dead: Ints  # by then it was over, if refusals are believed
    closed: Ints  # by then it was over, if acknowledged closings are believed
    kept: Renewals  # acknowledged keep-alives of all sessions, in the order of their returns
    kept_of: Ints  # the session of each
    closings: Renewals  # closings that may have happened, session by session; `INFINITY`: unanswered
    begins: Ints  # where those of each session begin; one entry more than there are sessions
    proof: Mapping[int, Sequence[int]]  # rows of creation, acknowledged keep-alives and closings, refusals

    def __len__(self) -> int:
        return len(self.ttl)

    @property
    def until(self) -> Ints:
        """ns; the lease lasts at least until then."""
        return np.where(self.lived > 0, self.lived + self.length, 0)

    @property
    def trusted(self) -> Ints:
        """ns; the lease lasts at least until then, even if keep-alives of an ended session were acknowledged."""
        ends: list[int] = np.where(self.opened > 0, self.opened + self.length, 0).tolist()
        length = self.length.tolist()
        for z, inv, ret in zip(self.kept_of.tolist(), *(times.tolist() for times in self.kept), strict=True):
            if ret < ends[z]:
                ends[z] = max(ends[z], inv + length[z])
        return np.array(ends, np.int64)


def lives_of(
    history: History, settings: Settings, names: Ints, granted: tuple[Ints, Ints], kept: Set[int] | None
) -> Lives:
    """The sessions of these names, which are sorted. Raises Unusable.

    granted: of each attempt its session, -1 for none, and the TTL that it was granted, 0 for none. kept: the only rows
    that count, None for all.
    """
    c, count = history.columns, len(names)
    rows = np.array(sorted(kept), np.int64) if kept is not None else np.flatnonzero(any_of(c["f"], OF_SESSIONS))
    rows = rows[any_of(c["f"][rows], OF_SESSIONS) & np.isin(c["session"][rows], names)]
    z = np.searchsorted(names, c["session"][rows])
    f, outcome, inv, ret = (c[name][rows] for name in ("f", "outcome", "inv", "ret"))
    ok, failed, refused = outcome == Outcome.OK, outcome == Outcome.FAIL, is_refusal(history, rows)
    creation, use = (f == F.SESSION_OPEN) & ok, f != F.SESSION_OPEN
    places = np.arange(len(rows))
    too_late = creation & (first_of(z[use], places[use], count)[z] < places)
    refuse(history, rows, too_late, "created a session that had been asked something")
    opened, answered, ttl = (np.zeros(count, np.int64) for _ in range(3))
    opened[z[creation]], answered[z[creation]] = inv[creation], ret[creation]
    ttl[z[creation]] = c["ttl"][rows[creation]]
    early = inv < answered[z]  # clients that choose the id themselves need not wait for the answer
    counts = use & ~(early & failed)  # else perhaps the session did not exist yet
    keeps, closes = counts & (f == F.KEEP_ALIVE), counts & (f == F.SESSION_CLOSE) & ~failed
    alive, over, ended = creation | (keeps & ok), keeps & refused, closes & ok
    timely = np.flatnonzero(keeps & ok & ~early)
    timely = timely[np.argsort(ret[timely], kind="stable")]
    closing = np.flatnonzero(closes)[np.argsort(z[closes], kind="stable")]
    proof = creation | (counts & (~failed | refused))
    ttl = _least_ttl(ttl, granted, settings.ttl or history.facts.ttl)
    return Lives(
        ttl=ttl,
        length=lengths(ttl, history, settings),
        opened=opened,
        lived=np.maximum(last_of(z[alive], inv[alive], count), 0),
        shut=first_of(z[closes], inv[closes], count),
        dead=first_of(z[over], ret[over], count),
        closed=first_of(z[ended], ret[ended], count),
        kept=Renewals(inv[timely], ret[timely]),
        kept_of=z[timely],
        closings=Renewals(inv[closing], np.where(ok[closing], ret[closing], INFINITY)),
        begins=np.searchsorted(z[closing], np.arange(count + 1)),
        proof=grouped(rows[proof].tolist(), dict(zip(rows.tolist(), z.tolist(), strict=True)).__getitem__),
    )


def _least_ttl(created: Ints, granted: tuple[Ints, Ints], default: int) -> Ints:
    """ns; the TTLs of sessions. created: those told at creations; granted: see `lives_of`."""
    session, ttls = granted
    given = (session >= 0) & (ttls > 0)
    result = np.where(created == 0, INFINITY, np.minimum(created, LONGEST))
    np.minimum.at(result, session[given], np.minimum(ttls[given], LONGEST))
    return np.where(result == INFINITY, min(default, LONGEST), result)


def first_of(groups: Ints, times: Ints, count: int) -> Ints:
    """Of each group the least of its times, `INFINITY` for none. groups: of each time, below `count`."""
    result = np.full(count, INFINITY, np.int64)
    np.minimum.at(result, groups, times)
    return result


def last_of(groups: Ints, times: Ints, count: int) -> Ints:
    """Of each group the greatest of its times, -1 for none. groups: of each time, below `count`."""
    result = np.full(count, -1, np.int64)
    np.maximum.at(result, groups, times)
    return result


def is_refusal(history: History, rows: Ints) -> Flags:
    """Of each row whether it failed because a lock or session is not its client's; other failures prove nothing."""
    c = history.columns
    refused: Flags = (c["outcome"][rows] == Outcome.FAIL) & (c["reason"][rows] < Reason.UNAVAILABLE)
    return refused


def lengths(ttl: Ints, history: History, settings: Settings) -> Ints:
    """ns; the shortest that leases of these TTLs can last."""
    values, place = np.unique(ttl, return_inverse=True)
    return np.array([effective(value, history.facts, settings.drift) for value in values.tolist()], np.int64)[place]


def refuse(history: History, rows: Ints, bad: Flags, why: str) -> None:
    """Raises Unusable for the first of these rows that is bad, and says where it came from."""
    if bad.any():
        raise Unusable(f"{place_of(history, int(rows[np.argmax(bad)]))}: {why}")
