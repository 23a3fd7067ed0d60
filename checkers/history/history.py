"""A history: the columns of all operations of one lane, the fault intervals, and the facts needed to judge it.

On disk it is one Arrow IPC file. The file holds the columns of `row_format.FIELDS` with the rows in the order of
invocation, everything else as JSON in the schema's metadata, and a digest over both: Arrow notices no flipped bit.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
import numpy as np
import pyarrow as pa

from checkers import row_format
from checkers.claims import NO_FAULT, Claim, Hazard, matches
from checkers.history.counting import Array, Ints

T = TypeVar("T")

FORMAT: Final = 3
_OLD_KEYS: Final = (2, "<u2")  # files of this older format are read, too: only the type of the column `key` differs
_METADATA_KEY: Final = b"fencepost"
_DIGEST_KEY: Final = b"fencepost-digest"

Columns = Mapping[str, Array]
DTYPE: Final = np.dtype(list(row_format.FIELDS))


class BadHistory(Exception):
    """The file is not a history, is damaged, or contradicts itself. The text names file and place."""


@dataclass(frozen=True, slots=True)
class FaultInterval:
    """One fault, from the start of its application to the end of its healing (ns; 0 for a moment that never came)."""

    name: str  # the fault's name in the plan
    # What was done: cut, slow, reset, pause, kill, restart, wipe, disk, clock, freeze, stall, call, failover, version,
    # refuse, skew, maintenance.
    kind: str
    target: str  # what the fault hit, resolved at the moment of impact
    begun: int
    applied: int
    healing: int
    healed: int
    owner: int = 0  # for faults on workers: the grant that the worker held when it was hit
    process: int = -1  # for faults on workers: the worker's process number, -1 for none

    @property
    def over(self) -> int:
        """ns; the end of the fault's healing, `INFINITY` if it never came."""
        return self.healed or row_format.INFINITY


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the lane that a member of the service holds."""

    name: str
    created: int  # the number that the service gave to the change that created the entry, 0 if it numbers no changes
    changed: int  # the number of the last change of the entry, likewise
    session: int  # the lease or session with which the entry ends, 0 for none
    value: str  # a digest of the entry's value


@dataclass(frozen=True, slots=True)
class Contents:
    """What a member held. It was asked past all links, once it had every change acknowledged before it was asked."""

    member: str
    asked: int  # ns
    answered: int  # ns
    first: int  # the number of the latest change that the member had when it began to answer
    last: int  # the same number when the member had answered
    entries: tuple[Entry, ...]
    whole: str = ""  # "digest since N": of all changes of all keys from N to one that the first member has; "" for none
    beside: int = 0  # how many keys that a client wrote beside the locks must be there once nobody writes any more
    lost: tuple[str, ...] = ()  # the names of the keys beside the locks that this member lacks
    undead: tuple[str, ...] = ()  # the names of removed keys beside the locks that this member still holds


@dataclass(frozen=True, slots=True)
class Outage:
    """An end of a member that nobody asked for, or a member that did not serve again after the heal."""

    member: str
    at: int  # ns; when it ended, or was given up after the heal
    status: int | None  # its exit status; None: it ran, and did not serve
    words: str  # why, by the end of its log
    # ns after the heal in which it did not serve, though it was started anew; 0: it ended, and came back
    waited: int = 0


LISTS: Final = ("set", "inventory", "once", "transfer*")  # patterns of the workloads that keep lists


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts needed to judge a lane: lock, workload and store mode, faults, and the promises of the lock."""

    trial: str
    lane: str
    lock: str
    backend: str
    workload: str
    store: str  # the mode of the store: checkers/CONDITIONS.md, section 9
    fault_names: tuple[str, ...]
    seed: int
    keys: tuple[str, ...]
    lease: str  # what extends a hold: grant, touch, session, quorum, none (checkers/CONDITIONS.md, section 1)
    ttl: int  # ns; the TTL that was asked for. Each grant carries its effective TTL.
    drift: float = 0.0  # bound on how fast the server's clock may run, as a fraction
    grain: int = 0  # ns by which the server may end a lease early because of its clock's resolution
    settled: int = 0  # ns; when the trial had healed and settled, 0 if it never did
    # Property → ns within which it must hold, as the lock declares. A missing property is not promised.
    bounds: Mapping[str, int] = field(default_factory=dict)
    patience: int = 0  # ns that an acquire waits before it gives up, 0 if that is not known
    permits: Annotated[int, msgspec.Meta(ge=1)] = 1  # how many may hold at once: 1 for a mutex, more for a semaphore
    fair: bool = False
    workers: Annotated[int, msgspec.Meta(ge=1)] = 1  # how many the lane has (see `process` in `checkers.row_format`)
    versions: Mapping[str, str] = field(default_factory=dict)
    properties: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    # ns; (begin, end) of each time in which the trial itself asked the service in vain: while no fault was on, and
    # under faults at messages.
    silences: tuple[tuple[int, int], ...] = ()
    # What members held, one entry for each look: the first member, the others, and the first member again.
    looks: tuple[tuple[Contents, ...], ...] = ()
    outages: tuple[Outage, ...] | None = None  # None: nobody looked
    # ns; (worker, begin, end) of each time in which no server could answer that worker: its links to them were cut, or
    # they were stopped, all of them or, for ``quorum``, so many that no majority was left.
    unreached: tuple[tuple[int, int, int], ...] = ()
    begun: int = 0  # ns; the first operation of any lane of the trial, from which times are told; 0 if not known

    @property
    def planned(self) -> tuple[str, ...]:
        """The faults of the plan: `NO_FAULT` is none."""
        return tuple(name for name in self.fault_names if name != NO_FAULT)

    @property
    def keeps_lists(self) -> bool:
        """Whether the workload's cells are lists that are written back with one more element."""
        return matches(self.workload, LISTS)

    def worker_of(self, process: int) -> int:
        """The worker behind a process number: see `process` in `checkers.row_format`."""
        return process % self.workers


@dataclass(frozen=True, slots=True)
class History:
    """The operations of a lane. errors[0] is empty."""

    facts: Facts
    columns: Columns  # name of `row_format.FIELDS` → array, all of one length, sorted by invocation
    faults: tuple[FaultInterval, ...] = ()
    errors: tuple[str, ...] = ("",)
    # The values that the columns `value` and `base` of histories from elsewhere index; `NONE` stands for no value (a
    # nil is a value). If this is empty, the numbers in the columns are the values.
    values: tuple[Any, ...] = ()
    lines: Ints | None = None  # from elsewhere, (rows, 2): of invocation and completion, 0 for none
    # If `inv` and `ret` are places in the order of events: the file's times, for display, shape (rows, 2), ns.
    clock: Ints | None = None
    _once: dict[Callable[["History"], object], object] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.columns["inv"])

    def once(self, function: Callable[["History"], T]) -> T:
        """The function's result for this history. The function is called once, however often this is asked for."""
        if function not in self._once:
            self._once[function] = function(self)
        return cast(T, self._once[function])


def from_rows(
    facts: Facts, rows: Array, faults: Iterable[FaultInterval] = (), errors: Sequence[str] = ("",)
) -> History:
    """A history from unsorted rows of `DTYPE`. Pending operations become unknown ones."""
    rows = rows[np.argsort(rows["inv"], kind="stable")]
    columns = {name: np.ascontiguousarray(rows[name]) for name, _ in row_format.FIELDS}
    outcome = columns["outcome"]
    outcome[outcome == row_format.Outcome.PENDING] = row_format.Outcome.INFO
    return History(facts, columns, tuple(faults), tuple(errors))


_MANY_ROWS: Final = 1000
"""Rows read at once. Rows are written one after another, so a recording is empty behind the last one."""


def read_recording(path: Path) -> Array:
    """The rows that a worker wrote, without a row that is torn because the worker was killed. Raises BadHistory."""
    with path.open("rb") as file:
        header = file.read(row_format.HEADER)
        if len(header) < row_format.HEADER:
            raise BadHistory(f"{path}: {len(header)} bytes, shorter than a recording's header")
        magic, version, size = row_format.PREAMBLE.unpack_from(header)
        if (magic, version, size) != (row_format.MAGIC, row_format.VERSION, row_format.ROW.size):
            raise BadHistory(f"{path}: not a recording of format {row_format.VERSION}")
        data = b""
        while (part := file.read(_MANY_ROWS * size)).strip(b"\0"):
            data += part
    rows = np.frombuffer(data, DTYPE, len(data) // size)
    used: Array = rows[(rows["inv"] != 0) & (rows["f"] != 0)]
    return used


def save(history: History, path: Path) -> None:
    """Write the file under a temporary name first, so that a reader never finds half of it."""
    faults = [asdict(fault) for fault in history.faults]
    about = {"format": FORMAT, "facts": asdict(history.facts), "faults": faults, "errors": history.errors}
    text = json.dumps(about).encode()
    metadata = {_METADATA_KEY: text, _DIGEST_KEY: _digest(text, history.columns)}
    table = pa.table({name: history.columns[name] for name, _ in row_format.FIELDS}, metadata=metadata)
    partial = path.with_name(path.name + ".partial")
    with pa.OSFile(str(partial), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    partial.replace(path)


def load(path: Path) -> History:
    """Raises BadHistory with one line that names the file; OSError where it cannot be read."""
    with path.open("rb"):
        pass  # from here on an OSError means that the content is bad
    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
        metadata = table.schema.metadata or {}
        text = metadata.get(_METADATA_KEY)
        if text is None:
            raise BadHistory(f"{path}: an Arrow file, but not a history of ours")
        columns = _columns(path, table)
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: a column name that is not text
        first_line = next(iter(str(error).splitlines()), type(error).__name__)
        raise BadHistory(f"{path}: not a complete Arrow file ({first_line})") from error
    if metadata.get(_DIGEST_KEY) != _digest(text, columns):
        raise BadHistory(f"{path}: damaged (what it holds is not what was written)")
    try:
        about = json.loads(text)
        if about["format"] != (_OLD_KEYS[0] if columns["key"].dtype == _OLD_KEYS[1] else FORMAT):
            raise BadHistory(f"{path}: history format {about['format']}, this version reads {FORMAT}")
        facts = msgspec.convert(about["facts"], Facts)
        faults = msgspec.convert(about["faults"], tuple[FaultInterval, ...])
        errors = msgspec.convert(about["errors"], tuple[str, ...])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadHistory(f"{path}: its description is missing or damaged ({error!r})") from error
    columns["key"] = columns["key"].astype("<u4", copy=False)
    history = History(facts, columns, faults, errors)
    problem = malformed(history)
    if problem is not None:
        raise BadHistory(f"{path}: {problem}")
    return history


def _columns(path: Path, table: pa.Table) -> dict[str, Array]:
    columns: dict[str, Array] = {}
    for name, kind in row_format.FIELDS:
        if table.column_names.count(name) != 1:
            raise BadHistory(f"{path}: column {name} is missing")
        column = table.column(name)
        if name == "key" and column.type == pa.uint16():
            kind = _OLD_KEYS[1]
        if column.type != pa.from_numpy_dtype(np.dtype(kind)) or column.null_count:
            raise BadHistory(f"{path}: column {name} is not {kind}")
        columns[name] = column.to_numpy()
    return columns


def _digest(text: bytes, columns: Columns) -> bytes:
    """The digest of the description and the columns in their order, in hexadecimal."""
    digest = hashlib.blake2b(text, digest_size=16)
    for name, _ in row_format.FIELDS:
        digest.update(np.ascontiguousarray(columns[name]).data)
    return digest.hexdigest().encode()


def place_of(history: History, row: int) -> str:
    """Where a row came from, for people: its line in a file from elsewhere."""
    return f"row {row}" if history.lines is None else f"line {int(history.lines[row][0])}"


def bad_row(history: History, row: int, what: str) -> BadHistory:
    """The error that says what is wrong with one operation of a history from elsewhere."""
    return BadHistory(f"{place_of(history, row)}: {what}")


def malformed(history: History) -> str | None:
    """A defect that no recorder can have written, in one line with the row, or None."""
    c = history.columns
    acquires = (c["f"] == row_format.F.ACQUIRE) | (c["f"] == row_format.F.TRY_ACQUIRE)
    granted = acquires & (c["outcome"] == row_format.Outcome.OK)
    checks = (
        ("rows are not in the order of invocation", np.diff(c["inv"], prepend=c["inv"][:1]) < 0),
        ("invoked at a time that is not positive", c["inv"] <= 0),
        ("an unknown kind of operation", (c["f"] < 1) | (c["f"] > max(row_format.F))),
        ("an unknown outcome", (c["outcome"] < row_format.Outcome.OK) | (c["outcome"] > row_format.Outcome.INFO)),
        ("completed before it was invoked", (c["outcome"] != row_format.Outcome.INFO) & (c["ret"] < c["inv"])),
        ("a key that the lane does not have", c["key"] >= max(len(history.facts.keys), 1)),
        ("an error text that is missing", (c["error"] < 0) | (c["error"] >= max(len(history.errors), 1))),
        ("a granted acquire without an owner", granted & (c["owner"] == 0)),
        ("a granted acquire without a session", granted & (c["session"] == 0) & (history.facts.lease == "session")),
    )
    for what, bad in checks:
        if bad.any():
            return f"row {int(np.argmax(bad))}: {what}"
    grants = np.sort(c["owner"][granted & (c["flags"] & row_format.NESTED == 0)])
    if (grants[1:] == grants[:-1]).any():
        return "two grants share one owner"
    return None
