"""What the literature says is asked of lanes that exist, and told as it was measured; cycles have lanes everywhere."""

from collections.abc import Mapping
from unittest.mock import patch

import pytest

from checkers.claims import Verdict
from checkers.judging.judgement import Judgement
from checkers.tests.build import Book, cases
from infra.backends import BACKENDS
from infra.faults.all_faults import FAULTS, NO_FAULT
from results.record import LaneRecord
from suites.__main__ import main as suites
from suites.commands import literature, readme
from suites.commands.cycles import DRAWN, STORES, drawn_on, lanes_on
from suites.commands.literature import STATEMENTS, Probe, Statement
from suites.lanes.lane import lane_named
from suites.selection.profiles import PLAINEST

PROBES = sorted({(probe.lane, probe.fault, probe.property) for one in STATEMENTS for probe in one.probes})


@pytest.mark.parametrize(("name", "fault", "property_id"), PROBES)
def test_every_probe_can_be_asked(name: str, fault: str, property_id: str) -> None:
    lane = lane_named(name)
    assert lane.not_applicable is None
    assert fault == NO_FAULT or FAULTS[fault].applies(lane.backend) is None
    assert lane.asks(property_id, (fault,))


def test_no_statement_stands_twice_or_without_a_probe() -> None:
    assert len({one.says for one in STATEMENTS}) == len(STATEMENTS)
    assert all(one.probes for one in STATEMENTS)


def measured(word: Verdict) -> literature.Measured:
    history = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1).history()
    return literature.Measured(Judgement("holder-exclusion", word, "because"), LaneRecord(history, ()))


ONE, OTHER = Probe("a/register/unfenced", "none", "p"), Probe("b/register/unfenced", "none", "p", holds=False)


@cases(
    "words, outcome",
    ("as said", {"a": Verdict.UPHELD, "b": Verdict.WEAKNESS_SHOWN}, "confirmed"),
    ("not promised", {"a": Verdict.NOT_PROMISED_HELD, "b": Verdict.VIOLATED}, "confirmed"),
    ("not shown", {"a": Verdict.UPHELD, "b": Verdict.WEAKNESS_NOT_SHOWN}, "refuted"),
    ("unexercised besides", {"a": Verdict.VIOLATED, "b": Verdict.NOT_STRESSED}, "refuted"),
    ("unexercised", {"a": Verdict.UPHELD, "b": Verdict.NOT_STRESSED}, "open"),
    ("not measured", {"a": Verdict.UPHELD}, "open"),
)
def test_one_wrong_prediction_refutes_a_statement(words: Mapping[str, Verdict], outcome: str, tmp_path: object) -> None:
    statement = Statement("says", ("who", ""), (ONE, OTHER))
    found = {(f"{lock}/register/unfenced", "none", "p"): measured(word) for lock, word in words.items()}
    with patch.multiple(literature, FOLDER=tmp_path, STATEMENTS=(statement,)):
        assert literature._entry(statement, found)["outcome"] == outcome


def test_unknown_statements_start_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with patch("suites.commands.literature.Run.create", side_effect=AssertionError("a run was made")):
        assert suites(["literature", "--only", "zzzz"]) == 2
    assert capsys.readouterr() == ("", "fencepost: no statement contains 'zzzz'\n")


def test_the_readme_is_up_to_date() -> None:
    assert readme.main(check=True) == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_cycles_every_backend_has_lanes_of_its_plainest_locks_and_draws_one_of_each(backend: str) -> None:
    lanes = lanes_on(backend)
    assert {lane.backend for lane in lanes} == {backend}
    assert all(lane.lock_name in PLAINEST and lane.store in STORES for lane in lanes) or len(lanes) == 1
    assert all(lane.not_applicable is None for lane in lanes)
    drawn = drawn_on(backend, 1)
    assert drawn == drawn_on(backend, 1)
    assert 0 < len({lane.lock_name for lane in drawn}) == len(drawn) <= DRAWN
    assert len({drawn_on(backend, seed) for seed in range(5)}) > 1
