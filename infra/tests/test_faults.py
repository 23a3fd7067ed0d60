"""How every fault is asked for and described, and what it does in a world without servers."""

import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from itertools import chain, pairwise, repeat
from typing import Any, get_args
from unittest.mock import Mock

import pytest

from checkers.tests.build import cases
from infra.backends import BACKENDS, shaped
from infra.backends.answers import Outcome, ServerRefused, Written
from infra.backends.backend import Backend
from infra.backends.redis import Redis
from infra.cluster.nodes import Cluster
from infra.errors import Failed
from infra.faults import fault
from infra.faults.all_faults import FAULTS
from infra.faults.fault_options import ALL_GROUPS
from infra.faults.link_probe import LinkAnswer
from infra.faults.plan import BadPlan, Plan, Step, compile_plan
from infra.faults.target import Kind
from infra.tests.imagined import Star, imagined

BRIDGE = {"bridge": "redis1", "nodes": [], "groups": ["c1"]}
ROLL = {"version": "3.5", "first": "leader", "members": 2}
ELSEWHERE = ("promote-replica", "terminate-backends")
"""Faults that only real servers can show. Faults on workers, on versions and at messages have tests of their own."""
HERE = {name: it for name, it in FAULTS.items() if not (it.planned or it.workload or name in ELSEWHERE)}
CONTRACT = [
    (name, backend)
    for name, fault in HERE.items()
    for backend in (*BACKENDS, "etcd=five", "zookeeper=five", "zookeeper=observer", "etcd=learner")
    if not (fault.applies(backend.partition("=")[0]) or {*fault.needs} <= {"workers", "skew"})
]


@cases(
    "backend, name, options, said",
    ("redis", "lose-replies", {"group": "c9"}, "group: must be one of c1, c2, c3"),
    ("redis", "cut-majority-drop", {"nodes": ["redis1"]}, "nodes: must be at least 3 different nodes"),
    ("redis", "cut-majority-drop", {"nodes": [f"redis{i}" for i in range(1, 6)]}, "nodes: must be at most 4"),
    ("etcd", "cut-client-minority", {"group": "c1", "nodes": ["etcd1", "etcd2"]}, "nodes: must be at most 1"),
    ("etcd", "cut-client-minority", {"nodes": ["etcd1"]}, "group: is missing"),
    ("etcd", "cut-clients-apart", {"nodes": ["etcd1"]}, "nodes: must be lists of nodes for c1, c2, c3"),
    ("etcd", "cut-clients-apart", {"nodes": {group: ["etcd1"] for group in ALL_GROUPS}}, "nodes: must be other nodes"),
    ("redis", "split-ring", {"order": ["redis1"]}, "order: must be redis1, .* in some order"),
    ("redis", "split-ring", {"order": 5}, "order: must be"),
    ("redis", "split-halves", {"nodes": ["redis1"], "groups": ["c1", "c2", "c3"]}, "groups: .* not all of them"),
    ("redis", "split-halves", {"nodes": ["redis1"], "groups": "c1"}, "groups: must be a list"),
    ("redis", "split-bridge", {**BRIDGE, "bridge": "redis9"}, "bridge: must be one of"),
    ("redis", "split-bridge", {**BRIDGE, "nodes": ["redis1", "redis2"]}, "nodes: must be a list of redis2"),
    ("etcd", "split-bridge", {"bridge": "etcd1", "nodes": ["etcd2"]}, "nodes: there is no such option"),
    ("etcd", "throttle-links", {"rate_kb": 0}, "rate_kb: must be a whole number from 1"),
    ("etcd", "slow-links", {"latency_ms": 5, "jitter_ms": 6}, "jitter_ms: must not be more"),
    ("etcd", "reset-connections", {"times": 11}, "times: must be a whole number from 1 to 10"),
    ("etcd", "flap-links", {"node": "etcd1", "how": "refuse", "times": 2}, "how: must be drop or hold"),
    ("etcd", "delayed-write", {"group": ["c1"]}, "group: must be one of"),
    ("etcd", "replace-version", {"node": "zk1", "version": "3.5"}, "node: must be one of leader, etcd1"),
    ("etcd", "replace-version", {"node": "etcd1", "version": 3.5}, "version: must be a text"),
    ("etcd", "roll-version", {**ROLL, "version": ""}, "version: must be a text"),
    ("etcd", "roll-version", {**ROLL, "first": "etcd1"}, "first: must be leader or follower"),
    ("etcd", "roll-version", {**ROLL, "members": 4}, "members: must be a number from 1 to 3"),
    ("etcd", "roll-version", {**ROLL, "members": True}, "members: must be a number from 1 to 3"),
    ("etcd", "kill-under-load", {"kills": []}, "kills: must be a list of 1 to 100 kills"),
    ("etcd", "kill-under-load", {"kills": [["zk1", 5]]}, "kills: must be a list of .one of all, etcd1, "),
    ("etcd", "kill-under-load", {"kills": [["all", -1]]}, "kills: must be a list of"),
    ("etcd", "cascade", {"times": 0}, "times: must be a number of leaders from 1"),
)
def test_bad_options_are_refused_with_a_reason(backend: str, name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        FAULTS[name].make(backend, options)


def test_each_failover_fault_applies_only_to_backends_that_support_it() -> None:
    failovers = [fault for fault in FAULTS.values() if fault.kind == "failover"]
    fit = {"promote-replica": ["redis"], "change-leader": ["zookeeper", "etcd"], "terminate-backends": ["postgres"]}
    assert {fault.name: [name for name in BACKENDS if not fault.applies(name)] for fault in failovers} == fit


def test_versions_are_named_in_a_plan() -> None:
    assert FAULTS["replace-version"].planned
    with pytest.raises(BadPlan, match="needs a version: name it in a plan"):
        compile_plan(["replace-version"], 1, "etcd", ttl=1.0)
    replaced = Step("replace-version", 0.0, 1.0, {"node": "leader", "version": "3.5"})
    rolled = Step("roll-version", 0.0, 1.0, ROLL)
    assert [step.describe("etcd") for step in (replaced, rolled)] == [
        "replace leader by version 3.5, and for 1.0 s",
        "replace 2 members, one after another, by version 3.5, the leader first, then wait 1.0 s",
    ]
    assert [Plan("p", "etcd", 1, (step,)).lasting for step in (replaced, rolled)] == [False, True]
    assert [name for name, fault in FAULTS.items() if fault.lasting] == ["roll-version"]


def injection_of(name: str, place: str, seed: int = 1) -> fault.FaultInjection:
    backend, _, shape = place.partition("=")
    members = shaped({backend: shape})[backend].members
    return compile_plan([name], seed, backend, 1.0, members).steps[0].injection(backend, members)


@pytest.mark.parametrize(("name", "backend"), CONTRACT)
def test_a_fault_describes_itself_takes_effect_and_leaves_nothing_behind(name: str, backend: str) -> None:
    with imagined(backend) as star:
        for seed in range(3):
            injection, target = injection_of(name, backend, seed), star.target("a", alone=True)
            assert injection.describe()
            begun = star.world.now()
            hits = injection.apply(target)
            assert hits
            for hit in hits:
                assert hit.kind in get_args(Kind)
                assert not re.search(r"; .* (within|after) \d+ s", hit.target), "nobody noticed"
                assert begun <= hit.begun <= hit.applied <= star.world.now()
                assert (hit.healing, hit.healed) == (0, 0) or hit.applied <= hit.healing <= hit.healed
            assert FAULTS[name].kind in {hit.kind for hit in hits}
            assert bool(star.unclean()) or FAULTS[name].passes or FAULTS[name].kind == "kill"
            injection.heal(target)
            assert star.unclean() == []
            injection.heal(target)
            fault.await_whole(target)
            assert star.unclean() == []


@pytest.mark.parametrize("second", ["cut-client-hold", "kill-server", "slow-disk", "stall-holder"])
@pytest.mark.parametrize(("name", "backend"), [each for each in CONTRACT if "=" not in each[1]])
def test_each_of_two_faults_heals_only_its_own_effects(name: str, backend: str, second: str) -> None:
    with imagined(backend) as star:
        for names in ((name, second), (second, name)):
            first, later = (injection_of(each, backend) for each in names)
            one, other = star.target("a", alone=True), star.target("b", alone=False)
            assert first.apply(one)
            before = star.unclean()
            with suppress(fault.Nobody):
                later.apply(other)
            later.heal(other)
            assert star.unclean() == before
            with suppress(fault.Nobody):
                later.apply(other)
            first.heal(replace(one, alone=False))
            later.heal(replace(other, alone=True))
            fault.await_whole(replace(other, alone=True))
            assert star.unclean() == []


# The nodes that each group loses: "c1:14" means that c1 loses the first and the fourth node.
PARTS: list[tuple[str, str, dict[str, Any], str]] = [
    ("redis", "cut-minority-drop", {"nodes": ["redis1", "redis4"]}, "c1:14 c2:14 c3:14"),
    ("redis", "cut-majority-drop", {"nodes": ["redis1", "redis3", "redis4"]}, "c1:134 c2:134 c3:134"),
    ("redis", "cut-client-minority", {"group": "c3", "nodes": ["redis2"]}, "c1: c2: c3:2"),
    ("redis", "cut-client-majority", {"group": "c1", "nodes": [f"redis{i}" for i in (1, 2, 3, 5)]}, "c1:1235 c2: c3:"),
    ("redis", "cut-clients-apart", {"nodes": {"c1": ["redis1"], "c2": ["redis2", "redis3"], "c3": ["redis5"]}},
     "c1:1 c2:23 c3:5"),
    ("redis", "split-halves", {"nodes": ["redis2", "redis5"], "groups": ["c2"]}, "c1:25 c2:134 c3:25"),
    ("redis", "split-ring", {"order": [f"redis{i}" for i in (2, 1, 3, 4, 5)]}, "c1:45 c2:12 c3:34"),
    ("redis", "split-bridge", {"bridge": "redis1", "nodes": ["redis2", "redis3"], "groups": ["c1", "c3"]},
     "c1:45 c2:23 c3:45"),
    ("etcd", "cut-minority-drop", {"nodes": ["etcd2"]}, "c1:2 c2:2 c3:2"),
    ("etcd", "cut-majority-drop", {"nodes": ["etcd1", "etcd2"]}, "c1:12 c2:12 c3:12"),
    ("etcd", "cut-clients-apart", {"nodes": {"c1": ["etcd1"], "c2": ["etcd2"], "c3": ["etcd1", "etcd3"]}},
     "c1:1 c2:2 c3:13"),
    ("zookeeper", "cut-client-minority", {"group": "c2", "nodes": ["zk3"]}, "c1: c2:3 c3:"),
    ("zookeeper", "cut-client-majority", {"group": "c2", "nodes": ["zk1", "zk3"]}, "c1: c2:13 c3:"),
]  # fmt: skip


@pytest.mark.parametrize(("backend", "name", "options", "lost"), PARTS)
def test_each_client_group_loses_the_right_nodes(backend: str, name: str, options: dict[str, Any], lost: str) -> None:
    with imagined(backend) as star:
        target, injection = star.target("a", alone=True), FAULTS[name].make(backend, options)

        def unseen() -> str:
            dark = {group: sorted(set(star.engines) - seen(star, group)) for group in ALL_GROUPS}
            return " ".join(f"{group}:{''.join(node[-1] for node in nodes)}" for group, nodes in dark.items())

        injection.apply(target)
        assert unseen() == lost
        assert target.cluster.ready()  # the nodes do not notice
        injection.heal(target)
        assert unseen() == "c1: c2: c3:"


@cases(
    "backend, name, options, target, links",
    ("etcd", "lose-requests", {"group": "c1"}, "all requests of clients c1", "c1 -> etcd*: bytes dropped"),
    ("etcd", "lose-replies", {"group": "c1"}, "all replies to clients c1", "etcd* -> c1: bytes dropped"),
    ("redis", "delayed-write", {"group": "c1"}, "requests of clients c1 to the store", "c1 -> store: bytes held"),
    ("redis", "store-reply-lost", {"group": "c3"}, "replies of the store to clients c3", "store -> c3: bytes drop"),
    ("zookeeper", "mute-leader", {}, "bytes from zk1 (leader) to zk2, zk3", "zk1 -> zk*: bytes dropped"),
    ("zookeeper", "deafen-leader", {}, "bytes from zk2, zk3 to zk1 (leader)", "zk* -> zk1: bytes dropped"),
)
def test_bytes_one_way_are_stopped(backend: str, name: str, options: dict[str, Any], target: str, links: str) -> None:
    with imagined(backend) as star:
        hit = FAULTS[name].make(backend, options).apply(star.target("a", alone=True))[0]
        assert (hit.kind, hit.target) == ("cut", target)
        assert all(fnmatch(line, f"{links}*") for line in star.links.active())
        assert len(star.links.active()) == {"redis": 1, "etcd": 3, "zookeeper": 2}[backend]


@cases(
    "backend, name, targets",
    ("zookeeper", "slow-disk", ["zk1 (leader), zk2 (follower)"]),
    ("zookeeper=five", "slow-disk", ["zk1 (leader), zk2 (follower), zk3 (follower)"]),
    ("zookeeper=observer", "slow-disk", ["zk1 (leader), zk2 (follower)"]),
    ("zookeeper=observer", "rejoin-then-lead", ["zk2", "zk3", "zk1 (leader)"]),
    ("zookeeper=observer", "split-ring", ["zk3 hears only zk2; zk2 hears only zk1; zk1 hears only zk3"]),
    ("etcd", "rejoin-then-lead", ["etcd2", "etcd3", "etcd1 (leader)"]),
    ("etcd=five", "rejoin-then-lead", ["etcd2", "etcd3, etcd4", "etcd1 (leader)", "etcd5"]),
    ("etcd=learner", "rejoin-then-lead", ["etcd2", "etcd3", "etcd1 (leader)"]),
)
def test_as_many_members_are_hit_as_it_takes(backend: str, name: str, targets: list[str]) -> None:
    with imagined(backend) as star:
        assert [hit.target for hit in injection_of(name, backend).apply(star.target("a", alone=True))] == targets


@cases(
    "name, options, target, times",
    ("reset-connections", {"times": 2}, "all connections of clients to redis", [1.05, 1.25, 1.7, 1.9]),
    ("flap-links", {"node": "redis2", "how": "drop", "times": 2}, "redis2 from everybody", [1.0, 1.3, 1.7, 2.0]),
    ("flap-links", {"node": "redis2", "how": "hold", "times": 2}, "redis2 from everybody", [1.0, 1.3, 1.7, 2.0]),
)
def test_repeated_faults_keep_their_times(name: str, options: dict[str, Any], target: str, times: list[float]) -> None:
    with imagined("redis") as star:
        hits = FAULTS[name].make("redis", options).apply(star.target("a", alone=True))
        assert [hit.target for hit in hits] == [target] * 2
        assert [moment / 1e9 for hit in hits for moment in (hit.begun, hit.healed)] == pytest.approx(times)
        assert star.unclean() == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rolling_restart_takes_one_at_a_time(backend: str) -> None:
    with imagined(backend) as star:
        step = compile_plan(["restart-rolling"], 3, backend, 1.0).steps[0]
        hits = step.injection(backend).apply(star.target("a", alone=True))
        assert [hit.target.split()[0] for hit in hits] == step.options["nodes"]
        assert sorted(step.options["nodes"]) == sorted(star.engines)
        assert all(earlier.healed <= later.begun for earlier, later in pairwise(hits))
        assert {tuple(engine.log) for engine in star.engines.values()} == {("stop", "start")}


def test_a_clock_must_show_the_set_time_unless_another_fault_silences_its_server() -> None:
    with imagined("redis") as star:
        FAULTS["pause-server"].make("redis", {"nodes": ["redis1"]}).apply(star.target("a", alone=True))
        jump = FAULTS["clock-jump-back"].make("redis", {"nodes": ["redis1", "redis2"], "seconds": 50})
        hits = jump.apply(star.target("b", alone=False))
        assert [hit.target for hit in hits] == ["redis1: 50 s back", "redis2: 50 s back"]
        with pytest.raises(Failed, match="redis1's clock was set, but it does not tell that time"):
            jump.apply(star.target("b", alone=True))


@pytest.mark.parametrize("name", ["maintenance", "kill-in-maintenance"])
def test_servers_are_maintained_again_and_again_until_they_are_killed(name: str) -> None:
    with imagined("redis") as star, pytest.MonkeyPatch.context() as patch:
        times = Counter[str]()
        patch.setattr(type(star.kind), "maintain", lambda _, server: times.update([server.name]))
        hits = injection_of(name, "redis").apply(star.target("a", alone=True))
        assert sorted(hit.target.split()[0] for hit in hits) == sorted(times) == sorted(star.engines)
        assert min(times.values()) > (name == "maintenance")


def test_a_server_that_stands_still_is_maintained_later_and_named_in_its_place() -> None:
    with imagined("redis") as star, pytest.MonkeyPatch.context() as patch:
        patch.setattr("infra.faults.servers.maintenance.AGAIN", 0.01)
        patch.setattr(Redis, "maintain", Mock(side_effect=chain([ServerRefused("not now")], repeat("done"))))
        hits = injection_of("maintenance", "redis").apply(star.target("a", alone=True))
        assert [hit.target for hit in hits] == [f"{name} (done)" for name in star.engines]


@cases(
    "backend, name, outcomes, says",
    ("a late write does not show that a disk is full", "etcd", "fill-disk", ["silent"], "etcd1 (leader), which ended"),
    ("who leads no more refuses", "zookeeper", "stall-disk", ["refused"] * 1000, "zk1 (leader), zk2 (follower)"),
)
def test_a_hurt_disk_shows_in_a_write(backend: str, name: str, outcomes: list[Outcome], says: str) -> None:
    with imagined(backend) as star, pytest.MonkeyPatch.context() as patch:
        written = (Written(outcome, 0.0) for outcome in outcomes)
        patch.setattr(Backend, "write", lambda _, server, *__, **___: next(written, None) or star.write(server.name))
        patch.setattr(Cluster, "leader", Mock(side_effect=chain(star.cluster.nodes[:1], repeat(None))))
        (hit,) = injection_of(name, backend).apply(star.target("a", alone=True))
        assert hit.target == says


@pytest.mark.parametrize("name", ["slow-disk", "stall-disk", "fill-disk"])
def test_nothing_is_done_to_the_disk_of_a_server_that_is_down(name: str) -> None:
    with imagined("redis") as star:
        FAULTS["kill-server"].make("redis", {"nodes": ["redis1"]}).apply(star.target("a", alone=True))
        step = compile_plan([name], 1, "redis", 1.0).steps[0]
        injection = replace(step, options={**step.options, "nodes": ["redis1"]}).injection("redis")
        with pytest.raises(fault.Nobody, match="redis1 is stopped"):
            injection.apply(star.target("b", alone=False))
        assert star.disks.done == {}


def test_ring_views_are_majorities_and_bridge_views_share_one_of_five_servers() -> None:
    def views(name: str) -> list[set[str]]:
        with imagined("redis") as star:
            injection_of(name, "redis").apply(star.target("a", alone=True))
            return sorted(map(set, {frozenset(seen(star, group)) for group in ALL_GROUPS}), key=len)

    assert [len(view) for view in views("split-ring")] == [3, 3, 3]
    one, other = views("split-bridge")
    assert (len(one), len(other), len(one & other)) == (3, 3, 1)
    few, many = views("split-halves")
    assert (len(few), len(many), len(few & many)) == (2, 3, 0)


def seen(star: Star, group: str) -> set[str]:
    return {node for node in star.engines if star.ask(f"{group}:{node}")[0] is LinkAnswer.ANSWERED}
