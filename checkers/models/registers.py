"""Registers: one value under a key that is read, written, or compared and set; and several in one state."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from checkers.history.foreign_values import FrozenMap, shown, spelled
from checkers.history.history import History, bad_row
from checkers.models.model import ILLEGAL, UNSET, Illegal, Model, Operation, Settings, State
from checkers.models.operations import Operations
from checkers.row_format import NONE, F

_WRITE: Final = F.WRITE  # faster, see `checkers.models.model`: searches call `step` very often
_CAS: Final = F.CAS


def says_nothing(read: Operation, settings: Settings) -> bool:
    """Whether a read proves nothing: it has no answer, or no value, or a nil that means that the value is not known."""
    return read.unknown or read.value is UNSET or (read.value is None and settings.nil_read == "unknown")


def writers(seer: Operation, value: Any, peers: Operations, *kinds: F) -> Iterable[int]:
    """Rows that can have written what `seer` saw. Where others were overwritten before it, the row that came between
    as well (without it they could have been seen), and if nothing else can have written it, the last of the others.
    """
    last, since = peers.latest(*kinds, before=seer.inv)
    could = peers.where(*kinds, value=value, meets=(0, seer.ret))
    wrote = [peer for peer in could if not peer.failed and peer.row != seer.row]
    rows = [peer.row for peer in wrote if peer.ret >= since]
    return rows if len(rows) == len(wrote) else [*(rows or [wrote[-1].row]), last]


class RegisterModel(Model):
    """A value that is read and written. State: the value."""

    sees: Sequence[str] = ("f", "outcome", "value", "base")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.initial: State = None if settings.initial is UNSET else settings.initial

    @classmethod
    def of(cls, history: History, settings: Settings) -> Self:
        """Histories without a table of values write `row_format.NONE` for the initial value."""
        made = cls(settings)
        if not history.values:
            made.initial = NONE
        return made

    def step(self, state: State, operation: Operation) -> State | Illegal:
        if operation.f == _WRITE:
            return operation.value
        return state if says_nothing(operation, self._settings) or operation.value == state else ILLEGAL

    def changes(self, operation: Operation) -> bool:
        return operation.f == _WRITE

    def needs(self, operation: Operation, peers: Operations) -> Iterable[int] | None:
        """A read needs the `writers` of its value. Others need nothing: they only end the value before them."""
        if operation.f != F.READ or says_nothing(operation, self._settings):
            return ()
        return writers(operation, operation.value, peers, F.WRITE)


class CasRegister(RegisterModel):
    """A register with compare-and-set. A failed one may prove that the value was another: `Settings.failed_cas`."""

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

    def needs(self, operation: Operation, peers: Operations) -> Iterable[int] | None:
        """The `writers` of what was read or expected; a failed compare-and-set needs all that came before it."""
        if operation.f == F.CAS and operation.failed:
            return None
        if operation.f == F.WRITE or (operation.f == F.READ and says_nothing(operation, self._settings)):
            return ()
        value = operation.base if operation.f == F.CAS else operation.value
        return writers(operation, value, peers, F.WRITE, F.CAS)


class Micro(NamedTuple):
    """One read or write of a transaction, which happens at once with the others."""

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
    """The reads and writes of a transaction. Raises ValueError if it holds anything else."""
    if not isinstance(transaction, tuple):
        raise ValueError(f"a transaction is a sequence, not {shown(spelled(transaction))}")  # noqa: TRY004
    for part in transaction:
        if not isinstance(part, tuple) or len(part) != 3 or not isinstance(part[0], str) or part[0] not in _KINDS:
            raise ValueError(f"a transaction reads and writes keys; {shown(spelled(part))} does neither")
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
        self.initial: State = frozenset(dict(given).items() if by_key else ())
        self._otherwise = None if given is UNSET or by_key else given

    @classmethod
    def of(cls, history: History, settings: Settings) -> Self:
        """Raises BadHistory if the value of a transaction is not one."""
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

    def step(self, state: frozenset[tuple[Hashable, Any]], operation: Operation) -> State | Illegal:
        """A transaction reads its own writes; what an unanswered one would have read is not known."""
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

    def needs(self, operation: Operation, peers: Operations) -> Iterable[int]:
        """The operations that wrote a value that was read, under the key under which it was read."""
        reads = {(m.key, m.value) for m in micro_operations(operation) if not m.write and m.value not in self._any}
        if operation.unknown or not reads:
            return ()
        return (
            peer.row
            for peer in peers.where(F.WRITE, F.TRANSACT, meets=(0, operation.ret))
            if any(m.write and (m.key, m.value) in reads for m in micro_operations(peer))
        )
