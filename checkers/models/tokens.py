"""The fencing tokens that grants came with."""

from collections.abc import Iterable
from typing import NamedTuple

from checkers.models.model import ILLEGAL, Illegal, Model, Operation, Peers, State
from checkers.models.stores import LOWEST
from checkers.row_format import NONE, F


class Newest(NamedTuple):
    """State: the token of the newest grant, and whether it is a reader's."""

    token: int
    shared: bool


class FencingTokens(Model):
    """Each grant's token is larger than those of all grants before it.

    Readers may share a token with one another: nobody is to be fenced off by them but writers. What a holder acquires
    again inside its own hold is no new grant, a grant without a token imposes nothing, and neither does an acquire
    that was never answered: nobody knows its token.
    """

    sees = ("f", "outcome", "token", "flags")

    @property
    def initial(self) -> State:
        return Newest(LOWEST, shared=False)

    def step(self, state: State, operation: Operation) -> State | Illegal:
        assert isinstance(state, Newest)
        if not self.changes(operation):
            return state
        again = operation.token == state.token and operation.shared and state.shared
        return Newest(operation.token, operation.shared) if operation.token > state.token or again else ILLEGAL

    def changes(self, operation: Operation) -> bool:
        acquires = operation.f in (F.ACQUIRE, F.TRY_ACQUIRE) and not operation.nested
        return acquires and operation.ok and operation.token != NONE

    def needs(self, operation: Operation, peers: Peers) -> Iterable[int]:
        """Nothing: fewer grants are never in a worse order."""
        del operation, peers
        return ()
