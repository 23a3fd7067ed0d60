"""What is stored about a trial: the steps of a rolling upgrade, the faults in between, and how busy the machine was."""

import time
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checkers.history.history import FaultInterval, History
from checkers.history.view import View
from checkers.row_format import F
from checkers.tests.build import Book
from infra.faults.runner import Record
from results.pages import trial_page
from results.record import LaneRecord
from suites.tests.selections import asked
from suites.trial.lane_history import OF_FAULTS, on_one_clock
from suites.trial.metadata import CpuMeter, described, rolled, stalled

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
    book.faults.append(FaultInterval(**{name: asdict(ROLLED)[name] for name in OF_FAULTS}))
    histories = on_one_clock([*starting(11), book.history()])
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
