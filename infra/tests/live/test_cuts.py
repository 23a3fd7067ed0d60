"""Cuts between clients and nodes on real clusters, seen from outside."""

from __future__ import annotations

import base64
import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest

from infra.faults.links import ALL_GROUPS
from infra.faults.probe import QUESTIONS, Answer, answer
from infra.tests.environments import on
from infra.tests.live.hurting import BACKENDS, PATIENCE, SILENCE, Redis, ask, done, live, names, past

if TYPE_CHECKING:
    from infra.environment import Environment
    from infra.faults.target import Target


@on(*BACKENDS)
@pytest.mark.parametrize(
    ("how", "during", "afterwards"),
    [
        ("refuse", Answer.CLOSED, Answer.CLOSED),  # everybody knows
        ("drop", Answer.SILENT, Answer.CLOSED),  # what was sent never arrives
        ("hold", Answer.SILENT, Answer.ANSWERED),  # it arrives late, and is answered
    ],
)
def test_a_group_of_clients_is_cut(target: Target, how: str, during: Answer, afterwards: Answer) -> None:
    node = target.cluster.nodes[0]
    ends = target.endpoints
    with live(ends["c2", node.name]) as connection, live(ends["c1", node.name]) as other:
        with done(target, f"cut-client-{how}", group="c2") as hit:
            assert hit.target == f"clients c2 from {', '.join(names(target))}"
            if how != "refuse":
                connection.sendall(QUESTIONS[target.backend])
            assert answer(connection) is during
            assert {ask(target, "c2", node) for node in names(target)} == {during}
            assert {ask(target, "c3", node) for node in names(target)} == {Answer.ANSWERED}
            assert past(target, node) is Answer.ANSWERED
        if how != "refuse":
            assert answer(connection) is afterwards
        other.sendall(QUESTIONS[target.backend])
        assert answer(other) is Answer.ANSWERED  # the links of others never felt it


@on("redis")
def test_a_held_write_lands_after_the_heal_and_a_dropped_one_never(environment: Environment, target: Target) -> None:
    past = Redis(environment.direct("redis")[0])
    for how, expected in (("hold", b"$4\r\nlate\r\n"), ("drop", b"$-1\r\n")):
        line = Redis(target.endpoints["c1", "redis1"])
        with done(target, f"cut-client-{how}", group="c1"):
            assert line.ask(f"SET test-{how} late", 0.3) is None
            assert past.ask(f"GET test-{how}") == b"$-1\r\n"
        line.listen()
        assert past.ask(f"GET test-{how}") == expected


def _all(lost: set[int]) -> dict[str, set[int]]:
    return {group: set(lost) for group in ALL_GROUPS}


PARTS: list[tuple[str, str, dict[str, Any], dict[str, set[int]]]] = [
    ("redis", "cut-minority-drop", {"nodes": ["redis1", "redis4"]}, _all({1, 4})),
    ("redis", "cut-majority-drop", {"nodes": ["redis1", "redis3", "redis4"]}, _all({1, 3, 4})),
    ("redis", "cut-client-minority", {"group": "c3", "nodes": ["redis2"]}, {"c3": {2}}),
    ("redis", "cut-client-majority", {"group": "c1", "nodes": [f"redis{i}" for i in (1, 2, 3, 5)]},
     {"c1": {1, 2, 3, 5}}),
    ("redis", "cut-clients-apart", {"nodes": {"c1": ["redis1"], "c2": ["redis2", "redis3"], "c3": ["redis5"]}},
     {"c1": {1}, "c2": {2, 3}, "c3": {5}}),
    ("redis", "split-halves", {"nodes": ["redis2", "redis5"], "groups": ["c2"]},
     {"c1": {2, 5}, "c2": {1, 3, 4}, "c3": {2, 5}}),
    ("redis", "split-ring", {"order": ["redis2", "redis1", "redis3", "redis4", "redis5"]},
     {"c1": {4, 5}, "c2": {1, 2}, "c3": {3, 4}}),
    ("redis", "split-bridge", {"bridge": "redis1", "nodes": ["redis2", "redis3"], "groups": ["c1", "c3"]},
     {"c1": {4, 5}, "c2": {2, 3}, "c3": {4, 5}}),
    ("etcd", "cut-minority-drop", {"nodes": ["etcd2"]}, _all({2})),
    ("etcd", "cut-majority-drop", {"nodes": ["etcd1", "etcd2"]}, _all({1, 2})),
    ("etcd", "cut-clients-apart", {"nodes": {"c1": ["etcd1"], "c2": ["etcd2"], "c3": ["etcd1", "etcd3"]}},
     {"c1": {1}, "c2": {2}, "c3": {1, 3}}),
    ("zookeeper", "cut-client-minority", {"group": "c2", "nodes": ["zk3"]}, {"c2": {3}}),
    ("zookeeper", "cut-client-majority", {"group": "c2", "nodes": ["zk1", "zk3"]}, {"c2": {1, 3}}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "name", "options", "lost"),
    [pytest.param(*part, marks=pytest.mark.needs(part[0])) for part in PARTS],
    indirect=["target"],
)
def test_these_groups_lose_these_nodes(
    target: Target, name: str, options: dict[str, Any], lost: dict[str, set[int]]
) -> None:
    with done(target, name, **options):
        for group in target.groups:
            seen = {i for i, node in enumerate(names(target), 1) if ask(target, group, node) is Answer.ANSWERED}
            assert seen == set(range(1, len(names(target)) + 1)) - lost.get(group, set())
        assert target.cluster.ready()  # nobody among the nodes felt it
    assert {ask(target, *pair) for pair in target.endpoints} == {Answer.ANSWERED}


@on("redis")
def test_of_five_servers_rings_are_majorities_and_bridges_have_one_server_in_common(target: Target) -> None:
    def seen() -> dict[str, set[str]]:
        return {
            group: {node for node in names(target) if ask(target, group, node) is Answer.ANSWERED}
            for group in target.groups
        }

    with done(target, "split-ring"):
        views = list(seen().values())
        assert [len(view) for view in views] == [3, 3, 3]
        assert len({frozenset(view) for view in views}) == 3
    with done(target, "split-bridge"):
        one, other = {frozenset(view) for view in seen().values()}
        assert (len(one), len(other), len(one & other)) == (3, 3, 1)
    with done(target, "split-halves"):
        one, other = sorted({frozenset(view) for view in seen().values()}, key=len)
        assert (len(one), len(other), len(one & other)) == (2, 3, 0)


@on("redis")
@pytest.mark.parametrize(("what", "applied"), [("requests", b":0\r\n"), ("replies", b":1\r\n")])
def test_bytes_are_lost_in_one_direction_only(
    environment: Environment, target: Target, what: str, applied: bytes
) -> None:
    past = Redis(environment.direct("redis")[1])
    line, other = (Redis(target.endpoints[group, "redis2"]) for group in ("c2", "c3"))
    with done(target, f"lose-{what}", group="c2"):
        assert line.ask(f"SET lost-{what} 1", 0.3) is None
        assert past.ask(f"EXISTS lost-{what}") == applied
        assert other.ask("PING") == b"+PONG\r\n"
    assert line.listen() == b""
    assert past.ask(f"EXISTS lost-{what}") == applied  # nothing arrives late
    assert Redis(target.endpoints["c2", "redis2"]).ask("PING") == b"+PONG\r\n"


@on("etcd")
@pytest.mark.parametrize(("what", "applied"), [("requests", 0), ("replies", 1)])
def test_puts_are_lost_or_done_without_a_reply(
    environment: Environment, target: Target, what: str, applied: int
) -> None:
    with done(target, f"lose-{what}", group="c1"):
        with pytest.raises((TimeoutError, http.client.RemoteDisconnected)):
            etcd(target.endpoints["c1", "etcd1"], "put", SILENCE, key=f"lost-{what}", value="1")
        assert int(etcd(environment.direct("etcd")[0], "range", key=f"lost-{what}").get("count", 0)) == applied
    etcd(target.endpoints["c1", "etcd1"], "put", key="after", value="1")


def etcd(endpoint: str, verb: str, patience: float = PATIENCE, **words: str) -> dict[str, Any]:
    """One request to the JSON gateway. Raises OSError, or HTTPException, when it fails."""
    host, _, port = endpoint.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=patience)
    try:
        body = {name: base64.b64encode(word.encode()).decode() for name, word in words.items()}
        connection.request("POST", f"/v3/kv/{verb}", body=json.dumps(body))
        told: dict[str, Any] = json.loads(connection.getresponse().read())
        return told
    finally:
        connection.close()
