"""Stores that check who accesses them: by fencing tokens, or by the owner, which is the last grant that came by."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Self

from checkers.history.history import History
from checkers.models.model import ILLEGAL, UNSET, Illegal, Model, Operation, Settings, State
from checkers.models.operations import Operations
from checkers.row_format import NONE, F, Reason

REFUSALS: Final = (Reason.STALE_TOKEN, Reason.NOT_OWNER)
"""Reasons which say that the fence refused the access. An access that failed otherwise never reached the store."""
LOWEST: Final = -(1 << 63) - 1  # below every token
HIGHEST: Final = (1 << 63) - 1


class Rule(NamedTuple):
    """reads: the fence is on reads, too. strict: a write needs a larger token than any before, not an equal one."""

    reads: bool
    strict: bool


RULES: Final[Mapping[str, Rule]] = {
    "fence-writes": Rule(reads=False, strict=False),
    "fence-writes-strict": Rule(reads=False, strict=True),
    "fence-reads-and-writes": Rule(reads=True, strict=False),
    "fence-reads-and-writes-strict": Rule(reads=True, strict=True),
}
"""Store mode → what its fence does."""


def rule_of(history: History, settings: Settings) -> Rule:
    """The lane's own rule, if it has one, else that of the settings. Raises ValueError if there is no such rule."""
    for mode in (history.facts.store, settings.store):
        if mode in RULES:
            return RULES[mode]
    raise ValueError(f"no rule of a fenced store: {settings.store!r} (there are {', '.join(RULES)})")


class Fence(NamedTuple):
    """State of a fenced store: the highest token accepted, and the value."""

    highest: int
    value: Hashable


class FencedStore(Model):
    """A store that compares fencing tokens: on reads too or on writes alone, strictly or not.

    A read passes no fence if reads are not fenced, it has no token, or it comes past the fence. It then raises no bar.
    """

    sees = ("f", "outcome", "token", "value", "flags", "reason")

    def __init__(self, rule: Rule, initial: Hashable = NONE, *, silent_nil: bool = False) -> None:
        """silent_nil: a nil that was read says nothing (`Settings.nil_read`)."""
        self._reads, self._strict = rule
        self.initial: State = Fence(LOWEST, initial)
        self._silent_nil = silent_nil

    @classmethod
    def of(cls, history: History, settings: Settings) -> Self:
        """Our own recordings write `row_format.NONE` for the value before everything. Raises ValueError."""
        initial = settings.initial
        if initial is UNSET:
            initial = None if history.values else NONE
        return cls(rule_of(history, settings), initial, silent_nil=settings.nil_read == "unknown")

    def step(self, state: Fence, operation: Operation) -> State | Illegal:
        highest, value = state
        if operation.f == F.WRITE:
            value = operation.value
        elif operation.ok and not self._says_nothing(operation) and operation.value != value:
            return ILLEGAL
        if not self._passes_fence(operation):
            return state
        larger = operation.token > highest
        accepted = larger or (operation.token == highest and not (self._strict and operation.f == F.WRITE))
        if operation.failed:
            return ILLEGAL if accepted else state
        return Fence(operation.token, value) if accepted else ILLEGAL

    def changes(self, operation: Operation) -> bool:
        return not operation.failed and self._passes_fence(operation)

    def evidence(self, operation: Operation) -> bool:
        return operation.reason in REFUSALS and self._passes_fence(operation)

    def needs(self, operation: Operation, peers: Operations) -> Iterable[int]:
        """A read needs the writes of its value, a refusal needs all accesses that may have raised the bar by then."""
        if operation.failed:
            least = operation.token + (0 if self._strict and operation.f == F.WRITE else 1)
            higher = peers.where(tokens=(least, HIGHEST), meets=(0, operation.ret))
            return (peer.row for peer in higher if self.changes(peer))
        if operation.f == F.WRITE or operation.unknown or self._says_nothing(operation):
            return ()
        return (peer.row for peer in peers.where(F.WRITE, value=operation.value) if not peer.failed)

    def _passes_fence(self, operation: Operation) -> bool:
        return operation.f == F.WRITE or (self._reads and not operation.final and operation.token != NONE)

    def _says_nothing(self, read: Operation) -> bool:
        return read.value is UNSET or (read.value is None and self._silent_nil)


class Owned(NamedTuple):
    """State of a store that compares owners. seen: grants that have accessed it, if that is not known in advance."""

    owner: int
    value: int
    seen: frozenset[int]


class CompareOwner(Model):
    """The first access under a grant always makes it the owner. A later write is accepted iff the grant still is.

    If the accesses of a grant follow one another, its first access is known. If they overlap, it is part of the state.
    """

    sees = ("row", "f", "outcome", "owner", "value", "flags", "reason")
    initial = Owned(0, NONE, frozenset())

    def __init__(self, operations: Sequence[Operation]) -> None:
        """operations: all of the key, without those that never reached the store."""
        self._first: set[int] = set()
        self._searched: set[int] = set()
        last: dict[int, int] = {}
        for operation in sorted(operations, key=lambda o: o.inv):
            if operation.final:
                continue
            if operation.owner not in last:
                self._first.add(operation.row)
            elif last[operation.owner] >= operation.inv:
                self._searched.add(operation.owner)
            last[operation.owner] = max(last.get(operation.owner, 0), operation.ret)

    def step(self, state: Owned, operation: Operation) -> State | Illegal:
        owner, value, seen = state
        searched = operation.owner in self._searched
        if not operation.final and (operation.owner not in seen if searched else operation.row in self._first):
            owner = operation.owner
            seen = seen | {operation.owner} if searched else seen
        if operation.f == F.WRITE:
            # An unanswered write that was refused has changed nothing: the search leaves it out.
            accepted = owner == operation.owner
            if accepted == operation.failed:
                return ILLEGAL
            return Owned(owner, operation.value if accepted else value, seen)
        if operation.failed or (operation.ok and operation.value != value):
            return ILLEGAL
        return Owned(owner, value, seen)

    def changes(self, operation: Operation) -> bool:
        makes_owner = operation.owner in self._searched or operation.row in self._first
        return not operation.final and (makes_owner or (operation.f == F.WRITE and not operation.failed))

    def evidence(self, operation: Operation) -> bool:
        return operation.reason in REFUSALS
