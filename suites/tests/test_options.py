"""Options: a bad input gets one line that lists what exists, and every case is asked or has its reason."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest

from checkers.tests.build import cases, there
from infra.backends import BACKENDS
from infra.faults.all_faults import FAULTS, NO_FAULT
from infra.faults.plan import STORM, compile_plan
from infra.faults.workers.between_requests import TWO
from suites.lanes.lane import LOCK_GONE, Lane, lane_named, meets
from suites.locks import registry
from suites.selection.parse_options import EVERY_FAULT
from suites.selection.profiles import BOUNDARIES, DEFAULT, FEW, PROFILES, SMOKE
from suites.selection.selection import TAPPED_WORKERS, WORKERS, Selection
from suites.tests.selections import LOCK, USAGE, asked, collected, lock_file, refused
from suites.trial.metadata import about

FRAGILE = f"""
from checkers.claims import Hazard
{LOCK}
    hazards = (
        Hazard("no-lost-update", ("late-write",), "frozen-past-ttl", stores=("unfenced",)),
        Hazard("holder-exclusion", ("stall-disk",), "frozen-past-ttl", certain=False),
    )
"""
OF_OWN = [name for name in BOUNDARIES if name != TWO]  # faults at every message, in `default`, of a lock of one's own
UPGRADE = {"from_": ["etcd=3.4"], "to": ["etcd=3.5"]}


class TestBadInput:
    @cases(
        "given, listed",
        ({"faults": [""]}, EVERY_FAULT),
        ({"faults": ["kill-server+xyz"]}, FAULTS),
        ({"faults": ["xyz"]}, ["there are cut-client-refuse", ", none"]),
        ({"faults": ["kill-sever"]}, ["unknown fault 'kill-sever'; did you mean kill-server"]),
        ({"faults": ["none+freeze-holder"]}, ["none+freeze-holder: none means no fault, and cannot be combined"]),
        ({"faults": ["storm-"]}, ["unknown fault 'storm-'"]),
        ({"faults": ["kill-server+kill-server"]}, ["cannot overlap itself"]),
        ({"plan": ["/nonexistent"]}, ["/nonexistent", "No such file"]),
        ({"plan": ["pyproject.toml"]}, ["pyproject.toml: not JSON: Expecting"]),
        ({"profile": "nope"}, PROFILES),
        ({"quick": True, "profile": "nightly"}, ["--quick and --profile nightly"]),
        ({"lock": ["no"]}, registry.LOCKS),
        ({"version_of": ["nope=1"]}, BACKENDS),
        ({"version_of": ["etcd"]}, ["BACKEND=VERSION"]),
        ({"version_of": ["etcd=latest"]}, ["3.5", "3.4"]),
        ({"version_of": ["valkey=8", "redis=8.0"]}, ["redis=valkey:8", "redis=8.0"]),
        ({"version_of": ["etcd=image:"]}, ["BACKEND=VERSION"]),
        ({"version_of": ["etcd=3.4", "etcd=3.5"]}, ["etcd=3.4", "etcd=3.5"]),
        ({"backend": ["nope"]}, BACKENDS),
        ({"shape": ["redis=five"]}, ["--shape redis=five: there is no such shape", "=observer, etcd=three"]),
        ({"shape": ["etcd=five", "etcd=three"]}, ["--shape etcd=three: etcd=five is asked for as well"]),
        ({"shape": ["etcd=five"], "target": ["etcd=a:1"]}, ["--shape etcd=five: --target etcd=... has the nodes"]),
        ({"python": "/nowhere"}, ["--python /nowhere: does not run as Python 3.11 or newer", "No such file"]),
        ({"python": "/bin/true"}, ["--python /bin/true: does not run as Python 3.11 or newer"]),
        ({"lock": ["redis", "redlock"], "backend": ["etcd"]}, ["redis on redis", "redlock on redis"]),
        ({"target": ["redis=a"]}, ["--target redis=a: 'a' is not HOST:PORT"]),
        ({"target": ["redis=a:1"], "version_of": ["redis=8.0"]}, ["--target redis=... runs what it runs"]),
        ({"target": ["redis=a:1"], "version_of": ["valkey=8"]}, ["--target redis=... runs what it runs"]),
        ({"target": ["redis=a:1"], "hook": ["x=y"]}, ["--hook expected VERB='COMMAND'"]),
        ({"hook": ["pause=y"]}, ["--hook is for the nodes of a --target"]),
        ({"target": ["redis=a:1"], "lock": ["etcd"]}, ["no lock runs on redis that is a target; there is etcd on"]),
        ({"target": ["redis=a:1"], "backend": ["etcd"]}, ["no lock runs on etcd that is a target"]),
        ({"budget": 5.0}, ["--budget 5 goes with --from and --to"]),
        ({"from_": ["etcd=3.4"]}, ["--from etcd=3.4: an upgrade has --to etcd=VERSION, too"]),
        ({"to": ["etcd=3.5"]}, ["--to etcd=3.5: an upgrade has --from etcd=VERSION, too"]),
        ({"from_": ["etcd=3.4"], "to": ["redis=8.0"]}, ["--from etcd=3.4: an upgrade has --to etcd=VERSION, too"]),
        ({"from_": ["etcd"], "to": ["etcd=3.5"]}, ["--from etcd: expected BACKEND=VERSION"]),
        ({"from_": ["etcd=3.4"], "to": ["etcd=3.4", "etcd=3.5"]}, ["--to etcd=3.5: etcd=3.4 is asked for as well"]),
        ({"from_": ["etcd=3.4"], "to": ["etcd=9.9"]}, ["--to etcd=9.9: etcd 9.9 is not to be had"]),
        ({**UPGRADE, "version_of": ["etcd=3.4"]}, ["--version-of does not go with"]),
        ({**UPGRADE, "shard": "1/2"}, ["--shard does not go with"]),
        ({**UPGRADE, "lock": ["redis"]}, ["no lock runs on etcd that --from names; "]),
    )
    def test_a_bad_option_lists_the_possible_values(self, given: dict[str, object], listed: Iterable[str]) -> None:
        says = refused(**given)
        assert [name for name in listed if name not in says] == []

    def test_versions_are_taken_as_they_are_said(self) -> None:
        run = asked(version_of=["etcd=3.4", "etcd=3.4", "redis=image:mine:1"])
        assert run.versions == {"etcd": "3.4", "redis": "image:mine:1"}
        assert asked(version_of=["valkey=8", "redis=valkey:8"]).versions == {"redis": "valkey:8"}

    def test_the_members_of_a_shape_are_hit_and_the_trial_says_which_shape(self) -> None:
        run = asked(lock=["etcd", "zookeeper"], faults=["restart-rolling"], shape=["etcd=five"])
        hit = {len(trial.plan_to_run().steps[0].options["nodes"]): about(trial).get("shape") for trial in run.trials()}
        assert hit == {3: None, 5: "five"}

    def test_a_results_path_that_is_no_folder_and_an_unknown_option_are_refused(self, tmp_path: Path) -> None:
        assert collected("--on", "127.0.0.1").returncode == USAGE
        (tmp_path / "file").touch()
        assert "file is not a folder" in refused(results=str(tmp_path / "file" / "runs"))


class TestCases:
    def test_every_lock_is_asked_about_the_faults_of_the_profile_in_the_order_of_the_register(self) -> None:
        assert {lane.lock_name for lane in asked().lanes} == set(registry.LOCKS)
        smoke, default, nightly = (asked(profile=name).faults for name in ("smoke", "default", "nightly"))
        assert (smoke, default) == (PROFILES["smoke"].faults, PROFILES["default"].faults)
        assert nightly[: len(EVERY_FAULT)] == EVERY_FAULT
        assert set(smoke) < set(default) < set(nightly), "a larger one has them all"
        assert list(default) == [name for name in EVERY_FAULT if name in default]

    def test_a_lock_named_twice_is_tried_once_and_a_named_backend_with_all_its_locks(self) -> None:
        twice = asked(lock=["redis", "redis"], faults=["none,none", "none"])
        assert (twice.lanes, twice.faults) == (asked(lock=["redis"], faults=["none"]).lanes, ("none",))
        names = {name for name in registry.LOCKS if registry.load(name).backend == "redis"}
        assert {lane.lock_name for lane in asked(backend=["redis"]).lanes} == names

    def test_a_quick_run_takes_two_lanes_of_each_lock_and_few_faults(self, tmp_path: Path) -> None:
        run = asked(lock=["redis-reentrant"], quick=True)
        tried = [lane.name.partition("/")[2] for lane in run.lanes if lane.workload.name != "pairs"]
        assert (run.faults, tried) == (PROFILES["smoke"].faults, ["register/fence-reads-and-writes", "set/unfenced"])
        assert asked(lock=["etcd"], quick=True, faults=["kill-holder"]).faults == ("kill-holder",)
        for name in (lock_file(tmp_path, f"{LOCK}    lanes = ('leader/*', 'crowd/*')\n"), "mutant:steals-early"):
            assert all(asked(lock=[name], quick=True).runnable("redis", fault) for fault in SMOKE)

    def test_a_lock_without_tokens_has_no_fence_and_the_case_says_so(self) -> None:
        run = asked(lock=["redlock"], faults=["none"])
        reasons = {case.lane.store: case.because for case in run.cases("server-exclusion")}
        fenced = {store for store in reasons if store.startswith("fence-")}
        said = {store: reason for store, reason in reasons.items() if reason is not None}
        assert said == dict.fromkeys(fenced, "redlock has no fencing token") != {}
        assert "compare-owner" in reasons

    def test_faults_that_overlap_are_one_column(self) -> None:
        run = asked(lock=["redis", "etcd"], faults=["isolate-leader-drop+freeze-holder", "none"])
        assert run.faults == ("isolate-leader-drop+freeze-holder", "none")
        assert run.fault_names(run.faults[0], "etcd") == ("isolate-leader-drop", "freeze-holder")
        because = {case.lane.lock_name: case.because for case in run.cases("fenced-store") if case.fault != "none"}
        assert because == {"redis": FAULTS["isolate-leader-drop"].applies("redis"), "etcd": None}

    def test_a_storm_is_a_random_plan_of_its_own_seed_on_every_backend(self) -> None:
        run = asked(lock=["redis", "etcd"], faults=["storm-17"], seed=3)
        assert run.faults == ("storm-17",)
        for backend in ("redis", "etcd"):
            plan = there(run.plan("storm-17", backend))
            assert (plan.backend, plan.seed) == (backend, 17)
            assert plan == asked(lock=[backend], faults=["storm-17"], seed=4).plan("storm-17", backend)
            assert run.fault_names("storm-17", backend) == plan.fault_names
            assert run.parts(backend, "storm-17")
        assert run.plan("none", "redis") is None

    def test_the_nightly_run_has_storms_of_seeds_that_follow_its_own(self) -> None:
        run = asked(profile="nightly", seed=40)
        storms = [column for column in run.faults if column.startswith(STORM)]
        assert storms == [f"storm-{seed}" for seed in range(40, 40 + PROFILES["nightly"].storms)]
        assert not any(run.tries(lane, storms[0]) for lane in run.lanes if lane.lock_name in registry.CONTROLS)
        assert all(run.parts(backend, storms[0]) for backend in run.backends)

    def test_a_plan_is_the_column_of_its_backend_and_without_faults_the_column_none(self, tmp_path: Path) -> None:
        plan = replace(compile_plan(["kill-server", "freeze-holder"], 1, "etcd", 1.0), name="mine")
        file = _stored(tmp_path / "plan.json", plan.to_json())
        run = asked(lock=["redis", "etcd"], plan=[file, file])
        assert (run.faults, run.plans) == (("mine",), {"mine": plan})
        assert run.fault_names("mine", "etcd") == ("kill-server", "freeze-holder")
        because = {case.lane.lock_name: case.because for case in run.cases("server-exclusion")}
        assert because == {"redis": "the plan is for etcd", "etcd": None}
        assert "--plan and --faults" in refused(plan=[file], faults=["none"])
        other = _stored(tmp_path / "other.json", {**plan.to_json(), "seed": 2})
        assert "another plan is called mine" in refused(plan=[file, other])
        calm = compile_plan([NO_FAULT], 1, "redis", 1.0)
        run = asked(lock=["redis"], plan=[_stored(tmp_path / "calm.json", calm.to_json())])
        assert (run.faults, run.fault_names(NO_FAULT, "redis")) == (("none",), ("none",))
        assert (run.plan(NO_FAULT, "redis"), run.runnable("redis", NO_FAULT) != ()) == (calm, True)

    def test_a_case_that_is_not_applicable_is_not_run_and_is_reported_once_for_its_lane(self) -> None:
        run = asked(lock=["redis", "redlock"], faults=["none", "isolate-leader-drop"])
        told = [(item.lane, item.fault) for item in run.not_run()]
        assert len(told) == len(set(told))
        for fault in run.faults:
            runnable, untold = {lane.name for lane in run.runnable("redis", fault)}, {n for n, f in told if f == fault}
            assert runnable.isdisjoint(untold)
            assert runnable | untold == {lane.name for lane in run.lanes if run.tries(lane, fault)}

    def test_every_case_that_can_be_asked_is_answered_by_a_lane_of_its_trial(self) -> None:
        run = asked()
        runnable = {pair: set(run.runnable(*pair)) for pair in product(run.backends, run.faults)}
        for name in ("server-exclusion", "token-order", "fenced-store", "no-lost-update", "recovery"):
            for case in run.cases(name):
                assert (case.because is None) == (case.lane in runnable[case.lane.backend, case.fault])

    def test_the_id_of_a_case_has_its_lane_and_fault_and_is_unique(self) -> None:
        case = asked(lock=["redis"], faults=["late-write"]).cases("fenced-store")[0]
        assert case.id == f"redis/register/{case.lane.store}-late-write"
        ids = [case.id for case in asked().cases("holder-exclusion")]
        assert len(ids) == len(set(ids))

    def test_a_lock_of_ones_own_meets_faults_that_ours_meet_only_at_night(self, tmp_path: Path) -> None:
        runs = asked(lock=[lock_file(tmp_path)]), asked(profile="nightly"), asked(lock=["redis"])
        assert ["skew-workers" in run.faults for run in runs] == [True, True, False]
        assert asked(lock=[lock_file(tmp_path)], faults=["kill-holder"]).faults == ("kill-holder",)

    def test_recovery_is_asked_under_every_fault_but_only_of_locks_with_a_bound(self) -> None:
        assert asked(lock=["redis"]).cases("fifo") == asked(lock=["redlock"]).cases("token-order") == []
        cases = asked(lock=["redis"], faults=[",".join(EVERY_FAULT)]).cases("recovery")
        assert {case.fault for case in cases} == set(FAULTS)
        assert asked(lock=["postgres-bouncer"], faults=["kill-holder"]).cases("recovery") == []

    def test_an_unfenced_store_is_judged_only_under_faults_that_may_take_a_lock_unnoticed(self) -> None:
        cases = asked(lock=["redis"], faults=[",".join(EVERY_FAULT)]).cases("fenced-store")
        unfenced = {case.fault for case in cases if case.lane.store == "unfenced"}
        usual = {name for name, fault in FAULTS.items() if not fault.workload}
        assert unfenced == {name for name in usual if FAULTS[name].kind in LOCK_GONE}
        assert {"freeze-holder", "clock-jump-forward", "wipe-server", "promote-replica"} <= unfenced
        assert {case.fault for case in cases if case.lane.store == "fence-writes"} == {NO_FAULT, *usual}


class TestWhatAProfileTries:
    def test_every_answer_of_a_lock_is_asked_under_each_fault_and_all_lanes_meet_a_freeze(self) -> None:
        run = asked()

        def answers(lane: Lane, fault: str) -> set[tuple[str, bool, object]]:
            return {(name, said.claimed, said.certain) for name, said in lane.answers((fault,)).items()}

        for fault in sorted({*run.faults} - {*BOUNDARIES}):  # which have lanes of their own
            tried = [lane for lane in run.lanes if run.tries(lane, fault)]
            for lane in run.lanes:
                usual = run.special[lane] is None and lane.lock_name not in registry.CONTROLS
                if usual and run.not_applicable(lane, fault) is None:
                    of_lock = [answers(other, fault) for other in tried if other.lock is lane.lock]
                    assert answers(lane, fault) <= set().union(*of_lock), (lane.name, fault)
        correct = {lane for lane in run.lanes if run.special[lane] is None and lane.lock_name not in registry.CONTROLS}
        assert {lane for lane in correct if run.tries(lane, "freeze-holder")} == correct
        assert len({lane for lane in correct if run.tries(lane, "kill-server")}) < len(correct) / 2

    def test_a_lock_that_is_broken_by_design_meets_only_faults_under_which_that_must_show(self) -> None:
        """A weakness must show if its hazard is certain, and its property is asked of the lane."""
        run = replace(asked(), named=False)
        lanes = [lane for lane in run.lanes if lane.lock_name in registry.CONTROLS]
        for lane in lanes:
            under = {fault for fault in run.faults if run.tries(lane, fault)}
            assert under - {NO_FAULT} == {fault for fault in run.faults if lane.must_show((fault,))} - {NO_FAULT}
        assert {lane.lock_name for lane in lanes if run.tries(lane, NO_FAULT)} == {lane.lock_name for lane in lanes}

    def test_a_lock_of_ones_own_is_tried_as_ours_are(self, tmp_path: Path) -> None:
        run = replace(asked(lock=[lock_file(tmp_path, FRAGILE)]), named=False)
        tried = {(lane.workload.name, fault) for lane in run.lanes for fault in run.faults if run.tries(lane, fault)}
        assert ("set", "late-write") in tried
        named = {"stall-disk", "wipe-server"}  # nothing was said about the second
        assert named & {fault for _, fault in tried} == {"stall-disk"}
        smoke = replace(run, profile=PROFILES["smoke"])
        assert not any(smoke.tries(lane, fault) for lane in smoke.lanes for fault in smoke.faults)

    def test_a_lock_with_a_replica_is_held_for_long_and_taken_often_while_the_replica_is_promoted(self) -> None:
        lanes = asked().runnable("redis", "promote-replica")
        assert [lane.workload.name for lane in lanes if lane.lock_name == "redis-wait"] == ["beside", "leader"]

    def test_a_fault_that_a_profile_leaves_out_makes_no_case_and_is_not_reported(self, tmp_path: Path) -> None:
        run = replace(asked(lock=[lock_file(tmp_path)]), named=False)
        under = {case.fault for case in run.cases("server-exclusion")}
        assert under == {"reset-connections", *FEW["leader/*"], *OF_OWN}
        assert {one.fault for one in run.not_run()} <= under
        assert run.runnable("redis", "wipe-server") == ()

    @pytest.mark.parametrize("given", [{"lock": ["redis-fair"]}, {"faults": ["late-write"]}, {"profile": "nightly"}])
    def test_nothing_is_left_out_of_what_was_named_or_of_the_whole_product(self, given: dict[str, object]) -> None:
        run = asked(**given)
        faults = [fault for fault in run.faults if not fault.startswith(STORM)]
        usual = [lane for lane in run.lanes if run.special[lane] is None or (run.named and run.special[lane])]
        assert all(run.tries(lane, fault) for lane in usual for fault in faults if meets(lane, (fault,)))

    def test_pairs_meet_the_faults_that_are_made_for_them_and_nothing_else(self) -> None:
        for run in (asked(profile="nightly"), asked(lock=["etcd"], faults=[",".join(EVERY_FAULT)])):
            for lane in run.lanes:
                tried = {fault for fault in run.faults if run.tries(lane, fault)} & set(BOUNDARIES)
                assert tried == (set(BOUNDARIES) if lane.workload.name == "pairs" else set()), lane.name
                assert lane.workload.name != "pairs" or lane.lock_name not in {*registry.CONTROLS, "postgres-hashtext"}
            pairs = [lane for lane in run.lanes if lane.workload.name == "pairs"]
            assert all(not run.tries(lane, fault) for lane in pairs for fault in set(run.faults) - set(BOUNDARIES))

    def test_in_pairs_somebody_waits_for_a_semaphore_and_readers_meet_writers(self) -> None:
        for lane in [lane for lane in asked(profile="nightly").lanes if lane.workload.name in ("pairs", "churn")]:
            assert lane.workers / len(lane.workload.order) == lane.lock.permits + 1, lane.name
        pairs = lane_named("redis-rw/pairs/unfenced")
        assert pairs.workload.readers
        assert "sharing" not in pairs.properties

    def test_special_lanes_are_tried_only_under_their_own_faults_unless_they_are_named(self) -> None:
        def tried(lane: str, **given: Any) -> set[str]:
            run = asked(**given)
            return {fault for each in run.lanes if each.name == lane for fault in run.faults if run.tries(each, fault)}

        churn, crowd = "etcd/churn/unfenced", "etcd/crowd/unfenced"
        assert tried(churn) == {NO_FAULT, "cut-client-drop"}
        assert "stall-disk" in tried("etcd/leader/unfenced")
        assert tried(churn, lock=["etcd"]) == set(DEFAULT) - set(BOUNDARIES)
        assert not tried(churn, profile="smoke")
        assert not tried(crowd) | tried(crowd, lock=["etcd"])
        assert tried(crowd, lock=["etcd"], workload=["crowd"]) == set(DEFAULT) - set(BOUNDARIES)
        assert {NO_FAULT, "kill-server"} <= tried(crowd, profile="nightly") < {NO_FAULT, *FAULTS}


@pytest.mark.parametrize("profile", ["smoke", "default", "nightly"])
def test_each_lane_is_in_one_part_and_each_lock_whole(profile: str) -> None:
    run = asked(profile=profile)
    for backend in run.backends:
        for fault in run.faults:
            parts = run.parts(backend, fault)
            names = sorted(lane.name for part in parts for lane in part)
            assert names == sorted(lane.name for lane in run.runnable(backend, fault))
            locks = [name for part in parts for name in {lane.lock_name for lane in part}]
            assert len(locks) == len(set(locks))
            of_one_lock = [part for part in parts if len({lane.lock_name for lane in part}) == 1]
            most = TAPPED_WORKERS if fault in BOUNDARIES else WORKERS
            assert all(sum(lane.workers for lane in part) <= most for part in parts if part not in of_one_lock)
    assert asked(lock=["redis"]).parts("etcd", "none") == (), "nothing to run is no part"


class TestTargets:
    def test_only_what_was_named_is_touched_and_faults_know_its_nodes(self) -> None:
        run = asked(target=["etcd=a:1,b:1,c:1", "redis=a:2"])
        assert (set(run.backends), run.targets["redis"].names) == ({"etcd", "redis"}, ("redis1",))
        run = asked(target=["redis=" + ",".join(f"h{n}:1" for n in range(9))], faults=["cut-minority-drop"])
        assert run.runnable("redis", "cut-minority-drop")
        assert {node for seed in range(20) for node in _nodes_drawn(run, seed)} > {"redis1", "redis6"}
        assert asked().targets == {}
        ours = {node for seed in range(20) for node in _nodes_drawn(asked(), seed)}
        assert ours <= {f"redis{n}" for n in range(1, 6)}

    def test_a_fault_that_is_impossible_on_a_target_says_why_and_hooks_give_what_they_can_undo(self) -> None:
        run = asked(target=["redis=a:2"], faults=["pause-server", "cut-minority-drop", "freeze-holder"])
        reasons = {case.fault: case.because for case in run.cases("server-exclusion") if case.lane.store == "unfenced"}
        assert reasons == {
            "pause-server": "no control over the nodes of a target: --hook pause='...' and --hook resume='...' give it",
            "cut-minority-drop": "it takes 3 nodes, and here is 1",
            "freeze-holder": None,
        }
        run = asked(target=["redis=a:2"], hook=["pause=x", "resume=y"], faults=["pause-server"])
        assert run.runnable("redis", "pause-server")
        assert run.hooks.commands == {"pause": ("x",), "resume": ("y",)}
        run = asked(lock=["postgres-xact", "postgres-lease"], target=["postgres=a:2"], faults=["none"])
        assert {one.lock: one.because for one in run.not_run()} == {"postgres-xact": "the target has no pgbouncer"}

    def test_a_lock_that_takes_no_password_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        mine = lock_file(tmp_path)
        assert asked(lock=[mine], target=["redis=a:1"]).lanes
        monkeypatch.setenv("FENCEPOST_REDIS_PASSWORD", "hidden")
        assert "its open() takes no `access`" in refused(lock=[mine], target=["redis=a:1"])
        run = asked(lock=["redis"], target=["redis=a:1"])
        assert "hidden" not in repr(run)
        assert run.masked("AUTH hidden") == "AUTH ***"


def _stored(file: Path, plan: dict[str, Any]) -> str:
    file.write_text(json.dumps(plan))
    return str(file)


def _nodes_drawn(run: Selection, seed: int) -> list[str]:
    plan = compile_plan(["cut-minority-drop"], seed, "redis", 1.0, run.members["redis"])
    return cast(list[str], plan.steps[0].options["nodes"])


def test_locks_with_a_planted_bug_are_tried_in_the_lanes_that_the_profile_chooses() -> None:
    bug = "mutant:renews-briefly"
    run = asked(lock=[bug, "redis"])
    assert not run.named
    assert set(OF_OWN) < set(run.faults)
    tried = Counter(lane.lock_name for lane in run.runnable("redis", "kill-server"))
    assert 0 < tried[bug] == tried["redis"] < Counter(lane.lock_name for lane in run.lanes)[bug]
