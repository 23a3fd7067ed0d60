"""Nodes and clusters: the wanted states of their processes, and what they answer when asked past the proxies."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from infra.access import Access
from infra.backends.answers import Health
from infra.backends.backend import Backend, Server
from infra.cluster.clock_skew import Skew, apart
from infra.cluster.container import End, ServerProcess, State
from infra.cluster.exit_reason import last_words
from infra.errors import Failed, succeeds
from infra.network.links import BY_HAND, Links
from infra.suggestions import command
from infra.waiting import POLL, Clock, comes_true

_STATES: Final[tuple[State, ...]] = ("stopped", "paused")
"""The states that may be wanted of a node, the stronger first."""
_RIGHT: Final = Health("", ahead=0.0)
"""The health of a node whose clock tells the time of this machine."""
READY_WITHIN: Final = 60.0
"""Seconds a cluster may take until all members serve; the slowest measures 4 on an idle machine."""
ANSWERS_WITHIN: Final = 10.0
"""Seconds until a node that serves answers: any process may stand still for seconds."""
BURIED_WITHIN: Final = 40.0
"""Seconds until the links to a node that ended by itself must refuse."""


class Node(Server):
    """A member or an auxiliary of a backend: the wanted state of its process, and what it answers.

    process  the process, for questions about its image, its logs and its clock. To act on it, use the verbs below.
    ends     how the process ended by itself, as far as a verb or a heal came upon it. Left out are further ends before
             it serves again, and those before it serves without its data, or as another image, for the first time.

    Every verb is idempotent and raises Failed when the engine cannot do it. Faults overlap, so an action on a node is
    stored under the key (`by`) that wants it. A node that two keys paused goes on when both have let it go. A node that
    one key paused and another killed is down until the second one has let it go.
    """

    def __init__(
        self,
        name: str,
        endpoint: str,
        access: Access,
        kind: Backend,
        process: ServerProcess,
        links: Links,
        *,
        untouched: bool,
    ) -> None:
        """endpoint: past the proxies. untouched: whether nobody can have moved its clock, as this process made it."""
        super().__init__(name, endpoint, access)
        self.kind: Final = kind
        self.process: Final = process
        self._links = links
        self.ends: Final[list[End]] = []
        self._yet_to_serve = False  # whether an end is left out
        self._dead = False  # whether it is down because we ended it, or for a reason that we know
        self._wishes: dict[str, State] = {}
        self._skews: dict[str, Skew] = {}
        self._refusals: set[str] = set()
        self._refuses: bool | None = False  # None: it did before a new start, and may have forgotten it
        self._clock: tuple[Skew, ...] | None = () if untouched else None  # as it was set last; None: not known

    def __repr__(self) -> str:
        return f"Node({self.name})"

    def state(self) -> State:
        """The state of its process. Raises Failed when it is gone."""
        return self.process.state()

    def kill(self, by: str = BY_HAND) -> None:
        """SIGKILL, and wait until it is dead. Its data stays; connections to it are refused."""
        self._wishes[by] = "stopped"
        self._settle()

    def stop(self, by: str = BY_HAND) -> None:
        """As `kill`, but with SIGTERM first, so that it does its orderly shutdown."""
        self._wishes[by] = "stopped"
        self._settle(orderly=True)

    def pause(self, by: str = BY_HAND) -> None:
        """Freeze its processes: it goes silent, its connections stay open. One that is down stays down."""
        self._wishes[by] = "paused"
        self._settle()

    def skew(self, skew: Skew, by: str = BY_HAND) -> None:
        """Move its clock; skews add up. A paused node's moves when it goes on. Raises Failed if it cannot be moved."""
        self._skews[by] = skew
        self._settle()

    def refuse(self, by: str = BY_HAND) -> None:
        """Have it answer every write with an error (Trait.REFUSES_WRITES)."""
        self._refusals.add(by)
        self._settle()

    def skews(self) -> tuple[Skew, ...]:
        return tuple(self._skews.values())

    def replace(self, image: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """End it in an orderly way and start another image on its data. It is not ready at once.

        If other keys want it down or paused, it is so afterwards. meanwhile: changes its data while it is down; if that
        fails, the node starts again with its former image.
        """
        if not self.process.image():
            raise Failed(f"{self.name}: the version of a target is not ours to change")
        self._down(self._looked_at(), orderly=True)
        try:
            meanwhile()
        except BaseException:
            self._settle()
            raise
        self.process.remake(image)
        self._yet_to_serve = True
        self._clock = ()
        self._dead = False
        self._links.revive(self.name)
        self._settle()

    def wipe(self) -> None:
        """Remove its data; it must be down. It then starts like a node without data, in some backends as a new member.

        Raises Failed, also when there is no majority of members to accept a new one; then it keeps its data.
        """
        if (state := self.state()) != "stopped":
            raise Failed(f"{self.name} is {state}: only the data of a node that is down can be removed")
        self.process.wipe()
        self._yet_to_serve = True

    def wanted(self) -> State:
        """The state that all keys together want: the strongest of their wishes."""
        return next((wish for wish in _STATES if wish in self._wishes.values()), "running")

    def let_go(self, by: str = BY_HAND) -> None:
        """Undo what `by` did, unless another key wants it too: start or resume it, set its clock right, let it write.

        It starts on the data that it had and is not ready at once: see `Cluster.await_ready`.
        """
        self._wishes.pop(by, None)
        self._skews.pop(by, None)
        self._refusals.discard(by)
        self._settle()

    def heal(self) -> None:
        """Undo everything, whoever did it, other processes included."""
        self._wishes.clear()
        self._skews.clear()
        self._refusals.clear()
        health = self.health() if self.state() == "running" else None
        if health and health.refuses:
            self._refuses = True
        if not health or apart(health, _RIGHT):
            self._clock = None  # another process may have moved it
        self._settle()

    def revive(self) -> None:
        """Start it if it ended by itself (disk full, no peers found); let it write if that failed before."""
        astray = self._refuses is not False and not self._refusals
        if self.wanted() == "running" and (astray or self.state() == "stopped"):
            self._settle()

    def bury(self) -> None:
        """Have its links refuse after it ended for a reason that we know: no end by itself, for `ends`. It takes as
        long as Toxiproxy dials its address: 3-30 s.
        """
        self._dead = True
        if not comes_true(lambda: succeeds(lambda: self._links.bury(self.name)), BURIED_WITHIN):
            raise Failed(f"links to {self.name}, which ended, cannot be closed within {BURIED_WITHIN:.0f} s")

    def health(self) -> Health | None:
        """Its health, asked past the proxies; None when it does not serve."""
        health = None if self._dead else self.kind.probe(self)
        self._yet_to_serve &= health is None
        return health

    def ready(self) -> bool:
        return self.health() is not None

    def version(self) -> str:
        """The version as the node tells it. Raises Failed when it does not serve within `ANSWERS_WITHIN` s."""
        if not (health := Clock().wait(ANSWERS_WITHIN, self.health, POLL)):
            raise Failed(f"{self.name} does not answer ({self.state()})")
        return health.version

    def _settle(self, *, orderly: bool = False) -> None:
        """Bring the process, its clock and its refusal of writes to what all keys together want."""
        wanted, state = self.wanted(), self._looked_at()
        if wanted == "stopped":
            self._down(state, orderly=orderly)
        else:
            if state == "stopped":
                self._set_clock()  # while it is down, so that it never sees the wrong time
                self.process.start()
                self._dead = False
                self._refuses = None if self._refuses else False
                self._links.revive(self.name)
            elif state == "paused" and wanted == "running":
                self.process.resume()
                state = "running"
            if state != "paused":
                self._set_clock()
            if wanted == "running" and self._refuses != (refuse := bool(self._refusals)):
                with contextlib.suppress(Failed):  # a node that was just started may fail; `revive` tries again
                    self.kind.refuse_writes(self, refuse=refuse)
                    self._refuses = refuse
            if wanted == "paused" and state != "paused":
                self.process.pause()

    def _looked_at(self) -> State:
        """The state of its process. An end by itself is noted."""
        state = self.state()
        if state == "stopped" and not (self._dead or self._yet_to_serve) and (end := self.process.last_end()):
            self.ends.append(end)
            self._yet_to_serve = True
        return state

    def _down(self, state: State, *, orderly: bool) -> None:
        self._dead = True
        # First, since Toxiproxy takes no change of a link while it dials an address that is gone.
        self._links.bury(self.name)
        if state == "paused":
            self.process.resume()  # the engine does not kill a paused container
        if state != "stopped":
            self.process.end(orderly=orderly)

    def _set_clock(self) -> None:
        wanted = tuple(self._skews.values())
        if wanted != self._clock and (wanted or self.process.has_clock()):
            self.process.set_clock(wanted)
        self._clock = wanted


class Cluster:
    """The nodes of one backend. auxiliaries: its nodes that are no members."""

    def __init__(self, nodes: Sequence[Node], auxiliaries: Sequence[Node] = ()) -> None:
        self.nodes: Final = tuple(nodes)
        self.auxiliaries: Final = tuple(auxiliaries)
        self.kind: Final = self.nodes[0].kind
        self.everybody: Final = (*self.nodes, *self.auxiliaries)
        self._pool = ThreadPoolExecutor(max_workers=len(self.everybody), thread_name_prefix=self.kind.name)

    def __repr__(self) -> str:
        return f"Cluster({self.kind.name})"

    @property
    def voters(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.name not in self.kind.observers)

    def healths(self) -> list[Health | None]:
        """The health of each member, in order, asked at the same time."""
        return list(self._pool.map(Node.health, self.nodes))

    def all_healths(self) -> dict[Node, Health | None]:
        """The health of each node, the members first, asked at the same time."""
        return dict(zip(self.everybody, self._pool.map(Node.health, self.everybody), strict=True))

    def leader(self) -> Node | None:
        """The node that leads, asked past the proxies; None when there is none, and where there are no roles.

        A leader that was cut off is still the answer until the others have elected another one.
        """
        index = self.kind.leader(self.healths())
        return None if index is None else self.nodes[index]

    def ready(self) -> bool:
        """Whether every member serves and follows the same leader, and the auxiliaries serve as they should."""
        return self._whole(self.all_healths())

    def await_ready(self, mend: Callable[[Node], None] | None = None) -> None:
        """Wait until `ready`. Raises Failed, naming missing nodes, after `READY_WITHIN` s or when a node has ended.

        mend: is called again and again for each node that does not serve, at least once. With it, ended nodes are not
        given up.
        """
        deadline = time.monotonic() + READY_WITHIN
        while not self._whole(healths := self.all_healths()):
            missing = [node for node, health in healths.items() if not health]
            ended = [node for node in missing if node.state() == "stopped"]
            if mend:
                for node in missing:
                    mend(node)
            if (ended and not mend) or time.monotonic() > deadline:
                ends = [f"{node.name} ended: {last_words(node.process.logs())}" for node in ended]
                why = "; ".join(ends) or f"not within {READY_WITHIN:.0f} s"
                names = ", ".join(node.name for node in missing) or "they do not follow who they should"
                raise Failed(f"{self.kind.name} is not ready: {why} (missing: {names}); {command('logs')} says more")
            time.sleep(POLL)

    def versions(self) -> dict[str, str]:
        """Member -> version, of the members that serve."""
        return {node.name: health.version for node, health in zip(self.nodes, self.healths(), strict=True) if health}

    def close(self) -> None:
        """End our threads; the nodes stay."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _whole(self, healths: Mapping[Node, Health | None]) -> bool:
        return self.kind.whole(*([healths[node] for node in nodes] for nodes in (self.nodes, self.auxiliaries)))
