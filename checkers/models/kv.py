"""Maps with append: under each key a value that is read, written and appended to."""

from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterable, Iterator
from itertools import pairwise
from typing import Any, Final, Self

from checkers.history.history import History
from checkers.models.accumulators import Placed, in_order
from checkers.models.model import ILLEGAL, Deduction, Illegal, Operation, Settings, State
from checkers.models.operations import Operations
from checkers.models.registers import RegisterModel, says_nothing
from checkers.row_format import F

EMPTY: Final = (None, "", ())
"""Values that a `Kv` takes for no value. Stores differ in which one they return for a key that nobody wrote."""


class Kv(RegisterModel):
    """A value under each key that is read, written and appended to. State: the value, None for any of `EMPTY`.

    Appending to strings joins them, as in Porcupine's model of the same name. If something other than a string was
    appended, or a read returned a list, values are lists, and what is appended becomes their last element.
    """

    sees = ("f", "outcome", "value")

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.initial = bare(self.initial)
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

    def needs(self, operation: Operation, peers: Operations) -> Iterable[int]:
        """The operations from which a value that was read may come: writes of its beginnings, appends of its parts."""
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

    def deduced(self, operations: Operations) -> Deduction | None:
        """The longest value that was read says the order: checkers/CONDITIONS.md, section 20."""
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
        initial: Any = whole if self.initial is None else self.initial
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


def _apart(strings: Collection[Any]) -> bool:
    """Whether these are strings of which none begins with another, so that what is joined from them can be split."""
    if not all(isinstance(string, str) and string for string in strings):
        return False
    return not any(later.startswith(earlier) for earlier, later in pairwise(sorted(strings)))


def _parts(whole: Any, begin: int, appended: Iterable[Any], *, lists: bool) -> Iterator[tuple[Any, int]]:
    """The parts of a value from `begin` on, each with its end. A string's parts end before what was not appended."""
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
    """The value as `Kv` keeps it: None for any of `EMPTY`."""
    return None if isinstance(value, (str, tuple)) and not value else value


def holds_lists(history: History) -> bool:
    """Whether `Kv` appends elements to lists, rather than strings to strings."""
    c, values = history.columns, history.values
    appended, read = (set(c["value"][c["f"] == f].tolist()) & {*range(len(values))} for f in (F.APPEND, F.READ))
    if any(isinstance(bare(values[number]), tuple) for number in appended | read):
        return True
    return any(values[number] is not None and not isinstance(values[number], str) for number in appended)
