"""Models of what only grows: sets, counters, identities that are handed out; and orders whose places are known."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from functools import reduce
from heapq import heappop, heappush
from itertools import accumulate, groupby, islice
from operator import attrgetter, xor
from typing import Any, NamedTuple, Self

from checkers.history.foreign_values import shown, spelled
from checkers.history.history import History, bad_row
from checkers.models.model import ILLEGAL, UNSET, Deduction, Illegal, Model, Operation, Settings, State, Unusable
from checkers.models.operations import Operations
from checkers.models.registers import says_nothing
from checkers.row_format import NONE, F, Outcome


class Placed(NamedTuple):
    """Comes after all with lower places, in any order within its own. A guest changes nothing, and may come later."""

    place: int
    operation: Operation
    guest: bool = False


def in_order(placed: Iterable[Placed]) -> Deduction:
    """Whether real time allows these places, and an order if it does (checkers/CONDITIONS.md, section 2).

    Each operation takes effect as early as it can: at its own or the latest invocation of the operations before it.
    """
    latest = 0
    last: tuple[int, ...] = ()
    order = []
    for place, group in groupby(sorted(placed, key=attrgetter("place")), key=attrgetter("place")):
        here = list(group)
        for _, operation, _ in here:
            time = max(operation.inv, latest)
            if time > operation.ret:
                return Deduction(False, (*last, operation.row))
            order.append((time, place, operation.row))
        for _, operation, guest in here:
            if operation.inv > latest and not guest:
                latest, last = operation.inv, (operation.row,)
    return Deduction(True, [row for _, _, row in sorted(order)])


class Elements:
    """An immutable set that shares its memory with the set that it grew from: growing by one element takes one step.

    That holds for the newest set of a line. If an older set grows, its line branches, and its elements are copied.
    """

    __slots__ = ("_digest", "_length", "_shared")

    def __init__(self, elements: Iterable[Hashable] = ()) -> None:
        self._shared = {element: place for place, element in enumerate(dict.fromkeys(elements))}
        self._length = len(self._shared)
        self._digest = reduce(xor, (hash((element,)) for element in self._shared), 0)

    def grown(self, element: Hashable) -> "Elements":
        if element in self:
            return self
        result = Elements.__new__(Elements)
        newest = len(self._shared) == self._length
        result._shared = self._shared if newest else dict(islice(self._shared.items(), self._length))
        result._shared[element] = self._length
        result._length = self._length + 1
        result._digest = self._digest ^ hash((element,))
        return result

    def __contains__(self, element: object) -> bool:
        return self._shared.get(element, self._length) < self._length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Hashable]:
        return islice(self._shared, self._length)

    def __hash__(self) -> int:
        return self._digest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Elements):
            return NotImplemented
        same = self._length == other._length and self._digest == other._digest
        return same and all(element in other for element in self)

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self))}}}"


class Accumulator(Model):
    sees = ("f", "outcome", "value")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._absent: Any = UNSET

    @classmethod
    def of(cls, history: History, settings: Settings) -> Self:
        """If the history has no table of values, `row_format.NONE` stands for no value."""
        made = cls(settings)
        made._absent = UNSET if history.values else NONE
        return made

    def value(self, operation: Operation) -> Any:
        """The operation's value, UNSET if it has none."""
        return UNSET if operation.value == self._absent else operation.value

    def says_nothing(self, read: Operation) -> bool:
        return says_nothing(read._replace(value=self.value(read)), self._settings)


def collection(value: Any) -> frozenset[Hashable] | None:
    """The elements that a read of a set returned (nil: no elements); None if the value is no collection."""
    if value is None:
        return frozenset()
    return frozenset(value) if type(value) is tuple or isinstance(value, frozenset) else None  # a map is a tuple too


class SetModel(Accumulator):
    """A set (`Elements`). Elements are added (a second time without effect) and read as a whole, repetitions aside."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        given = () if settings.initial is UNSET else collection(settings.initial)
        if given is None:
            raise Unusable(f"the initial value {shown(spelled(settings.initial))} is not a collection")
        self.initial: State = Elements(given)

    def step(self, state: Elements, operation: Operation) -> State | Illegal:
        if operation.f == F.ADD:
            return state.grown(operation.value)
        if self.says_nothing(operation):
            return state
        read = collection(operation.value)
        same = read is not None and len(read) == len(state) and all(element in state for element in read)
        return state if same else ILLEGAL

    def changes(self, operation: Operation) -> bool:
        return operation.f == F.ADD

    def needs(self, operation: Operation, peers: Operations) -> Iterable[int]:
        """A read needs the additions of what it showed."""
        if operation.f != F.READ or self.says_nothing(operation):
            return ()
        read = collection(operation.value) or frozenset()
        return (peer.row for peer in peers.where(F.ADD, meets=(0, operation.ret)) if peer.value in read)

    def deduced(self, operations: Operations) -> Deduction:
        """The places that the sizes of the reads say: checkers/CONDITIONS.md, section 20."""
        additions, placed = defaultdict[Hashable, list[Operation]](list), list[Placed]()
        reads: list[tuple[int, Operation]] = []
        for o in operations:
            if o.f == F.ADD and not o.failed:
                additions[o.value].append(o)
            elif o.ok and self.says_nothing(o):
                placed.append(Placed(0, o, guest=True))
            elif o.ok:
                shown = collection(o.value)
                if shown is None:
                    return Deduction(False, (o.row,))
                reads.append((len(shown), o))
        since: dict[Hashable, int] = dict.fromkeys(self.initial, 0)
        fewer: tuple[int, ...] = ()
        for size, read in sorted(reads):
            new = (collection(read.value) or frozenset()) - since.keys()
            if size != len(since) + len(new) or not new <= additions.keys():
                return Deduction(False, (*fewer, read.row))
            fewer = (read.row,)
            since.update(dict.fromkeys(new, 2 * size))
            placed.append(Placed(2 * size + 1, read))
        for element, (first, *others) in additions.items():
            place = since.get(element, 2 * len(since) + 2)
            if first.ok or (element in since and place > 0):
                placed.append(Placed(place, first, guest=place == 0))
            placed += [Placed(place, o, guest=True) for o in others if o.ok]
        return in_order(placed)


class Counter(Accumulator):
    """A number (the state) to which numbers are added: negative ones too, and 1 if no value is given."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.initial: State = 0 if settings.initial is UNSET else settings.initial
        if not is_number(self.initial):
            raise Unusable(f"the initial value {shown(spelled(self.initial))} is not a number")

    @classmethod
    def of(cls, history: History, settings: Settings) -> Self:
        """Raises BadHistory if something is added that is no number."""
        c = history.columns
        for row in ((c["f"] == F.ADD) & (c["outcome"] != Outcome.FAIL)).nonzero()[0].tolist() if history.values else ():
            value = int(c["value"][row])
            if value != NONE and history.values[value] is not None and not is_number(history.values[value]):
                raise bad_row(history, row, f"cannot add {shown(spelled(history.values[value]))} to a counter")
        return super().of(history, settings)

    def step(self, state: State, operation: Operation) -> State | Illegal:
        if operation.f == F.ADD:
            return state + amount(self.value(operation))
        if self.says_nothing(operation) or (is_number(operation.value) and operation.value == state):
            return state
        return ILLEGAL

    def changes(self, operation: Operation) -> bool:
        return operation.f == F.ADD and amount(self.value(operation)) != 0

    def needs(self, operation: Operation, peers: Operations) -> Iterable[int] | None:
        """A read needs whatever may have been added by its return."""
        del peers
        return () if operation.f != F.READ or self.says_nothing(operation) else None

    def deduced(self, operations: Operations) -> Deduction | None:
        """If all additions are of one whole number: checkers/CONDITIONS.md, section 20."""
        waiting, reads, placed = list[Operation](), list[tuple[Any, Operation]](), list[Placed]()
        for o in operations:
            if o.f == F.ADD and not o.failed and self.changes(o):
                waiting.append(o)
            elif o.ok and (o.f == F.ADD or self.says_nothing(o)):
                placed.append(Placed(0, o, guest=True))
            elif o.ok and is_number(o.value):
                reads.append((o.value, o))
            elif o.ok:
                return Deduction(False, (o.row,))
        amounts = {amount(self.value(o)) for o in waiting}
        if len(amounts) > 1 or not all(isinstance(n, int) for n in (*amounts, self.initial, *(n for n, _ in reads))):
            return None
        counts = sorted((*divmod(value - self.initial, next(iter(amounts), 1)), o) for value, o in reads)
        soonest = reversed(list(accumulate((o.ret for _, _, o in reversed(counts)), min)))
        waiting.reverse()
        ready: list[tuple[int, Operation]] = []
        done = 0
        for (count, rest, read), soon in zip(counts, soonest, strict=True):
            while done < count:
                while waiting and waiting[-1].inv <= soon:
                    heappush(ready, (waiting[-1].ret, waiting.pop()))
                if not ready:
                    return Deduction(False, (read.row,))
                done += 1
                placed.append(Placed(2 * done, heappop(ready)[1]))
            if rest or count < done:
                return Deduction(False, (read.row,))
            placed.append(Placed(2 * count + 1, read))
        placed += [Placed(2 * done + 2, o) for o in (*waiting, *(o for _, o in ready)) if o.ok]
        return in_order(placed)


def amount(value: Any) -> Any:
    """The number that an addition adds."""
    return 1 if value is None or value is UNSET else value


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class UniqueIds(Accumulator):
    """A generator of identities. None may be handed out twice. State: those that were handed out, as `Elements`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.initial: State = Elements()

    def step(self, state: Elements, operation: Operation) -> State | Illegal:
        """An operation without an answer handed out no identity."""
        if not self.changes(operation):
            return state
        return ILLEGAL if operation.value in state else state.grown(operation.value)

    def changes(self, operation: Operation) -> bool:
        return operation.ok and self.value(operation) is not UNSET

    def needs(self, operation: Operation, peers: Operations) -> Iterable[int]:
        """No other: any two of the operations that contradict each other do so alone."""
        del operation, peers
        return ()

    def deduced(self, operations: Operations) -> Deduction:
        given: dict[Any, int] = {}
        rows = []
        for o in operations:
            if self.changes(o) and (first := given.setdefault(o.value, o.row)) != o.row:
                return Deduction(False, (first, o.row))
            rows += [o.row] if o.ok else []
        return Deduction(True, rows)
