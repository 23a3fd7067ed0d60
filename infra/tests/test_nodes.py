"""What several want of one node at the same time, on an engine that only remembers."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docker.errors import APIError
from hypothesis import given
from hypothesis import strategies as st

from infra.cluster.clock_skew import Skew
from infra.cluster.container import made_from
from infra.cluster.nodes import Node
from infra.docker import compose
from infra.errors import Failed
from infra.own_environment import OwnEnvironment
from infra.tests.imagined import Engine, Star, engines_have_clocks, imagined

FIVE, SEVEN = Skew(offset=5.0), Skew(offset=7.0)
KEYS = ("step1", "step2", "step3")
CENTRE = ("toxiproxy", "store")
CHANGES = st.lists(st.tuples(st.sampled_from(["pause", "kill", "stop", "let_go"]), st.sampled_from(KEYS)), max_size=12)


@pytest.fixture(autouse=True)
def _clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    engines_have_clocks(monkeypatch)


def made() -> tuple[Node, Engine, Star]:
    """redis1 and its engine."""
    star = Star("redis")
    return star.cluster.nodes[0], star.engines["redis1"], star


def refused(star: Star) -> set[str]:
    """The nodes whose links refuse."""
    return {proxy.upstream.partition("-node")[0] for proxy in star.toxiproxy.proxies.values() if not proxy.enabled}


@given(changes=CHANGES)
def test_a_node_is_what_those_want_who_still_want_something(changes: list[tuple[str, str]]) -> None:
    node, engine, star = made()
    wishes: dict[str, str] = {}
    for verb, by in changes:
        getattr(node, verb)(by)
        if verb == "let_go":
            wishes.pop(by, None)
        else:
            wishes[by] = "paused" if verb == "pause" else "exited"
        wanted = "exited" if "exited" in wishes.values() else "paused" if wishes else "running"
        assert engine.status == wanted
        assert refused(star) == ({"redis1"} if wanted == "exited" else set())
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
def test_heal_undoes_everything_whoever_did_it(changes: list[tuple[str, str]]) -> None:
    node, _, star = made()
    for verb, by in changes:
        getattr(node, verb)(by)
        node.skew(FIVE, by)
    node.heal()
    assert star.unclean() == []


@pytest.mark.parametrize("status", ["exited", "paused"])
def test_what_another_process_did_or_the_node_itself_is_undone_too(status: str) -> None:
    node, engine, _ = made()
    engine.status = status
    node.let_go("step1")
    assert engine.status == "running"


def test_an_orderly_stop_is_asked_for_and_a_kill_is_not() -> None:
    node, engine, _ = made()
    node.stop("step1")
    node.kill("step2")
    node.let_go("step1")
    assert engine.log == ["stop"]
    node.let_go("step2")
    assert engine.log == ["stop", "start"]


def test_clocks_add_up_and_wait_until_the_node_can_be_told() -> None:
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


def test_a_container_was_made_from_image_digest_command_and_settings_without_passwords() -> None:
    config = {
        "Image": "fencepost/toxiproxy:2",
        "Entrypoint": ["/toxiproxy"],
        "Cmd": None,
        "Env": ["PATH=/bin", "B=2", "A=1=1", "POSTGRES_PASSWORD=secret"],
        "Labels": {"fencepost.packager": "Debian sid"},
    }
    answers = {compose.container("fp-7", name): {"Image": f"sha256:{name}", "Config": config} for name in CENTRE}
    client = SimpleNamespace(api=SimpleNamespace(inspect_container=answers.__getitem__))
    assert OwnEnvironment.made_from(cast("Any", SimpleNamespace(_client=client, name="fp-7"))) == {
        name: {
            "image": "fencepost/toxiproxy:2",
            "digest": f"sha256:{name}",
            "packager": "Debian sid",
            "command": ["/toxiproxy"],
            "settings": {"A": "1=1", "B": "2"},
        }
        for name in CENTRE
    }


def test_a_container_that_is_gone_is_named() -> None:
    def inspect(_: str) -> None:
        raise APIError("gone", explanation="No such container")

    client = SimpleNamespace(api=SimpleNamespace(inspect_container=inspect))
    with pytest.raises(Failed, match="fp-store-1: No such container"):
        made_from(cast("Any", client), "fp-store-1")


@pytest.mark.parametrize("forgets", [True, False])
def test_one_that_refuses_writes_is_told_again_when_it_was_started_anew(forgets: bool) -> None:
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
