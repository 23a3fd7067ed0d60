"""A lane's operations as few bytes: what a page carries so that its script can draw and tell of each of them.

Operations are taken thread by thread (a worker's own, that of its renewals, then the stalls of the machine), because
what one thread does repeats itself: its kinds follow a pattern, its token stays, its next call comes soon. Columns hold
differences to that, their bytes are laid out plane by plane (all low bytes first), and all of it is deflated;
`timeline-data.js` reads it.

Columns, in this order, as unsigned numbers; (z) marks those that were signed: 0, -1, 1, -2, ... as 0, 1, 2, 3, ...

code        index into the table of codes: kind, outcome, reason, flags, and which of the columns below have a value.
gap (z)     ticks from the thread's last completion (its invocation, where there is none) to this invocation.
lasted      ticks from invocation to completion, plus one; 0: never completed.
generation  (z) process number divided by the workers, difference to the thread's operation before.
key         index of the lock.
token (z)   difference to the thread's last token.
value (z)   difference to the thread's last value (read, written, or the job that was done).
base (z)    difference to the thread's last value.
error       index into the table of error texts.
held        ticks from the grant to the end of the hold.
lease (z)   ticks from the grant to the earliest end of its lease, plus one where that is not negative; 0: no lease.
open        1 where neither a release nor a notice of loss is known.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from checkers.history import History
from checkers.wire import NONE, F, Outcome
from results.pages.holds import Holds

TICK: Final = 1000
"""ns."""
MOST_ERRORS: Final = 400
"""Distinct error texts; the rarer ones are told as one."""
LONGEST_ERROR: Final = 400
_RARER: Final = "one of many texts; the history's file has it"
_VALUED: Final = (F.READ, F.WRITE, F.EFFECT)

TOKEN, VALUE, BASE, ERROR, HOLD = 1, 2, 4, 8, 16
"""Bits of a code: which columns have a value."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Packed:
    """What the page carries.

    data     base64 of the deflated columns.
    threads  (worker, sort, operations) in the order of the operations; sort: 0 its own, 1 renewals, 2 stalls.
    codes    (kind, outcome, reason, flags, bits).
    columns  (name, length, bytes of each number).
    errors   distinct texts; the first is empty.
    """

    data: str
    threads: list[tuple[int, int, int]]
    codes: list[tuple[int, int, int, int, int]]
    columns: list[tuple[str, int, int]]
    errors: list[str]

    def about(self) -> dict[str, Any]:
        """All but the data, as plain JSON."""
        return {
            "tick": TICK,
            "threads": self.threads,
            "codes": self.codes,
            "columns": self.columns,
            "errors": self.errors,
        }


def pack(history: History, holds: Holds, origin: int) -> Packed:
    """origin: ns that counts as 0."""
    c = history.columns
    workers = max(history.facts.workers, 1)
    process = c["process"].astype(np.int64)
    # A stall overlaps with what the threads do: it comes from one that only watches.
    thread = process % workers * 3 + np.where(c["f"] == F.STALL, 2, process // workers % 2)
    order = np.argsort(thread, kind="stable")
    of = thread[order]
    first = np.flatnonzero(np.diff(of, prepend=-1))  # of each thread
    inv = _in_order((c["inv"] - origin) // TICK, thread)[order]
    never = c["ret"][order] == 0
    lasted = np.where(never, 0, np.maximum((c["ret"][order] - origin) // TICK - inv, 0))

    grant = np.full(len(history), -1, np.int64)
    grant[holds.acquire] = np.arange(len(holds.acquire))
    grant = grant[order]
    errors, error = _errors(history)
    bits, told = _bits(history, order, grant, error[order])
    codes, code = _codes(history, order, bits)

    columns = {
        "code": code,
        "gap": _zigzag(inv - _before(inv + lasted, first)),
        "lasted": np.where(never, 0, lasted + 1),
        "generation": _zigzag(process[order] // workers - _before(process[order] // workers, first)),
    }
    if len(history.facts.keys) > 1:
        columns["key"] = c["key"][order].astype(np.int64)
    columns["token"] = _differences(c["token"][order][told[TOKEN]], of[told[TOKEN]])
    columns["value"] = _differences(c["value"][order][told[VALUE]], of[told[VALUE]])
    last = _last(c["value"][order], told[VALUE], first, of)
    columns["base"] = _zigzag(c["base"][order][told[BASE]] - last[told[BASE]])
    columns["error"] = error[order][told[ERROR]]
    held = grant[told[HOLD]]
    begin = (inv + lasted)[told[HOLD]]
    lease = (holds.lease[held] - origin) // TICK - begin
    columns["held"] = np.maximum((holds.end[held] - origin) // TICK - begin, 0)
    columns["lease"] = np.where(holds.lease[held] == 0, 0, _zigzag(np.where(lease < 0, lease, lease + 1)))
    columns["open"] = holds.open[held].astype(np.int64)

    sizes = np.diff(np.append(first, len(of)))
    planes = {name: _planes(column) for name, column in columns.items()}
    deflate = zlib.compressobj(6, wbits=-zlib.MAX_WBITS)
    data = b"".join([*(deflate.compress(plane.tobytes()) for plane in planes.values()), deflate.flush()])
    return Packed(
        base64.b64encode(data).decode(),
        [(int(of[at]) // 3, int(of[at]) % 3, int(size)) for at, size in zip(first, sizes, strict=True)],
        codes,
        [(name, len(columns[name]), len(plane)) for name, plane in planes.items()],
        errors,
    )


def _in_order(ticks: Ints, thread: Ints) -> Ints:
    """Moments from which, with the threads' numbers where they are equal, the order of the rows can be told again.

    Of two in one tick, the later one moves to the next if its thread has the lower number.
    """
    moved = np.cumsum(np.diff(thread, prepend=thread[:1]) < 0, dtype=np.int64)
    ordered: Ints = np.maximum.accumulate(ticks - moved) + moved
    return ordered


def _bits(
    history: History, order: Ints, grant: Ints, error: Ints
) -> tuple[npt.NDArray[np.uint8], dict[int, npt.NDArray[np.bool_]]]:
    """Which operations have a token, a value, ... to tell, as one number each, and one by one."""
    c = history.columns
    f = c["f"][order]
    valued = np.isin(f, _VALUED) & ((f != F.READ) | (c["outcome"][order] == Outcome.OK))
    told = {
        TOKEN: c["token"][order] != NONE,
        VALUE: valued & (c["value"][order] != NONE),
        BASE: (f == F.WRITE) & (c["base"][order] != NONE),
        ERROR: error != 0,
        HOLD: grant >= 0,
    }
    bits = np.zeros(len(order), np.uint8)
    for bit, has in told.items():
        bits |= has.astype(np.uint8) * bit
    return bits, told


def _codes(
    history: History, order: Ints, bits: npt.NDArray[np.uint8]
) -> tuple[list[tuple[int, int, int, int, int]], Ints]:
    """The table of codes, the most frequent first, and the code of each operation."""
    parts = [*(history.columns[name][order] for name in ("f", "outcome", "reason", "flags")), bits]
    joined = np.zeros(len(order), np.int64)
    for part in parts:
        joined = joined << 8 | part
    distinct, code, counts = np.unique(joined, return_inverse=True, return_counts=True)
    rank = np.argsort(-counts, kind="stable")
    place = np.empty(len(rank), np.int64)
    place[rank] = np.arange(len(rank))
    table = [tuple(int(word) >> shift & 255 for shift in (32, 24, 16, 8, 0)) for word in distinct[rank]]
    return table, place[code]  # type: ignore[return-value]  # five parts each


def _errors(history: History) -> tuple[list[str], Ints]:
    """The distinct texts, the most frequent first after the empty one, and the index of each operation's."""
    used, counts = np.unique(history.columns["error"], return_counts=True)
    often: dict[str, int] = {}
    for index, count in zip(used, counts, strict=True):
        text = _cut(history.errors[index])
        often[text] = often.get(text, 0) + int(count)
    often.pop("", None)
    texts = ["", *sorted(often, key=lambda text: -often[text])[:MOST_ERRORS]]
    if len(often) > MOST_ERRORS:
        texts.append(_RARER)
    places = {text: place for place, text in enumerate(texts)}
    new = np.zeros(len(history.errors) or 1, np.int64)
    for index in used:
        new[index] = places.get(_cut(history.errors[index]), len(texts) - 1)
    return texts, new[history.columns["error"]]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 1] + "…"


def _before(column: Ints, first: Ints) -> Ints:
    """The entry before each, 0 before the first of a thread."""
    before = np.roll(column, 1)
    before[first] = 0
    return before


def _differences(column: Ints, of: npt.NDArray[Any]) -> Ints:
    """Differences to the entry before, of the same thread, as unsigned numbers."""
    return _zigzag(column - _before(column, np.flatnonzero(np.diff(of, prepend=-1))))


def _last(column: Ints, told: npt.NDArray[np.bool_], first: Ints, of: npt.NDArray[Any]) -> Ints:
    """The last entry before each that has something to tell, of the same thread; 0 where there is none."""
    at = np.maximum.accumulate(np.where(told, np.arange(len(column)), -1))
    at = np.roll(at, 1)
    if len(at):
        at[0] = -1
    starts = np.repeat(first, np.diff(np.append(first, len(of))))
    return np.where(at >= starts, column[at], 0)


def _zigzag(column: Ints) -> Ints:
    """Signed to unsigned numbers, small ones first. (As int64, whose bits count.)"""
    folded: Ints = column << 1 ^ column >> 63
    return folded


def _planes(column: Ints) -> npt.NDArray[np.uint8]:
    """Shape (bytes of the largest, length): all low bytes, then all of the next, and so on."""
    unsigned = np.ascontiguousarray(column).view(np.uint64)
    width = max((int(unsigned.max(initial=0)).bit_length() + 7) // 8, 1)
    return np.ascontiguousarray(unsigned.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width].T)
