"""Planted bugs and which are caught; statements of the literature; releases known to be bad; lanes of cycles."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from unittest.mock import call, patch

import pytest

from checkers.claims import Verdict
from checkers.history.history import load
from checkers.judging.judgement import Judgement, declared
from checkers.properties.all_properties import PROPERTIES
from checkers.properties.check_result import CheckResult
from checkers.tests.build import FACTS, Book, cases
from infra.backends import BACKENDS
from infra.docker.servers_with_bugs import PLANTS
from infra.faults.all_faults import FAULTS, NO_FAULT
from infra.faults.plan import parse
from results.certificate.certificate_files import issue
from results.record import LaneRecord, TrialRecord
from results.storage import files, summary
from results.tests import samples
from results.tests.judged import FOLDER, judged, kept
from results.tests.upgrades import closed
from suites.__main__ import main as suites
from suites.commands import cycles, literature, mutants, readme, soak, track_record
from suites.commands.cycles import DRAWN, STORES, drawn_on, lanes_on
from suites.commands.literature import STATEMENTS, Probe, Statement
from suites.commands.mutants import Catch, Result, Score
from suites.lanes.lane import Lane, lane_named
from suites.locks import registry
from suites.mutants.catalogue import AlteredModules, Change, Mutant, catalogue, modules_of, on_stored_histories
from suites.selection.parse_options import EVERY_FAULT
from suites.selection.profiles import PLAINEST
from suites.tests.judge_mutants import NOTHING, Histories, Shown
from suites.tests.replayed import replayed
from suites.tests.selections import asked, refused
from suites.worker import recorder
from suites.worker.forkserver import _PARTS


def promises(lane: Lane, fault: str, name: str) -> bool:
    facts = replace(FACTS, workload=lane.workload.name, store=lane.store, fault_names=(fault,))
    return declared(name, replace(facts, claims=lane.lock.claims, hazards=lane.lock.hazards)).answered


@pytest.mark.parametrize("mutant", catalogue().values(), ids=lambda mutant: mutant.name)
class TestCatalogue:
    def test_the_lanes_of_a_bug_ask_what_must_find_it_and_the_correct_lock_promises_that(self, mutant: Mutant) -> None:
        lanes = list(map(lane_named, mutant.lanes))
        assert mutant.fault in EVERY_FAULT
        assert mutant.fault not in FAULTS or FAULTS[mutant.fault].applies(lanes[0].backend) is None
        assert all(lane.asks(name, (mutant.fault,)) for lane in lanes[:1] for name in mutant.found_by)
        assert all(any(lane.asks(name, (mutant.fault,)) for name in mutant.found_by) for lane in lanes)
        assert all(promises(lanes[0], mutant.fault, name) for name in mutant.found_by)

    def test_only_a_mutant_of_a_server_keeps_the_correct_lock(self, mutant: Mutant) -> None:
        own = registry.load(mutant.lock_name) is not registry.load(mutant.lock)
        parts = any(
            registry.module_for(mutant.lock_name, part) is not registry.module_for(mutant.lock, part) for part in _PARTS
        )
        assert (own or parts) is not bool(mutant.server)
        assert mutant.bug.endswith(".")
        assert mutant.why.endswith(".")

    def test_the_code_that_a_mutant_changes_exists(self, mutant: Mutant) -> None:
        modules = AlteredModules(mutant)
        for change in mutant.changes:
            compile(modules.source(change.module), change.module, "exec")


def test_each_server_with_a_bug_can_be_tried_by_name() -> None:
    plants = {str(plant): plant for plant in PLANTS if plant.name != "slow"}
    of_servers = [mutant for mutant in catalogue().values() if mutant.server]
    assert sorted(mutant.server for mutant in of_servers) == sorted(plants)
    for mutant in of_servers:
        plant = plants[mutant.server]
        assert mutant.bug == f"{plant.bug[0].upper()}{plant.bug[1:]}."
        assert asked(lock=[mutant.lock_name]).versions == {plant.server: plant.version}


def test_two_bugs_in_servers_of_one_backend_are_two_runs() -> None:
    names = ("server-does-not-count", "renews-nothing", "server-grants-twice", "server-does-not-compare")
    runs = mutants._runs([catalogue()[name] for name in names])
    assert [[mutant.name for mutant in run] for run in runs] == [[names[1]], [names[0], names[3]], [names[2]]]
    said = refused(lock=[catalogue()[name].lock_name for name in (names[0], names[2])])
    assert "planted-redis:lost-token is asked for as well; one run has one" in said


@pytest.mark.parametrize("schedule", mutants.SCHEDULES)
def test_a_schedule_is_a_plan_for_each_backend_in_the_lanes_of_a_default_run(schedule: str, tmp_path: Path) -> None:
    words = mutants._words(schedule, 1, tmp_path)
    assert words[:2] == ["--duration", "40"]
    lock = ["mutant:renews-nothing"]
    if not mutants.SCHEDULES[schedule]:
        assert words[2:] == ["--faults", "none"]
        return
    files = words[3::2]
    assert [parse(Path(file).read_text()).backend for file in files] == list(BACKENDS)
    (trial,) = asked(lock=lock, plan=files).trials()
    (pause,) = asked(lock=lock, faults=["pause-server"]).trials()
    assert {lane for lane in pause.lanes if lane.workload.holds <= 1} <= set(trial.lanes)


def test_a_change_whose_text_does_not_occur_exactly_once_is_reported() -> None:
    mutant = replace(catalogue()["renews-nothing"], changes=(Change("suites/lock.py", "\n", ""),))
    with pytest.raises(ValueError, match=r"this stands \d+ times in suites\.lock, and not once"):
        AlteredModules(mutant).module("suites.lock")


def test_altered_modules_see_each_other_and_no_other_module_sees_them() -> None:
    modules = modules_of(catalogue()["drift-with-the-wrong-sign"])  # in a module that several locks share
    node, lock = modules.module("suites.locks.redis_node"), modules.module("suites.locks.redis_single")
    assert lock.validity is node.validity
    assert node.validity(1.0) > 1e9 > sys.modules["suites.locks.redis_node"].validity(1.0)
    assert lock.Grant is sys.modules["suites.lock"].Grant
    assert modules.module("suites.locks.redis_variants").RedisLock is lock.RedisLock
    assert modules.module("suites.locks.zookeeper") is sys.modules["suites.locks.zookeeper"]


def test_each_mutant_is_listed_and_every_third_is_set_aside(capsys: pytest.CaptureFixture[str]) -> None:
    assert [mutant.set_aside for mutant in catalogue().values()][:6] == [False, False, True, False, False, True]
    assert mutants.main() == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(catalogue())


@cases(
    "by, trouble, caught, told",
    ("by two", ("server-exclusion", "token-order"), "", True, "caught by server-exclusion, token-order"),
    ("by another", ("server-exclusion",), "", False, "MISSED by token-order; only server-exclusion"),
    ("by none", (), "", False, "MISSED by token-order; nothing was violated"),
    ("not run", (), "no Docker", False, "MISSED by token-order; no Docker"),
)
def test_only_the_property_naming_the_bug_counts(by: tuple[str, ...], trouble: str, caught: bool, told: str) -> None:
    result = Result(catalogue()["lease-for-token"], by, trouble)
    assert result.caught is caught
    assert str(result) == f"lease-for-token: {told}"


def test_a_missed_mutant_sets_the_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    some = list(catalogue().values())[:3]
    for missed in (False, True):
        results = [Result(one, one.found_by) for one in some[:2]]
        results += [Result(some[2], ())] if missed else []
        monkeypatch.setattr(mutants, "run", lambda _, results=results: results)
        assert mutants.main(tried=True) == missed
        assert capsys.readouterr().out.splitlines()[-1] == f"{len(results)} mutants, {int(missed)} missed"


def test_a_scored_bug_meets_every_fault_of_a_default_run_once_in_the_same_lanes() -> None:
    lock = ["mutant:renews-nothing"]
    by_stage = [trial for stage in mutants.STAGES for trial in asked(lock=lock, faults=[",".join(stage)]).trials()]
    whole = asked(lock=lock).trials()
    assert sorted(by_stage, key=lambda trial: trial.column) == sorted(whole, key=lambda trial: trial.column)


def tried(folder: Path, number: int, lock: str, word: Verdict, *broken: str) -> TrialRecord:
    """A trial of one lane: the verdict on server-exclusion, and the properties that broke besides."""
    history = samples.stale_write(lock=lock, lane=f"{lock}/set/unfenced")
    stale = samples.stale_violation(history)
    result = CheckResult("server-exclusion", word is Verdict.UPHELD, (stale,))
    others = [Judgement(name, Verdict.VIOLATED, "", CheckResult(name, False, (stale,)), stale) for name in broken]
    record = samples.one_lane(history, Judgement("server-exclusion", word, "", result, stale), *others)
    about = {**record.about, "started": f"2026-11-26T08:00:{60 - number}+00:00"}
    return replace(record, name=f"redis-freeze-holder-{number}", about=about)


def test_the_first_trial_that_broke_the_property_naming_the_bug_counts(tmp_path: Path) -> None:
    bug = catalogue()["renews-nothing"]
    trials = [
        tried(tmp_path, 1, bug.lock_name, Verdict.VIOLATED),  # it started last
        tried(tmp_path, 2, bug.lock_name, Verdict.VIOLATED, "owner-release"),
        tried(tmp_path, 3, bug.lock_name, Verdict.UPHELD),
        tried(tmp_path, 4, "redis", Verdict.UPHELD),
    ]
    made = samples.run(tmp_path / "run", *trials)
    made.close({})
    cells = summary.load(made.path).cells
    score = mutants._scored(bug, cells, made.path)
    history = trials[1].lanes[0].history
    seconds = (samples.stale_violation(history).at - history.columns["inv"].min()) / 1e9
    assert score == Score(bug.name, Catch("server-exclusion", "freeze-holder", seconds, (2, 3)), ("owner-release",))
    assert str(score).endswith(" s, in 2 of 3 trials; also owner-release")
    other = mutants._scored(replace(bug, found_by=("fifo",)), cells, made.path)
    assert str(other) == "renews-nothing: MISSED; also server-exclusion, owner-release"


def test_a_correct_lock_that_fails_is_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = catalogue()["renews-nothing"]
    trials = [tried(tmp_path, n, lock, Verdict.VIOLATED) for n, lock in enumerate(("redis", bug.lock_name))]
    made = samples.run(tmp_path / "run", *trials)
    made.close({})
    monkeypatch.setattr(mutants, "run_in", lambda *_: made)
    scores, failures = mutants._tried([bug], [], 1, tmp_path)
    assert list(scores) == [bug.name]
    assert list(map(mutants._alarm, failures)) == [
        "ALARM on a correct lock: redis/set/unfenced, server-exclusion under freeze-holder: violated"
    ]


def test_caught_bugs_are_counted_apart_for_mutants_that_are_set_aside() -> None:
    names = list(catalogue())[:3]
    catch = Catch("server-exclusion", "none", 2.0, (1, 1))
    scores = [Score(name, None if number == 1 else catch, ()) for number, name in enumerate(names)]
    assert mutants.in_words(scores) == [
        "2 of 3 bugs caught (67%), the median after 2.0 s of a trial",
        "1 of 1 of those set aside (100%)",
        "1 of 2 of the others (50%)",
    ]


def test_scores_come_back_as_stored_and_the_readme_tells_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "SCORES", tmp_path / "scores")
    catch = Catch("server-exclusion", "none", 2.5, (1, 3))
    names = list(catalogue())
    of_seeds = {
        seed: [Score(name, None if name in missed else catch, ("fifo",)) for name in names]
        for seed, missed in {1: names[3:5], 2: names[4:6]}.items()
    }
    assert readme._mutants() == "\n- not measured yet\n\n"
    for seed, scores in of_seeds.items():
        mutants._store(f"{seed}.json", {"seed": seed, "scores": [asdict(score) for score in scores]})
    mutants._store(mutants._OF_SCHEDULES, {"tried": names[3:6], "caught": {"no-fault": names[3:4], "other": []}})
    assert mutants.stored() == of_seeds
    *_, together, missed, schedules, _, _ = readme._mutants().split("\n")
    assert (together, missed) == ("- All 2 seeds together miss 1.", f"- Missed: `{names[4]}`.")
    assert schedules.startswith("- Of 3 of them, ")
    assert schedules.endswith(": `no-fault` 1, `other` 0; under the faults of a default run 2.")


def test_scoring_a_sample_keeps_stored_scores_of_other_mutants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "SCORES", tmp_path / "scores")
    catch = Catch("fifo", "none", 1.0, (1, 1))
    monkeypatch.setattr(mutants, "_tried", lambda left, *_: ({m.name: Score(m.name, catch, ()) for m in left}, []))
    first, second = list(catalogue().values())[:2]
    assert mutants._score([first], 1) == mutants._score([second], 1) == 0
    assert [score.mutant for score in mutants.stored()[1]] == [first.name, second.name]


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Histories:
    return Histories(["default"], tmp_path_factory.mktemp("stored"))


@pytest.mark.parametrize("mutant", on_stored_histories().values(), ids=lambda mutant: mutant.name)
def test_a_mutant_for_stored_histories_changes_code_that_exists(mutant: Mutant) -> None:
    assert all(AlteredModules(mutant).source(change.module) for change in mutant.changes)
    assert not mutant.fault
    assert mutant.found_by
    assert set(mutant.found_by) <= {"judged", "proof"}
    assert mutant.bug.endswith(".")
    assert mutant.why.endswith(".")


OF_THE_RECORDER = ["granted-before-the-answer", "refusal-recorded-as-no-answer"]
OF_THE_JUDGE = ["unanswered-release-read-as-refused", "search-gives-up-and-says-valid"]


@pytest.mark.parametrize("name", OF_THE_RECORDER + OF_THE_JUDGE)
def test_a_bug_shows_on_stored_histories(name: str, histories: Histories) -> None:
    shown = histories.show(on_stored_histories()[name])
    assert not shown.missed
    assert str(shown).startswith(f"{name}: {shown.mutant.found_by[0]} (default/")


def test_a_bug_that_does_not_show_is_reported_as_missed() -> None:
    mutant = on_stored_histories()["drift-added"]
    assert str(Shown(mutant, {})) == "drift-added: MISSED by judged; MISSED by proof"
    assert str(Shown(mutant, {"proof": "7 lease: no"})) == "drift-added: proof (7 lease: no); MISSED by judged"


def test_a_history_recorded_anew_without_a_bug_gets_the_same_verdicts(tmp_path: Path) -> None:
    for name, was in list(kept(FOLDER / "nightly.tar.xz", tmp_path).items())[::20]:
        history = load(tmp_path / name)
        with recorder.folder() as folder:
            again = replayed(history, AlteredModules(NOTHING), Path(folder))
        assert judged(again) == was
        assert (again.columns["owner"] == history.columns["owner"]).all()


PROBES = sorted({(probe.lane, probe.fault, probe.property) for one in STATEMENTS for probe in one.probes})
ONE, OTHER = Probe("a/register/unfenced", "none", "p"), Probe("b/register/unfenced", "none", "p", holds=False)


@pytest.mark.parametrize(("name", "fault", "property_id"), PROBES)
def test_every_probe_can_be_asked(name: str, fault: str, property_id: str) -> None:
    lane = lane_named(name)
    assert lane.not_applicable is None
    assert fault == NO_FAULT or FAULTS[fault].applies(lane.backend) is None
    assert lane.asks(property_id, (fault,))


def test_no_statement_stands_twice_or_without_a_probe_and_the_readme_is_up_to_date() -> None:
    assert readme.main(check=True) == 0
    assert len({one.says for one in STATEMENTS}) == len(STATEMENTS)
    assert all(one.probes for one in STATEMENTS)


def measured(word: Verdict) -> literature.Measured:
    history = Book(keys=("a",)).acquire(1, 2, 1).release(3, 4, 1).history()
    return literature.Measured(Judgement("holder-exclusion", word, "because"), LaneRecord(history, ()))


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
    found = {Probe(f"{lock}/register/unfenced", "none", "p"): measured(word) for lock, word in words.items()}
    with patch.multiple(literature, FOLDER=tmp_path, STATEMENTS=(statement,)):
        assert literature._entry(statement, found)["outcome"] == outcome


def test_unknown_statements_start_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with patch("suites.commands.literature.Run.create", side_effect=AssertionError("a run was made")):
        assert suites(["literature", "--only", "zzzz"]) == 2
    assert capsys.readouterr() == ("", "fencepost: no statement contains 'zzzz'\n")


def test_only_a_regression_that_a_bug_of_a_release_explains_is_right(tmp_path: Path) -> None:
    assert all(set(bug.found_by) <= PROPERTIES.keys() for bug in track_record.bugs().values())
    run = closed(tmp_path)
    issue(run)
    run.add({"exit status": 1})
    certificate = json.loads((run.path / files.CERTIFICATE).read_text())
    seen = certificate["promises"][0]["stages"]["baseline"] | {"because": "explained by revoked-early"}
    loss = {"property": "fifo", "lock": "redis", "fault": "none", "seen": seen}
    lost = [loss, {**loss, "property": "token-order", "seen": {**seen, "because": "token-repeated"}}]
    (run.path / files.CERTIFICATE).write_text(json.dumps(certificate | {"verdict": "REGRESSION", "regressed": lost}))
    releases, why = (("7.0", "8.0", "8.1"),), ("revoked-early",)
    known = {each: track_record.Bug(each, "redis", releases, "", "", (each,), why) for each in ("fifo", "token-order")}
    stored_there = patch.multiple(track_record, TRIES=tmp_path / "tries.json", bugs=lambda: known)
    with stored_there, patch.object(track_record, "run_in", return_value=run) as ran:
        assert track_record.main() == track_record.main() == 1
        assert ran.call_count == 4  # what was tried is not tried again
        assert [(each.bug, each.new) for each in track_record.stored() if each.right] == [("fifo", "8.0")]
        assert "7.0 → 8.0: as it should be in 1 of 1" in readme._track_record()


def test_cycles_have_the_shape_that_is_asked_for(tmp_path: Path) -> None:
    with patch.object(cycles, "OwnEnvironment") as own, patch.object(cycles, "run_trial") as run:
        run.return_value.lanes = ()
        assert soak.main(1, 9, ["etcd"], ["etcd=five"], tmp_path / "done", tmp_path / "failed") == 0
        cycles.Cycles(shapes=["etcd=five"]).run_fault("restart-rolling", 1, lanes_on("etcd"))
    assert own.start.call_args_list == [call(shapes={"etcd": "five"})] * 2
    assert (run.call_args.args[0].shape, len(run.call_args.args[0].plan.steps[0].options["nodes"])) == ("five", 5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_cycles_on_a_backend_draw_at_most_one_lane_of_each_of_its_plainest_locks(backend: str) -> None:
    lanes = lanes_on(backend)
    assert {lane.backend for lane in lanes} == {backend}
    assert all(lane.lock_name in PLAINEST and lane.store in STORES for lane in lanes) or len(lanes) == 1
    assert all(lane.not_applicable is None for lane in lanes)
    drawn = drawn_on(backend, 1)
    assert drawn == drawn_on(backend, 1)
    assert 0 < len({lane.lock_name for lane in drawn}) == len(drawn) <= DRAWN
    assert len({drawn_on(backend, seed) for seed in range(5)}) > 1
