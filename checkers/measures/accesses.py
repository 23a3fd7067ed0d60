"""The reads and writes of the protected resource as columns, and who had been given the lock by then."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from checkers.history.counting import Flags, Ints, apart
from checkers.measures.measured_history import MeasuredHistory, of_kind
from checkers.models.stores import REFUSALS
from checkers.properties.succession import NOBODY
from checkers.wire import INFINITY, NONE, F, Outcome

NEVER: Final = int(np.iinfo(np.int64).max)
"""Larger than any place."""


class Accesses(NamedTuple):
    """In order of invocation, one entry an access; `ret` is `INFINITY` for unknown ones.

    owner   identity of the grant under which it was made.
    cell    one number for its key and value.
    """

    row: Ints
    key: Ints
    write: Flags
    ok: Flags
    refused: Flags
    unknown: Flags
    token: Ints
    owner: Ints
    value: Ints
    cell: Ints
    inv: Ints
    ret: Ints

    def only(self, which: Flags) -> Accesses:
        """Some of them."""
        columns: list[Any] = [column[which] for column in self]
        return Accesses(*columns)


def accesses(measured: MeasuredHistory) -> Accesses:
    """Those that reached the store, or may have: what failed for another reason than the fence is left out."""
    c = measured.history.columns
    failed = c["outcome"] == Outcome.FAIL
    rows = np.flatnonzero(of_kind(c, F.READ, F.WRITE) & (~failed | np.isin(c["reason"], REFUSALS)))
    outcome, key, value = c["outcome"][rows], c["key"][rows].astype(np.int64), c["value"][rows]
    return Accesses(
        row=rows,
        key=key,
        write=c["f"][rows] == F.WRITE,
        ok=outcome == Outcome.OK,
        refused=outcome == Outcome.FAIL,
        unknown=outcome == Outcome.INFO,
        token=c["token"][rows],
        owner=c["owner"][rows],
        value=value,
        cell=apart((key, value)).places[0],
        inv=c["inv"][rows],
        ret=np.where(outcome == Outcome.INFO, INFINITY, c["ret"][rows]),
    )


def given_later(measured: MeasuredHistory, made: Accesses) -> tuple[Ints, Ints]:
    """For each access, when (ns) and to whom (acquire row) the lock was certainly given after its own grant.

    (`INFINITY`, -1) where nobody came later, or nobody knows under which grant it was made.
    """
    by_owner = {hold.owner: measured.following[hold.row] for hold in measured.holds}
    given = [by_owner.get(owner, NOBODY) for owner in made.owner.tolist()]
    moments, rows = np.array(given, np.int64).reshape(-1, 2).T
    return moments, rows


def after_an_older_value(made: Accesses, moment: Ints, *, initial: bool) -> tuple[Flags, Ints]:
    """Which writes certainly took effect after a moment (ns, one for each access), since a read sent after that moment
    was answered with an older value; and the place of such a read.

    Older: its only write had returned before this one was sent. initial: `NONE` is the value before everything. Assumes
    that the store is a register.
    """
    writer = _only_writer(made)
    reads = np.flatnonzero(~made.write & made.ok & ((writer >= 0) | (initial & (made.value == NONE))))
    written = np.where(writer[reads] >= 0, made.ret[writer[reads]], 0)
    by_read = apart((made.key[reads], made.inv[reads]), (made.key, moment))
    by_write = apart((made.key[reads], written), (made.key, made.inv))
    order = np.argsort(by_read.places[0], kind="stable")
    oldest, which = smallest_from(by_write.places[0][order])
    first = np.searchsorted(by_read.places[0][order], by_read.places[1], "right")
    older = (oldest[first] < by_write.places[1]) & (by_write.key(oldest[first]) == made.key)
    return older & made.write, np.append(reads[order], -1)[which[first]]


def _only_writer(made: Accesses) -> Ints:
    """For each access the place of the one write of its value, if that was acknowledged; -1 for none."""
    writes = np.flatnonzero(made.write)
    cells, first, times = np.unique(made.cell[writes], return_index=True, return_counts=True)
    place = np.searchsorted(cells, made.cell)
    writer = np.append(np.where(times == 1, writes[first], -1), -1)[place]
    right = (np.append(cells, -1)[place] == made.cell) & (writer >= 0)
    return np.where(right & made.ok[writer], writer, -1)


def read_by_somebody(made: Accesses) -> Flags:
    """Writes of a value that no other write has and that an acknowledged read returned: they took effect."""
    writes = np.flatnonzero(made.write)
    cells, times = np.unique(made.cell[writes], return_counts=True)
    seen = made.cell[~made.write & made.ok]
    read: Flags = made.write & np.isin(made.cell, cells[times == 1]) & np.isin(made.cell, seen)
    return read


def largest_until(values: Ints) -> tuple[Ints, Ints]:
    """The largest among the first n values and where it stands first, for n = 0 ... len(values); -1 for none."""
    highest = np.maximum.accumulate(np.append(-1, values))
    new = np.diff(highest, prepend=-1) > 0
    return highest, np.maximum.accumulate(np.where(new, np.arange(len(highest)), 0)) - 1


def smallest_from(values: Ints) -> tuple[Ints, Ints]:
    """The smallest from place n on and where it stands last, for n = 0 ... len(values); `NEVER` and len for none."""
    highest, place = largest_until(NEVER - 1 - values[::-1])
    smallest = np.where(highest < 0, NEVER, NEVER - 1 - highest)
    return smallest[::-1], np.where(place < 0, len(values), len(values) - 1 - place)[::-1]
