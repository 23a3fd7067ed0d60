"""Run folders: what is saved and measured comes back, damage is named, and processes do not get in each other's way."""

import json
import shutil
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from checkers.claims import Verdict
from checkers.history.history import FaultInterval, History, from_rows
from checkers.judging.judgement import judge
from checkers.measures.availability import availability_gap, longest_gap
from checkers.measures.latency import acquire_latency, release_latency
from checkers.measures.measured_history import MeasuredHistory
from checkers.models.model import Settings
from checkers.properties.check_result import CheckResult
from checkers.row_format import NONE, F, Outcome, Reason
from checkers.tests.build import cases, there
from results.commands import find
from results.record import NotRun, settled, version_of
from results.run import Run
from results.storage import files
from results.storage.reading import load_trial
from results.storage.verdicts import measured
from results.tests import hostile, samples
from results.tests.samples import MS, START, cell, facts, hold, long, row, rows_of, stale_write

SILENT = cell(Verdict.WEAKNESS_NOT_SHOWN, seed=7)
SHOWN = cell(Verdict.WEAKNESS_SHOWN, seed=8, attempt=2)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "runs", {"faults": ["freeze-holder"], "seed": 7})


def test_a_saved_trial_is_loaded_with_its_measures_and_the_boundaries_hit(run: Run) -> None:
    record = samples.trial()
    page = run.save_trial(record)
    assert (page, page.is_file()) == (run.path / "trials" / record.name / "index.html", True)
    loaded = load_trial(page.parent)
    assert (loaded.name, loaded.about, loaded.logs) == (record.name, record.about, record.logs)
    for got, given in zip(loaded.lanes, record.lanes, strict=True):
        assert got.judgements == given.judgements
        assert (got.history.facts, got.history.faults) == (given.history.facts, given.history.faults)
        for name, column in given.history.columns.items():
            np.testing.assert_array_equal(got.history.columns[name], column)
    struck, other = run.read().lanes
    assert (struck.boundaries, other.boundaries) == ({"acquire at once": {"messages": 3, "hit": 2}}, {})
    for lane, of in zip((struck, other), record.lanes, strict=True):
        assert lane.measures == measured(of.history)
        assert lane.measures["grants"] == 6
        assert (lane.operations, lane.started) == (len(of.history), "2025-11-21T07:49:00+00:00")


def test_cells_say_what_was_judged(run: Run) -> None:
    page = run.save_trial(samples.trial())
    cells = run.read().cells
    assert len(cells) == 8
    [made] = [c for c in cells if c.property == "fenced-store" and c.store == "unfenced"]
    assert made.story[0].startswith("worker 3 was granted the lock with token 41")
    assert made == cell(
        Verdict.WEAKNESS_SHOWN, "fenced-store", fault="freeze-holder", because="explained by frozen-past-ttl",
        counters={"stale attempts": 1, "accepted writes": 14}, story=made.story, page=page,
        trial="redis-freeze-holder-7", seed=7, attempt=0,
    )  # fmt: skip


def test_an_unexcused_violation_behind_an_excused_one_tells_its_own_story(run: Run) -> None:
    history = samples.stale_write()
    excused = samples.stale_violation(history)
    early = replace(excused, at=samples.START + 1, kind="overlap", story=("before any fault",))
    run.save_trial(samples.one_lane(history, judge(CheckResult("fenced-store", False, (excused, early)), history)))
    [made] = run.read().cells
    assert (made.word, made.story[-1]) == (Verdict.VIOLATED, "before any fault")


def test_a_trial_gets_another_name_if_a_process_takes_its_name_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run.save_trial(samples.trial())
    real = files.safe_name
    listings = iter([()])  # the first look into the folder comes before the other process's trial

    def late(text: str, taken: Collection[str] = ()) -> str:
        return real(text, next(listings, taken) if first.parent.name in taken else taken)

    monkeypatch.setattr(files, "safe_name", late)
    assert (run.save_trial(samples.trial()).parent.name, len(run.read().cells)) == ("redis-freeze-holder-7~2", 16)


def test_two_threads_can_save_into_one_run_at_once(run: Run) -> None:
    records = [samples.trial(f"trial-{number}") for number in range(5)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: [*map(Run.open(run.path).save_trial, records)], range(2)))
    contents = run.read()
    assert (len(contents.cells), contents.problems) == (2 * 5 * 8, ())
    names = {f"trial-{number}{suffix}" for number in range(5) for suffix in ("", "~2")}
    assert {path.name for path in (run.path / "trials").iterdir()} == names


@pytest.mark.parametrize("hurt", ["trial.json", "verdicts.json"])
@pytest.mark.parametrize("data", [b"", b'{"format": 2}', b'{"format": 2, "lanes": [3], "about": {}}'])
def test_a_damaged_trial_is_named_and_skipped(run: Run, hurt: str, data: bytes) -> None:
    run.save_trial(samples.trial("good"))
    bad = run.save_trial(samples.trial("bad")).parent
    (bad / hurt).write_bytes(data)
    contents = run.read()
    assert ({cell.trial for cell in contents.cells}, len(contents.problems)) == ({"good"}, 1)
    assert contents.problems[0].startswith("trials/bad")
    with pytest.raises(files.BadFile, match="bad"):
        load_trial(bad)


def test_a_trial_is_stored_if_measuring_fails_and_never_half(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError):
        run.save_trial(samples.trial("bad", surprise=object()))
    assert list((run.path / "trials").iterdir()) == []
    (run.path / "trials" / ".x.1-2.partial").mkdir()
    assert run.read().problems == ()
    monkeypatch.setattr("results.storage.verdicts.measured", Mock(side_effect=ZeroDivisionError))
    with pytest.raises(ZeroDivisionError):
        run.save_trial(samples.trial())
    assert ([lane.measures for lane in run.read().lanes], len(run.read().cells)) == ([None, None], 8)


@cases(
    "about, version",
    ("asked", {"version": "3.4", "versions": {"etcd1": "3.4.23"}}, "3.4"),
    ("common", {"version": None, "versions": {"etcd1": "3.4.23", "etcd2": "3.4.23"}}, "3.4.23"),
    ("mixed", {"versions": {"etcd1": "3.4.23", "etcd2": "3.5.16"}}, ""),
    ("none", {"versions": None}, ""),
    ("unknown", {}, ""),
)
def test_a_trial_has_the_version_asked_for_or_else_that_of_all_servers(about: dict[str, object], version: str) -> None:
    assert version_of(about) == version


def test_an_aborted_trial_is_a_problem_and_a_cell_that_was_not_run_is_listed_once(run: Run) -> None:
    for _ in range(2):
        run.save_not_run([NotRun("redis", "redis", "isolate-leader-drop", "redis has no leader")])
    [made] = run.read().cells
    assert (made.word, made.because, made.page) == (Verdict.NOT_APPLICABLE, "redis has no leader", None)
    run.save_trial(samples.trial("aborted", error="worker 2 broke: TypeError"))
    contents = run.read()
    assert (len(contents.cells), "worker 2 broke" in contents.problems[0]) == (8 + 1, True)
    with pytest.raises(files.BadFile, match=r"run\.json"):
        Run.open(run.path.parent)


def test_hostile_names_stay_inside_the_folder(run: Run) -> None:
    folder = run.save_trial(hostile.trial()).parent
    assert folder.parent == run.path / "trials"
    assert load_trial(folder).name.startswith("in-trial <script>")
    assert load_trial(run.save_trial(samples.trial(samples.HOSTILE)).parent).name == samples.HOSTILE
    assert all(path.name.isascii() for path in folder.rglob("*"))
    page = run.save_trial(replace(samples.trial("../../../etc/passwd"), logs={"../redis1": b"a", "redis1": b"b"}))
    assert page.parent.parent == run.path / "trials"
    assert load_trial(page.parent).logs == {"../redis1": b"a", "redis1": b"b"}


def test_lanes_with_alike_names_keep_files_of_their_own(run: Run) -> None:
    lanes = [samples.stale_write(lane=name) for name in ("a/b", "a:b", "A?B")]
    folder = run.save_trial(samples.trial("t", *lanes)).parent
    assert {path.name for path in folder.glob("*.arrow")} == {"a-b.arrow", "a-b~2.arrow", "A-B~3.arrow"}
    assert [lane.history.facts.lane for lane in load_trial(folder).lanes] == ["a/b", "a:b", "A?B"]


@pytest.mark.parametrize(
    ("text", "name"),
    [("a/set", "a-set"), ("-rf", "rf"), ("x" * 5000, "x" * 100), ("..", ""), ("", ""), ("\0/\n", ""), ("é", "")],
)
def test_safe_names_are_never_taken_twice(text: str, name: str) -> None:
    assert files.safe_name(text) == (name or "unnamed")
    assert files.safe_name("Etcd", ["etcd", "etcd~2"]) == "Etcd~3"


@pytest.mark.parametrize(
    "change",
    [{"seed": 50, "attempt": 1}, {"lane": "redis/set/unfenced"}, {"word": Verdict.UPHELD}, {"version": "3.5.16"}],
    ids=lambda change: next(iter(change)),
)
def test_only_an_attempt_that_shows_a_hazard_settles_it_and_none_settles_a_violation(change: dict[str, Any]) -> None:
    assert settled([SILENT, SHOWN]) == settled([SHOWN, SILENT]) == [SHOWN]
    other, violated = replace(SHOWN, **change), replace(SILENT, word=Verdict.VIOLATED)
    assert settled([SILENT, other]) == [SILENT, other]
    assert violated in settled([violated, SHOWN])


def test_a_run_that_was_removed_while_it_went_on_is_closed_with_what_came_after(run: Run) -> None:
    run.save_trial(samples.trial("before"))
    asked = run.about()
    shutil.rmtree(run.path)
    run.save_trial(samples.trial("after"))
    run.close({"exit status": 0})
    assert (run.about(), {cell.trial for cell in run.read().cells}) == (asked, {"after"})
    assert [stored.path for stored in find.runs(run.path.parent)] == [run.path]


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
    assert found["longest_gap_s"] == pytest.approx(there(availability_gap(subject)["longest"]) / 1e9, abs=1e-6)
    assert np.ptp(there(longest_gap(subject))) == availability_gap(subject)["longest"]
    assert found["operations"] == len(recorded)


def test_each_fault_has_a_phase_during_and_after_it_and_overlapping_faults_share_both() -> None:
    found = measured(history(fault(250, 350), fault(900, 1050)))
    told = [(one["cycle"], one["phase"], one["grants"]) for one in found["cycles"]]
    assert told == [(0, "before", 2), (1, "during", 1), (1, "after", 0), (2, "during", 1), (2, "after", 1)]
    assert [one["begin_s"] for one in found["cycles"]] == pytest.approx([0, 0.18, 0.28, 0.83, 0.98])
    assert sum(one["seconds"] for one in found["cycles"]) == pytest.approx(found["seconds"])
    assert sum(one["acquire_ms"]["count"] for one in found["cycles"]) == found["acquire_ms"]["count"]
    assert found["recovery_s"] == [pytest.approx(0.65), pytest.approx(0.05)]
    found = measured(history(fault(250, 350), fault(300, 900, "slow")))
    assert [one["phase"] for one in found["cycles"]] == ["before", "during", "after"]
    assert found["recovery_s"] == pytest.approx([0.65, 0.1])


def test_a_fault_that_never_healed_lasts_to_the_end_and_without_a_fault_there_is_one_phase() -> None:
    found = measured(history(replace(fault(250, 350), healing=0, healed=0)))
    assert ([one["phase"] for one in found["cycles"]], found["recovery_s"]) == (["before", "during"], [None])
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
    assert (times["count"], times["given_up"], times["p50"], found["unknown"], found["refused"]) == (10, 7, None, 6, 1)
    assert times["longest"] == pytest.approx(594, abs=6)


def test_store_times_count_accesses_of_the_store_but_not_of_the_lock_service() -> None:
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
def test_an_unknown_measure_is_null_and_never_nan(recorded: History) -> None:
    found = measured(recorded)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found.keys(), found["acquire_ms"]["p50"]) == (measured(history()).keys(), None)
