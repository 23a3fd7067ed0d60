"""What a node says of itself when it is asked directly: does it serve, which version is it, whom does it follow.

One question per backend that every version answers, by the plainest means (no client library, no retries): Redis
INFO, ZooKeeper's `srvr`, etcd's status over its JSON gateway, a PostgreSQL login. A node that is not up, or paused,
or not serving gives None.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import psycopg

PATIENCE: Final = 1.0
"""Seconds for an answer; a node that serves answers within milliseconds."""


@dataclass(frozen=True, slots=True)
class Health:
    """A node that serves clients.

    version  as the node tells it ("3.5.16").
    term     etcd: the raft term. ZooKeeper: the epoch, which the latest transaction shows. Else 0.
    me       its identity among its peers, "" where it has none.
    leader   the identity of whom it follows, maybe its own; "follower" or "leader" for ZooKeeper, which tells its role
             and not whom it follows. "" where there are no roles.
    """

    version: str
    term: int = 0
    me: str = ""
    leader: str = ""


Probe = Callable[[str, int], Health | None]
"""(host, port) -> what the node says."""


def redis(host: str, port: int) -> Health | None:
    """Redis; loading its file counts as not serving."""
    told = _converse(host, port, b"PING\r\nINFO server\r\nQUIT\r\n")
    version = re.search(rb"redis_version:([0-9.]+)", told)
    return Health(version[1].decode()) if told.startswith(b"+PONG") and version else None


def zookeeper(host: str, port: int) -> Health | None:
    """ZooKeeper in a quorum."""
    told = _converse(host, port, b"srvr").decode(errors="replace")
    version = re.search(r"Zookeeper version: ([0-9.]+)", told)
    mode = re.search(r"^Mode: (\w+)", told, re.MULTILINE)
    zxid = re.search(r"^Zxid: 0x([0-9a-f]+)", told, re.MULTILINE)
    if not (version and mode and zxid):
        return None
    return Health(version[1].rstrip("."), term=int(zxid[1], 16) >> 32, leader=mode[1])


def etcd(host: str, port: int) -> Health | None:
    """An etcd member that knows a leader."""
    connection = http.client.HTTPConnection(host, port, timeout=PATIENCE)
    try:
        connection.request("POST", "/v3/maintenance/status", body="{}")
        told = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    leader = told.get("leader", "0")
    if leader == "0":
        return None
    return Health(told["version"], term=int(told["raftTerm"]), me=told["header"]["member_id"], leader=leader)


def postgres(password: str) -> Probe:
    """PostgreSQL: asks by logging in, so it needs the password."""

    def probe(host: str, port: int) -> Health | None:
        try:
            with psycopg.connect(
                host=host, port=port, user="postgres", password=password, dbname="fencepost", connect_timeout=2
            ) as connection:
                version = connection.info.parameter_status("server_version") or ""
        except psycopg.OperationalError:
            return None
        return Health(version.partition(" ")[0])

    return probe


def all_probes(password: str) -> Mapping[str, Probe]:
    """Backend -> its probe."""
    return {"redis": redis, "zookeeper": zookeeper, "etcd": etcd, "postgres": postgres(password)}


def leader(backend: str, healths: Sequence[Health | None]) -> int | None:
    """Index of the leader among what the nodes say, None when there is none that a majority can have.

    A leader that was cut off goes on calling itself one until it notices, so the later term decides; for etcd, whose
    members say whom they follow, a majority of them as well.
    """
    known = [(index, health) for index, health in enumerate(healths) if health]
    if backend == "zookeeper":
        leads = [(health.term, index) for index, health in known if health.leader in ("leader", "standalone")]
        return max(leads)[1] if leads else None
    if backend == "etcd":
        for index, health in known:
            followers = [other for _, other in known if (other.leader, other.term) == (health.me, health.term)]
            if 2 * len(followers) > len(healths):
                return index
    return None


def whole(backend: str, healths: Sequence[Health | None]) -> bool:
    """Whether every node serves and, where there are roles, all follow one leader."""
    if not all(healths):
        return False
    if backend == "zookeeper":
        return sorted(health.leader for health in healths if health) == ["follower"] * (len(healths) - 1) + ["leader"]
    return len({(health.leader, health.term) for health in healths if health}) == 1 if backend == "etcd" else True


def _converse(host: str, port: int, question: bytes) -> bytes:
    """Send a question and read until the other side closes; what came, be it nothing."""
    told = b""
    try:
        with socket.create_connection((host, port), timeout=PATIENCE) as connection:
            connection.sendall(question)
            while chunk := connection.recv(65536):
                told += chunk
    except OSError:
        pass
    return told
