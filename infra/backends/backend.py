"""What a backend is: one kind of lock service, and all that the project knows about it, in one object.

`infra/backends/NAME.py` describes one kind; `infra/backends/__init__.py` lists them. The rest of the project asks for
traits and calls the methods below, and names no backend. A new backend needs a module, an entry in the list, services
in docker-compose.yml and a recipe for its image.

Standard library only, of Python 3.10: the doctor loads these modules where nothing is installed yet, and workers load
them beside any library under test. A method that needs a client library loads it when it is called.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, NamedTuple, Protocol

from infra.access import OPEN, Access
from infra.backends.answers import NO_ANSWER, Health, Held, Outcome, Write, Written
from infra.backends.messages import InTurns, Messages


@dataclass(eq=False)
class Server:
    """A server that can be asked: its name as a node, `host:port`, and how it lets us in."""

    name: str
    endpoint: str
    access: Access = OPEN


class Trait(Enum):
    """What faults, recovery and recipes need to know of a backend."""

    LEADER = "its members elect a leader"
    PEERS = "its members talk to each other"
    PARTS = "a part of its members can be lost"
    SPLITS = "its members can be divided into sides"
    HANDS_OVER = "its leader can make another member the leader"
    MEMBERSHIP = "its members agree on who they are, and a member without its data is replaced by a new one"
    COMMON_VERSION = "its members agree on a version that all of them are up to"
    REPLICA = "a replica follows its first member"
    FIRST_NODE = "locks on a single node live on its first member"
    WALL_CLOCK = "leases expire by the wall clock"
    WAITING_LEASES = "who waits renews a lease"
    SESSION_PROCESSES = "the server has a process for each session"
    STALL_DEPOSES = "a leader whose disk stalls is replaced by another"
    ENDS_WHEN_FULL = "a server ends when its disk is full"
    REFUSES_WRITES = "a server can be told to refuse writes until it is told otherwise"
    MAINTAINED = "its operators have it compact, rewrite or vacuum what it keeps"


@dataclass(frozen=True, slots=True)
class Package:
    """A server, and where it can be had."""

    server: str  # what users call it, and the folder of its recipe in `infra/images/`
    debian: str  # the Debian package whose version is the server's
    series: Mapping[str, str]  # stable suite -> the series that it carries for life; the default suite stands first
    # Whether the package only depends on the one with the server, which has the major version in its name
    # (`postgresql` on `postgresql-17`).
    versioned: bool = False
    # Registry (`sources.REGISTRIES`) -> what the server is called there; since: the oldest version to build.
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    since: str = "0"
    rebuilt: bool = False  # whether versions there end with the number of a build: 14.10.1 is the second of 14.10
    needs: tuple[str, ...] = ()  # the recipes from whose images its own recipe copies files


@dataclass(frozen=True, slots=True)
class Auxiliary:
    """A node that comes with a backend and is none of its members: Redlock's five know nothing of a sixth."""

    name: str
    host: int  # the last byte of its own address
    port: int  # where it serves clients
    dials: tuple[str, str, int]  # the member that it dials through Toxiproxy, what for, and which port of bridge `data`
    reached: bool = True  # whether clients have links of their own to it
    package: Package | None = None  # the package of its server, if its server is not the backend's


@dataclass(frozen=True, slots=True)
class Migration:
    """Carries data to a version that does not start on them as they are, by a shell script that runs beside the node.

    The functions of the script: versions (prints a line for the version of the data, "none" if there are none, and one
    for the server), dump (by the former image), restore (by the new one), back (undoes both), forget (what was kept).
    """

    how: str  # for people: "by dump and restore"
    variables: tuple[str, ...]  # of the node's container that the script needs
    script: str
    needed: Callable[[str, str], bool]  # (the lines of versions) -> whether the data have to be carried to the server


class Shape(NamedTuple):
    """How many members a cluster has. An observer or a learner is the last of them, and there is one at most."""

    voters: int
    observers: int = 0  # serve clients, and never vote
    learners: int = 0  # join when the voters are there, and serve and vote as well once they have caught up


class Replication(Protocol):
    """The roles of a primary and its replica. Every verb raises Failed when a server does not do it."""

    def promoted(self, health: Health) -> bool:
        """Whether a server says that it is a primary."""

    def follows(self, replica: Health | None, primary: Health | None) -> bool:
        """Whether a replica is connected to its primary and has the history of that one's writes, also on its disk."""

    def leads(self, server: Server) -> bool:
        """Whether the server is a primary."""

    def offset(self, server: Server) -> int:
        """Bytes of the history of writes that the server knows."""

    def lead(self, server: Server) -> None:
        """Make the server a primary."""

    def follow(self, server: Server, primary: str) -> None:
        """Make the server a replica of a primary, given by the `host:port` at which the server reaches it."""

    def remember(self, server: Server) -> None:
        """Have the server store its role with its data, so that it survives a kill and a start."""

    def mark(self, server: Server, text: str) -> None:
        """Write a key of ours."""

    def marked(self, server: Server) -> str | None:
        """What the key of `mark` holds."""

    def look(self, endpoint: str, patience: float) -> tuple[bool, str | None] | None:
        """Whether the server at `host:port` is a primary, and its mark; None without an answer in so many seconds."""


class Backend(ABC):
    """One kind of lock service. See the module."""

    name: ClassVar[str]  # as users say it, and as in plans
    prefix: ClassVar[str]  # what its members are called, without their numbers; they are services of docker-compose.yml
    hosts: ClassVar[Sequence[int]]  # the last byte of the address of each member, in order, in the largest shape
    shapes: ClassVar[Mapping[str, Shape]] = {}  # by name; the usual shape is first. {}: all members, and all vote
    port: ClassVar[int]  # where a member serves clients
    # Purpose of a connection between peers -> its port, minus the number of the member that listens.
    peer_ports: ClassVar[Mapping[str, int]] = {}
    auxiliaries: ClassVar[tuple[Auxiliary, ...]] = ()
    # Its server first, then others that stand for it: the same protocol, and for us the same command line.
    packages: ClassVar[tuple[Package, ...]]
    plants: ClassVar[Mapping[str, str]] = {}  # bug of a planted server (`docker.servers_with_bugs`) -> what it does
    traits: ClassVar[frozenset[Trait]]
    lacks: ClassVar[Mapping[Trait, str]] = {}  # trait that a fault needs -> why this backend lacks it, as users read it
    # Seconds of a step of a worker's work: slower servers get fewer rounds, so that all lanes fit on two cores.
    pace: ClassVar[float]
    # Seconds within which a call of a plain client returns, whatever happens to servers: the `fail-fast` of our locks.
    call: ClassVar[float]
    # Seconds for which its members hear nothing from their leader before they elect another; 0 where there is none.
    election: ClassVar[float] = 0.0
    user: ClassVar[str] = ""  # the user as which we log in on clusters of ours; empty where everybody is let in
    login_note: ClassVar[str] = ""  # how to log in, for people; {password} stands for the password
    password_alone: ClassVar[bool] = False  # whether a password works without a user
    fatal: ClassVar[bytes]  # the line of its log that says why it ends, as a pattern whose group is the reason
    # The shortest question that is answered whatever the server's state: it proves that a link is cut, or whole.
    question: ClassVar[bytes]
    asked_in_clear: ClassVar[bool] = False  # whether that question comes before any encryption
    messages: ClassVar[type[Messages]] = InTurns  # finds requests and answers in the bytes of a connection
    disks: ClassVar[tuple[str, ...]] = ("leader",)  # roles whose disks a write waits for, where there is a leader
    migration: ClassVar[Migration | None] = None  # carries its data to a version that does not start on them
    replication: ClassVar[Replication | None] = None  # the roles of its primary and its replica, if it has one

    def __init__(self, shape: str = "") -> None:
        """shape: one of `shapes`; "" for the usual one."""
        self.shape = shape or next(iter(self.shapes), "")
        self._size = self.shapes.get(self.shape, Shape(len(self.hosts)))

    # --- who ---

    def member(self, number: int) -> str:
        """The name of the n-th member, from 1."""
        return self.prefix if number == 1 == len(self.hosts) else f"{self.prefix}{number}"

    @property
    def known(self) -> tuple[str, ...]:
        """The names of its members in the largest shape, in order."""
        return tuple(self.member(number) for number in range(1, len(self.hosts) + 1))

    @property
    def members(self) -> tuple[str, ...]:
        """The names of its members, in order."""
        return self.known[: sum(self._size)]

    @property
    def observers(self) -> tuple[str, ...]:
        """The names of its members that never vote."""
        return self.members[self._size.voters : sum(self._size[:2])]

    @property
    def learners(self) -> tuple[str, ...]:
        """The names of its members that join a running cluster. If any, new members are learners first (`promote`)."""
        return self.members[sum(self._size[:2]) :]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of its members and its auxiliaries, in order."""
        return (*self.members, *(auxiliary.name for auxiliary in self.auxiliaries))

    @property
    def copies(self) -> tuple[str, ...]:
        """The names of the nodes with the same data, or (). If only one node acknowledges writes, it comes first."""
        return self.members if self.has(Trait.LEADER) else ()

    def has(self, trait: Trait) -> bool:
        return trait in self.traits

    # --- what its nodes say ---

    @abstractmethod
    def probe(self, server: Server) -> Health | None:
        """The health of a node, asked by the plainest means; None if the node is not up, or paused, or not serving.

        Asks one question that every version answers; without a client library if possible, and without retries.
        """

    def leader(self, healths: Sequence[Health | None]) -> int | None:
        """Index of the leader by what the members say; None when there is no leader that a majority can have.

        A leader that was cut off still calls itself the leader until it notices, so the later term decides.
        """
        del healths
        return None

    def whole(self, healths: Sequence[Health | None], auxiliaries: Sequence[Health | None] = ()) -> bool:
        """Whether all serve, none refuses writes and, where there are roles, all follow one leader or primary."""
        return all(healths) and all(auxiliaries) and not any(health.refuses for health in healths if health)

    @abstractmethod
    def long_question(self, size: int) -> bytes:
        """A question of a little more than `size` bytes. The server answers or refuses it when all of it is there."""

    # --- what is asked of its nodes ---

    def write(self, server: Server, size: int = 1, patience: float = 1.0) -> Written:
        """Make one write that the server keeps before it acknowledges it. It shows if a disk is slow, stalled or full.

        The write has about `size` bytes and leaves nothing behind. `patience`: seconds at most for each answer.
        """
        started = time.monotonic()
        outcome: Outcome = "kept"
        try:
            self.keep(server, size, patience)
        except TimeoutError:
            outcome = "silent"
        except NO_ANSWER:
            outcome = "refused"
        return Written(outcome, time.monotonic() - started)

    @abstractmethod
    def keep(self, server: Server, size: int, patience: float) -> None:
        """What `write` does. Raises TimeoutError where no answer came in time, else one of NO_ANSWER."""

    def writing(self, server: Server, patience: float) -> AbstractContextManager[Write]:
        """A connection to one of `copies` for writes beside the locks. See `WRITES`; raises one of NO_ANSWER."""
        raise NotImplementedError

    def written(self, server: Server) -> frozenset[str]:
        """The names of `WRITES` on one of `copies`, with all writes acknowledged before. Raises one of NO_ANSWER."""
        raise NotImplementedError

    def held(self, server: Server, wanted: Callable[[str], bool], since: int = 0) -> Held:
        """What one of `copies` holds under the wanted names, once it has all writes acknowledged before and the change
        with the number `since`. `Held.whole` covers the changes up to `since`. Raises one of NO_ANSWER.
        """
        raise NotImplementedError

    def hand_over(self, leader: Server, successor: Health) -> None:
        """Ask the leader to make another member the leader, if it answers. See Trait.HANDS_OVER."""
        raise NotImplementedError

    def end_sessions(self, server: Server, patience: float) -> list[int]:
        """End all sessions of clients but our own. Returns the processes that had them (Trait.SESSION_PROCESSES).
        patience: seconds for each answer, and until they have ended. Raises Failed, or ServerRefused.
        """
        raise NotImplementedError

    def refuse_writes(self, server: Server, *, refuse: bool) -> None:
        """Have a server answer every write with an error, or no longer. See Trait.REFUSES_WRITES. Raises Failed."""
        raise NotImplementedError

    def maintain(self, server: Server) -> str:
        """Have a server compact, rewrite or vacuum what it keeps (Trait.MAINTAINED). Returns what the server has done,
        for people. Raises Failed, or one of NO_ANSWER.
        """
        raise NotImplementedError

    def agreed_version(self, server: Server) -> str:
        """The version all members are up to ("3.5.0"), as one tells it, or "". None older may join. COMMON_VERSION."""
        raise NotImplementedError

    # --- members that lost their data: Trait.MEMBERSHIP ---

    def replace_member(self, others: Sequence[Server], member: str) -> None:
        """Put a new member, which has yet to be started, in the place of `member`.

        Raises Failed when they do not do it: without a majority they cannot.
        """
        raise NotImplementedError

    def lost_place(self, others: Sequence[Server], member: str) -> bool:
        """Whether the other members agree that a member was removed, and that no new one has started in its place."""
        raise NotImplementedError

    def promote(self, others: Sequence[Server], member: str) -> None:
        """Have the other members give a learner its vote. They do not before it has caught up. See `learners`."""
        raise NotImplementedError

    # --- clusters of others ---

    @abstractmethod
    def refusal(self, server: Server) -> str:
        """Why the node, which its probe found not serving, does not let us in. Raises OSError."""

    def unusable(self, health: Health) -> str:
        """Why clients cannot be sent to a node that serves; "" if they can."""
        del health
        return ""
