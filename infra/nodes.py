"""Nodes and clusters: their processes by the docker SDK, their state of mind by asking them past the proxies."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Literal

from docker import DockerClient
from docker.errors import APIError, NotFound

from infra import clocks, star
from infra.backends import BACKENDS
from infra.backends.backend import Health, Probe
from infra.carry import Carry
from infra.client import TIMEOUT
from infra.clocks import Skew
from infra.compose import BOOTED
from infra.images import PACKAGER
from infra.lastwords import last_words
from infra.links import BY_HAND, Links
from infra.machine import Failed
from infra.waiting import POLL

State = Literal["running", "paused", "stopped"]

_STATES: Final[tuple[State, ...]] = ("stopped", "paused")
"""What may be wanted of a node, the stronger first."""

_RIGHT: Final = Health("", ahead=0.0)
"""A clock that tells the time of this machine."""

READY_WITHIN: Final = 60.0
"""Seconds a cluster may take until all members serve; the slowest measures 4 on an idle machine."""

STOPS_WITHIN: Final = 10
"""Seconds for an orderly end, before it is killed."""

VENDOR: Final = "org.opencontainers.image.vendor"
"""Label of images of others: https://specs.opencontainers.org/image-spec/annotations/"""

DYING: Final = "is zombie"
"""What the engine says when it no longer waits for the end of what it has killed, which may come all the same."""


class Node:
    """One member of a backend, or what comes with it: a container.

    Every verb is idempotent and raises Failed when the engine cannot.

    Faults overlap, so what is done to a node is remembered under the key of who wants it (`by`): a node that two
    paused goes on when both have let it go, and one that one paused and another killed is down until the latter has.
    """

    def __init__(
        self,
        client: DockerClient,
        links: Links,
        container: str,
        name: str,
        address: tuple[str, int],
        probe: Probe,
        remake: Callable[[str], None],
        empty: Callable[[], None],
        free: Callable[[], None],
        *,
        untouched: bool = False,
    ) -> None:
        """remake: makes and starts its container anew, from an image of that name.

        empty: removes what is on its disk.

        free: ends what holds its processes fast, which cannot die before.

        untouched: whether it was made by this process, so that nobody else can have moved its clock.
        """
        self.name: Final = name
        self.backend: Final = star.backend_of(name)
        self.index: Final = star.nodes_of(self.backend).index(name)
        self.address: Final = address
        self._client = client
        self._links = links
        self._dead = False
        self._container = container
        self._probe = probe
        self._remake = remake
        self._empty = empty
        self._free = free
        self._wishes: dict[str, State] = {}
        self._skews: dict[str, Skew] = {}
        self._clock: tuple[Skew, ...] | None = () if untouched else None  # as it was set last; None: not known

    def __repr__(self) -> str:
        return f"Node({self.name})"

    def state(self) -> State:
        """What its container does. Raises Failed when it is gone."""
        status = self._ask(self._client.api.inspect_container)["State"]["Status"]
        return "paused" if status == "paused" else "running" if status == "running" else "stopped"

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
        """Move its clock. Several add up; a paused node's moves when it goes on."""
        self._skews[by] = skew
        self._settle()

    def has_clock(self) -> bool:
        """Whether its clock can be moved. Raises Failed when its container is gone."""
        return clocks.movable(self._client, self._container)

    def skews(self) -> tuple[Skew, ...]:
        """All that its clock is wrong by."""
        return tuple(self._skews.values())

    def replace(self, image: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """End it in an orderly way and start another image on its data. It is not ready at once.

        When others want it down or paused, it is that afterwards. meanwhile: what is done to its data while it is down;
        where that fails it starts again as what it was.
        """
        self._down(self.state(), orderly=True)
        try:
            meanwhile()
        except BaseException:
            self._settle()
            raise
        self._remake(image)
        self._clock = ()
        self._dead = False
        self._links.revive(self.name)
        self._settle()

    def carry(self, image: str) -> Carry | None:
        """What takes its data to this image, where that does not start on them as they are; see `infra.carry`."""
        migration = star.kind_of(self.name).migration
        if not migration or self.name not in star.MEMBERS[self.backend]:
            return None
        carry = Carry(self._client, self._container, self.image(), image, migration)
        return carry if carry.needed() else None

    def wipe(self) -> None:
        """Remove its data; it must be down. It starts as one that never had any, of some backends as a new member.

        Raises Failed, also when no majority of members is there to take a new one; then it keeps its data.
        """
        if (state := self.state()) != "stopped":
            raise Failed(f"{self.name} is {state}: only the data of a node that is down can be removed")
        self._empty()

    def image(self) -> str:
        """Name of the image that its container was made from."""
        name: str = self._ask(self._client.api.inspect_container)["Config"]["Image"]
        return name

    def made_from(self) -> dict[str, Any]:
        """Its image (name, digest of its contents, and who packaged the server), its command, and what was set for it,
        passwords left out.
        """
        return _made_from(self._ask(self._client.api.inspect_container))

    def wanted(self) -> State:
        """What all who did something to it want of it together."""
        return next((wish for wish in _STATES if wish in self._wishes.values()), "running")

    def let_go(self, by: str = BY_HAND) -> None:
        """Undo what `by` did: start or resume it, set its clock right, unless another wants it so.

        It starts on the data that it had and is not ready at once: see `Cluster.await_ready`.
        """
        self._wishes.pop(by, None)
        self._skews.pop(by, None)
        self._settle()

    def heal(self) -> None:
        """Undo everything, whoever did it, other processes included."""
        self._wishes.clear()
        self._skews.clear()
        told = self.health() if self.state() == "running" else None
        if not told or clocks.apart(told, _RIGHT):
            self._clock = None  # another process may have moved it
        self._settle()

    def revive(self) -> None:
        """Start it if it ended by itself: as a server does whose disk was full, or who found none of its peers."""
        if self.wanted() == "running" and self.state() == "stopped":
            self._settle()

    def health(self) -> Health | None:
        """What it says of itself, asked past the proxies; None when it does not serve."""
        return None if self._dead else self._probe(*self.address)

    def ready(self) -> bool:
        """Whether it serves."""
        return self.health() is not None

    def version(self) -> str:
        """The version as the node tells it. Raises Failed when it does not serve."""
        health = self.health()
        if not health:
            raise Failed(f"{self.name} does not answer ({self.state()})")
        return health.version

    def logs(self) -> bytes:
        """Everything that it wrote to its outputs, with times."""
        said: bytes = self._ask(self._client.api.logs, timestamps=True)
        return said

    def _settle(self, *, orderly: bool = False) -> None:
        """Bring the container, and its clock, to what is wanted of it by all together."""
        wanted, state = self.wanted(), self.state()
        if wanted == "stopped":
            self._down(state, orderly=orderly)
        else:
            if state == "stopped":
                self._up()
            elif state == "paused" and wanted == "running":
                self._ask(self._client.api.unpause)
            self._set_clock()
            if wanted == "paused" and state != "paused":
                self._ask(self._client.api.pause)

    def _down(self, state: State, *, orderly: bool) -> None:
        self._dead = True
        # First, since Toxiproxy cannot be told anything about a link while it dials an address that is gone.
        self._links.bury(self.name)
        if state == "paused":
            self._ask(self._client.api.unpause)  # the engine does not kill what is paused
        if state == "stopped":
            return
        with ThreadPoolExecutor(max_workers=1) as pool:  # at once: what is freed before is whole for a moment
            ending = pool.submit(self._end, orderly=orderly)
            self._free()
            ending.result()

    def _end(self, *, orderly: bool) -> None:
        if orderly:
            self._ask(self._client.api.stop, timeout=STOPS_WITHIN)
            return
        try:
            self._ask(self._client.api.kill, "SIGKILL")
        except Failed as error:
            if DYING not in str(error):
                raise
        self._ask(self._client.api.wait, timeout=TIMEOUT)

    def _up(self) -> None:
        self._set_clock()  # while it is down, so that it never sees the wrong time
        self._ask(self._client.api.start)
        self._dead = False
        self._links.revive(self.name)

    def _set_clock(self) -> None:
        wanted = tuple(self._skews.values())
        if wanted != self._clock and self.state() != "paused":
            if wanted or clocks.movable(self._client, self._container):
                clocks.write(self._client, self._container, wanted)
            self._clock = wanted

    def _ask(self, verb: Callable[..., Any], *args: object, **options: object) -> Any:
        try:
            return verb(self._container, *args, **options)
        except NotFound as error:
            raise Failed(f"{self.name}: its container {self._container} is gone") from error
        except APIError as error:
            raise Failed(f"{self.name}: {error.explanation}") from error


class Cluster:
    """The nodes of one backend. auxiliaries: what comes with them and is no member; see `star.AUXILIARIES`."""

    def __init__(self, nodes: Sequence[Node], auxiliaries: Sequence[Node] = ()) -> None:
        self.nodes: Final = tuple(nodes)
        self.auxiliaries: Final = tuple(auxiliaries)
        self.backend: Final = self.nodes[0].backend
        everybody = len(self.nodes) + len(self.auxiliaries)
        self._pool = ThreadPoolExecutor(max_workers=everybody, thread_name_prefix=self.backend)

    def __repr__(self) -> str:
        return f"Cluster({self.backend})"

    def healths(self) -> list[Health | None]:
        """What each member says, in order, asked at the same time."""
        return list(self._pool.map(Node.health, self.nodes))

    def all_healths(self) -> tuple[list[Health | None], list[Health | None]]:
        """What each member says, and each auxiliary."""
        told = list(self._pool.map(Node.health, (*self.nodes, *self.auxiliaries)))
        return told[: len(self.nodes)], told[len(self.nodes) :]

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
        while not BACKENDS[self.backend].whole(*(told := self.all_healths())):
            everybody = zip((*self.nodes, *self.auxiliaries), (*told[0], *told[1]), strict=True)
            missing = [node for node, health in everybody if not health]
            ended = [node for node in missing if node.state() == "stopped"]
            if (ended and not mend) or time.monotonic() > deadline:
                said = [f"{node.name} ended: {last_words(node.logs())}" for node in ended]
                why = "; ".join(said) or f"not within {timeout:.0f} s"
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


def made_from(client: DockerClient, container: str) -> dict[str, Any]:
    """As `Node.made_from`, of a container that is no node. Raises Failed."""
    try:
        return _made_from(client.api.inspect_container(container))
    except APIError as error:
        raise Failed(f"{container}: {error.explanation}") from error


def _made_from(told: Mapping[str, Any]) -> dict[str, Any]:
    """told: what the engine says of a container."""
    config = told["Config"]
    labels = config["Labels"] or {}
    settings = dict(pair.partition("=")[::2] for pair in config["Env"] or ())
    return {
        "image": config["Image"],
        "digest": told["Image"],
        "packager": labels.get(PACKAGER) or labels.get(VENDOR) or "",
        "command": [*(config["Entrypoint"] or ()), *(config["Cmd"] or ())],
        "settings": {
            name: value for name, value in sorted(settings.items()) if name != "PATH" and "PASSWORD" not in name.upper()
        },
    }


def states(client: DockerClient, environment: str) -> Mapping[str, State]:
    """Service -> state of every container of an environment, in one question."""
    return {
        service: container["State"] if container["State"] in ("running", "paused") else "stopped"
        for service, container in _containers(client, environment).items()
    }


def replaced(client: DockerClient, environment: str, kept: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The nodes that run another image than they are meant to: node -> (the one, the other).

    kept: node -> what it is meant to be where that is not what its backend was booted with.
    """
    found = {}
    for service, container in sorted(_containers(client, environment).items()):
        meant = container["Labels"].get(BOOTED) and kept.get(service, container["Labels"][BOOTED])
        if meant and container["Image"] != meant:
            # Listed by an id when the name means a newer image by now, so this asks for the name that it was made by.
            image = client.api.inspect_container(container["Id"])["Config"]["Image"]
            if image != meant:
                found[service] = image, meant
    return found


def _containers(client: DockerClient, environment: str) -> dict[str, dict[str, Any]]:
    told = client.api.containers(all=True, filters={"label": f"com.docker.compose.project={environment}"})
    return {container["Labels"]["com.docker.compose.service"]: container for container in told}
