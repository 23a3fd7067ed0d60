"""The catalogue of planted bugs, the modules that have them, and how it is told which of them were caught."""

import sys
from dataclasses import replace

import pytest

from checkers.judging.judgement import declared
from checkers.tests.build import FACTS
from infra.faults.all_faults import FAULTS
from suites.commands import mutants
from suites.commands.mutants import Result
from suites.lanes.lane import lane_named
from suites.locks import registry
from suites.mutants import altered
from suites.mutants.altered import AlteredModules
from suites.mutants.catalogue import Change, Mutant, catalogue
from suites.selection.options import EVERY_FAULT
from suites.worker.forkserver import _PARTS


@pytest.mark.parametrize("mutant", catalogue().values(), ids=lambda mutant: mutant.name)
class TestCatalogue:
    def test_its_lanes_ask_for_what_must_find_it(self, mutant: Mutant) -> None:
        lanes = list(map(lane_named, mutant.lanes))
        assert mutant.fault in EVERY_FAULT
        assert mutant.fault not in FAULTS or FAULTS[mutant.fault].applies(lanes[0].backend) is None
        assert all(lane.asks(name, (mutant.fault,)) for lane in lanes[:1] for name in mutant.found_by)
        assert all(any(lane.asks(name, (mutant.fault,)) for name in mutant.found_by) for lane in lanes)

    def test_the_correct_lock_promises_it_there(self, mutant: Mutant) -> None:
        for lane in map(lane_named, mutant.lanes[:1]):
            facts = replace(FACTS, workload=lane.workload.name, store=lane.store, fault_names=(mutant.fault,))
            claimed = replace(facts, claims=lane.lock.claims, hazards=lane.lock.hazards)
            assert all(declared(name, claimed).answered for name in mutant.found_by)

    def test_it_is_another_than_the_correct_one(self, mutant: Mutant) -> None:
        own = registry.load(mutant.lock_name) is not registry.load(mutant.lock)
        assert own or any(
            registry.module_for(mutant.lock_name, part) is not registry.module_for(mutant.lock, part) for part in _PARTS
        )
        assert mutant.bug.endswith(".")
        assert mutant.why.endswith(".")


def test_every_third_is_set_aside() -> None:
    """Of every file, wherever entries are added at its end."""
    aside = [mutant.set_aside for mutant in catalogue().values()]
    assert aside[:6] == [False, False, True, False, False, True]


def test_what_does_not_stand_there_once_is_told() -> None:
    change = Change("suites/lock.py", "\n", "")
    mutant = replace(catalogue()["renews-nothing"], changes=(change,))
    with pytest.raises(ValueError, match=r"this stands \d+ times in suites\.lock, and not once"):
        AlteredModules(mutant).module("suites.lock")


def test_the_copies_see_each_other_and_nobody_else_sees_them() -> None:
    mutant = catalogue()["drift-with-the-wrong-sign"]  # in a module that several locks share
    modules = altered.modules_of(mutant)
    node, lock = modules.module("suites.locks.redis_node"), modules.module("suites.locks.redis_single")
    assert lock.validity is node.validity
    assert node.validity(1.0) > 1e9 > sys.modules["suites.locks.redis_node"].validity(1.0)
    assert lock.Grant is sys.modules["suites.lock"].Grant
    assert modules.module("suites.locks.redis_rw").RedisLock is lock.RedisLock
    assert modules.module("suites.locks.zookeeper") is sys.modules["suites.locks.zookeeper"]


def test_each_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutants.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(catalogue())


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
    result = Result(catalogue()["lease-for-token"], by, trouble)
    assert result.caught is caught
    assert str(result) == f"lease-for-token: {told}"


def test_a_missed_mutant_is_the_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    some = list(catalogue().values())[:3]
    for missed in (False, True):
        results = [Result(one, one.found_by) for one in some[:2]]
        results += [Result(some[2], ())] if missed else []
        monkeypatch.setattr(mutants, "run", lambda _, results=results: results)
        assert mutants.main(["--run"]) == missed
        assert capsys.readouterr().out.splitlines()[-1] == f"{len(results)} mutants, {int(missed)} missed"


def test_groups_have_about_as_many_of_each_backend() -> None:
    made = mutants.groups(list(catalogue().values()))
    assert sorted(mutant.name for group in made for mutant in group) == sorted(catalogue())
    assert max(map(len, made)) <= mutants.GROUP
    for backend in ("redis", "zookeeper", "etcd", "postgres"):
        counts = [sum(registry.load(mutant.lock).backend == backend for mutant in group) for group in made]
        assert max(counts) - min(counts) <= 1
