"""Makes the large histories that the benchmarks judge. Vectorised, seeded, correct but for what is planted.

A history is made from its linearization points. A specification is run at the points, which stand `STEP` apart; then
each process is given calls around its own points, so wide that it is almost always inside one: between two points of a
process lies one short pause, at a random place. A valid history is so by construction. A bad one has one violation
planted at a random place, which no reading of the unknown operations can explain.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from checkers import row_format
from checkers.history.counting import Flags, Ints
from checkers.history.history import Columns, Facts, History
from checkers.row_format import NONE, F, Outcome, Reason

STEP: Final = 1_000  # ns between two linearization points
PAUSE: Final = 0.05  # the share of the time between two points of a process in which the process is outside of any call

Table = dict[str, npt.NDArray[Any]]


class HistoryShape(NamedTuple):
    operations: int  # about how many, since histories of locks consist of whole holds
    processes: int  # how many are almost always busy
    keys: int  # how many locks or registers
    unknown: int = 0  # how many operations are left unanswered
    bad: bool = False  # whether one violation is planted
    seed: int = 1


class TooSmall(ValueError):
    """There is no place in a history of this shape for what was to be planted."""


def mutex(shape: HistoryShape) -> History:
    """Acquires and releases of locks, each acquire with an owner of its own.

    Unknown operations are releases that took effect and acquires that never did. The planted violation is a hold inside
    another hold. Raises TooSmall.
    """
    rng = np.random.default_rng(shape.seed)
    rows = _holds(shape, rng)
    # The k-th acquire and the k-th release are of one owner.
    acquires, releases = np.flatnonzero(rows["f"] == F.ACQUIRE), np.flatnonzero(rows["f"] == F.RELEASE)
    spared = NONE
    ghosts: list[Table] = []
    if shape.bad:
        room = np.flatnonzero(rows["inv"][releases] - rows["ret"][acquires] >= 8)
        if not len(room):
            raise TooSmall(f"no hold of {shape} is long enough for another inside it")
        spared = int(rng.choice(room))
        begin = int(rows["ret"][acquires[spared]])
        inv, ret, key = [begin + 1, begin + 4], [begin + 2, begin + 5], rows["key"][acquires[spared]]
        owner, process = len(acquires) + 1, shape.processes
        ghosts = [_table(2, f=[F.ACQUIRE, F.RELEASE], inv=inv, ret=ret, owner=owner, key=key, process=process)]
    choice = _sample(rng, np.ones(len(acquires), bool), shape.unknown, spared)
    never, freed = choice[::2], choice[1::2]
    rows["outcome"][acquires[never]] = Outcome.INFO
    rows["outcome"][releases[freed]] = Outcome.INFO
    rows = {name: np.delete(column, releases[never]) for name, column in rows.items()}
    return _history("mutex", shape, _joined([rows, *ghosts]))


def fenced(shape: HistoryShape) -> History:
    """Reads and writes of stores that fence writes; tokens are taken one after another, and outdated ones stay in use.

    On average, every third access of a process to a key has a new token; the others keep the one it had.
    The planted violation is a write that was accepted although a later token had been written. Raises TooSmall.
    """
    rng = np.random.default_rng(shape.seed)
    rows, n = _accesses(shape, rng), shape.operations
    write, renewed = rng.random(n) < 0.6, rng.random(n) < 1 / 3
    issued, highest, value = [0] * shape.keys, [0] * shape.keys, [NONE] * shape.keys
    held: dict[tuple[int, int], int] = {}
    points = (rows["key"].tolist(), rows["process"].tolist(), write.tolist(), renewed.tolist())
    for row, (key, process, writes, renews) in enumerate(zip(*points, strict=True)):
        if renews or (key, process) not in held:
            issued[key] += 1
            held[key, process] = issued[key]
        token = held[key, process]
        if writes and token >= highest[key]:
            highest[key], value[key] = token, row
        elif writes:
            rows["outcome"][row], rows["reason"][row] = Outcome.FAIL, Reason.STALE_TOKEN
        rows["token"][row], rows["value"][row] = token, row if writes else value[key]
    rows["f"][:] = np.where(write, F.WRITE, F.READ)
    rows["owner"] = rows["token"] * shape.keys + rows["key"] + 1
    accepted = rows["outcome"] == Outcome.OK
    spared: tuple[int, ...] = ()
    if shape.bad:
        spared = stale, _ = _stale_write(rng, rows, write, accepted)
        rows["outcome"][stale], rows["reason"][stale] = Outcome.OK, Reason.NONE
    rows["outcome"][_sample(rng, write & accepted, shape.unknown, *spared)] = Outcome.INFO
    return _history("fenced-store", shape, rows)


def cas_register(shape: HistoryShape) -> History:
    """Reads, writes and successful compare-and-sets, every value once. Planted: a stale read. Raises TooSmall."""
    rng = np.random.default_rng(shape.seed)
    rows = _accesses(shape, rng)
    rows["f"] = rng.choice([int(F.READ), int(F.WRITE), int(F.CAS)], shape.operations, p=[0.4, 0.3, 0.3])
    value = [NONE] * shape.keys
    for row, (key, kind) in enumerate(zip(rows["key"].tolist(), rows["f"].tolist(), strict=True)):
        if kind == F.CAS and value[key] == NONE:
            rows["f"][row] = F.WRITE
        elif kind == F.CAS:
            rows["base"][row] = value[key]
        if kind != F.READ:
            value[key] = row
        rows["value"][row] = value[key]
    changes = rows["f"] != F.READ
    spared: tuple[int, ...] = ()
    if shape.bad:
        spared = read, older, _ = _stale_read(rng, rows, changes)
        rows["value"][read] = rows["value"][older]
    rows["outcome"][_sample(rng, changes, shape.unknown, *spared)] = Outcome.INFO
    return _history("cas-register", shape, rows)


def leases(shape: HistoryShape) -> History:
    """Holds with a TTL, by two processes for each key in turns, renewed and at the end released or left to expire.

    The planted violation is a grant in the middle of a renewed hold. Unknown operations are releases. Raises TooSmall.
    """
    rng = np.random.default_rng(shape.seed)
    ttl = 100 * STEP
    renewals = rng.integers(0, 4, shape.operations)
    released = rng.random(shape.operations) < 0.8
    holds = int(np.searchsorted(np.cumsum(1 + renewals + released), shape.operations)) + 1
    renewals, released = renewals[:holds], released[:holds]
    key = np.arange(holds) % shape.keys
    length = (renewals * 0.4 + rng.uniform(0.1, 0.3, holds)) * ttl
    taken = np.where(released, length + 2 * STEP, (renewals * 0.4 + 1) * ttl + 2 * STEP).astype(np.int64)
    start = np.zeros(holds, np.int64)
    by_key = np.argsort(key, kind="stable")
    total = np.cumsum(taken[by_key]) - taken[by_key]
    begins = np.searchsorted(key[by_key], key[by_key])
    start[by_key] = total - total[begins] + key[by_key] + STEP
    owner = np.arange(1, holds + 1)
    whose = np.repeat(np.arange(holds), renewals)
    nth = np.arange(len(whose)) - np.repeat(np.cumsum(renewals) - renewals, renewals) + 1
    renewed = start[whose] + (nth * 0.4 * ttl).astype(np.int64)
    ended = start[released] + length[released].astype(np.int64)
    parts = [
        _table(holds, f=F.ACQUIRE, inv=start, ret=start + STEP // 2, owner=owner, key=key, ttl=ttl),
        _table(len(whose), f=F.RENEW, inv=renewed, ret=renewed + STEP // 2, owner=owner[whose], key=key[whose]),
        _table(len(ended), f=F.RELEASE, inv=ended, ret=ended + STEP // 2, owner=owner[released], key=key[released]),
    ]
    spared = NONE
    if shape.bad:
        if not len(whose):
            raise TooSmall(f"no hold of {shape} was renewed")
        spared = int(rng.choice(len(whose)))
        at = int(renewed[spared]) + STEP
        parts.append(_table(1, f=F.ACQUIRE, inv=at, ret=at + 1, owner=holds + 1, key=int(key[whose[spared]]), ttl=ttl))
        spared = int(whose[spared])
    rows = _joined(parts)
    rows["process"] = rows["key"] * 2 + rows["owner"] // shape.keys % 2
    among = (rows["f"] == F.RELEASE) & (rows["owner"] != spared + 1)
    rows["outcome"][_sample(rng, among, shape.unknown)] = Outcome.INFO
    return _history("lease", shape, rows)


GENERATORS: Mapping[str, Callable[[HistoryShape], History]] = {
    "mutex": mutex,
    "fenced-store": fenced,
    "cas-register": cas_register,
    "lease": leases,
}


def _holds(shape: HistoryShape, rng: np.random.Generator) -> Table:
    """Acquires, then as many releases in the same order of owners.

    Processes and keys are dealt out to streams, at least two processes to each. At most one process of a stream holds
    at a time, so no two hold one key, and the other processes of the stream wait.
    """
    holds = max(shape.operations // 2, 1)
    streams = max(1, min(shape.processes // 2, shape.keys))
    stream = rng.integers(0, streams, 2 * holds)
    order = np.argsort(stream, kind="stable")
    sizes = np.bincount(stream, minlength=streams)
    counts, begins = sizes // 2, np.cumsum(sizes) - sizes
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    place = np.repeat(begins, counts) + 2 * nth
    acquire, release = order[place], order[place + 1]
    mine = stream[acquire]
    process = _dealt(rng, mine, shape.processes, streams)
    key = _dealt(rng, mine, shape.keys, streams)
    n = len(acquire)
    kinds, owners = np.repeat([int(F.ACQUIRE), int(F.RELEASE)], n), np.tile(np.arange(1, n + 1), 2)
    rows = _table(2 * n, f=kinds, owner=owners, key=np.tile(key, 2), process=np.tile(process, 2))
    _widen(rows, np.concatenate([acquire, release]), rng)
    return rows


def _dealt(rng: np.random.Generator, stream: Ints, count: int, streams: int) -> Ints:
    """For each row one of `count` things, out of those of its stream n: n, n + streams, n + 2 * streams, ..."""
    share = (count - stream + streams - 1) // streams
    return (rng.random(len(stream)) * share).astype(np.int64) * streams + stream


def _accesses(shape: HistoryShape, rng: np.random.Generator) -> Table:
    """Rows without meaning, one at each point: random processes and keys."""
    n = shape.operations
    key, process = rng.integers(0, shape.keys, n), rng.integers(0, shape.processes, n)
    rows = _table(n, f=F.READ, key=key, process=process, owner=1)
    _widen(rows, np.arange(n), rng)
    return rows


def _widen(rows: Table, point: Ints, rng: np.random.Generator) -> None:
    """Sets `inv` and `ret` around linearization points, so that the calls of one process follow one another."""
    at = (point + 2) * STEP
    order = np.lexsort((at, rows["process"]))
    sorted_at = at[order]
    follows = np.diff(rows["process"][order]) == 0
    gap = np.diff(sorted_at)
    pause = np.maximum((gap * PAUSE).astype(np.int64), 2)
    ends = sorted_at[:-1] + 1 + (rng.random(len(gap)) * (gap - pause - 2)).astype(np.int64)
    ret = sorted_at + STEP
    inv = sorted_at - STEP
    ret[:-1] = np.where(follows, ends, ret[:-1])
    inv[1:] = np.where(follows, ends + pause, inv[1:])
    rows["inv"][order], rows["ret"][order] = inv, ret


def _sample(rng: np.random.Generator, among: Flags, count: int, *spared: int) -> Ints:
    """Some of the things in the mask `among`, without those to be spared. Raises TooSmall."""
    allowed = among.copy()
    allowed[[thing for thing in spared if thing >= 0]] = False
    candidates = np.flatnonzero(allowed)
    if len(candidates) < count:
        raise TooSmall(f"{count} operations were to be left unanswered, and only {len(candidates)} can be")
    return rng.choice(candidates, count, replace=False)


def _stale_write(rng: np.random.Generator, rows: Table, write: Flags, accepted: Flags) -> tuple[int, int]:
    """A refused write, and an accepted one of a later token that had returned before it was invoked."""
    for stale in rng.permutation(np.flatnonzero(write & ~accepted))[:1000].tolist():
        same = (rows["key"] == rows["key"][stale]) & write & accepted & (rows["token"] > rows["token"][stale])
        newer = np.flatnonzero(same & (rows["ret"] < rows["inv"][stale]))
        if len(newer):
            return stale, int(newer[0])
    raise TooSmall("no write came late enough to be stale for certain")


def _stale_read(rng: np.random.Generator, rows: Table, changes: Flags) -> tuple[int, int, int]:
    """A read, a write, and another write that was certainly after the first write and before the read."""
    for read in rng.permutation(np.flatnonzero(~changes))[:1000].tolist():
        past = np.flatnonzero((rows["key"] == rows["key"][read]) & changes & (rows["ret"] < rows["inv"][read]))
        if len(past):
            newer = int(past[np.argmax(rows["inv"][past])])
            older = past[rows["ret"][past] < rows["inv"][newer]]
            if len(older):
                return read, int(rng.choice(older)), newer
    raise TooSmall("no read came late enough to be stale for certain")


def _table(n: int, **given: Any) -> Table:
    """Rows that were answered, with the columns that are given: arrays, or one value for all."""
    rows: Table = {name: np.zeros(n, np.int64) for name, _ in row_format.FIELDS}
    for name in ("token", "value", "base"):
        rows[name][:] = NONE
    rows["outcome"][:] = Outcome.OK
    for name, values in given.items():
        rows[name][:] = values
    return rows


def _joined(tables: Sequence[Table]) -> Table:
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _history(name: str, shape: HistoryShape, rows: Table) -> History:
    order = np.argsort(rows["inv"], kind="stable")
    rows = {column: values[order] for column, values in rows.items()}
    rows["process"] += (int(rows["process"].max(initial=0)) + 1) * _unanswered_before(rows)
    rows["ret"][rows["outcome"] == Outcome.INFO] = 0
    columns: Columns = {column: rows[column].astype(kind) for column, kind in row_format.FIELDS}
    lane, store = f"{name}, {shape.operations} operations", "fence-writes" if name == "fenced-store" else ""
    facts = Facts("", lane, "", "", "", store, (), shape.seed, tuple(map(str, range(shape.keys))), "grant", 0)
    return History(facts, columns)


def _unanswered_before(rows: Table) -> Ints:
    """How many earlier operations of its process were never answered: a process number is not used again after one."""
    order = np.argsort(rows["process"], kind="stable")
    process, unanswered = rows["process"][order], rows["outcome"][order] == Outcome.INFO
    before = np.cumsum(unanswered) - unanswered
    result = np.empty(len(order), np.int64)
    result[order] = before - before[np.searchsorted(process, process)]
    return result
