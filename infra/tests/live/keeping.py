"""What a server has kept: a word written to a cluster and read from each of its nodes, with clients of their own."""

import json
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from infra.backends.redis import connect
from infra.cluster.nodes import Node
from infra.environment import Environment
from infra.faults.target import Target
from infra.store.libpq import DATABASE

KEY = "fp-kept"
Session = psycopg.Connection[tuple[object, ...]]


def keep(target: Target, word: str) -> None:
    """Write it, to every node where they know nothing of each other."""
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
    """What this node has of it itself, None for nothing."""
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
