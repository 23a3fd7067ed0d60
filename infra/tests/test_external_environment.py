"""A node of somebody else's: what is wanted of it is done by hooks, and proven by whether it answers."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from infra.cluster.clock_skew import Skew
from infra.cluster.nodes import Node
from infra.errors import Failed
from infra.target import external_environment
from infra.target.external_environment import HookedServer


class Elsewhere:
    """A server that hooks reach, and the links to it. broken: verbs whose hooks fail after they have done it."""

    def __init__(self, broken: tuple[str, ...] = ()) -> None:
        self.answers = True
        self.log: list[str] = []
        links = cast("Any", SimpleNamespace(bury=self.log.append, revive=lambda name: self.log.append(f"not {name}")))
        process = HookedServer("redis1", cast("Any", self), {"node": "far"}, lambda: self.answers)
        self.node = Node(links, "redis", "redis1", 0, ("far", 1), lambda *_: None, process, untouched=True)
        self.broken = broken

    def run(self, verb: str, places: dict[str, str]) -> None:
        assert places == {"node": "far"}
        self.log.append(verb)
        self.answers = verb in ("resume", "start")
        if verb in self.broken:
            raise Failed(f"hook {verb} failed")


def test_it_is_killed_and_started_and_its_links_refuse_meanwhile() -> None:
    there = Elsewhere()
    there.node.kill("step1")
    assert (there.node.state(), there.node.ready()) == ("stopped", False)
    there.node.stop("step2")
    there.node.let_go("step1")
    there.node.let_go("step2")
    assert there.node.state() == "running"
    assert [what for what in there.log if what != "redis1"] == ["kill", "start", "not redis1"]
    assert there.log[0] == "redis1", "buried before it is dead"


def test_who_is_paused_is_resumed_before_it_is_stopped_and_paused_again() -> None:
    there = Elsewhere()
    there.node.pause("step1")
    there.node.stop("step2")
    there.node.wipe()
    there.node.let_go("step2")
    assert there.node.state() == "paused"
    there.node.heal()
    verbs = [what for what in there.log if "redis1" not in what]
    assert verbs == ["pause", "resume", "stop", "wipe", "start", "pause", "resume"]


def test_a_hook_that_failed_is_undone_all_the_same() -> None:
    there = Elsewhere(broken=("kill",))
    with pytest.raises(Failed, match="hook kill failed"):
        there.node.kill("step1")
    assert there.node.state() == "stopped"
    there.node.let_go("step1")
    assert (there.node.state(), there.answers) == ("running", True)


def test_a_hook_that_shows_no_effect_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_environment, "SHOWS_WITHIN", 0.0)
    there = Elsewhere()
    monkeypatch.setattr(there, "run", lambda verb, places: None)
    with pytest.raises(Failed, match="redis1: hook pause ended well, but after 0 s it still answers"):
        there.node.pause("step1")


def test_what_is_not_ours_to_do() -> None:
    node = Elsewhere().node
    with pytest.raises(Failed, match="the version of a target is not ours to change"):
        node.replace("other")
    with pytest.raises(Failed, match="the clock of a target is not ours to set"):
        node.skew(Skew(offset=5.0), "step1")
    with pytest.raises(Failed, match="redis1 is running: only the data of a node that is down"):
        node.wipe()
    assert (node.process.image(), node.process.made_from(), node.process.logs()) == ("", {}, b"")
    assert (node.process.has_clock(), node.process.carry("other")) == (False, None)
