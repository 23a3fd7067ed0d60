"""What servers answer to the questions of `infra.backends.backend.Backend`. Standard library only, as that."""

import http.client
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple


class ServerRefused(Exception):
    """The server, or its absence, said no."""


NO_ANSWER: Final = (OSError, http.client.HTTPException, ServerRefused)
"""What a question to a server may raise."""

WRITES: Final = "fencepost-writes-"
"""What the names of keys begin with that are written beside the locks (`infra.background_writes`)."""

Write = Callable[[Literal["create", "remove"], str], bool]
"""Of a small key, by its name. Returns, when that is acknowledged, whether one that was to be removed was there; raises
one of NO_ANSWER."""


@dataclass(frozen=True, slots=True)
class Health:
    """A node that serves clients.

    version  as the node tells it ("3.5.16"); another server for a backend with its name ("valkey 8.1.1").
    term     etcd: the raft term. ZooKeeper: the epoch, which the latest transaction shows. Else 0.
    me       its identity among its peers, "" where it has none. Redis: "master" or "slave".
    leader   the identity of whom it follows, maybe its own; "follower" or "leader" for ZooKeeper, which tells its role
             and not whom it follows; for Redis the id of the history of writes that it makes or follows, "" while it is
             cut off from its primary, and until a copy that it took is kept on its disk. "" where there are no roles.
    ahead    seconds by which its clock is ahead of this machine's wall clock, where backends tell the time: Redis and
             PostgreSQL. Else None.
    unsure   seconds that `ahead` may be wrong either way: half of what the answer took.
    refuses  whether it was told to refuse writes (Trait.REFUSES_WRITES).
    """

    version: str
    term: int = 0
    me: str = ""
    leader: str = ""
    ahead: float | None = field(default=None, compare=False)
    unsure: float = field(default=0.0, compare=False)
    refuses: bool = field(default=False, compare=False)


Probe = Callable[[str, int], Health | None]
"""(host, port) -> what the node says."""

Outcome = Literal["kept", "refused", "silent"]
"""What became of a write. refused: an error, or no connection. silent: no answer in time, so it may still be kept."""


@dataclass(frozen=True, slots=True)
class Written:
    """seconds: from the question, which follows the connection, to the answer. said: in words what was answered."""

    outcome: Outcome
    seconds: float
    said: str = ""


class Held(NamedTuple):
    """What a member holds. Changes are numbered where the service numbers them, else 0.

    first, last  the latest change that it had when it began to answer, and when it had answered.
    entries      (name, number of the change that made it, and of the latest that changed it, the lease or session that
                 it ends with or 0, digest of what it holds) for each.
    whole        a digest of all changes up to one of them, "" where it tells none.
    """

    first: int
    last: int
    entries: list[tuple[str, int, int, int, str]]
    whole: str = ""
