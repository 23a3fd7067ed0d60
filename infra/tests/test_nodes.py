"""Nodes on an engine that only remembers its state: several keys want changes of one node; nodes get images back."""

import subprocess
import time
from collections.abc import Callable
from contextlib import nullcontext
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from docker.errors import APIError
from hypothesis import given
from hypothesis import strategies as st

from checkers.tests.build import cases, there
from infra.backends import BACKENDS
from infra.backends.answers import Health
from infra.backends.etcd import Etcd
from infra.backends.postgres import Postgres
from infra.cluster import node_repair
from infra.cluster.clock_skew import Skew
from infra.cluster.container import made_from
from infra.cluster.exit_reason import last_words
from infra.cluster.nodes import Node
from infra.docker import compose, images
from infra.errors import Failed
from infra.faults.all_faults import FAULTS
from infra.faults.servers import upgrades
from infra.network import topology
from infra.own_environment import OwnEnvironment
from infra.tests.imagined import Engine, Star, engines_have_clocks, imagined

FIVE, SEVEN = Skew(offset=5.0), Skew(offset=7.0)
KEYS = ("step1", "step2", "step3")
CENTRE = ("toxiproxy", "store")
CHANGES = st.lists(st.tuples(st.sampled_from(["pause", "kill", "stop", "let_go"]), st.sampled_from(KEYS)), max_size=12)
BOOTED, OTHER = "mine:1", "mine:2"
ETCDS = ["etcd1", "etcd2", "etcd3"]
SETS, MAKES = "SET transaction_timeout = 0;\n", "CREATE DATABASE x LOCALE_PROVIDER = libc LOCALE = 'C.UTF-8';\n"


@pytest.fixture(autouse=True)
def _remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    engines_have_clocks(monkeypatch)
    for module in (node_repair, upgrades):
        monkeypatch.setattr(module, "remake", lambda node, image: node.remake(image))


def made() -> tuple[Node, Engine, Star]:
    star = Star("redis")
    return star.cluster.nodes[0], star.engines["redis1"], star


def refused(star: Star) -> set[str]:
    return {proxy.upstream.partition("-node")[0] for proxy in star.toxiproxy.proxies.values() if not proxy.enabled}


@given(changes=CHANGES)
def test_a_node_is_always_in_the_state_that_its_remaining_keys_want(changes: list[tuple[str, str]]) -> None:
    node, engine, star = made()
    wishes: dict[str, str] = {}
    for verb, by in changes:
        getattr(node, verb)(by)
        if verb == "let_go":
            wishes.pop(by, None)
        else:
            wishes[by] = "paused" if verb == "pause" else "exited"
        wanted = "exited" if "exited" in wishes.values() else "paused" if wishes else "running"
        assert (engine.status, refused(star)) == (wanted, {"redis1"} if wanted == "exited" else set())
    for by in KEYS:
        node.let_go(by)
    assert (engine.status, refused(star)) == ("running", set())


@pytest.mark.parametrize(("why", "dies"), [("PID 7 is zombie and can not be", True), ("permission denied", False)])
def test_a_process_that_takes_long_to_die_is_waited_for(monkeypatch: pytest.MonkeyPatch, why: str, dies: bool) -> None:
    node, engine, star = made()
    killed = engine.kill

    def gives_up(container: str, signal: str) -> None:
        if dies:
            killed(container, signal)
        raise APIError("500", explanation=f"Cannot kill container: {why}")

    monkeypatch.setattr(engine, "kill", gives_up)
    with nullcontext() if dies else pytest.raises(Failed, match=why):
        node.kill("a")
    assert not dies or (engine.status, refused(star)) == ("exited", {"redis1"})


@given(changes=CHANGES)
def test_a_heal_of_a_node_undoes_the_changes_of_all_keys(changes: list[tuple[str, str]]) -> None:
    node, _, star = made()
    for verb, by in changes:
        getattr(node, verb)(by)
        node.skew(FIVE, by)
    node.heal()
    assert star.unclean() == []


@pytest.mark.parametrize("status", ["exited", "paused"])
def test_a_node_that_others_stopped_or_paused_is_brought_back(status: str) -> None:
    node, engine, _ = made()
    engine.status = status
    node.let_go("step1")
    assert engine.status == "running"


def test_an_end_that_nobody_asked_for_is_noted_once_until_the_node_serves_again() -> None:
    node, engine, _ = made()

    def noted(*before: Callable[[], object], error: str = "", ends: Callable[[], object] = node.revive) -> int:
        for each in (*before, node.revive):
            each()
        engine.status, engine.error = "exited", error
        ends()
        return len(node.ends)

    kill, start, serve = lambda: node.kill("a"), lambda: node.let_go("a"), node.health
    assert [noted(kill, start), noted(), noted(serve, kill, start), noted()] == [1, 1, 2, 2]
    assert [noted(serve, kill, node.wipe, start), noted(serve, lambda: node.replace("x"))] == [2, 2]
    assert [noted(serve, error="no such file"), noted(serve, ends=kill)] == [2, 3]
    assert noted(start, serve, ends=lambda: [each() for each in (node.bury, node.revive)]) == 3
    assert noted(serve, ends=lambda: node.replace("x")) == 4
    assert (node.ends[0].status, node.ends[0].words) == (2, "torn")
    assert 2 < (time.monotonic_ns() - node.ends[0].at) / 1e9 < 60, "by the engine's own clock"


def test_skews_of_a_clock_add_up_and_wait_while_the_node_is_paused_or_down() -> None:
    node, engine, _ = made()
    node.skew(FIVE, "step1")
    node.pause("step2")
    node.skew(SEVEN, "step3")
    assert engine.skews == [FIVE]
    node.let_go("step2")
    assert engine.skews == [FIVE, SEVEN]
    node.kill("step2")
    node.let_go("step1")
    node.let_go("step2")
    assert engine.skews == [SEVEN]
    node.let_go("step3")
    assert engine.skews == []


def test_late_news_of_a_pause_keep_no_clock_and_no_node_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    node, engine, _ = made()
    node.pause("step1")
    node.skew(FIVE, "step2")
    resume, late = engine.unpause, iter(["paused", "paused"])
    monkeypatch.setattr(engine, "inspect_container", lambda _: {"State": {"Status": next(late, engine.status)}})

    def goes_on(container: str) -> None:
        if engine.status != "paused":
            raise APIError("500", explanation=f"Cannot unpause container {container}: container not paused")
        resume(container)

    monkeypatch.setattr(engine, "unpause", goes_on)
    node.let_go("step1")
    assert engine.skews == [FIVE]
    late = iter(["paused"])
    node.kill("step1")
    assert engine.status == "exited"


def test_a_container_was_made_from_image_digest_command_and_settings_without_passwords() -> None:
    image, labels = "fencepost/toxiproxy:2", {"fencepost.packager": "Debian sid"}
    env, settings = ["PATH=/bin", "B=2", "A=1=1", "POSTGRES_PASSWORD=secret"], {"A": "1=1", "B": "2"}
    config = {"Image": image, "Entrypoint": ["/toxiproxy"], "Cmd": None, "Env": env, "Labels": labels}
    answers = {compose.container("fp-7", name): {"Image": f"sha256:{name}", "Config": config} for name in CENTRE}
    client = SimpleNamespace(api=SimpleNamespace(inspect_container=answers.__getitem__))
    same = {"image": image, "packager": "Debian sid", "command": ["/toxiproxy"], "settings": settings}
    made = OwnEnvironment.made_from(cast("Any", SimpleNamespace(_client=client, name="fp-7")))
    assert made == {name: {**same, "digest": f"sha256:{name}"} for name in CENTRE}


@cases("major, dump", ("17", SETS + MAKES), ("16", MAKES), ("14", MAKES.replace(" LOCALE_PROVIDER = libc", "")))
def test_a_dump_has_nothing_that_only_a_newer_pg_dumpall_writes(tmp_path: Path, major: str, dump: str) -> None:
    (tmp_path / "PG_VERSION").write_text(f"{major}\n")
    commands = 'as() { "$@"; }; install() { mkdir "$4"; }; pg_ctl() { :; }; pg_dumpall() { cat >"$7"; }'
    script = f"PGDATA={tmp_path}\n{there(Postgres.migration).script}\n{commands}\nwork=$PGDATA/carry\ndump"
    subprocess.run(["sh", "-c", script], input=SETS + MAKES, text=True, check=True)
    assert (tmp_path / "carry/dump.sql").read_text() == dump


def test_a_container_that_is_gone_is_named() -> None:
    def inspect(_: str) -> None:
        raise APIError("gone", explanation="No such container")

    client = SimpleNamespace(api=SimpleNamespace(inspect_container=inspect))
    with pytest.raises(Failed, match="fp-store-1: No such container"):
        made_from(cast("Any", client), "fp-store-1")


@pytest.mark.parametrize("forgets", [True, False])
def test_a_restarted_node_refuses_writes_only_while_a_key_wants_that(forgets: bool) -> None:
    with imagined("etcd") as star:
        node, engine = star.cluster.nodes[0], star.engines["etcd1"]
        node.refuse("step1")
        assert engine.refuses
        engine.forgets = forgets
        for wanted in (True, False):
            node.kill("step2")
            if not wanted:
                node.let_go("step1")
            node.let_go("step2")
            assert engine.refuses is wanted


class Server:
    """A node as `node_repair` sees it. starts: the images that start on the node's data."""

    def __init__(self, name: str, image: str = OTHER, starts: tuple[str, ...] = (BOOTED, OTHER)) -> None:
        self.name, self.kind = name, topology.kind_of(name)
        self.runs, self.starts, self.running = image, starts, True
        self.done: list[str] = []
        self.process = self
        self.image, self.version, self.wanted = lambda: self.runs, lambda: "17.11", lambda: "running"
        self.ready, self.state = lambda: self.running, lambda: "running" if self.running else "stopped"

    def bury(self) -> None:
        assert not self.running

    def wipe(self) -> None:
        assert not self.running
        self.done.append("wiped")

    def revive(self) -> None:
        self.running = True

    def remake(self, image: str) -> str:
        self.runs, self.running = image, image in self.starts
        if not self.running:
            raise node_repair.DoesNotStart(f"{self.name} does not start as {image}")
        return ""


def stuck(name: str) -> Server:
    return Server(name, starts=(OTHER,))


@cases(
    "servers, stay, wiped",
    ("who can becomes what he was", [Server("redis1"), Server("redis2", BOOTED), Server("redis1-replica")], [], []),
    ("who cannot goes on and says why", [Server("redis1"), stuck("redis2")], ["redis2"], []),
    ("a replica goes where its primary does", [stuck("redis1"), Server("redis1-replica")], ["redis1"], []),
    ("an etcd gets its data anew", [Server("etcd1", BOOTED), stuck("etcd2"), Server("etcd3", BOOTED)], [], ["etcd2"]),
    ("etcds that all moved on keep their data", list(map(stuck, ETCDS)), ETCDS, []),
)
def test_nodes_go_back_to_booted_images_that_start(servers: list[Server], stay: list[str], wiped: list[str]) -> None:
    booted = {server.name: BOOTED for server in servers if server.runs != BOOTED}
    told = node_repair.give_back(*cast("Any", (servers, booted)))
    assert told == [f"{name} does not start as {BOOTED}" for name in stay]
    assert all(server.running for server in servers)
    assert [s.runs for s in servers] == [OTHER if s.name.removesuffix("-replica") in stay else BOOTED for s in servers]
    assert {s.name: s.done for s in servers} == {s.name: ["wiped"] * (s.name in wiped) for s in servers}


@pytest.mark.parametrize(("lost", "others_run", "wiped"), [(True, 2, True), (False, 2, False), (True, 1, False)])
def test_only_a_lost_member_is_wiped(lost: bool, others_run: int, wiped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = [Server(name) for name in ETCDS]
    for server in servers[others_run:]:
        server.running = False
    monkeypatch.setattr(Etcd, "lost_place", lambda _, others, member: lost and member == "etcd3")
    node_repair.mend(cast("Any", servers[2]), cast("Any", SimpleNamespace(nodes=servers)))
    assert servers[2].running
    assert servers[2].done == (["wiped"] if wiped else [])


def test_a_learner_gets_its_vote_from_the_others_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    servers, asked = [Server(name) for name in ETCDS], []
    monkeypatch.setattr(Etcd, "promote", lambda _, others, member: asked.append((len(others), member)))
    servers[2].ready = lambda: False
    for servers[2].kind in (Etcd("three"), Etcd("learner")):
        node_repair.mend(cast("Any", servers[2]), cast("Any", SimpleNamespace(nodes=servers)))
    assert asked == [(2, "etcd3")]


def roll(backend: str, version: str, primary: Server, replica: Server | None, patch: pytest.MonkeyPatch) -> list[str]:
    """The targets of the hits when a primary is rolled. Version 1 has the image `BOOTED`, version 2 `OTHER`."""
    patch.setattr(images, "resolve", lambda backend, version: images.Image(backend, f"mine:{version}"))
    patch.setattr(images, "ensure", lambda _: None)
    pair = replica and SimpleNamespace(primary=primary, replica=replica)
    environment = SimpleNamespace(booted=lambda _: BOOTED, keep_version=lambda _: None, failover=lambda: pair)
    cluster = SimpleNamespace(nodes=[primary], ready=lambda: True)
    clock = SimpleNamespace(now=lambda: 0, wait=lambda *_: True)
    world = {"environment": environment, "own": environment, "cluster": cluster, "links": None, "clock": clock}
    target = SimpleNamespace(backend=backend, kind=BACKENDS[backend], patience=float, **world)
    injection = FAULTS["roll-version"].make(backend, {"version": version, "first": "follower", "members": 1})
    return [hit.target for hit in injection.apply(cast("Any", target))]


def test_a_roll_to_the_same_version_and_back_names_the_images(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Server("postgres", BOOTED)
    for version, was, now in (("2", BOOTED, OTHER), ("1", OTHER, BOOTED)):
        assert roll("postgres", version, node, None, monkeypatch) == [f"postgres from 17.11 ({was}) to 17.11 ({now})"]


@pytest.mark.parametrize("refuses", ["redis1", "redis1-replica"])
def test_a_primary_and_its_replica_go_back_together_or_not(refuses: str, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = {"redis1": (BOOTED, OTHER), "redis1-replica": (BOOTED, OTHER), refuses: (OTHER,)}
    primary, replica = (Server(name, starts=starts[name]) for name in ("redis1", "redis1-replica"))
    words = roll("redis", "1", primary, replica, monkeypatch)
    assert words == [f"redis1 stays 17.11: {refuses} does not start as {BOOTED}"]
    assert [primary.runs, replica.runs, primary.running and replica.running] == [OTHER, OTHER, True]


def test_a_member_that_stands_still_for_a_moment_tells_its_version_then(monkeypatch: pytest.MonkeyPatch) -> None:
    with imagined("etcd") as star:
        monkeypatch.setattr(star, "health", Mock(side_effect=cycle([None, Health("3.5.16")])))
        monkeypatch.setattr(Etcd, "agreed_version", lambda *_: "3.5.0")
        upgrades._await_agreement(star.target("a", alone=True))


@cases(
    "said, words",
    ("1:M # WARNING|1:M * loading|1:M # Can't handle RDB 12|1:M # Error, aborted", "Can't handle RDB 12"),
    ("2026 C | membership: cluster cannot be downgraded", "membership: cluster cannot be downgraded"),
    ('{"level":"info","msg":"hello"}|{"level":"fatal","ts":"1","msg":"no downgrade","v":"3"}', "no downgrade"),
    ("2026 UTC [1] FATAL:  files of another version|2026 UTC [1] DETAIL:  By 17.", "files of another version"),
    ("one|the end", "the end"), ("", "it said nothing"),
)  # fmt: skip
def test_the_last_words_of_a_server_say_why_it_ended(said: str, words: str) -> None:
    assert last_words("".join(f"T {line}\n" for line in said.split("|") if line).encode()) == words
