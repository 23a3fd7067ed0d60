"""What is stored of a history's times and rates."""

import json
from dataclasses import replace

import numpy as np
import pytest

from checkers.history.history import FaultInterval, History, from_rows
from checkers.measures.availability import availability_gap
from checkers.measures.latency import acquire_latency, release_latency
from checkers.measures.measured_history import MeasuredHistory
from checkers.models.model import Settings
from checkers.row_format import NONE, F, Outcome, Reason
from checkers.tests.build import cases
from results.storage.verdicts import measured
from results.tests.samples import MS, START, facts, hold, long, row, rows_of, stale_write


def fault(begun: float, healed: float, name: str = "cut") -> FaultInterval:
    ends = (START + int(time * MS) for time in (begun, begun + 1, healed - 1, healed))
    return FaultInterval(name, "cut", "c1", *ends)


def grants(*moments: float) -> list[dict[str, object]]:
    """Holds of 10 ms, each asked for 30 ms before it began."""
    return [one for number, at in enumerate(moments, 1) for one in hold(1, number, at, at + 10, 1, NONE)]


def history(*faults: FaultInterval) -> History:
    return from_rows(facts(), rows_of(grants(100, 200, 300, 1000, 1100)), faults)


@pytest.mark.parametrize("recorded", [stale_write(), long(5000)], ids=["stale", "long"])
def test_the_numbers_are_those_of_the_measures(recorded: History) -> None:
    found, subject = measured(recorded), MeasuredHistory(recorded, Settings())
    for name, measure in (("acquire_ms", acquire_latency(subject)), ("release_ms", release_latency(subject))):
        for quantile in ("p50", "p90", "p99"):
            number = measure[f"{quantile}@all"]
            assert found[name][quantile] == (None if number is None else pytest.approx(number / 1e6, abs=1e-3))
    longest = availability_gap(subject)["longest"]
    assert longest is not None
    assert found["longest_gap_s"] == pytest.approx(longest / 1e9, abs=1e-6)
    assert found["operations"] == len(recorded)


def test_each_fault_has_a_phase_and_what_follows_it_another() -> None:
    found = measured(history(fault(250, 350), fault(900, 1050)))
    told = [(one["cycle"], one["phase"], one["grants"]) for one in found["cycles"]]
    assert told == [(0, "before", 2), (1, "during", 1), (1, "after", 0), (2, "during", 1), (2, "after", 1)]
    assert [one["begin_s"] for one in found["cycles"]] == pytest.approx([0, 0.18, 0.28, 0.83, 0.98])
    assert sum(one["seconds"] for one in found["cycles"]) == pytest.approx(found["seconds"])
    assert sum(one["acquire_ms"]["count"] for one in found["cycles"]) == found["acquire_ms"]["count"]
    assert found["recovery_s"] == [pytest.approx(0.65), pytest.approx(0.05)]


def test_faults_that_overlap_are_one_phase() -> None:
    found = measured(history(fault(250, 350), fault(300, 900, "slow")))
    assert [one["phase"] for one in found["cycles"]] == ["before", "during", "after"]
    assert found["recovery_s"] == pytest.approx([0.65, 0.1])


def test_a_fault_that_never_healed_lasts_to_the_end() -> None:
    found = measured(history(replace(fault(250, 350), healing=0, healed=0)))
    assert ([one["phase"] for one in found["cycles"]], found["recovery_s"]) == (["before", "during"], [None])


def test_without_a_fault_there_is_one_phase() -> None:
    (one,) = measured(history())["cycles"]
    assert (one["cycle"], one["phase"], one["grants"], one["attempts"]) == (0, "before", 5, 5)


def test_acquires_without_an_answer_are_censored() -> None:
    lost = [
        row(F.ACQUIRE, 400, 900, 5, outcome=Outcome.FAIL, reason=Reason.TIMEOUT),
        row(F.ACQUIRE, 410, 0, 6, outcome=Outcome.INFO, owner=77),
        *(row(F.ACQUIRE, 420 + n, 1000 + n, 7, outcome=Outcome.INFO, owner=80 + n) for n in range(5)),
    ]
    found = measured(from_rows(facts(), rows_of([*grants(100, 200, 300), *lost])))
    times = found["acquire_ms"]
    assert (times["count"], times["given_up"], times["p50"]) == (10, 7, None)
    assert times["longest"] == pytest.approx(594, abs=6)
    assert (found["unknown"], found["refused"]) == (6, 1)


def test_the_stores_accesses_tell_of_the_machine_but_not_those_of_the_lock_service() -> None:
    for store, count in (("unfenced", 10), ("guarded", 0)):
        assert measured(replace(history(), facts=facts(store=store)))["store_ms"]["count"] == count


@cases(
    "recorded",
    ("empty", from_rows(facts(), rows_of([]))),
    ("nobody asked", from_rows(facts(), rows_of([row(F.READ, 10, 20, 1)]))),
    ("no answer", from_rows(facts(), rows_of([row(F.ACQUIRE, 10, 0, 1, outcome=Outcome.INFO, owner=3)]))),
    ("only a release", from_rows(facts(), rows_of([row(F.RELEASE, 10, 20, 1, owner=3)]), (fault(5, 15),))),
    ("no times", replace(history(), facts=facts(trial=""), clock=np.zeros((len(history()), 2), np.int64))),
)
def test_what_cannot_be_said_is_null_and_never_nan(recorded: History) -> None:
    found = measured(recorded)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found.keys() == measured(history()).keys()
    assert found["acquire_ms"]["p50"] is None
