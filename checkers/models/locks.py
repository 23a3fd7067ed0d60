"""Locks: mutex, reentrant mutex, readers and writers, semaphore; and fencing tokens. `Operation.owner` is the holder.

A failed acquire or release proves nothing. If failed tries are evidence (`Settings.strict_try`), a try that was refused
because somebody held the lock proves that the same acquire was impossible at that moment.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from checkers.history.counting import grouped
from checkers.models.model import ILLEGAL, Illegal, Model, Operation, Settings, State
from checkers.models.operations import Operations
from checkers.models.stores import LOWEST
from checkers.row_format import NONE, F, Reason

FREE: Final = 0  # no owner is ever 0


class _Lock(Model):
    sees = ("f", "outcome", "owner", "flags", "reason")

    def __init__(self, settings: Settings) -> None:
        self._strict_try = settings.strict_try
        self._permits = settings.permits

    def step(self, state: State, operation: Operation) -> State | Illegal:
        after = self._released(state, operation) if operation.f == F.RELEASE else self._acquired(state, operation)
        if operation.failed:
            return state if isinstance(after, Illegal) else ILLEGAL
        return after

    def changes(self, operation: Operation) -> bool:
        return not operation.failed

    def evidence(self, operation: Operation) -> bool:
        return self._strict_try and operation.f == F.TRY_ACQUIRE and operation.reason == Reason.HELD

    def needs(self, operation: Operation, peers: Operations) -> Iterable[int]:
        """An acquire and its release stay together; a refused try keeps all that may have held during it.

        The operations of one owner fall into parts. At the end of each part the owner holds nothing, whatever happened
        elsewhere. Without a part less is held, which is always allowed if nobody was refused meanwhile.
        """
        if operation.failed:
            met = peers.where(F.ACQUIRE, F.TRY_ACQUIRE, F.RELEASE, meets=(0, operation.ret))
            by_owner = grouped(met, lambda peer: peer.owner)
            parts = (part for same in by_owner.values() for part in _parts(same))
            return [x.row for part in parts if max(x.ret for x in part) >= operation.inv or _open(part) for x in part]
        same = peers.where(F.ACQUIRE, F.TRY_ACQUIRE, F.RELEASE, owner=operation.owner)
        for part in _parts(same):
            rows = [x.row for x in part]
            if operation.row in rows:
                return rows
        return ()

    @abstractmethod
    def _acquired(self, state: State, operation: Operation) -> State | Illegal:
        """The state after an acquire that was granted, or `ILLEGAL`."""

    @abstractmethod
    def _released(self, state: State, operation: Operation) -> State | Illegal:
        """The state after a release that was acknowledged, or `ILLEGAL`."""


class Mutex(_Lock):
    """State: the owner that holds it, or `FREE`. The holder does not get it again."""

    initial = FREE

    def _acquired(self, state: State, operation: Operation) -> State | Illegal:
        return operation.owner if state == FREE else ILLEGAL

    def _released(self, state: State, operation: Operation) -> State | Illegal:
        return FREE if state == operation.owner else ILLEGAL


class ReentrantState(NamedTuple):
    """State of a reentrant mutex: who holds it, and how many times over."""

    owner: int
    depth: int


class ReentrantMutex(_Lock):
    """State: `ReentrantState`. The holder gets it again, and must release it as often."""

    initial = ReentrantState(FREE, 0)

    def _acquired(self, state: ReentrantState, operation: Operation) -> State | Illegal:
        return ReentrantState(operation.owner, state.depth + 1) if state.owner in (FREE, operation.owner) else ILLEGAL

    def _released(self, state: ReentrantState, operation: Operation) -> State | Illegal:
        if state.owner != operation.owner:
            return ILLEGAL
        return ReentrantState(state.owner, state.depth - 1) if state.depth > 1 else self.initial


class Inside(NamedTuple):
    """State of a lock for readers and writers: the writer or `FREE`, and the readers."""

    writer: int
    readers: frozenset[int]


class RWLock(_Lock):
    """State: `Inside`. Readers (flag SHARED) share, a writer is alone, nobody holds twice. A release ends either."""

    initial = Inside(FREE, frozenset())

    def _acquired(self, state: Inside, operation: Operation) -> State | Illegal:
        if state.writer != FREE or operation.owner in state.readers:
            return ILLEGAL
        if operation.shared:
            return Inside(FREE, state.readers | {operation.owner})
        return ILLEGAL if state.readers else Inside(operation.owner, state.readers)

    def _released(self, state: Inside, operation: Operation) -> State | Illegal:
        if state.writer == operation.owner:
            return self.initial
        if operation.owner in state.readers:
            return Inside(FREE, state.readers - {operation.owner})
        return ILLEGAL


class Semaphore(_Lock):
    """State: the owners of the permits in use, in order; an owner may have several, and a release gives up one."""

    initial = ()

    def _acquired(self, state: tuple[int, ...], operation: Operation) -> State | Illegal:
        return tuple(sorted((*state, operation.owner))) if len(state) < self._permits else ILLEGAL

    def _released(self, state: tuple[int, ...], operation: Operation) -> State | Illegal:
        if operation.owner not in state:
            return ILLEGAL
        place = state.index(operation.owner)
        return state[:place] + state[place + 1 :]


class Newest(NamedTuple):
    """State: the token of the newest grant, and whether it is a reader's."""

    token: int
    shared: bool


class FencingTokens(Model):
    """Each grant's token is larger than those of all grants before it. Readers may share a token, since they need to
    fence off only writers. Nested acquires, and those without a token or an answer, impose nothing.
    """

    sees = ("f", "outcome", "token", "flags")
    initial = Newest(LOWEST, shared=False)

    def step(self, state: Newest, operation: Operation) -> State | Illegal:
        if not self.changes(operation):
            return state
        again = operation.token == state.token and operation.shared and state.shared
        return Newest(operation.token, operation.shared) if operation.token > state.token or again else ILLEGAL

    def changes(self, operation: Operation) -> bool:
        acquires = operation.f in (F.ACQUIRE, F.TRY_ACQUIRE) and not operation.nested
        return acquires and operation.ok and operation.token != NONE

    def needs(self, operation: Operation, peers: Operations) -> Iterable[int]:
        """Nothing: fewer grants are never in a worse order."""
        del operation, peers
        return ()


def _parts(operations: Iterable[Operation]) -> Iterator[list[Operation]]:
    """One owner's operations that did not fail, in order of invocation, cut where the owner certainly holds nothing."""
    part: list[Operation] = []
    returned = 0
    for operation in operations:
        if operation.failed:
            continue
        if part and operation.inv > returned and not _open(part):
            yield part
            part = []
        part.append(operation)
        returned = max(returned, operation.ret)
    if part:
        yield part


def _open(part: Iterable[Operation]) -> bool:
    return sum(-1 if operation.f == F.RELEASE else 1 for operation in part) != 0
