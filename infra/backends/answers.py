"""What servers answer to the questions of `infra.backends.backend.Backend`. Standard library only, as there."""

import http.client
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple


class ServerRefused(Exception):
    """The server refused, or there is no server that answers."""


NO_ANSWER: Final = (OSError, http.client.HTTPException, ServerRefused)  # what a question to a server may raise
WRITES: Final = "fencepost-writes-"  # the prefix of keys that are written beside the locks (`infra.background_writes`)

Write = Callable[[Literal["create", "remove"], str], bool]
"""(verb, name): create or remove a small key. Returns when that is acknowledged: False if a key to be removed was not
there. Raises one of NO_ANSWER."""


@dataclass(frozen=True, slots=True)
class Health:
    """A node that serves clients."""

    version: str  # as the node tells it ("3.5.16"); a server that stands for a backend adds its name ("valkey 8.1.1")
    term: int = 0  # etcd: the raft term. ZooKeeper: the epoch, which the latest transaction shows. Else 0
    me: str = ""  # its identity among its peers, "" where it has none. Redis: "master" or "slave"
    # The identity of the leader that it follows, maybe its own; "" where there are no roles. ZooKeeper tells only its
    # role: "follower", "leader" or "observer". Redis: the id of the history of writes that it makes or follows; ""
    # while it is cut off from its primary, and until a copy that it took is kept on its disk.
    leader: str = ""
    # Seconds by which its clock is ahead of this machine's wall clock. None where backends do not tell the time; Redis
    # and PostgreSQL do.
    ahead: float | None = field(default=None, compare=False)
    unsure: float = field(default=0.0, compare=False)  # seconds that `ahead` may be wrong: half of the answer's time
    refuses: bool = field(default=False, compare=False)  # whether it was told to refuse writes (Trait.REFUSES_WRITES)


Outcome = Literal["kept", "refused", "silent"]
"""The outcome of a write. refused: an error, or no connection. silent: no answer in time, so it may still be kept."""


@dataclass(frozen=True, slots=True)
class Written:
    """seconds: from just before we connect until the answer or error."""

    outcome: Outcome
    seconds: float


class Held(NamedTuple):
    """What a member holds. Changes are numbered where the service numbers them, else 0."""

    first: int  # the latest change that it had when it began to answer
    last: int  # the latest change that it had when it had answered
    # (name, number of the change that created it, number of its latest change, the lease or session that it ends with
    # or 0, digest of what it holds) for each
    entries: list[tuple[str, int, int, int, str]]
    whole: str = ""  # a digest of all changes up to one of them, "" where the member tells none
