"""Sequential specifications for the general search: what each operation may answer, and what it changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from checkers.accesses import Access
from checkers.wire import NONE


class Illegal:
    """What `Model.step` answers when the operation cannot have ended so; a type of its own, since None is a state."""


ILLEGAL: Final = Illegal()

State = object


class Model(Protocol):
    """A sequential specification. States are hashable and compared by value."""

    @property
    def initial(self) -> State:
        """The state before everything."""

    def step(self, state: State, access: Access) -> State | Illegal:
        """The state after the access, ended as it did (unknown: as if it had been accepted), or `ILLEGAL`."""

    def changes(self, access: Access) -> bool:
        """Whether it can change the state; one that cannot is placed as soon as it fits."""


class Fence(NamedTuple):
    """State of a fenced store: the highest token accepted (`NONE` - 1: none yet), and the value."""

    highest: int
    value: int


class FencedStore(Model):
    """A store that compares fencing tokens: on reads too or on writes alone, strictly or not."""

    def __init__(self, *, reads: bool, strict: bool) -> None:
        self._reads = reads
        self._strict = strict

    @property
    def initial(self) -> State:
        """See `Model`."""
        return Fence(NONE - 1, NONE)

    def step(self, state: State, access: Access) -> State | Illegal:
        """See `Model`."""
        assert isinstance(state, Fence)
        if not access.write and (access.final or not self._reads):
            return state if access.unknown or (access.ok and access.value == state.value) else ILLEGAL
        strict = self._strict and access.write
        accepted = access.token > state.highest if strict else access.token >= state.highest
        if access.refused:
            return ILLEGAL if accepted else state
        if not accepted:
            return ILLEGAL
        if access.write:
            return Fence(access.token, access.value)
        if access.ok and access.value != state.value:
            return ILLEGAL
        return Fence(access.token, state.value)

    def changes(self, access: Access) -> bool:
        """See `Model`."""
        return not access.refused and (access.write or (self._reads and not access.final))


class Owned(NamedTuple):
    """State of a store that compares owners. seen: grants that have accessed it, where that is not known in advance."""

    owner: int
    value: int
    seen: frozenset[int]


class CompareOwner(Model):
    """The first access under a grant makes it the owner, unconditionally; a later write is accepted iff it still is.

    Which access of a grant is its first is known where they follow one another, and part of the state elsewhere.
    """

    def __init__(self, accesses: Sequence[Access]) -> None:
        self._first: set[int] = set()
        self._searched: set[int] = set()
        last: dict[int, int] = {}
        for access in sorted(accesses, key=lambda a: a.inv):
            if access.final:
                continue
            if access.owner not in last:
                self._first.add(access.row)
            elif last[access.owner] >= access.inv:
                self._searched.add(access.owner)
            last[access.owner] = max(last.get(access.owner, 0), access.ret)

    @property
    def initial(self) -> State:
        """See `Model`."""
        return Owned(0, NONE, frozenset())

    def step(self, state: State, access: Access) -> State | Illegal:
        """See `Model`."""
        assert isinstance(state, Owned)
        owner, value, seen = state
        if not access.final and self._is_first(access, seen):
            owner = access.owner
            if access.owner in self._searched:
                seen |= {access.owner}
        if access.write:
            if access.refused:
                return ILLEGAL if owner == access.owner else Owned(owner, value, seen)
            if owner == access.owner:
                return Owned(owner, access.value, seen)
            # An unanswered write that was refused has changed nothing: the search leaves it out.
            return ILLEGAL
        if access.refused or (access.ok and access.value != value):
            return ILLEGAL
        return Owned(owner, value, seen)

    def changes(self, access: Access) -> bool:
        """See `Model`."""
        if access.final:
            return False
        if access.owner in self._searched:
            return True
        return access.row in self._first or (access.write and not access.refused)

    def _is_first(self, access: Access, seen: frozenset[int]) -> bool:
        if access.owner in self._searched:
            return access.owner not in seen
        return access.row in self._first
