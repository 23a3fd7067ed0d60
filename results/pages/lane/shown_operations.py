"""Which part of a history a picture shows: the operations around a violation, or the liveliest ones without any."""

from dataclasses import dataclass

import numpy as np

from checkers.history.counting import Ints
from checkers.history.history import FaultInterval
from checkers.history.view import View
from checkers.properties.check_result import Violation
from checkers.row_format import ACQUIRES, NONE, F

MOST_OPERATIONS = 70
"""The most operations in one picture: more cannot be told apart."""
_AROUND = 24  # operations before and after a moment, if nothing else limits the window
_SESSION = (F.SESSION_OPEN, F.KEEP_ALIVE, F.SESSION_CLOSE)
_FEWEST = 12  # the fewest operations of a window, if the history has so many


@dataclass(frozen=True, slots=True)
class Focus:
    """A window of a history.

    begin, end  ns.
    rows        operations to draw, ascending.
    marked      the operations of the story, in its order.
    keys        indices of the locks that are shown. Tokens of different locks cannot be compared.
    left_out    operations on these keys in the window that are not drawn.
    why         what the window shows, in a few words.
    """

    begin: int
    end: int
    rows: tuple[int, ...]
    marked: tuple[int, ...]
    keys: tuple[int, ...]
    left_out: int
    why: str


def numbers(view: View) -> Ints:
    """For each hold its number, from 1 on, in the order of the grants of its key; holds of one token share a number."""
    known: dict[tuple[int, int, int], int] = {}
    latest: dict[int, int] = {}
    marks = []
    for row in view.holds.columns.row.tolist():
        key, token = view.key[row], view.token[row]
        grant = (key, token, 0) if token != NONE else (key, NONE, view.owner[row])
        if grant not in known:
            known[grant] = latest[key] = latest.get(key, 0) + 1
        marks.append(known[grant])
    return np.array(marks, np.int64)


def on_violation(view: View, violation: Violation, most: int = MOST_OPERATIONS) -> Focus:
    """A window with the operations of the witness, those of the same holders, and others. At most `most` are drawn."""
    rows = {row for row in (*violation.rows, *violation.holders) if 0 <= row < len(view.history)}
    # In the order of their ends, as the sentences of the story.
    marked = tuple(sorted(rows, key=lambda row: (view.ended[row], row)))
    return _around(view, marked, "the operations around the violation", most)


def on_liveliest(view: View) -> Focus:
    """A window with a fault's victim and its successor; else the start of a fault; else the most contended moment."""
    for fault in view.history.faults:
        if fault.owner and (marked := _succession(view, fault)):
            return _around(view, marked, f"the worker hit by {fault.name}, and its successor")
    begun = [fault for fault in view.history.faults if fault.begun]
    if begun:
        at = int(np.searchsorted(view.array("inv"), begun[0].applied or begun[0].begun))
        return _between(view, at - _AROUND, at + _AROUND, f"the moment when {begun[0].name} was applied")
    return _between(view, *_contended(view), "the most contended hand-over")


def _succession(view: View, fault: FaultInterval) -> tuple[int, ...]:
    """The victim's acquire and its first act after the fault, and the next grant of the same key."""
    c, holds = view.history.columns, view.holds.columns
    mine = np.flatnonzero(c["owner"][holds.row] == fault.owner)
    if not len(mine):
        return ()
    first = int(mine[0])
    acquire = int(holds.row[first])
    later = np.flatnonzero((c["owner"] == fault.owner) & (c["ret"] > fault.applied) & ~np.isin(c["f"], ACQUIRES))
    same_key = np.flatnonzero(c["key"][holds.row[first + 1 :]] == c["key"][acquire])
    heirs = holds.row[first + 1 :][same_key[:1]]
    return (acquire, *(int(row) for row in heirs), *(int(row) for row in later[:2]))


def _contended(view: View) -> tuple[int, int]:
    """Rows around the grant that the most acquires were waiting for."""
    c, holds = view.history.columns, view.holds.columns
    if not len(holds.row):
        return 0, 2 * _AROUND
    waiting = np.flatnonzero((c["f"] == F.ACQUIRE) & (c["ret"] > 0))
    arrived = np.searchsorted(c["inv"][waiting], holds.ret, side="right")
    left = np.searchsorted(np.sort(c["ret"][waiting]), holds.ret, side="right")
    at = int(np.searchsorted(c["inv"], holds.ret[np.argmax(arrived - left)]))
    return at - _AROUND, at + _AROUND


def _between(view: View, first: int, last: int, why: str) -> Focus:
    first, last = max(first, 0), min(last, len(view.history) - 1)
    inv = view.array("inv")
    begin, end = int(inv[first]), int(inv[last])
    pad = max((end - begin) // 40, 1)
    return _window(view, begin - pad, end + pad, (), why, first)


def _around(view: View, marked: tuple[int, ...], why: str, most: int = MOST_OPERATIONS) -> Focus:
    history, holds = view.history, view.holds.columns
    c = history.columns
    if not marked:
        return _between(view, 0, 2 * _AROUND, why)
    rows = np.array(marked)
    # Acquires count from their grant: a long wait for the lock is not part of the story.
    acquires = np.isin(c["f"][rows], ACQUIRES)
    starts = np.where(acquires & (c["ret"][rows] > 0), c["ret"][rows], c["inv"][rows])
    begin, end = int(starts.min()), int(view.ended[rows].max())
    # The end of a lease is part of the story if the holder went on after it.
    leases = holds.expiry[np.isin(holds.row, rows) & (holds.expiry <= holds.left)]
    owners = c["owner"][rows]
    for fault in history.faults:
        if fault.owner and fault.owner in owners:
            begin = min(begin, fault.begun or begin)
            end = max(end, fault.healed or end)
    end = max(end, int(leases.max(initial=end)))
    first, last = np.searchsorted(c["inv"], (begin, end))
    if last - first < _FEWEST:
        begin = min(begin, int(c["inv"][max(first - _FEWEST // 2, 0)]))
        end = max(end, int(c["inv"][min(last + _FEWEST // 2, len(history) - 1)]))
    pad = max((end - begin) // 25, 50_000)
    at = int(rows[np.argmax(c["inv"][rows])])
    return _window(view, begin - pad, end + pad, marked, why, at, most)


def _window(
    view: View, begin: int, end: int, marked: tuple[int, ...], why: str, at: int, most: int = MOST_OPERATIONS
) -> Focus:
    """At most `most` operations: the marked ones, then those of the same grants, then the nearest to the row `at`."""
    history, c = view.history, view.history.columns
    stop = int(np.searchsorted(c["inv"], end, side="right"))
    keys = np.unique(c["key"][list(marked or (at,))])
    # Operations of a session concern all its keys.
    concerned = np.isin(c["key"][:stop], keys) | np.isin(c["f"][:stop], _SESSION)
    inside: Ints = np.flatnonzero((view.ended[:stop] >= begin) & concerned)
    owners = c["owner"][list(marked)]
    kin = np.isin(c["owner"][inside], owners[owners != 0])
    rank = np.abs(inside - at) + np.where(kin, 0, len(history))
    rank[np.isin(inside, marked)] = -1
    chosen = np.sort(inside[np.argsort(rank, kind="stable")[:most]])
    if len(history.facts.keys) > 1:
        why += f", on key {' and '.join(history.facts.keys[key] for key in keys)}"
    return Focus(begin, end, tuple(chosen.tolist()), marked, tuple(keys.tolist()), len(inside) - len(chosen), why)
