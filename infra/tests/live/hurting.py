"""What tests on real clusters have in common: a fault done, questions through links, and a word that servers keep."""

import json
import socket
import time
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import psycopg
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from infra.backends.redis import connect
from infra.cluster.nodes import Node
from infra.environment import Environment
from infra.faults import fault
from infra.faults.all_faults import FAULTS
from infra.faults.link_question import LinkAnswer
from infra.faults.plan import compile_plan
from infra.faults.target import Hit, Target
from infra.store.libpq import DATABASE
from infra.waiting import comes_true

ELECTING = ("etcd", "zookeeper")

SILENCE = 1.0  # seconds without a byte that count as silence: more than a busy machine stalls
PATIENCE = 10.0  # seconds for an answer that must come
COMES_WITHIN = 40.0  # seconds for anything awaited, on whatever machine


def await_(condition: Callable[[], bool], why: Callable[[], str] = str) -> None:
    """What takes fractions of a second, or a few. why: asked when it does not come."""
    assert comes_true(condition, COMES_WITHIN), why()


@contextmanager
def done(target: Target, name: str, **options: object) -> Iterator[Hit]:
    """The one hit of a fault, as long as it lasts; afterwards all is whole, if no other is on."""
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


def ask(target: Target, group: str, node: str) -> LinkAnswer:
    return target.prober.ask(target.endpoints[group, node], SILENCE)


def ask_all(target: Target, group: str) -> set[LinkAnswer]:
    """Through all links of a group, at once."""
    return set(target.prober.ask_all([target.endpoints[group, node] for node in names(target)], SILENCE))


def place(endpoint: str) -> tuple[str, int]:
    """Of `host:port`."""
    host, _, port = endpoint.rpartition(":")
    return host, int(port)


def live(endpoint: str) -> socket.socket:
    """A connection through a link, up at both ends."""
    connection = socket.create_connection(place(endpoint), timeout=0.5)
    time.sleep(0.05)  # Toxiproxy dials on after it has accepted, and says nothing about it
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


def names(target: Target) -> list[str]:
    return [node.name for node in target.cluster.nodes]


KEY = "fp-kept"
Session = psycopg.Connection[tuple[object, ...]]


def keep(target: Target, word: str) -> None:
    """Write a word, to every node where they know nothing of each other."""
    for node in target.cluster.nodes if target.backend == "redis" else target.cluster.nodes[:1]:
        where = "{}:{}".format(*node.address)
        match target.backend:
            case "redis":
                with connect(node.address) as redis:
                    redis.set(KEY, word)
            case "etcd":
                etcd(where, "kv/put", key=KEY, value=word)
            case "zookeeper":
                with zookeeper(where) as client:
                    if client.exists(f"/{KEY}"):
                        client.delete(f"/{KEY}")
                    client.create(f"/{KEY}", word.encode())
            case "postgres":
                with session(target.environment) as connection:
                    connection.execute(f'DROP TABLE IF EXISTS "{KEY}"')
                    connection.execute(f"CREATE TABLE \"{KEY}\" AS SELECT '{word}'::text AS word")


def kept(target: Target, node: Node) -> object:
    """What this node has of the word itself, None for nothing."""
    where = "{}:{}".format(*node.address)
    match target.backend:
        case "redis":
            with connect(node.address) as redis:
                return redis.get(KEY)
        case "etcd":
            found = etcd(where, "kv/range", key=KEY, serializable=True).get("kvs", [])
            return b64decode(found[0]["value"]).decode() if found else None
        case "zookeeper":
            with zookeeper(where) as client, suppress(NoNodeError):
                return str(client.get(f"/{KEY}")[0], "ascii")
            return None
        case _:
            with session(target.environment) as connection, suppress(psycopg.errors.UndefinedTable):
                return asked(connection, f'SELECT word FROM "{KEY}"')
            return None


@contextmanager
def zookeeper(where: str, **more: object) -> Iterator[KazooClient]:
    """A session with the servers at `host:port,...`."""
    client = KazooClient(where, timeout=4, **more)
    client.start(timeout=60)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def etcd(where: str, path: str, timeout: float = 10.0, **what: object) -> Any:
    """An answer of etcd's JSON gateway at `host:port`; texts are sent as bytes are. Raises OSError."""
    sent = {name: b64encode(word.encode()).decode() if isinstance(word, str) else word for name, word in what.items()}
    with urllib.request.urlopen(f"http://{where}/v3/{path}", json.dumps(sent).encode(), timeout=timeout) as answer:
        return json.load(answer)


def session(environment: Environment, at: tuple[str, int] | None = None, user: str = "postgres") -> Session:
    """With PostgreSQL; past the links, if it is not said where."""
    host, port = at or environment.node("postgres").address
    password = environment.password if user == "postgres" else user
    dsn = f"postgresql://{user}:{password}@{host}:{port}/{DATABASE}"
    return psycopg.connect(dsn, connect_timeout=5, autocommit=True, prepare_threshold=None)


def asked(connection: Session, question: str) -> object:
    """The only value of the first row, None without a row."""
    row = connection.execute(question).fetchone()
    return row and row[0]
