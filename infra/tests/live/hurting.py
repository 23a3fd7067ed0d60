"""What tests on real clusters have in common: a fault, questions through links, and a word that servers keep.

Any process may stand still for seconds and give no answer meanwhile. So tests wait for what must come.
"""

import json
import re
import socket
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from checkers.tests.build import there
from infra import commands
from infra.backends import etcd as etcd_backend
from infra.backends.answers import NO_ANSWER
from infra.backends.redis import connect
from infra.cluster.nodes import Cluster, Node
from infra.environment import Environment
from infra.faults import fault, link_proof, manual
from infra.faults.all_faults import FAULTS
from infra.faults.link_probe import LinkAnswer
from infra.faults.plan import compile_plan
from infra.faults.servers import clocks, disks, failover, maintenance, sequences, strikes, upgrades
from infra.faults.target import Hit, Target
from infra.store.libpq import DATABASE
from infra.tests.environments import COMES_WITHIN
from infra.waiting import POLL, Clock, comes_true

if TYPE_CHECKING:
    from redis import Redis as RedisClient

T = TypeVar("T")

ELECTING = ("etcd", "zookeeper")

SILENCE = 1.0  # seconds without a byte that count as silence
PATIENCE = 60.0  # seconds for an answer that must come


def await_(condition: Callable[[], bool], why: Callable[[], str] = str, every: float = POLL) -> None:
    """Wait until the condition holds: usually fractions of a second, or a few. why: asked if it never holds."""
    assert comes_true(condition, COMES_WITHIN, every), why()


def until(ask: Callable[[], T | None]) -> T:
    """Ask until there is an answer, and return it."""
    return there(Clock().wait(COMES_WITHIN, ask, POLL))


def insist(ask: Callable[[], T]) -> T:
    """As `until`, where the server may refuse, or not answer: a member without a leader does."""

    def answer() -> T | None:
        with suppress(*NO_ANSWER):
            return ask()
        return None

    return until(answer)


def be_patient(replace: Callable[[object, str, float], None]) -> None:
    """Let proofs of faults and heals wait: an election on a busy machine may take 20 s. replace: as `setattr`."""
    proofs = (fault, link_proof, clocks, disks, failover, maintenance, sequences, strikes, upgrades)
    for module in (*proofs, commands, manual):
        for name in [name for name in vars(module) if name.endswith("_WITHIN")]:
            replace(module, name, COMES_WITHIN)
    replace(etcd_backend, "REPLACED_WITHIN", COMES_WITHIN)


def version(node: Node) -> str:
    return until(node.health).version


def versions(cluster: Cluster) -> dict[str, str]:
    """Member -> version, once all have answered."""
    return {node.name: version(node) for node in cluster.nodes}


class Reign(NamedTuple):
    """The leader and its term; the first node for backends without a leader."""

    leader: Node
    term: int = 0


def reign(target: Target) -> Reign:
    if target.backend not in ELECTING:
        return Reign(target.cluster.nodes[0])

    def look() -> Reign | None:
        healths = target.cluster.healths()
        index = target.kind.leader(healths)
        if index is None:
            return None
        return Reign(target.cluster.nodes[index], max(health.term for health in healths if health))

    return until(look)


def leader_hit(target: Target, hit: Hit, before: Reign, elections: int = 1) -> Node:
    """The node that was hit as the leader. It led before, unless there was an election that the fault did not cause."""
    # A leader that stands still for a second is replaced, also between our look and the fault.
    named = re.search(r"(\w+) \(leader\)", hit.target)
    node = target.node(named[1] if named else hit.target.split()[0])
    assert node is before.leader or reign(target).term > before.term + elections
    return node


def await_leader_but(target: Target, old: Node) -> None:
    """Wait until another node leads."""
    await_(lambda: target.cluster.leader() not in (old, None))


@contextmanager
def done(target: Target, name: str, **options: object) -> Iterator[Hit]:
    """The first hit of a fault. The fault is on in the context; then the cluster is whole again, if no other is on."""
    step = compile_plan([name], 1, target.backend, ttl=1.0).steps[0]
    injection = replace(step, options={**step.options, **options}).injection(target.backend)
    try:
        hits = injection.apply(target)
        assert hits[0].kind == FAULTS[name].kind
        assert hits[0].begun < hits[0].applied
        yield hits[0]
    finally:
        injection.heal(target)
        injection.heal(target)  # idempotent
    if target.alone:
        fault.await_whole(target)


def await_answer(target: Target, group: str, node: str, answer: LinkAnswer) -> None:
    """Wait until a question through the link gets this answer."""
    await_(lambda: target.prober.ask(target.endpoints[group, node], SILENCE) is answer)


def place(endpoint: str) -> tuple[str, int]:
    """(host, port) from `host:port`."""
    host, _, port = endpoint.rpartition(":")
    return host, int(port)


def live(endpoint: str) -> socket.socket:
    """A connection to Redis through a link, up at both ends: Toxiproxy accepts a connection before it dials on."""
    connection = socket.create_connection(place(endpoint), timeout=PATIENCE)
    connection.sendall(b"PING\r\n")
    if connection.recv(100) != b"+PONG\r\n":
        connection.close()
        raise ConnectionError(f"{endpoint} does not answer")
    return connection


class Redis:
    """A plain connection: one command, one answer."""

    def __init__(self, endpoint: str) -> None:
        self.socket = live(endpoint)

    def ask(self, command: str, patience: float = PATIENCE) -> bytes | None:
        """None for silence, b"" when the connection has ended."""
        self.socket.sendall(f"{command}\r\n".encode())
        return self.listen(patience)

    def listen(self, patience: float = PATIENCE) -> bytes | None:
        self.socket.settimeout(patience)
        try:
            return self.socket.recv(4096)
        except TimeoutError:
            return None
        except ConnectionError:
            return b""


def redis_at(endpoint: str) -> "RedisClient":
    return connect(endpoint, PATIENCE)


KEY = "fp-kept"
Session = psycopg.Connection[tuple[object, ...]]


def keep(target: Target, word: str) -> None:
    """Write a word; to every node if the nodes know nothing of each other."""
    for node in target.cluster.nodes if target.backend == "redis" else target.cluster.nodes[:1]:
        match target.backend:
            case "redis":
                with redis_at(node.endpoint) as redis:
                    redis.set(KEY, word)
            case "etcd":
                insist(partial(etcd, node.endpoint, "kv/put", key=KEY, value=word))
            case "zookeeper":
                with zookeeper(node.endpoint) as client:
                    with suppress(NoNodeError):
                        client.retry(client.delete, f"/{KEY}")
                    with suppress(NodeExistsError):  # it was created, and the answer was lost
                        client.retry(client.create, f"/{KEY}", word.encode())
            case "postgres":
                with session(target.environment) as connection:
                    connection.execute(f'DROP TABLE IF EXISTS "{KEY}"')
                    connection.execute(f"CREATE TABLE \"{KEY}\" AS SELECT '{word}'::text AS word")


def kept(target: Target, node: Node) -> object:
    """The word that this node itself has, None if it has none."""
    match target.backend:
        case "redis":
            with redis_at(node.endpoint) as redis:
                return redis.get(KEY)
        case "etcd":
            found = insist(partial(etcd, node.endpoint, "kv/range", key=KEY, serializable=True)).get("kvs", [])
            return b64decode(found[0]["value"]).decode() if found else None
        case "zookeeper":
            with zookeeper(node.endpoint) as client, suppress(NoNodeError):
                return str(client.retry(client.get, f"/{KEY}")[0], "ascii")
            return None
        case _:
            with session(target.environment) as connection, suppress(psycopg.errors.UndefinedTable):
                return asked(connection, f'SELECT word FROM "{KEY}"')
            return None


def await_kept(target: Target, word: str, *but: Node) -> None:
    """Wait until all nodes but these have the word: a follower may get it later than the majority."""
    await_(lambda: {kept(target, node) for node in target.cluster.nodes if node not in but} <= {word})


@contextmanager
def zookeeper(where: str, **more: object) -> Iterator[KazooClient]:
    """A session with the servers at `host:port,...`."""
    client = KazooClient(where, timeout=30, **more)
    client.start(timeout=COMES_WITHIN)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def etcd(where: str, path: str, timeout: float = PATIENCE, **what: object) -> Any:
    """An answer of etcd's JSON gateway at `host:port`; texts are sent in base64, as bytes are. Raises OSError."""
    sent = {name: b64encode(word.encode()).decode() if isinstance(word, str) else word for name, word in what.items()}
    with urllib.request.urlopen(f"http://{where}/v3/{path}", json.dumps(sent).encode(), timeout=timeout) as answer:
        return json.load(answer)


def session(
    environment: Environment, at: str | None = None, user: str = "postgres", patience: float = PATIENCE
) -> Session:
    """A session with PostgreSQL; past the links, unless `at` is given. patience: seconds until we are let in."""
    endpoint = at or environment.node("postgres").endpoint
    password = environment.password if user == "postgres" else user
    dsn = f"postgresql://{user}:{password}@{endpoint}/{DATABASE}"
    return psycopg.connect(dsn, connect_timeout=int(patience), autocommit=True, prepare_threshold=None)


def asked(connection: Session, question: str) -> object:
    """The only value of the first row, None without a row."""
    row = connection.execute(question).fetchone()
    return row and row[0]
