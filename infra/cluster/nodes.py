"""Nodes and clusters: what is wanted of their processes, and what they say when they are asked past the proxies."""

import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from infra.access import OPEN, Access
from infra.backends import BACKENDS
from infra.backends.answers import Health, Probe
from infra.cluster import clock_skew
from infra.cluster.clock_skew import Skew
from infra.cluster.container import ServerProcess, State
from infra.cluster.exit_reason import last_words
from infra.errors import Failed
from infra.network.links import BY_HAND, Links
from infra.waiting import POLL

_STATES: Final[tuple[State, ...]] = ("stopped", "paused")
"""What may be wanted of a node, the stronger first."""

_RIGHT: Final = Health("", ahead=0.0)
"""A clock that tells the time of this machine."""

READY_WITHIN: Final = 60.0
"""Seconds a cluster may take until all members serve; the slowest measures 4 on an idle machine."""


class Node:
    """One member of a backend, or what comes with it: what all together want of its process, and what it says.

    process  what it runs in, for questions about that: its image, logs, clock. What is done goes by the verbs below.

    Every verb is idempotent and raises Failed when the engine cannot. Faults overlap, so what is done to a node is
    remembered under the key of who wants it (`by`): one that two paused goes on when both have let it go, and one that
    one paused and another killed is down until the latter has.
    """

    def __init__(
        self,
        links: Links,
        backend: str,
        name: str,
        index: int,
        address: tuple[str, int],
        probe: Probe,
        process: ServerProcess,
        *,
        access: Access = OPEN,
        untouched: bool = False,
    ) -> None:
        """index: its number among the members, and auxiliaries behind them. access: how it lets us in.

        untouched: whether it was made by this process, so that nobody else can have moved its clock.
        """
        self.name: Final = name
        self.backend: Final = backend
        self.index: Final = index
        self.address: Final = address
        self.process: Final = process
        self._links = links
        self._dead = False
        self._probe = probe
        self._access = access
        self._wishes: dict[str, State] = {}
        self._skews: dict[str, Skew] = {}
        self._refusals: set[str] = set()
        self._refuses: bool | None = False  # None: it did when it was started anew, and may have forgotten it
        self._clock: tuple[Skew, ...] | None = () if untouched else None  # as it was set last; None: not known

    def __repr__(self) -> str:
        return f"Node({self.name})"

    def state(self) -> State:
        """What its process does. Raises Failed when it is gone."""
        return self.process.state()

    def kill(self, by: str = BY_HAND) -> None:
        """SIGKILL, and wait until it is dead. Its data stays; connections to it are refused."""
        self._wishes[by] = "stopped"
        self._settle()

    def stop(self, by: str = BY_HAND) -> None:
        """As `kill`, but asked to end (SIGTERM): what it does in an orderly shutdown happens."""
        self._wishes[by] = "stopped"
        self._settle(orderly=True)

    def pause(self, by: str = BY_HAND) -> None:
        """Freeze its processes: it goes silent, its connections stay open. One that is down stays down."""
        self._wishes[by] = "paused"
        self._settle()

    def skew(self, skew: Skew, by: str = BY_HAND) -> None:
        """Move its clock. Several add up; a paused node's moves when it goes on. Raises Failed where it has none."""
        self._skews[by] = skew
        self._settle()

    def refuse(self, by: str = BY_HAND) -> None:
        """Have it answer every write with an error (Trait.REFUSES_WRITES)."""
        self._refusals.add(by)
        self._settle()

    def skews(self) -> tuple[Skew, ...]:
        """All that its clock is wrong by."""
        return tuple(self._skews.values())

    def replace(self, image: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """End it in an orderly way and start another image on its data. It is not ready at once.

        When others want it down or paused, it is that afterwards. meanwhile: what is done to its data while it is down;
        where that fails it starts again as what it was.
        """
        if not self.process.image():
            raise Failed(f"{self.name}: the version of a target is not ours to change")
        self._down(self.state(), orderly=True)
        try:
            meanwhile()
        except BaseException:
            self._settle()
            raise
        self.process.remake(image)
        self._clock = ()
        self._dead = False
        self._links.revive(self.name)
        self._settle()

    def wipe(self) -> None:
        """Remove its data; it must be down. It starts as one that never had any, of some backends as a new member.

        Raises Failed, also when no majority of members is there to take a new one; then it keeps its data.
        """
        if (state := self.state()) != "stopped":
            raise Failed(f"{self.name} is {state}: only the data of a node that is down can be removed")
        self.process.wipe()

    def wanted(self) -> State:
        """What all who did something to it want of it together."""
        return next((wish for wish in _STATES if wish in self._wishes.values()), "running")

    def let_go(self, by: str = BY_HAND) -> None:
        """Undo what `by` did: start or resume it, set its clock right, let it write, unless another wants it so.

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
        if not health or clock_skew.apart(health, _RIGHT):
            self._clock = None  # another process may have moved it
        self._settle()

    def revive(self) -> None:
        """Start it if it ended by itself (disk full, no peers found); let it write if it could not be told before."""
        astray = self._refuses is not False and not self._refusals
        if self.wanted() == "running" and (astray or self.state() == "stopped"):
            self._settle()

    def health(self) -> Health | None:
        """What it says of itself, asked past the proxies; None when it does not serve."""
        return None if self._dead else self._probe(*self.address)

    def ready(self) -> bool:
        return self.health() is not None

    def version(self) -> str:
        """The version as the node tells it. Raises Failed when it does not serve."""
        health = self.health()
        if not health:
            raise Failed(f"{self.name} does not answer ({self.state()})")
        return health.version

    def _settle(self, *, orderly: bool = False) -> None:
        """Bring the container, and its clock, to what is wanted of it by all together."""
        wanted, state = self.wanted(), self.state()
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
            self._set_clock()
            if wanted == "running" and self._refuses != (refuse := bool(self._refusals)):
                with contextlib.suppress(Failed):  # one that was just started, say, goes on as it is: see `revive`
                    BACKENDS[self.backend].refuse_writes(self, self._access, refuse=refuse)
                    self._refuses = refuse
            if wanted == "paused" and state != "paused":
                self.process.pause()

    def _down(self, state: State, *, orderly: bool) -> None:
        self._dead = True
        # First, since Toxiproxy cannot be told anything about a link while it dials an address that is gone.
        self._links.bury(self.name)
        if state == "paused":
            self.process.resume()  # the engine does not kill what is paused
        if state != "stopped":
            self.process.end(orderly=orderly)

    def _set_clock(self) -> None:
        wanted = tuple(self._skews.values())
        if wanted != self._clock and self.state() != "paused":
            if wanted or self.process.has_clock():
                self.process.set_clock(wanted)
            self._clock = wanted


class Cluster:
    """The nodes of one backend. auxiliaries: what comes with them and is no member; see `topology.AUXILIARIES`."""

    def __init__(self, nodes: Sequence[Node], auxiliaries: Sequence[Node] = ()) -> None:
        self.nodes: Final = tuple(nodes)
        self.auxiliaries: Final = tuple(auxiliaries)
        self.backend: Final = self.nodes[0].backend
        self.everybody: Final = (*self.nodes, *self.auxiliaries)
        self._pool = ThreadPoolExecutor(max_workers=len(self.everybody), thread_name_prefix=self.backend)

    def __repr__(self) -> str:
        return f"Cluster({self.backend})"

    def healths(self) -> list[Health | None]:
        """What each member says, in order, asked at the same time."""
        return list(self._pool.map(Node.health, self.nodes))

    def all_healths(self) -> tuple[list[Health | None], list[Health | None]]:
        """What each member says, and each auxiliary."""
        healths = list(self._pool.map(Node.health, self.everybody))
        return healths[: len(self.nodes)], healths[len(self.nodes) :]

    def leader(self) -> Node | None:
        """Who leads, asked past the proxies; None when nobody does, and where there are no roles.

        After the leader was cut off it is still the answer until the others have elected another.
        """
        index = BACKENDS[self.backend].leader(self.healths())
        return None if index is None else self.nodes[index]

    def ready(self) -> bool:
        """Whether every member serves and follows the same leader, and the auxiliaries do their duty."""
        return BACKENDS[self.backend].whole(*self.all_healths())

    def await_ready(self, timeout: float = READY_WITHIN, *, mend: Callable[[Node], None] | None = None) -> None:
        """Wait until `ready`. Raises Failed, naming who is not, after `timeout` seconds or when a node has ended.

        mend: helps a node that does not serve, again and again; then one that has ended is not given up.
        """
        deadline = time.monotonic() + timeout
        while not BACKENDS[self.backend].whole(*(healths := self.all_healths())):
            healths_by_node = zip(self.everybody, (*healths[0], *healths[1]), strict=True)
            missing = [node for node, health in healths_by_node if not health]
            ended = [node for node in missing if node.state() == "stopped"]
            if (ended and not mend) or time.monotonic() > deadline:
                ends = [f"{node.name} ended: {last_words(node.process.logs())}" for node in ended]
                why = "; ".join(ends) or f"not within {timeout:.0f} s"
                names = ", ".join(node.name for node in missing) or "they do not follow who they should"
                raise Failed(f"{self.backend} is not ready: {why} (missing: {names}); python -m infra logs says more")
            if mend:
                for node in missing:
                    mend(node)
            time.sleep(POLL)

    def versions(self) -> dict[str, str]:
        """Node -> version. Raises Failed when one does not serve."""
        return dict(zip((node.name for node in self.nodes), self._pool.map(Node.version, self.nodes), strict=True))

    def close(self) -> None:
        """End our threads; the nodes stay."""
        self._pool.shutdown(wait=False, cancel_futures=True)
