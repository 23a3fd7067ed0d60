"""Comparisons of verdicts, evidence and times, and what `results compare` prints."""

import io
import json
import math
import random
import re
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from checkers.claims import Verdict
from checkers.judging.judgement import Judgement
from checkers.properties.check_result import CheckResult
from checkers.tests.build import cases, there
from results.comparison import presentation as compared_
from results.comparison.compare import NOT_COMPARABLE, SAME_OR_BETTER, WORSE, Comparison, apart, compare
from results.comparison.presentation import Side
from results.comparison.speeds import MEASURES, RATIO, Speed
from results.record import Cell, LaneSummary, TrialRecord
from results.report.verdict_changes import Kind
from results.run import Run
from results.storage.reading import RunContents
from results.tests import hostile
from results.tests.conftest import Results
from results.tests.markup import Page, golden
from results.tests.samples import HOSTILE, cell, one_lane, stale_write, summary, trial
from results.tests.trials import contents, load, measures, slower

NOTHING = RunContents((), (), ())
VALUES = dict.fromkeys((measure.name for measure in MEASURES), 100.0)
WORDS = [word for word in Verdict if word is not Verdict.NOT_APPLICABLE]
SILENT = {Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_BROKEN, Verdict.NOT_PROMISED_HELD, Verdict.UPHELD}
ODD = (0, 0.0, -1.0, -1e308, 1e308, 5e-324, 1e-300, 2**63 - 1, -(2**63), math.nan, math.inf, -math.inf, None, True, "x")
PROPERTIES = ("server-exclusion", "fenced-store", "fifo")
TOLD = (Verdict.UPHELD, Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_HELD)


def run(*cells: Cell) -> RunContents:
    return RunContents(cells, (), ())


def lanes(times: float, store: float | None = 1.0, faults: int = 20, seed: int = 1) -> RunContents:
    """One lock in trials of many faults. Each trial has times of its own, all multiplied by `times`."""

    def lane(number: int) -> LaneSummary:
        usual = (1 + number) * 1.1 ** ((number * seed) % 5 - 2)
        of = {measure.name: times if measure.rises else 1 / times for measure in MEASURES}
        values = {name: VALUES[name] * usual * factor for name, factor in of.items()}
        return summary(measures(store, values), fault=f"fault-{number}", seed=seed, lane="redis/set/unfenced")

    return RunContents((), tuple(lane(number) for number in range(faults)), ())


def changed(before: RunContents, after: RunContents) -> Kind:
    (change,) = compare(before, after).changes
    return change.kind


@pytest.mark.parametrize(("old", "new"), list(product(WORDS, WORDS)), ids=lambda word: word.name.lower())
def test_each_change_of_a_verdict_is_worse_lost_or_neither(old: Verdict, new: Verdict) -> None:
    found = compare(run(cell(old)), run(cell(new)))
    worse = (
        (new is Verdict.VIOLATED and old is not Verdict.VIOLATED)
        or (new is Verdict.WEAKNESS_NOT_SHOWN and old in SILENT)
        or (new is Verdict.NOT_PROMISED_BROKEN and old is Verdict.UPHELD)
    )
    assert (found.status == WORSE) == worse
    # Lost evidence does not make B worse, but it is no pass either.
    lost = new in (Verdict.UNKNOWN, Verdict.NOT_STRESSED) and old not in (Verdict.UNKNOWN, Verdict.NOT_STRESSED)
    assert (found.status == NOT_COMPARABLE) == lost
    (change,) = found.changes
    assert (change.kind is Kind.SAME, change.kind is Kind.NEW) == (old is new, new.fails and not old.fails)
    assert (change.kind is Kind.CLEARED) == (old.fails and not new.fails)


def test_a_claim_that_broke_where_the_other_run_has_nothing_is_worse() -> None:
    broken = run(cell(Verdict.VIOLATED))
    assert compare(NOTHING, broken).status == WORSE
    assert (changed(NOTHING, broken), changed(broken, NOTHING)) == (Kind.ONLY_IN_B, Kind.ONLY_IN_A)


def test_a_violation_is_hidden_neither_by_lighter_verdicts_nor_by_lost_evidence() -> None:
    many = [cell(Verdict.UPHELD, seed=seed) for seed in range(50)]
    found = compare(run(*many), run(*many, cell(Verdict.VIOLATED, seed=77, page=Path("its"))))
    assert found.status == WORSE
    after = there(found.changes[0].after)
    assert (after.word, after.times, after.trials, after.page) == (Verdict.VIOLATED, 1, 51, Path("its"))
    before = run(cell(Verdict.UPHELD), cell(Verdict.UPHELD, property="fifo"))
    found = compare(before, run(cell(Verdict.NOT_STRESSED), cell(Verdict.VIOLATED, property="fifo")))
    assert (found.status, found.changes[0].property) == (WORSE, "fifo")


def test_a_positive_control_that_showed_at_the_third_attempt_is_not_silent() -> None:
    shown = run(cell(Verdict.WEAKNESS_SHOWN, seed=1, attempt=1))
    late = [cell(Verdict.WEAKNESS_NOT_SHOWN, seed=4, attempt=1), cell(Verdict.WEAKNESS_NOT_SHOWN, seed=5, attempt=2)]
    assert compare(shown, run(*late, cell(Verdict.WEAKNESS_SHOWN, seed=6, attempt=3))).status == SAME_OR_BETTER
    assert compare(shown, run(*late, cell(Verdict.WEAKNESS_NOT_SHOWN, seed=6, attempt=3))).status == WORSE


@pytest.mark.parametrize("field", ["backend", "lane", "fault", "property"])
def test_different_cells_and_cells_that_do_not_apply_are_not_compared(field: str) -> None:
    found = compare(run(cell(Verdict.UPHELD)), run(cell(Verdict.UPHELD, **{field: "other"})))
    assert {change.kind for change in found.changes} == {Kind.ONLY_IN_A, Kind.ONLY_IN_B}
    assert found.status == NOT_COMPARABLE
    assert compare(run(cell(Verdict.NOT_APPLICABLE)), run(cell(Verdict.NOT_APPLICABLE))).status == NOT_COMPARABLE


@pytest.mark.parametrize("problem", ["redis-1: aborted: a worker hung", "redis-1/verdicts.json: not JSON"])
def test_a_trial_that_was_left_out_loses_evidence_that_the_other_run_has(problem: str) -> None:
    both, gone = cell(Verdict.UPHELD, fault="other"), cell(Verdict.UPHELD, page=Path("run/trials/redis-1/index.html"))
    found = compare(run(both, gone), replace(run(both), problems=(f"trials/{problem}",)))
    assert found.status == NOT_COMPARABLE
    assert [change.lost for change in found.changes if change.after is None] == ["its trial was left out"]
    of_another = replace(run(both), problems=("trials/redis-2: aborted: x",))
    assert compare(run(both, gone), of_another).status == SAME_OR_BETTER


def test_versions_of_one_run_do_not_hide_each_other() -> None:
    old, new = cell(Verdict.VIOLATED, version="7.0"), cell(Verdict.UPHELD, version="8.0")
    before, after = run(old, new), run(old, replace(new, word=Verdict.VIOLATED))
    assert [change.backend for change in compare(*apart([before, after])).changes if change.worse] == ["redis 8.0"]
    assert apart([run(old), run(new)]) == [run(old), run(new)], "one version each is what one compares"


def speeds(before: RunContents, after: RunContents) -> dict[str, Speed]:
    return {speed.measure: speed for speed in compare(before, after).speeds if speed.lock}


def test_three_times_slower_is_worse_and_three_times_quicker_better() -> None:
    slower, quicker = speeds(lanes(1), lanes(3)), speeds(lanes(3), lanes(1))
    assert [{speed.word for speed in each.values()} for each in (slower, quicker)] == [{"worse"}, {"better"}]
    ratios = {measure.name: pytest.approx(3 if measure.rises else 1 / 3, rel=0.01) for measure in MEASURES}
    assert {name: speed.ratio for name, speed in slower.items()} == ratios
    assert compare(lanes(1), lanes(3)).status == WORSE


def again(run: RunContents) -> RunContents:
    """The lanes of `lanes(1)`, and those of `run` as further attempts of a positive control."""
    return replace(run, lanes=(*lanes(1).lanes, *(replace(lane, attempt=2) for lane in run.lanes)))


def tiny(times: float) -> RunContents:
    small = measures(1.0, {**VALUES, "release p50": 0.01 * times})
    return replace(lanes(1), lanes=tuple(replace(lane, measures=small) for lane in lanes(1).lanes))


@cases(
    "before, after",
    ("by less than the threshold", lanes(1), lanes(RATIO * 0.95)),
    ("on a quick machine", lanes(1), lanes(1, store=0.05)),
    ("at a further attempt", lanes(1), again(lanes(9, seed=2))),
    ("too little to matter", tiny(1), tiny(3)),
)
def test_times_that_are_not_really_longer_are_the_same(before: RunContents, after: RunContents) -> None:
    found = compare(before, after)
    assert found.status == SAME_OR_BETTER
    assert {speed.word for speed in found.speeds} <= {"same", "better"}


def test_trials_are_paired_by_common_seeds_or_without_any_by_their_faults() -> None:
    other = speeds(lanes(1, seed=1), lanes(3, seed=2))
    assert all(speed.word == "worse" and speed.trials == 20 for speed in other.values())
    before = replace(lanes(1), lanes=(*lanes(1, seed=1).lanes, *lanes(9, seed=2).lanes))
    assert all(speed.ratio == pytest.approx(1) for speed in speeds(before, lanes(1, seed=1)).values())


def test_the_unit_is_the_trial_and_not_the_lane() -> None:
    few = (lanes(times, faults=4) for times in (1, 3))
    many = (tuple(replace(lane, lane=f"{n}") for lane in run.lanes for n in range(10)) for run in few)
    found = speeds(*(RunContents((), lanes, ()) for lanes in many))
    assert all(speed.trials == 4 and speed.p is None and speed.word == "too few" for speed in found.values())


def test_few_trials_leave_times_unjudged_but_verdicts_stand() -> None:
    found = compare(*(replace(lanes(times, faults=3), cells=(cell(Verdict.UPHELD),)) for times in (1, 9)))
    assert (found.timed, found.status) == (False, SAME_OR_BETTER)


def test_a_slow_machine_is_not_the_locks_fault() -> None:
    found = speeds(lanes(1), lanes(2, store=2.0))
    assert found["release p50"].machine == pytest.approx(2)
    for name, word in (("release p50", "unsure"), ("acquire p99", "worse")):
        assert found[name].word == word


def test_times_that_one_run_did_not_measure_are_left_out() -> None:
    old = replace(lanes(1), lanes=tuple(replace(lane, measures=None) for lane in lanes(1).lanes))
    assert compare(old, lanes(3)).speeds == ()


def test_a_quantile_that_was_not_reached_is_at_least_as_long_as_anybody_waited() -> None:
    def given_up(told: Any) -> Any:
        return {**told, "acquire_ms": {"count": 9, "p99": None, "longest": told["acquire_ms"]["p99"]}}

    slow = tuple(replace(lane, measures=given_up(lane.measures)) for lane in lanes(3).lanes)
    assert speeds(lanes(1), RunContents((), slow, ()))["acquire p99"].word == "worse"


def wrecked(value: object, rng: random.Random) -> object:
    if isinstance(value, dict):
        return {name: wrecked(one, rng) for name, one in value.items()}
    if isinstance(value, list):
        return [wrecked(one, rng) for one in value]
    return value if isinstance(value, str) or rng.random() > 0.3 else rng.choice(ODD)


def test_no_odd_number_in_the_measures_breaks_a_comparison() -> None:
    rng, usual = random.Random(1), lanes(1, faults=8)
    for _ in range(30):
        odd = [replace(lane, measures=wrecked(lane.measures, rng)) for lane in usual.lanes]  # type: ignore[arg-type]
        for speed in compare(usual, replace(usual, lanes=tuple(odd))).speeds:
            numbers = (speed.before, speed.after, speed.ratio, speed.machine, *(speed.interval or ()))
            assert all(math.isfinite(number) and number > 0 for number in numbers)


def judged(*words: Verdict, **facts: Any) -> TrialRecord:
    told = zip(PROPERTIES, words, strict=False)
    judgements = tuple(Judgement(prop, word, f"because of {word}", CheckResult(prop, None)) for prop, word in told)
    return one_lane(stale_write(**facts), *judgements)


def stored(root: Path, *records: TrialRecord) -> str:
    run = Run.create(root, {})
    for record in records:
        run.save_trial(record)
    run.close({})
    return str(run.path)


@pytest.fixture
def upheld(tmp_path: Path) -> str:
    return stored(tmp_path, judged(*TOLD))


@cases(
    "words, status",
    ("same", TOLD, 0),
    ("violated", (Verdict.VIOLATED, *TOLD[1:]), 1),
    ("silent", (Verdict.UPHELD, Verdict.WEAKNESS_NOT_SHOWN, Verdict.NOT_PROMISED_HELD), 1),
    ("unexercised", (Verdict.NOT_STRESSED, *TOLD[1:]), 3),
)
def test_every_form_of_output_exits_with_the_status_of_the_comparison(
    upheld: str, words: tuple[Verdict, ...], status: int, tmp_path: Path, results: Results
) -> None:
    other = stored(tmp_path, judged(*words))
    said = [results("compare", upheld, other, *form) for form in ([], ["--json"], ["--markdown"])]
    assert [told for told, *_ in said] == [status] * 3
    assert ("B is no worse than A in 3 common verdicts." in said[0][1]) == (status == 0)


def test_a_comparison_with_a_worse_run_matches_the_golden_text_in_every_form(
    upheld: str, tmp_path: Path, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    page = tmp_path / "deep" / "er" / "page.html"
    page.parent.mkdir(parents=True)
    violated = stored(tmp_path, judged(Verdict.VIOLATED, Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_BROKEN))
    forms = ((), ("--markdown",), ("--json",), ("--html", str(page)))
    said = [results("compare", upheld, violated, *form)[1] for form in forms]
    text = "\n".join([*said[:3], Page(page.read_text("utf-8")).lines]).replace(str(tmp_path), "ROOT")
    text = text.replace(Path(upheld).name, "RUN-A").replace(Path(violated).name, "RUN-B")
    assert text == golden("compared.txt", text)


def test_an_aborted_trial_is_noted_and_a_missing_run_is_refused(upheld: str, tmp_path: Path, results: Results) -> None:
    assert results("compare", upheld, "nowhere")[:2] == results("compare", upheld)[:2] == (2, "")
    broken = replace(trial("redis-kill-1", error="a worker hung"), lanes=())
    status, out, _ = results("compare", upheld, stored(tmp_path, judged(*TOLD), broken))
    assert (status, "B lacks 1 trial" in out) == (0, True)


def test_an_interrupted_run_is_compared_as_far_as_it_came(upheld: str, tmp_path: Path, results: Results) -> None:
    run = Run.create(tmp_path, {})
    run.save_trial(judged(*TOLD[:2]))
    assert "B is still going on" in results("compare", upheld, run.path)[1]
    there(run.going_on).close()
    status, out, _ = results("compare", upheld, run.path)
    assert (status, "B is interrupted" in out, "1 verdict is in A only" in out) == (0, True, True)


def test_hostile_strings_stay_text(tmp_path: Path, results: Results) -> None:
    bad = hostile.trial()
    calm = replace(bad, lanes=tuple(replace(lane, judgements=()) for lane in bad.lanes))
    both = stored(tmp_path, calm), stored(tmp_path, bad)
    page = tmp_path / "page.html"
    _, out, _ = results("compare", *both, "--html", page)
    text = page.read_text("utf-8")
    assert "<script>pwned" not in text
    assert len(re.findall("<script", text)) == 1
    assert "<img" not in text
    assert "\ud800" not in out
    _, out, _ = results("compare", *both, "--markdown")
    assert "<script" not in out
    assert "&#60;script&#62;" in out
    assert not re.search(r"(?<!\\)[|\n]\s*<(?!code>)", out)
    assert json.loads(results("compare", *both, "--json")[1])["changes"][0]["lane"] == hostile.attack("lane")


@pytest.fixture(scope="module")
def slow() -> tuple[Comparison, Side, Side]:
    """The comparison of a real run with another one in which one lock was made three times slower."""
    first, second = ([one for one in load() if one.run == run] for run in (0, 1))
    runs = contents(first), contents(slower(one, 3, lock="redis") for one in second)
    before, after = (Side(HOSTILE, Path("nowhere"), run, (("redis", "8.0"),), "closed") for run in runs)
    return compare(before.contents, after.contents), before, after


@pytest.mark.parametrize("width", [40, 80, 160])
def test_a_slower_lock_is_reported_in_terminals_of_any_width(slow: tuple[Comparison, Side, Side], width: int) -> None:
    out = io.StringIO()
    compared_.render(*slow, Console(file=out, width=width))
    text = " ".join(out.getvalue().split())
    assert "B is worse than A: 7 times or rates." in text
    assert re.search(r"worse redis redis release p50 [\d.]+ ms [\d.]+ ms [23]\.\d+ \[", text)
    assert all(len(line) <= width for line in out.getvalue().splitlines() if "index.html" not in line)


def test_markdown_and_the_page_report_a_slower_lock(slow: tuple[Comparison, Side, Side], tmp_path: Path) -> None:
    assert "| worse | redis | redis | release p50 |" in compared_.markdown(*slow)
    page = compared_.page(*slow, tmp_path / "page.html")
    assert (page.count('<tr data-word="worse">'), page.count("<svg")) == (7, len(slow[0].speeds))
    assert HOSTILE[:20] not in page
