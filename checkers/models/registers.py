"""Registers: one value under a key that is read, written, compared and set, or appended to; and several at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self

from checkers.history.history import History, bad_row
from checkers.history.values import FrozenMap
from checkers.models.model import ILLEGAL, UNSET, Deduction, Illegal, Model, Operation, Peers, Settings, State
from checkers.models.placing import Placed, in_order
from checkers.wire import NONE, F

EMPTY: Final = (None, "", ())
"""What a `Kv` takes for nothing at all: under a key that nobody wrote some stores show the one, some the other."""


_WRITE: Final = F.WRITE  # see `checkers.models.model`; searches ask for steps again and again
_CAS: Final = F.CAS


def says_nothing(read: Operation, settings: Settings) -> bool:
    """Whether a read proves nothing: it was never answered, or without a value, or with a nil that means none."""
    return read.unknown or read.value is UNSET or (read.value is None and settings.nil_read == "unknown")


class Register(Model):
    """A value that is read and written. State: the value."""

    sees: Sequence[str] = ("f", "outcome", "value", "base")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._initial: Hashable = None if settings.initial is UNSET else settings.initial

    @classmethod
    def of(cls, history: History, settings: Settings) -> Self:
        """Histories whose values are numbers of their own write `wire.NONE` for the one before all."""
        made = cls(settings)
        if not history.values:
            made._initial = NONE
        return made

    @property
    def initial(self) -> State:
        return self._initial

    def step(self, state: State, operation: Operation) -> State | Illegal:
        if operation.f == _WRITE:
            written: State = operation.value
            return written
        if says_nothing(operation, self._settings) or operation.value == state:
            return state
        return ILLEGAL

    def changes(self, operation: Operation) -> bool:
        return operation.f == _WRITE

    def needs(self, operation: Operation, peers: Peers) -> Iterable[int] | None:
        """A read needs the writes of its value. Any other only cuts short what was there before it."""
        if operation.f != F.READ or says_nothing(operation, self._settings):
            return ()
        return (peer.row for peer in peers.where(F.WRITE, value=operation.value))


class CasRegister(Register):
    """A register with compare-and-set. One that failed may prove that the value was another: `Settings.failed_cas`."""

    def step(self, state: State, operation: Operation) -> State | Illegal:
        if operation.f != _CAS:
            return super().step(state, operation)
        if operation.failed:
            return ILLEGAL if operation.base == state else state
        return operation.value if operation.base == state else ILLEGAL

    def changes(self, operation: Operation) -> bool:
        if operation.f == _CAS:
            return not operation.failed and operation.base != operation.value
        return super().changes(operation)

    def evidence(self, operation: Operation) -> bool:
        return operation.f == _CAS and self._settings.failed_cas == "observes"

    def needs(self, operation: Operation, peers: Peers) -> Iterable[int] | None:
        """What wrote the value that was read or expected; a failed compare-and-set needs all that came before it."""
        if operation.f == F.CAS and operation.failed:
            return None
        if operation.f == F.WRITE or (operation.f == F.READ and says_nothing(operation, self._settings)):
            return ()
        value = operation.base if operation.f == F.CAS else operation.value
        return (peer.row for peer in peers.where(F.WRITE, F.CAS, value=value))


class Micro(NamedTuple):
    """One read or write of a transaction, done at once with the others."""

    write: bool
    key: Hashable
    value: Any


_KINDS: Final = {"r": False, "read": False, "w": True, "write": True}


def micro_operations(operation: Operation) -> Sequence[Micro]:
    """What an operation on several registers does, in order. Raises ValueError as `parts_of`."""
    if operation.f == F.TRANSACT:
        return () if operation.value is UNSET else parts_of(operation.value)
    return (Micro(operation.f == F.WRITE, operation.key, operation.value),)


def parts_of(transaction: Any) -> Sequence[Micro]:
    """The reads and writes of a transaction. Raises ValueError where it holds anything else."""
    if not isinstance(transaction, tuple):
        raise ValueError(f"a transaction is a sequence, not {transaction!r}")  # noqa: TRY004
    for part in transaction:
        if not isinstance(part, tuple) or len(part) != 3 or not isinstance(part[0], str) or part[0] not in _KINDS:
            raise ValueError(f"a transaction reads and writes keys; {part!r} does neither")
    return [Micro(_KINDS[kind], key, value) for kind, key, value in transaction]


class MultiRegister(Model):
    """Several registers in one state, read and written together by transactions, or one at a time.

    State: what was written, as a frozen set of (key, value). `Settings.initial` may be a mapping of keys.
    """

    sees = ("f", "outcome", "key", "value")

    def __init__(self, settings: Settings) -> None:
        self._any: tuple[Any, ...] = (UNSET, None) if settings.nil_read == "unknown" else (UNSET,)
        given = settings.initial
        by_key = isinstance(given, (Mapping, FrozenMap))
        self._initial: dict[Hashable, Any] = dict(given) if by_key else {}
        self._otherwise = None if given is UNSET or by_key else given

    @classmethod
    def of(cls, history: History, settings: Settings) -> Self:
        """Raises BadHistory where a transaction is none."""
        c = history.columns
        for row in (c["f"] == F.TRANSACT).nonzero()[0].tolist():
            number = int(c["value"][row])
            if number == NONE and history.values:
                continue
            try:
                parts_of(history.values[number] if history.values else number)
            except ValueError as error:
                raise bad_row(history, row, str(error)) from error
        return cls(settings)

    @property
    def initial(self) -> State:
        return frozenset(self._initial.items())

    def step(self, state: State, operation: Operation) -> State | Illegal:
        """A transaction reads its own writes; what an unanswered one would have read is not known."""
        assert isinstance(state, frozenset)
        values = dict(state)
        written = False
        for write, key, value in micro_operations(operation):
            if write:
                values[key] = value
                written = True
            elif not (operation.unknown or value in self._any) and values.get(key, self._otherwise) != value:
                return ILLEGAL
        return frozenset(values.items()) if written else state

    def changes(self, operation: Operation) -> bool:
        return any(micro.write for micro in micro_operations(operation))

    def needs(self, operation: Operation, peers: Peers) -> Iterable[int]:
        """Whatever wrote one of the values that were read, under the key where it was read."""
        reads = {(m.key, m.value) for m in micro_operations(operation) if not m.write and m.value not in self._any}
        if operation.unknown or not reads:
            return ()
        return (
            peer.row
            for peer in peers.where(F.WRITE, F.TRANSACT, meets=(0, operation.ret))
            if any(m.write and (m.key, m.value) in reads for m in micro_operations(peer))
        )


class Kv(Register):
    """A value under each key that is read, written and appended to. State: the value, None for any of `EMPTY`.

    Appending to strings joins them, as in Porcupine's model of the same name. Where something else than a string was
    appended, or a read returned a list, values are lists, and what is appended becomes their last element.
    """

    sees = ("f", "outcome", "value")

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._initial = bare(self._initial)
        self._lists = False

    @classmethod
    def of(cls, history: History, settings: Settings) -> Self:
        made = super().of(history, settings)
        made._lists = holds_lists(history)
        return made

    def step(self, state: State, operation: Operation) -> State | Illegal:
        if operation.f == F.WRITE:
            return bare(operation.value)
        if operation.f == F.APPEND:
            return self._appended(state, operation.value)
        if self._says_nothing(operation) or bare(operation.value) == state:
            return state
        return ILLEGAL

    def _appended(self, state: State, value: Any) -> State | Illegal:
        if self._lists:
            if state is None or isinstance(state, tuple):
                return (*(state or ()), value)
        elif value in EMPTY:
            return state
        elif state is None or isinstance(state, str):
            return f"{state or ''}{value}"
        return ILLEGAL  # nobody can append to a number

    def _says_nothing(self, read: Operation) -> bool:
        return says_nothing(read._replace(value=bare(read.value)), self._settings)

    def changes(self, operation: Operation) -> bool:
        return operation.f != F.READ

    def needs(self, operation: Operation, peers: Peers) -> Iterable[int]:
        """Whatever what was read may consist of: writes of its beginnings, and appends of its parts."""
        if operation.f == F.APPEND:
            return (peer.row for peer in peers.where(F.WRITE)) if operation.ok else ()
        if operation.f != F.READ or self._says_nothing(operation):
            return ()
        value = bare(operation.value)
        whole = value if isinstance(value, (str, tuple)) else ()
        rows = []
        for peer in peers.where(F.WRITE, F.APPEND, meets=(0, operation.ret)):
            part = peer.value
            if peer.f == F.WRITE:
                part = bare(part)
                begins = part is None or part == value or (type(part) is type(whole) and whole[: len(part)] == part)
            else:
                begins = part in whole if isinstance(whole, tuple) or isinstance(part, str) else str(part) in whole
            if begins:
                rows.append(peer.row)
        return rows

    def deduced(self, operations: Peers) -> Deduction | None:
        """Where nothing is written, the longest value that was read has all that was read, in order.

        None also where the same was appended repeatedly, or strings of which one begins with another.
        """
        appends: dict[Any, Operation] = {}
        reads: list[tuple[Any, Operation]] = []
        placed: list[Placed] = []
        whole: Any = () if self._lists else ""
        for o in operations:
            if o.f == F.READ and o.ok and self._says_nothing(o):
                placed.append(Placed(0, o, guest=True))
            elif o.f == F.READ and o.ok:
                reads.append((whole if bare(o.value) is None else o.value, o))
            elif o.f != F.READ and not o.failed:
                if o.f == F.WRITE or o.value in appends:
                    return None
                appends[o.value] = o
        initial: Any = whole if self._initial is None else self._initial
        if type(initial) is not type(whole) or not (self._lists or _apart(appends)):
            return None
        for value, o in reads:
            if type(value) is not type(whole):
                return Deduction(False, (o.row,))
        whole, *longest = max(reads, key=lambda read: len(read[0]), default=(initial,))
        places = {len(initial): 0}
        for part, end in _parts(whole, len(initial), appends, lists=self._lists):
            if part not in appends:
                break
            placed.append(Placed(2 * len(places), appends.pop(part)))
            places[end] = len(places)
        for value, o in reads:
            if len(value) not in places or whole[: len(value)] != value or value[: len(initial)] != initial:
                return Deduction(False, tuple(dict.fromkeys(read.row for read in (*longest, o))))
            placed.append(Placed(2 * places[len(value)] + 1, o))
        return in_order((*placed, *(Placed(2 * len(places), o) for o in appends.values() if o.ok)))


def _apart(strings: Iterable[Any]) -> bool:
    """Whether these are strings of which none begins with another, so that what they were joined to can be parted."""
    ordered = list(strings)
    if not all(isinstance(string, str) and string for string in ordered):
        return False
    return not any(later.startswith(earlier) for earlier, later in pairwise(sorted(ordered)))


def _parts(whole: Any, begin: int, appended: Iterable[Any], *, lists: bool) -> Iterator[tuple[Any, int]]:
    """What a value consists of behind its beginning, and where each part ends; what was not appended is the last."""
    if lists:
        yield from zip(whole[begin:], range(begin + 1, len(whole) + 1), strict=True)
        return
    ordered = sorted(appended)
    most = max(map(len, ordered), default=0)
    while begin < len(whole):
        part = ordered[bisect_right(ordered, whole[begin : begin + most]) - 1] if ordered else ""
        if not part or not whole.startswith(part, begin):
            return
        begin += len(part)
        yield part, begin


def bare(value: Any) -> Hashable:
    """The value as `Kv` keeps it: None for any kind of nothing."""
    return None if isinstance(value, (str, tuple)) and not value else value


def holds_lists(history: History) -> bool:
    """Whether `Kv` appends elements to lists, rather than strings to strings."""
    c = history.columns
    shown = (c["f"] == F.APPEND) | (c["f"] == F.READ)
    for number in set(c["value"][shown].tolist()):
        if 0 <= number < len(history.values) and isinstance(bare(history.values[number]), tuple):
            return True
    appended = set(c["value"][c["f"] == F.APPEND].tolist())
    return any(
        not isinstance(history.values[number], str)
        for number in appended
        if 0 <= number < len(history.values) and history.values[number] is not None
    )
