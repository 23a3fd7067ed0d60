"""How a trial waits, what it looks at meanwhile, and what it says of its workers, without servers."""

import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

import pytest

from checkers.tests.build import Book, cases
from infra.backends import BACKENDS
from infra.faults.link_probe import Prober, Watch
from infra.faults.runner import Record
from results.terminal.event_journal import Event
from suites.lanes.lane import lane_named, lanes_of
from suites.locks import registry
from suites.selection.trial import Trial
from suites.trial import lane_history, run_trial, timeouts
from suites.trial.launch import to_be_watched


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


def test_a_trial_that_goes_on_says_for_which_lane_and_why() -> None:
    trial = Trial("redis", "none", 1, (lane_named("redis/set/unfenced"),))
    running: Any = Mock(trial=trial, plan=trial.plan_to_run(), missing=[], clock=time.monotonic())
    running._missing_after.side_effect = [{"redis/set/unfenced": {"fifo": "nobody waited"}}, {}]
    run_trial.RunningTrial.cycle_until_exercised(running, 60.0)
    text = "once more, since it did not exercise fifo in redis/set/unfenced (nobody waited)"
    running.tell.assert_called_once_with(Event("repeats", {"text": text}))


@cases(
    "back, later",
    ("one permit", False, [(30, 40)]),
    ("one after another", False, [(30, 40), (41, 45)]),
    ("both at once", True, [(30, 40), (35, 45)]),
)
def test_a_semaphore_is_back_when_all_of_its_permits_are_held(back: bool, later: list[tuple[int, int]]) -> None:
    (lane, *_) = lanes_of("redis-semaphore", registry.load("redis-semaphore"))
    running: Any = Mock()
    book = Book(permits=2, bounds={"recovery": 50}, fault_names=("f",), properties=("recovery",)).fault("f", 10, 20)
    for owner, (begin, end) in enumerate([(1, 12), *later]):
        book.acquire(begin, begin + 1, owner + 1).release(end, end + 1, owner + 1)
    with patch.object(run_trial, "so_far", return_value=book.history()):
        assert run_trial.RunningTrial._all_is_back(running, Mock(lane=lane)) is back


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
