"""Clusters of others: their names and secrets, and what can be done to them, by hooks whose effects are proven."""

import json
import re
import socket
import ssl
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checkers.tests.build import cases, message_of
from infra.access import OPEN, Access, BadAccess
from infra.backends import BACKENDS
from infra.cluster.clock_skew import Skew
from infra.cluster.nodes import Node
from infra.errors import Failed
from infra.faults.all_faults import FAULTS
from infra.faults.fault import PUBLISHED, World
from infra.target import external_cluster, external_environment, hooks
from infra.tests.fakes import HANGS_AFTER, LONG, running

PLACES = {"node": "db; rm -rf /", "port": "6379", "name": "redis1", "backend": "redis"}
SAYS_WHY = "import sys; print('no such', flush=True); sys.exit('unit {name}')"
SECRET = "p/ss'w%rd"
FROM_VARIABLES = "_PASSWORD, never from the command line"
VARIABLES = {"FENCEPOST_REDIS_USER": "ann", "FENCEPOST_REDIS_PASSWORD": SECRET}


def of(backend: str, nodes: int) -> external_cluster.External:
    return external_cluster.External(backend, tuple((f"h{number}", 1) for number in range(nodes)), OPEN)


class TestNaming:
    def test_nodes_of_a_target_are_named_like_our_own(self) -> None:
        told = external_cluster.parse(["redis=" + ",".join(f"h{n}:1" for n in range(7)), "zookeeper=[::1]:2181"], {})
        assert told["redis"].names == ("redis1", "redis2", "redis3", "redis4", "redis5", "redis6", "redis7")
        assert (told["zookeeper"].names, told["zookeeper"].addresses) == (("zk1",), (("::1", 2181),))
        assert told["zookeeper"].where(0) == "zk1 ([::1]:2181)"

    @pytest.mark.parametrize("text", ["redis=tls://a:1,b:2", "redis=tls://a:1,tls://b:2"])
    def test_tls_is_for_all_nodes(self, text: str) -> None:
        told = external_cluster.parse([text], {})["redis"]
        assert (told.addresses, told.access.tls) == ((("a", 1), ("b", 2)), True)

    @cases(
        "pairs, says",
        (["mysql=a:1"], "one of redis, zookeeper, etcd, postgres"), (["redis"], "'' is not HOST:PORT"),
        (["redis=a"], "'a' is not HOST:PORT"), (["redis=a:0"], "is not HOST:PORT"),
        (["redis=a:1,"], "'' is not HOST:PORT"), (["redis=http://a:1"], "is not HOST:PORT"),
        (["redis=a:1,tls://b:1"], "is not HOST:PORT"), (["redis=a:1,a:1"], "names a node twice"),
        (["redis=a:1", "redis=b:1"], "there is one of redis already"), (["postgres=a:1,b:1"], "one server"),
        (["redis=redis://u:hidden@h:1"], FROM_VARIABLES), (["redis://:hidden@h:1"], FROM_VARIABLES),
        (["redis=tls://u:hidden@h:1"], FROM_VARIABLES),
    )  # fmt: skip
    def test_the_error_for_a_bad_target_says_why_and_no_password(self, pairs: Sequence[str], says: str) -> None:
        error = message_of(external_cluster.BadTarget, external_cluster.parse, pairs, {})
        assert (says in error, "hidden" in error) == (True, False)


def world(backend: str, nodes: int, *commands: str) -> World:
    return external_cluster.world(of(backend, nodes), hooks.parse(commands))


BARE, PAUSED = world("etcd", 3), world("redis", 5, "pause=a", "resume=a", "kill=a")
SECURED = external_cluster.world(external_cluster.parse(["redis=tls://h:1"], {})["redis"], hooks.Hooks())
NO_CONTROL = "no control over the nodes of a target: --hook "


@cases(
    "there, backend, faults, why",
    ("nodes need hooks", BARE, "etcd", "pause-server kill-server wipe-server restart-leader", f"{NO_CONTROL}.*"),
    ("nothing between", BARE, "etcd", "isolate-leader-drop clock-jump-forward replace-version change-leader", ".+"),
    ("links to them, and workers", BARE, "redis", "cut-client-refuse slow-links freeze-holder delayed-write", None),
    ("what listens there cannot refuse", BARE.without("refusal", PUBLISHED), "redis", "cut-client-refuse", ".+"),
    ("hooks give what can be undone", PAUSED, "redis", "pause-server", None),
    ("and nothing else", PAUSED, "redis", "kill-server", f"{NO_CONTROL}start='...' gives it"),
    ("what is encrypted cannot be counted", SECURED, "redis", "at-every-request-lose", ".*encrypted.*"),
    ("what is not can", world("redis", 1), "redis", "at-every-request-lose", None),
    ("two nodes have no minority", world("redis", 2), "redis", "cut-minority-drop", "it takes 3 nodes, and here are 2"),
    ("they have links", world("redis", 2), "redis", "cut-client-drop", None),
)
def test_a_fault_applies_only_if_the_target_allows_it(there: World, backend: str, faults: str, why: str | None) -> None:
    for name in faults.split():
        said = FAULTS[name].applies(backend, there)
        assert said is None if why is None else re.fullmatch(why, said or ""), name


class Elsewhere:
    """A server that hooks reach, and the links to it. broken: verbs whose hooks fail after they took effect."""

    def __init__(self, broken: tuple[str, ...] = ()) -> None:
        self.answers = True
        self.log: list[str] = []
        links = cast("Any", SimpleNamespace(bury=self.log.append, revive=lambda name: self.log.append(f"not {name}")))
        process = external_environment.HookedServer("redis1", cast("Any", self), {"node": "far"}, lambda: self.answers)
        self.node = Node("redis1", "far:1", OPEN, BACKENDS["redis"], process, links, untouched=True)
        self.broken = broken

    def run(self, verb: str, places: dict[str, str]) -> None:
        assert places == {"node": "far"}
        self.log.append(verb)
        self.answers = verb in ("resume", "start")
        if verb in self.broken:
            raise Failed(f"hook {verb} failed")


def test_a_hooked_server_is_killed_and_started_and_its_links_refuse_meanwhile() -> None:
    there = Elsewhere()
    there.node.kill("step1")
    assert (there.node.state(), there.node.ready()) == ("stopped", False)
    there.node.stop("step2")
    there.node.let_go("step1")
    there.node.let_go("step2")
    assert there.node.state() == "running"
    assert [what for what in there.log if what != "redis1"] == ["kill", "start", "not redis1"]
    assert there.log[0] == "redis1", "buried before it is dead"


def test_a_paused_server_is_resumed_for_a_stop_and_paused_again_afterwards() -> None:
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


def test_a_hook_with_a_late_effect_may_fail_when_it_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """`docker unpause` fails if nothing is paused any more. What counts is that the node answers."""
    monkeypatch.setattr(external_environment, "SHOWS_WITHIN", 0.0)
    there = Elsewhere()
    there.node.pause("step1")
    monkeypatch.setattr(there, "run", lambda verb, places: None)
    with pytest.raises(Failed, match="hook resume ended well, but after 0 s it does not answer"):
        there.node.let_go("step1")
    there.answers = True
    monkeypatch.setattr(there, "run", Elsewhere(broken=("resume",)).run)
    there.node.heal()
    assert there.node.state() == "running"


def test_a_hook_without_an_effect_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_environment, "SHOWS_WITHIN", 0.0)
    there = Elsewhere()
    monkeypatch.setattr(there, "run", lambda verb, places: None)
    with pytest.raises(Failed, match="redis1: hook pause ended well, but after 0 s it still answers"):
        there.node.pause("step1")


def test_version_clock_and_data_of_a_running_target_cannot_be_changed() -> None:
    node = Elsewhere().node
    with pytest.raises(Failed, match="the version of a target is not ours to change"):
        node.replace("other")
    with pytest.raises(Failed, match="the clock of a target is not ours to set"):
        node.skew(Skew(offset=5.0), "step1")
    with pytest.raises(Failed, match="redis1 is running: only the data of a node that is down"):
        node.wipe()
    assert (node.process.image(), node.process.made_from(), node.process.logs()) == ("", {}, b"")
    assert (node.process.has_clock(), node.process.carry("other")) == (False, None)


def test_the_words_of_a_hook_are_filled_in_one_by_one_without_a_shell(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"import sys; open({str(out)!r}, 'w').write(chr(0).join(sys.argv[1:]))"
    told = hooks.parse([f'pause={sys.executable} -c "{code}" {{node}}:{{port}} "{{name}} of {{backend}}" $HOME'])
    told.run("pause", PLACES)
    assert out.read_text().split("\0") == ["db; rm -rf /:6379", "redis1 of redis", "$HOME"]


@cases(
    "pairs, says",
    (["freeze=x"], "pause, resume, kill, start, stop, wipe"), (["pause"], "pause, resume"),
    (["pause="], "pause: no command"), (["pause=ssh 'x"], "pause: no closing quotation"),
    (["pause=ssh {host}"], r"pause: nothing stands for \{host\}; there are \{node\}"),
    (["pause=a", "pause=b"], "pause: there is one already"),
)  # fmt: skip
def test_the_error_for_a_malformed_hook_says_what_is_wrong(pairs: list[str], says: str) -> None:
    with pytest.raises(hooks.BadHook, match=says):
        hooks.parse(pairs)


def test_the_same_command_again_and_braces_of_others_are_left_alone() -> None:
    assert hooks.parse(["pause=a {{.Id}}"] * 2).commands == {"pause": ("a", "{{.Id}}")}


@cases(
    "command, says",
    ((sys.executable, "-c", SAYS_WHY), "status 1: no such | unit redis1"),
    ((sys.executable, "-c", "raise SystemExit(7)"), "status 7"),
    (("/nowhere/x",), "/nowhere/x: No such file or directory"),
)
def test_a_hook_that_fails_is_quoted(command: tuple[str, ...], says: str) -> None:
    with pytest.raises(Failed, match=f"^redis1: hook kill: {re.escape(says)}$"):
        hooks.Hooks({"kill": command}).run("kill", PLACES)


def test_a_hook_that_does_not_end_is_given_up() -> None:
    with pytest.raises(Failed, match="redis1: hook kill: no end after 0 s"):
        hooks.Hooks({"kill": ("sh", "-c", f"sleep {LONG}; true")}).run("kill", PLACES, within=0.2)
    assert not running(LONG), "what it called is ended as well"


def test_a_fault_lacks_the_hooks_that_do_or_undo_it() -> None:
    told = hooks.parse(["pause=a", "kill=a", "start=a"])
    missing = {verb: told.missing(verb) for verb in ("pause", "kill", "stop", "wipe")}
    assert missing == {"pause": ("resume",), "kill": (), "stop": ("stop",), "wipe": ("wipe",)}


def test_user_and_password_come_from_the_backends_variables_and_reach_workers() -> None:
    access = Access.of("redis", {**VARIABLES, "FENCEPOST_ETCD_PASSWORD": "other"}, tls=False)
    assert (access.user, access.password, access.open) == ("ann", SECRET, False)
    assert Access.of("zookeeper", VARIABLES, tls=False) == OPEN
    assert SECRET not in repr(access)
    named = replace(access, names={"10.0.0.1:1": "a.example"})
    assert Access(**json.loads(json.dumps(asdict(named)))) == named


@pytest.mark.parametrize("told", ["AUTH ann {}", "redis://ann:p%2Fss%27w%25rd@host", 'wrong password "p/ss\\\'w%rd"'])
def test_a_password_is_masked_in_all_its_spellings(told: str) -> None:
    masked = Access("ann", SECRET).masked(told.format(SECRET))
    assert ("***" in masked, "w%" in masked) == (True, False)
    assert OPEN.masked(told) == told


@cases(
    "given, tls, says",
    ({"FENCEPOST_REDIS_USER": "ann"}, False, "FENCEPOST_REDIS_PASSWORD is not"),
    ({"FENCEPOST_REDIS_CA": "/ca.pem"}, False, "FENCEPOST_REDIS_CA is set, but .* tls://"),
    ({"FENCEPOST_REDIS_CA": "/nowhere/ca.pem"}, True, "FENCEPOST_REDIS_CA: /nowhere/ca.pem: No such file"),
    ({"FENCEPOST_REDIS_CERT": "/cert.pem"}, True, "FENCEPOST_REDIS_KEY is not"),
    ({"FENCEPOST_REDIS_CA": __file__}, True, "FENCEPOST_REDIS_CA: no usable PEM files"),
    ({"FENCEPOST_ETCD_PASSWORD": SECRET}, False, "FENCEPOST_ETCD_USER is not"),
)
def test_contradicting_variables_are_named(given: dict[str, str], tls: bool, says: str) -> None:
    [backend] = {name.split("_")[1].lower() for name in given}
    with pytest.raises(BadAccess, match=says):
        Access.of(backend, given, tls=tls, password_alone=backend == "redis")


@cases("endpoint, name", ("10.77.0.2:20101", "a.example"), ("b.example:1", "b.example"), ("[::1]:1", "::1"))
def test_a_server_behind_a_proxy_keeps_its_name(endpoint: str, name: str) -> None:
    assert Access(tls=True, names={"10.77.0.2:20101": "a.example"}).name_of(endpoint) == name


def test_a_connection_that_cannot_be_encrypted_is_closed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        access = Access(tls=True)
        server.settimeout(HANGS_AFTER)
        with pytest.raises((ssl.SSLError, TimeoutError)):
            access.connect(f"{host}:{port}", 0.2)
        accepted, _ = server.accept()
        with accepted:
            accepted.settimeout(HANGS_AFTER)
            while accepted.recv(4096):
                pass
