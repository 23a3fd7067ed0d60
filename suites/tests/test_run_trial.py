"""A trial without servers: how it waits, what it looks at meanwhile, what it says of its workers, what is stored."""

import time
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock, patch

import pytest

from checkers.history.history import FaultInterval, History, Outage
from checkers.history.view import View
from checkers.row_format import F
from checkers.tests.build import Book, cases
from infra.backends import BACKENDS
from infra.backends.etcd import Etcd
from infra.cluster import nodes
from infra.cluster.node_repair import DoesNotStart
from infra.errors import Failed
from infra.faults.link_probe import Prober, Watch
from infra.faults.runner import Record
from infra.own_environment import OwnEnvironment
from infra.tests.imagined import imagined
from results.pages import trial_page
from results.record import LaneRecord
from results.terminal.event_journal import Event
from suites.lanes.lane import lane_named, lanes_of
from suites.locks import registry
from suites.selection.trial import Trial
from suites.tests.selections import asked
from suites.trial import lane_history, members, run_trial, timeouts
from suites.trial.broken_trial import NoWayThere
from suites.trial.launch import to_be_watched
from suites.trial.metadata import CpuMeter, described, rolled, stalled

HIT = Record("kill", "etcd2 (leader)", 1, 2, 3, 4, name="kill-server")


@cases(
    "lock, fault, longer",
    ("nothing is exercised after it", "setnx-no-ttl", "kill-holder", True),
    ("all can be exercised after it", "redis", "kill-holder", False),
    ("there is no fault", "setnx-no-ttl", "none", False),
)
def test_a_fault_waits_longer_for_what_can_only_be_exercised_before_it(lock: str, fault: str, longer: bool) -> None:
    running = object.__new__(run_trial.RunningTrial)
    lane = next(lane for lane in lanes_of(lock, registry.load(lock)) if lane.name.endswith("set/unfenced"))
    running.trial = Trial("redis", fault, 1, (lane,))
    running.lanes, running.plan = [lane_history.RunningLane(lane, ())], running.trial.plan_to_run()
    server = running.server = running.environment = running.tell = Mock()
    server.await_condition.side_effect = lambda condition, timeout: condition()
    running.watch = Watch(Prober(BACKENDS["redis"]), ())
    with patch.object(run_trial, "warm", return_value=False):
        running.start()
    waited = [call.args[1] for call in server.await_condition.call_args_list]
    assert waited == [timeouts.WARM_UP, *([timeouts.EXERCISED_WITHIN] if longer else [])]


@pytest.mark.parametrize("taps", [None, Mock()])
def test_the_watch_goes_on_under_faults_at_messages_alone(taps: Mock | None) -> None:
    running: Any = Mock(taps=taps, handles=[], lanes=[], trial=Trial("redis", "kill-holder", 1, ()))
    run_trial.RunningTrial._cycle(running)
    assert (running.watch.end.called, running.watch.begin.called) == (taps is None,) * 2


def test_a_trial_that_goes_on_for_as_many_steps_of_slow_workers_says_for_which_lane_and_why() -> None:
    trial = Trial("redis", "none", 1, (lane_named("redis/set/unfenced"),))
    running: Any = Mock(trial=trial, plan=trial.plan_to_run(), missing=[], slower=2.0)
    running._missing_after.side_effect = [{"redis/set/unfenced": {"fifo": "nobody waited"}}, {}]
    seconds = iter([1000, 1000, 1001, 1100, 1100, 1101, 1102])  # the first cycle ends after 100 s
    with patch("suites.trial.run_trial.time.monotonic", lambda: next(seconds)):
        run_trial.RunningTrial.cycle_until_exercised(running, 60.0)
    text = "once more, since it did not exercise fifo in redis/set/unfenced (nobody waited)"
    running.tell.assert_called_once_with(Event("repeats", {"text": text}))
    assert [call.args[0] >= timeouts.LINGER for call in running._missing_after.call_args_list] == [True, True]


@pytest.mark.parametrize("serves", [True, False])
def test_a_member_that_ended_by_itself_is_started_again_before_all_are_looked_at(serves: bool) -> None:
    trial = Trial("redis", "none", 1, (lane_named("redis/set/unfenced"),))
    running: Any = Mock(trial=trial, missing=[], slower=1.0)
    running.plan.lasting, running._missing_after.return_value, running._served_after.return_value = False, {}, False
    running.environment.cluster().ready.return_value = serves
    run_trial.RunningTrial.cycle_until_exercised(running, 60.0)
    assert running._look_at_members.called == serves
    assert running._served_after.call_args_list == ([] if serves else [((running.runner.final_heal,),)])


@cases(
    "back, later",
    ("one permit", False, [(30, 40)]),
    ("one after another", False, [(30, 40), (41, 45)]),
    ("both at once", True, [(30, 40), (35, 45)]),
)
def test_a_semaphore_is_back_when_all_of_its_permits_are_held(back: bool, later: list[tuple[int, int]]) -> None:
    book = Book(permits=2, bounds={"recovery": 50}, fault_names=("f",), properties=("recovery",)).fault("f", 10, 20)
    for owner, (begin, end) in enumerate([(1, 12), *later]):
        book.acquire(begin, begin + 1, owner + 1).release(end, end + 1, owner + 1)
    assert lane_history.all_is_back(book.history()) is back


@cases(
    "lock, silent, workers",
    ("its node is down", "redis", {"": "1"}, [0, 1, 2]),
    ("another is", "redis", {"": "2"}, []),
    ("one group is cut off", "redis", {"c2": "1"}, [1]),
    ("a majority is left", "redlock", {"c2": "12"}, []),
    ("none is left to one group", "redlock", {"c2": "12", "": "3"}, [1]),
    ("two of its three are down", "redlock-3", {"": "12"}, [0, 1, 2]),
    ("one that it does not ask is", "redlock-3", {"": "15"}, []),
)
def test_workers_that_no_server_can_answer(lock: str, silent: dict[str, str], workers: list[int]) -> None:
    lane = next(lane for lane in lanes_of(lock, registry.load(lock)) if lane.workers == 3)
    nodes = [f"redis{number}" for number in range(1, 6)]
    of_records = [tuple((group, f"redis{number}") for number in numbers) for group, numbers in silent.items()]
    records = [Record("cut", "", 1, 2, 3, 4, silent=pairs, name="f") for pairs in of_records]
    assert list(lane_history._unreached(lane, nodes, records)) == [(worker, 2, 3) for worker in workers]
    beside = Record("failover", "", 0, 0, 3, 3, name="promote-replica")
    assert not [*lane_history._unreached(lane, nodes, [*records, beside])]


def test_lanes_that_are_back_are_looked_at_while_another_is_waited_for() -> None:
    running: Any = object.__new__(run_trial.RunningTrial)
    running.trial = Trial("redis", "none", 1, lanes := tuple(lanes_of("redis", registry.load("redis")))[:3])
    running.plan, server, running.taps = running.trial.plan_to_run(), Mock(), None
    running.server = running.actors = running.environment = running.tell = server
    server.await_condition.side_effect = lambda condition, _: condition() or condition() or condition()
    running.lanes = first, lacks, late = [
        Mock(lane=lane, shared=False, **{"granted_since.return_value": True}) for lane in lanes
    ]
    late.granted_since.side_effect = [False, False, True]
    with patch.object(run_trial.RunningTrial, "_missing", side_effect=lambda lanes: set(lanes) - {first}):
        running._cycle()
    assert running.unexercised == [lacks, late]


@cases(
    "lanes, fault, watched",
    ("who waits in the server", ["postgres-session/set"], "none", ["postgres by 1"]),
    ("behind a pool", ["postgres-xact/set"], "none", ["pgbouncer by 1"]),
    ("both", ["postgres-xact/set", "postgres-session/transfer-opposite"], "none", ["pgbouncer by 1", "postgres by 1"]),
    ("a lease is kept alive", ["postgres-lease/set", "zookeeper/set"], "none", []),
    ("whoever has to recover", ["zookeeper/set"], "kill-server", ["zk1 by 1", "zk2 by 1", "zk3 by 1"]),
    ("nothing has to be done in time", ["setnx-no-ttl/set"], "none", []),
)
def test_servers_are_watched_where_clients_see_nothing(lanes: list[str], fault: str, watched: list[str]) -> None:
    trial: Any = SimpleNamespace(lanes=[lane_named(f"{name}/unfenced") for name in lanes], faults=(fault,))
    environment = Mock()
    environment.members.side_effect = lambda backend: BACKENDS[backend].members
    environment.endpoints_of.side_effect = "{} by {}".format
    assert to_be_watched(trial, environment) == watched


@cases(
    "status, done, error, gone",
    ("it ends whenever it is started", "exited", [], "", [("etcd2", 2, "torn")]),
    ("it runs and does not serve", "running", ["full"], "", [("etcd2", None, "it said nothing")]),
    ("somebody froze it", "paused", [], "", []),
    ("a fault is left", "exited", ["left"], "", []),
    ("it was not started again and again", "exited", ["fails"], "", []),
    ("it is another server", "exited", ["other"], "", []),
    ("the engine does not start it", "exited", [], "no such file", []),
    ("all serve", "running", [], "", []),
)
def test_a_member_is_gone_if_nothing_else_is_wrong(status: str, done: list[str], error: str, gone: object) -> None:
    fails = Failed if "fails" in done else None
    with imagined("etcd") as star, patch.object(Etcd, "lost_place", return_value=False, side_effect=fails):
        still: dict[str, Any] = dict.fromkeys(("start", "unpause"), lambda _: None)
        vars(star.engines["etcd2"]).update(status=status, error=error, **still)
        star.disks.done = {("etcd2", what): what for what in done}
        disks = Mock(**{"active.return_value": [what for what in done if what == "left"]})
        kinds = {"etcd": Mock(auxiliaries=[SimpleNamespace(name="etcd2", package="other" in done)])}
        environment = Mock(spec=OwnEnvironment, kinds=kinds, links=star.links, disks=disks)
        environment.cluster.return_value = star.cluster
        with patch.object(nodes, "READY_WITHIN", 0.5), patch.object(members, "READY_WITHIN", 0.5):
            assert [(each.member, each.status, each.words) for each in members.gone(environment, "etcd")] == gone
        noted = [members.ends(environment, "etcd", since) for since in (0, time.monotonic_ns())]
        assert [len(each) for each in noted] == [status == "exited" and not (error or done), 0]


@cases(
    "error, ends, gone, on",
    ("a member is gone", Failed("not whole"), [], [Outage("etcd2", 2, 2, "torn", 9)], True),
    ("one ended by itself", Failed("not whole"), [Outage("etcd2", 5, 2, "torn")], [], True),
    ("a fault ended it", Failed("not whole"), [Outage("etcd2", 2, 2, "torn")], [], False),
    ("a version is refused", DoesNotStart("no"), [], [Outage("etcd2", 2, 2, "torn", 9)], False),
)
def test_a_trial_ends_with_a_verdict_if_a_member_is_to_blame(error: Failed, ends: Any, gone: Any, on: bool) -> None:
    lane = next(lane for lane in lanes_of("etcd", registry.load("etcd")) if lane.store == "guarded")
    running: Any = Mock(spec=run_trial.RunningTrial, trial=Trial("etcd", "kill-server", 1, (lane,)), handles=[])
    parts = ("plan", "runner", "environment", "server", "watch", "tell", "actors")
    vars(running).update(dict.fromkeys(parts, Mock(silences=())))
    vars(running).update(taps=None, slower=1.0, clock=0.0, gone=[], looks=[], missing=[], versions={"etcd2": "3.5"})
    running.lanes, running._records = [lane_history.RunningLane(lane, ("k",))], [HIT]
    running.environment.cluster().versions.return_value, running.plan.lasting = {"etcd1": "3.6"}, False
    running.environment.still_unclean.return_value, running.runner.cycle.side_effect = [], error
    for name in ("_outages", "_served_after", "_cycle"):
        getattr(running, name).side_effect = partial(getattr(run_trial.RunningTrial, name), running)
    seen = patch.multiple(members, ends=Mock(return_value=ends), gone=Mock(return_value=gone))
    read = patch.object(lane_history, "_answered", side_effect=lambda what, _: [] if what == "the store" else (1, ()))
    with seen, read, nullcontext() if on else pytest.raises((Failed, NoWayThere)):
        run_trial.RunningTrial.cycle_until_exercised(running, 0)
        run_trial.RunningTrial.heal(running)
        (history,) = run_trial.RunningTrial.collect(running)
        assert (history.facts.versions, history.facts.outages) == ({"etcd2": "3.5", "etcd1": "3.6"}, (*ends, *gone))
        assert running.runner.final_heal.called == running._look_at_members.called == bool(len(history)) == (not gone)


SECOND = 10**9
UPGRADED = "etcd2 from 3.5.16 to 3.6.16"
ROLLED = Record("version", UPGRADED, 12 * SECOND, 15 * SECOND, 15 * SECOND, 16 * SECOND, name="roll-version")
KILLED = Record("kill", "etcd1 (leader)", 17 * SECOND, 17 * SECOND, 18 * SECOND, 19 * SECOND, name="kill-server")
FROZEN = Record("freeze", "worker 1 of a", 20 * SECOND, 21 * SECOND, owner=5, process=3, name="freeze-holder")


def starting(*seconds: int) -> list[History]:
    """One history of a lane for each of these times, at which its first operation begins."""
    return [Book().acquire(at * SECOND, at * SECOND + 1, 1).history() for at in seconds]


def test_the_steps_of_an_upgrade_and_the_faults_between_them_are_listed_in_order() -> None:
    stayed = replace(ROLLED, kind="restart", target="etcd1 stays 3.6.16: it cannot be downgraded", begun=25 * SECOND)
    frozen = [FROZEN, replace(FROZEN, target="worker 2 of b", process=7, begun=20 * SECOND + 15, applied=22 * SECOND)]
    assert rolled([ROLLED, KILLED, *frozen, stayed], starting(11, 10)) == [
        {"at": 2.0, "what": "etcd2 from 3.5.16 to 3.6.16", "refused": False},
        {"at": 7.0, "what": "kill-server: etcd1 (leader)", "refused": False},
        {"at": 10.0, "what": "freeze-holder: 2 workers", "refused": False},
        {"at": 15.0, "what": "etcd1 stays 3.6.16: it cannot be downgraded", "refused": True},
    ]
    assert rolled([KILLED, FROZEN], starting(10)) == [], "where no version changed there are no steps"
    there = replace(ROLLED, target="postgres from 17.11 to 17.11")
    back = replace(there, begun=17 * SECOND, applied=19 * SECOND, healing=19 * SECOND, healed=20 * SECOND)
    steps = rolled([there, back], starting(10))
    assert [(step["at"], step["what"]) for step in steps] == [(2.0, there.target), (7.0, there.target)]


def test_times_are_those_of_the_page_of_the_trial() -> None:
    book = Book().acquire(10 * SECOND, 10 * SECOND + 1, 1)
    book.faults.append(FaultInterval(**{name: asdict(ROLLED)[name] for name in lane_history.OF_FAULTS}))
    histories = lane_history.on_one_clock([*starting(11), book.history()])
    assert {history.once(View).zero for history in histories} == {10 * SECOND}
    (shown,) = trial_page.faults([LaneRecord(history, ()) for history in histories])
    (step,) = rolled([ROLLED], histories)
    assert float(shown["moments"][0].removesuffix(" s")) == step["at"]


def test_the_share_of_time_in_which_the_machine_stood_still_is_counted() -> None:
    book = Book(keys=("a",), workers=2).acquire(1, 2, 1).add(F.STALL, 20, 30).add(F.STALL, 90, 0).release(100, 101, 1)
    assert stalled([book.history()]) == 0.05


def test_cpu_time_is_counted_by_part_even_if_a_server_was_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter([{"redis1": 5.0, "redis2": 7.0, "toxiproxy": 1.0, "store": 2.0}, {"redis1": 6.5, "redis2": 0.25}])
    monkeypatch.setattr(time, "process_time", iter([10.0, 13.0]).__next__)
    meter = CpuMeter(cast("Any", SimpleNamespace(cpu_seconds=lambda: next(used))))
    assert meter.by_part(4.0) == {"workers": 4.0, "harness": 3.0, "links": 0.0, "store": 0.0, "servers": 1.75}


def test_a_run_says_what_its_faults_and_locks_are() -> None:
    made = described(asked(lock=["redis", "redlock-3"], faults=["none", "clock-drift", "lose-replies+cut-client-drop"]))
    assert {column: (each["group"], each["text"].partition(". ")[0]) for column, each in made["faults"].items()} == {
        "clock-drift": ("clocks", "The clock of redis1 and another, or of postgres, runs too fast or too slow"),
        "lose-replies+cut-client-drop": ("links", "All replies of one group of clients are lost"),
    }
    both = "kill-server+kill-holder"
    assert described(asked(lock=["redis"], faults=[both]))["faults"][both]["group"] == ""
    first = {name: text.splitlines()[0] for name, text in made["locks"].items()}
    one, three = "a lock on one Redis node.", "Redlock on three nodes, as most deployments have it."
    assert first == {"redis": one, "redlock-3": three}
