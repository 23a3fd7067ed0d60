"""What a server has kept: a word written to a cluster and read from each of its nodes, with clients of their own."""

from __future__ import annotations

import base64
import json
import urllib.request
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from redis import Redis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.faults.target import Target
    from infra.nodes import Node

KEY = "fp-kept"


def keep(target: Target, word: str) -> None:
    """Write it, to every node where they know nothing of each other."""
    for node in target.cluster.nodes if target.backend == "redis" else target.cluster.nodes[:1]:
        host, port = node.address
        where = f"{host}:{port}"
        match target.backend:
            case "redis":
                with Redis(host=host, port=port) as redis:
                    redis.set(KEY, word)
            case "etcd":
                etcd(where, "kv/put", key=KEY, value=word)
            case "zookeeper":
                with zookeeper(where) as client:
                    if client.exists(f"/{KEY}"):
                        client.delete(f"/{KEY}")
                    client.create(f"/{KEY}", word.encode())
            case "postgres":
                with psycopg.connect(dsn(target, node), autocommit=True) as connection:
                    connection.execute(f'DROP TABLE IF EXISTS "{KEY}"')
                    connection.execute(f"CREATE TABLE \"{KEY}\" AS SELECT '{word}'::text AS word")


def kept(target: Target, node: Node) -> str | None:
    """What this node has of it itself, None for nothing."""
    host, port = node.address
    where = f"{host}:{port}"
    match target.backend:
        case "redis":
            with Redis(host=host, port=port) as redis:
                told = redis.get(KEY)
                return told.decode() if isinstance(told, bytes) else None
        case "etcd":
            found = etcd(where, "kv/range", key=KEY, serializable=True).get("kvs", [])
            return base64.b64decode(found[0]["value"]).decode() if found else None
        case "zookeeper":
            with zookeeper(where) as client, suppress(NoNodeError):
                return str(client.get(f"/{KEY}")[0], "ascii")
            return None
        case _:
            try:
                with psycopg.connect(dsn(target, node)) as connection:
                    row = connection.execute(f'SELECT word FROM "{KEY}"').fetchone()
                    return row[0] if row else None
            except psycopg.errors.UndefinedTable:
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
    sent = {
        name: base64.b64encode(word.encode()).decode() if isinstance(word, str) else word for name, word in what.items()
    }
    with urllib.request.urlopen(f"http://{where}/v3/{path}", json.dumps(sent).encode(), timeout=timeout) as answer:
        return json.load(answer)


def dsn(target: Target, node: Node) -> str:
    """Of PostgreSQL, past the links."""
    host, port = node.address
    return f"postgresql://postgres:{target.environment.password}@{host}:{port}/fencepost"
