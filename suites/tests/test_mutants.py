"""The catalogue of planted bugs: what must find each asks for it. `python -m suites mutants --run` tries them."""

from dataclasses import replace

import pytest

from checkers.judging.judgement import declared
from checkers.tests.build import FACTS
from infra.faults.all_faults import FAULTS
from suites.commands import mutants
from suites.commands.mutants import Result
from suites.lanes.mutant_catalogue import CATALOGUE, Mutant
from suites.selection.options import EVERY_FAULT


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.name)
class TestCatalogue:
    def test_its_lane_asks_for_what_must_find_it(self, mutant: Mutant) -> None:
        assert mutant.fault in EVERY_FAULT
        assert mutant.fault not in FAULTS or FAULTS[mutant.fault].applies(mutant.lock.backend) is None
        assert all(lane.asks(mutant.found_by, (mutant.fault,)) for lane in mutant.lanes)

    def test_the_correct_lock_promises_it_there(self, mutant: Mutant) -> None:
        lock = mutant.lock
        for lane in mutant.lanes:
            facts = replace(FACTS, workload=lane.workload.name, store=lane.store, fault_names=(mutant.fault,))
            assert declared(mutant.found_by, replace(facts, claims=lock.claims, hazards=lock.hazards)).answered

    def test_it_says_what_is_wrong_with_it(self, mutant: Mutant) -> None:
        assert mutant.lock.__doc__ != mutant.lock.__mro__[1].__doc__
        assert mutant.bug.endswith(".")


def test_each_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutants.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [mutant.name for mutant in CATALOGUE]


@pytest.mark.parametrize(
    ("by", "trouble", "caught", "told"),
    [
        (("server-exclusion", "token-order"), "", True, "caught by server-exclusion, token-order"),
        (("server-exclusion",), "", False, "MISSED by token-order; only server-exclusion"),
        ((), "", False, "MISSED by token-order; nothing was violated"),
        ((), "no Docker", False, "MISSED by token-order; no Docker"),
    ],
)
def test_only_the_property_naming_the_bug_counts(by: tuple[str, ...], trouble: str, caught: bool, told: str) -> None:
    result = Result(Mutant("LeaseForToken", "token-order"), by, trouble)
    assert result.caught is caught
    assert str(result) == f"LeaseForToken: {told}"


def test_a_missed_mutant_is_the_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for missed in (False, True):
        results = [Result(one, (one.found_by,)) for one in CATALOGUE[:2]]
        results += [Result(CATALOGUE[2], ())] if missed else []
        monkeypatch.setattr(mutants, "run", lambda _, results=results: results)
        assert mutants.main(["--run"]) == missed
        assert capsys.readouterr().out.splitlines()[-1] == f"{len(results)} mutants, {int(missed)} missed"
