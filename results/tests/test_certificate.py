"""Certificates: the decision on an upgrade, doubts about the tests, errors of clients, and the conditions."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from checkers.claims import Verdict
from checkers.properties import shared_counters
from checkers.properties.fenced_store import STALE
from checkers.properties.shared_counters import CONTENDED, EXPIRED
from checkers.tests.build import cases
from results.certificate.certify import Certificate, Decision, certify, sentence
from results.certificate.detection_power import FAULTY, REFUSED, UNFENCED, Shown, seen_in
from results.certificate.trials import Turn, UpgradeLane, conditions, errors, normalised
from results.record import Cell
from results.stages import ALONE, BASELINE, CANDIDATE, CLIENTS, COLUMNS, MIXED, ROLLBACK, STAGES, TOGETHER, WHEN
from results.storage.reading import RunContents
from results.tests import samples
from results.tests.test_comparison import VALUES, WORDS, lanes
from results.tests.trials import measures
from results.tests.upgrades import KEPT, OCCURRED, UPGRADES, cell, of, step, told, whole

BLIND = (Verdict.UNKNOWN, Verdict.NOT_STRESSED)


@pytest.mark.parametrize(("old", "new"), list(product(WORDS, WORDS)), ids=lambda word: word.name.lower())
def test_each_change_of_a_verdict_leads_to_its_decision(old: Verdict, new: Verdict) -> None:
    made = of(cell(BASELINE, old), cell(CANDIDATE, new))
    broke = new is Verdict.VIOLATED and old is not Verdict.VIOLATED
    no_longer_promised = new is Verdict.NOT_PROMISED_BROKEN and old is Verdict.UPHELD
    assert (made.decision is Decision.REGRESSION) == (broke or no_longer_promised)
    silent = new is Verdict.WEAKNESS_NOT_SHOWN and not old.fails
    broken = (Verdict.UPHELD, Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_BROKEN)
    undecided = new is Verdict.NOT_PROMISED_BROKEN and old not in broken  # one trial of each
    assert (made.decision is Decision.INCONCLUSIVE) == ((new in BLIND and old not in BLIND) or silent or undecided)
    assert bool(made.cleared) == (old is Verdict.VIOLATED and new is not Verdict.VIOLATED)


@pytest.mark.parametrize("stage", TOGETHER)
@pytest.mark.parametrize(("old", "new"), list(product(WORDS, WORDS)), ids=lambda word: word.name.lower())
def test_each_change_of_a_verdict_while_versions_mix_has_its_decision(old: Verdict, new: Verdict, stage: str) -> None:
    made = whole(cell(BASELINE, old), cell(CANDIDATE, old), cell(stage, new))
    assert (made.decision is Decision.REGRESSION) == (new is Verdict.VIOLATED and old is not Verdict.VIOLATED)
    assert bool(made.known) == (new is old is Verdict.VIOLATED)
    doubtful = new is Verdict.WEAKNESS_NOT_SHOWN or (new in BLIND and old not in BLIND)
    assert (made.decision is Decision.INCONCLUSIVE, made.cleared) == (doubtful, ())


@cases(
    "stages, said",
    ("on the way", [MIXED], "redis lost token-order during the rolling upgrade"),
    ("on the way back", [ROLLBACK], "redis lost token-order after rolling back"),
    ("both", [MIXED, ROLLBACK], "redis lost token-order during the rolling upgrade and after rolling back"),
    ("twice", [CANDIDATE, MIXED], "redis lost token-order under freeze-holder and during the rolling upgrade"),
)
def test_the_sentence_says_in_which_stage_a_promise_was_lost(stages: list[str], said: str) -> None:
    made = whole(*(cell(stage, Verdict.VIOLATED) for stage in stages))
    assert (sentence(made), {one.stage for one in made.regressed}) == (f"REGRESSION: {said}", set(stages))


def test_a_promise_that_the_old_version_broke_elsewhere_is_not_lost_by_the_upgrade() -> None:
    cells = [cell(BASELINE, Verdict.VIOLATED), cell(CANDIDATE, Verdict.UPHELD), cell(MIXED, Verdict.VIOLATED)]
    turned = ((BASELINE, Verdict.UPHELD), (CANDIDATE, Verdict.VIOLATED))
    cells += [cell(stage, word, fault="none") for stage, word in turned]
    made = of(*cells)
    assert made.decision is Decision.NO_REGRESSION
    assert ([one.fault for one in made.known], made.cleared) == (["none", "upgrade-leader-last"], ())
    of_another = [replace(one, property="fenced-store") if one.fault == "none" else one for one in cells]
    assert sentence(of(*of_another)) == "REGRESSION: redis lost fenced-store under none"


def test_a_regression_outranks_every_doubt() -> None:
    doubtful = [cell(BASELINE, Verdict.UPHELD, lane="b"), cell(CANDIDATE, Verdict.UNKNOWN, lane="b")]
    assert sentence(of(*doubtful)).startswith("INCONCLUSIVE: token-order of b under freeze-holder came to no verdict")
    broken = [cell(BASELINE, Verdict.UPHELD), cell(CANDIDATE, Verdict.VIOLATED)]
    assert of(*doubtful, *broken).decision is Decision.REGRESSION
    assert whole(cell(MIXED, Verdict.VIOLATED), problems=("trials/x: aborted: no",)).decision is Decision.REGRESSION


def test_cleared_defects_are_counted_by_promise_and_are_known_in_the_mixed_stage() -> None:
    cells = [
        cell(stage, Verdict.VIOLATED if stage == BASELINE else Verdict.UPHELD, fault=fault, property=name)
        for stage, fault, name in product(ALONE, ("none", "freeze-holder"), ("token-order", "fenced-store"))
    ]
    assert sentence(of(*cells)) == "NO REGRESSION FOUND (2 defects cleared)"
    made = whole(cell(BASELINE, Verdict.VIOLATED), cell(MIXED, Verdict.VIOLATED))
    assert sentence(made) == "NO REGRESSION FOUND (1 defect cleared)"
    assert [one.stage for one in made.known] == [MIXED]


@pytest.mark.parametrize("new", [Verdict.NOT_PROMISED_BROKEN, Verdict.WEAKNESS_SHOWN])
def test_a_new_break_of_a_property_without_a_promise_is_listed_and_is_no_loss(new: Verdict) -> None:
    made = of(cell(BASELINE, Verdict.NOT_PROMISED_HELD), cell(CANDIDATE, new))
    assert ([one.property for one in made.turned], made.regressed) == (["token-order"], ())
    elsewhere = cell(BASELINE, new, fault="stall-holder")
    assert not of(cell(BASELINE, Verdict.NOT_PROMISED_HELD), elsewhere, cell(CANDIDATE, new)).turned


@pytest.mark.parametrize(
    ("old", "new", "one"),
    [(["8.0.2"], ["8.0.2"], True), (["8.0.2"], ["8.0.3"], False), (["8.0.2", "8.0.3"], ["8.0.2", "8.0.3"], False)],
)
def test_a_warning_says_that_old_and_new_servers_report_one_version(old: list[str], new: list[str], one: bool) -> None:
    both = zip(ALONE, (old, new), strict=True)
    made = of(*KEPT, trials=[told(stage, about={"versions": dict(enumerate(said))}) for stage, said in both])
    assert any(words.startswith("the servers of redis say that they are 8.0.2,") for words in made.warnings) == one


@cases(
    "new, to, doubts",
    ("as asked", "2.11.0", "2.11.0", ()),
    ("never loaded", "2.8.0", "2.11.0", ("redis: no lock loaded another release of kazoo than before",)),
    ("against itself", "2.8.0", "2.8.0", ()),
)
def test_client_libraries_are_upgraded_where_locks_loaded_them(new: str, to: str, doubts: tuple[str, ...]) -> None:
    mixed = {"fault": CLIENTS, "trial": "mixed"}
    kept = [*KEPT, cell(MIXED, Verdict.UPHELD, **mixed, counters={**OCCURRED, shared_counters.MIXED: 0})]
    trials = [told(stage, about={"clients": {"kazoo": has}}) for stage, has in zip(ALONE, ("2.8.0", new), strict=True)]
    trials.append(told(MIXED, column=CLIENTS))
    made = of(*kept, upgrades={}, parts=(*ALONE, MIXED), trials=trials, libraries={"kazoo": ("2.8.0", to)})
    assert (made.upgrades, made.doubts, made.one_version) == ({"kazoo": ("2.8.0", to)}, doubts, {})
    differs = [(row["name"], row["baseline"], row["candidate"]) for row in conditions({}, trials)["configuration"]]
    assert differs == ([("kazoo", "2.8.0", new)] if new != "2.8.0" else [])


def timed(*times: float) -> Certificate:
    stages = STAGES[: len(times)]
    slow = (replace(one, stage=stage) for stage, n in zip(stages, times, strict=True) for one in lanes(n).lanes)
    contents = RunContents(tuple(cell(stage, Verdict.UPHELD) for stage in stages), tuple(slow), ())
    return certify(contents, UPGRADES, parts=stages, trials=[told(stage) for stage in stages])


def test_three_times_slower_is_a_regression_but_not_while_versions_change() -> None:
    assert timed(1.0, 1.0).decision is Decision.NO_REGRESSION
    slow, made = timed(1.0, 3.0), timed(1.0, 1.0, 9.0, 9.0)
    assert (slow.decision, made.decision) == (Decision.REGRESSION, Decision.NO_REGRESSION)
    assert "times what it was" in sentence(slow)
    assert {(one.measure, one.stage) for one in made.handover_gaps} == {*product(("recovery", "longest gap"), TOGETHER)}
    assert all(one.worst >= one.middle > 0 and (one.trials, one.unit) == (1, "s") for one in made.handover_gaps)


WEAK, BROKE, HELD = Verdict.WEAKNESS_SHOWN, Verdict.VIOLATED, Verdict.UPHELD


@cases(
    "bound, words, known",
    ("known", 5.0, (WEAK, WEAK, HELD), "known weakness, both versions"),
    ("new", 5.0, (HELD, WEAK, WEAK), "known weakness, on the new version"),
    ("there alone", 0.0, (HELD, HELD, WEAK), "known weakness, neither version alone"),
    ("unpromised", 5.0, (Verdict.NOT_PROMISED_BROKEN, HELD, HELD), "not promised, on the old version"),
    ("lost", 5.0, (HELD, HELD, BROKE), "recovery was violated"),
    ("bound", 5.0, (HELD, HELD, HELD), "it promises 5 s after a fault"),
    ("in time", 60.0, (WEAK, WEAK, HELD), ""),
    ("no bound", 0.0, (WEAK, WEAK, HELD), ""),
)
def test_gaps_to_plan_for_are_the_longest_of_each_lock(bound: float, words: Sequence[Verdict], known: str) -> None:
    spans = enumerate(((2.0, 4.0), (9.0, 42.4), (50.0, 59.0), None))
    lanes = [UpgradeLane(str(n), "unfenced", "grant", lock="redis", gap=gap, recovery=bound) for n, gap in spans]
    judged = (cell(stage, word, property="recovery") for stage, word in zip(STAGES, words, strict=False))
    made = whole(*judged, trials=[*map(told, ALONE), told(MIXED, lanes=tuple(lanes))])
    line = f"redis could not be taken for up to 33 s during the rolling upgrade: {known}"
    assert made.plan_for == ((line,) if known else ())


def test_tries_are_the_trials_with_evidence_of_the_new_version() -> None:
    blind = [cell(CANDIDATE, word, trial=word, lane=lane) for word in BLIND for lane in "ab"]
    made = of(*KEPT, *blind, *(cell(CANDIDATE, HELD, trial=f"{n // 2}", lane=f"{n}") for n in range(4)))
    assert [(one.fault, one.trials) for one in made.tries] == [("freeze-holder", 3)]
    assert [round(seen_in(n), 2) for n in (0, 1, 3, 5)] == [1, 0.95, 0.63, 0.45]


@cases(
    "more, given, doubts",
    ("none", (), {}, []),
    ("aborted", (), {"problems": ("trials/x: aborted: no",)}, ["1 trial came to no verdict: trials/x: aborted: no"]),
    ("only-old", [cell(BASELINE, Verdict.UPHELD, lane="b")], {}, ["1 judgement of the old version has none beside it"]),
    ("not-tried", (), {"parts": STAGES}, [f"redis: nothing was tried {WHEN[stage]}" for stage in TOGETHER]),
)
def test_missing_evidence_is_inconclusive(more: Sequence[Cell], given: dict[str, Any], doubts: list[str]) -> None:
    made = of(*KEPT, *more, **given)
    assert (list(made.doubts), made.decision) == (doubts, Decision.INCONCLUSIVE if doubts else Decision.NO_REGRESSION)
    assert of(**given).decision is Decision.INCONCLUSIVE


def not_run(column: str, **given: str) -> Cell:
    """A cell that was not run, as the run folder gives it: without a trial, and so without a stage."""
    nothing = dict.fromkeys(("lock", "workload", "store", "lane", "property", "trial"), "")
    because = "one server has no mixed state"
    return cell("", Verdict.NOT_APPLICABLE, **{**nothing, "counters": {}, "fault": column, "because": because, **given})


def test_a_stage_that_could_not_be_tried_is_not_applicable_with_the_reason() -> None:
    made = of(*KEPT, *(not_run(column) for stage in TOGETHER for column in COLUMNS[stage]), parts=STAGES)
    assert made.decision is Decision.NO_REGRESSION
    assert made.absent == {("redis", stage): "one server has no mixed state" for stage in TOGETHER}
    (promise,) = made.promises
    assert promise.absent == dict.fromkeys(TOGETHER, "one server has no mixed state")


def test_a_stage_that_one_lock_could_not_try_is_still_missed_for_other_locks() -> None:
    other = [replace(one, lock="redlock") for one in KEPT]
    made = whole(*other, not_run(COLUMNS[MIXED][0], lock="redlock", because="it needs five"))
    reasons = {one.lock: one.absent for one in made.promises}
    assert (reasons, made.absent) == ({"redis": {}, "redlock": {MIXED: "it needs five"}}, {})
    alone = of(*KEPT, *other, *(not_run(COLUMNS[stage][0], lock="redlock") for stage in TOGETHER), parts=STAGES)
    assert alone.doubts == tuple(f"redis: nothing was tried {WHEN[stage]}" for stage in TOGETHER)


@pytest.mark.parametrize(("stage", "number", "doubtful"), [(MIXED, 0, True), (ROLLBACK, 0, True), (MIXED, 1, False)])
def test_no_operation_in_the_mixed_state_is_a_doubt(stage: str, number: int, doubtful: bool) -> None:
    made = whole(cell(stage, Verdict.UPHELD, counters={**OCCURRED, "operations in the mixed state": number}))
    assert made.doubts == ((f"redis: no operations in the mixed state {WHEN[stage]}",) if doubtful else ())


def test_a_server_that_refuses_to_go_back_is_reported_and_is_no_regression() -> None:
    words = "etcd1 stays 3.5.16: does not start on its data"
    rolled = [step(4.0, "etcd4"), step(3.0, words, refused=True), step(2.0, "etcd2")]
    trials = [*(told(stage) for stage in STAGES[:3]), told(ROLLBACK, about={"rolled": rolled})]
    made = whole(cell(ROLLBACK, Verdict.UPHELD, counters={CONTENDED: 1}), trials=trials)
    assert (made.decision, made.no_way_back) == (Decision.NO_REGRESSION, (f"from half-way, redis: {words}",))
    assert [(one.stage, one.at) for one in made.steps] == [(ROLLBACK, 2.0), (ROLLBACK, 3.0), (ROLLBACK, 4.0)]
    # The same holds if nothing could be judged after that.
    alone = [cell(stage, Verdict.UPHELD) for stage in STAGES[:3]]
    assert of(*alone, parts=STAGES, trials=trials).decision is Decision.NO_REGRESSION


@cases(
    "before, trial, doubtful",
    ("did not come up", Verdict.WEAKNESS_SHOWN, "t", False),
    ("held by chance", Verdict.NOT_PROMISED_HELD, "t", False),
    ("nobody tried it", Verdict.WEAKNESS_SHOWN, "", True),
    ("promised", Verdict.UPHELD, "t", True),
)
def test_a_missing_judgement_is_a_doubt_if_promised_or_not_tried(before: Verdict, trial: str, doubtful: bool) -> None:
    old = cell(BASELINE, before, property="fenced-store")
    new = cell(CANDIDATE, Verdict.NOT_APPLICABLE, property="fenced-store", trial=trial)
    assert of(*KEPT, old, new).doubts == (("1 judgement of the old version has none beside it",) if doubtful else ())
    elsewhere = cell(CANDIDATE, Verdict.UPHELD, property="fenced-store", fault="kill-server")
    assert not of(*KEPT, old, new, elsewhere).doubts or not trial


def test_the_first_warning_names_a_new_version_that_does_not_start_on_the_data() -> None:
    words = "etcd:new does not start on its data: unknown file format"
    trials = [*(told(stage) for stage in ALONE), told(MIXED, lanes=(), about={"no_way_there": words})]
    made = whole(trials=trials, problems=(f"trials/x: aborted: {words}",))
    assert (made.no_way_there, made.warnings[0]) == ((f"redis: {words}",), f"no way there: redis: {words}")
    assert made.decision is Decision.INCONCLUSIVE


@cases(
    "name, numbers, doubt",
    ("never contended", CONTENDED, (0, 0), "no contended acquires on the old version"),
    ("on the old one alone", CONTENDED, (2, 0), "no contended acquires on the new version"),
    ("no lease on the new one", EXPIRED, (4, 0), "no leases that expired while held on the new version"),
    ("no lease", EXPIRED, (0, 0), "no leases that expired while held on the old version"),
    ("no stale attempt", STALE, (0, 1), "no stale attempts without a fence on the old version"),
    ("all", STALE, (1, 1), ""),
)
def test_a_stage_without_a_stressing_event_is_inconclusive(name: str, numbers: tuple[int, int], doubt: str) -> None:
    both = zip(ALONE, numbers, strict=True)
    made = of(*(cell(stage, Verdict.UPHELD, counters=OCCURRED | {name: number}) for stage, number in both))
    assert (made.decision is Decision.INCONCLUSIVE) == bool(doubt)
    assert doubt in "; ".join(made.doubts)


def test_stale_attempts_are_not_missed_if_no_unfenced_lane_counts_them() -> None:
    uncounted = {name: number for name, number in OCCURRED.items() if name != STALE}
    made = of(*(replace(one, counters=uncounted) for one in KEPT))
    found = {exposure.why for exposure in made.exposures if exposure.what == UNFENCED}
    assert found == {"no lane without a fence was asked for it"}


@cases(
    "lanes, what, why",
    ("no lease", [("unfenced", "none", 0)], EXPIRED, "no lock that was tried has a lease"),
    ("none", [("unfenced", "grant", 0), ("compare-and-set", "none", 0)], REFUSED, "no lane that was tried has a fence"),
    ("all fenced", [("fence-writes", "grant", 2)], UNFENCED, "every lane that was tried has a fence"),
    ("a fence", [("unfenced", "grant", 0), ("guarded", "grant", 0)], REFUSED, ""),
    ("a lease", [("unfenced", "none", 0), ("unfenced", "touch", 0)], EXPIRED, ""),
)
def test_an_event_is_missing_only_if_a_lane_can_have_it(lanes: list[tuple[str, str, int]], what: str, why: str) -> None:
    some = tuple(UpgradeLane(str(n), *lane) for n, lane in enumerate(lanes))
    never = [replace(one, counters={CONTENDED: 1}) for one in KEPT]
    made = of(*never, trials=[told(stage, lanes=some) for stage in ALONE])
    found = {(exposure.why, exposure.missing) for exposure in made.exposures if exposure.what == what}
    assert found == {(why, not why)}


def test_a_version_without_fault_seconds_is_a_doubt() -> None:
    quiet = measures(1.0, {**VALUES, "grants under the fault": None})
    calm = tuple(samples.summary(quiet, stage=stage) for stage in ALONE)
    made = certify(RunContents(KEPT, calm, ()), UPGRADES, trials=[told(stage) for stage in ALONE])
    assert made.doubts == ("redis: no fault seconds on the old version", "redis: no fault seconds on the new version")
    assert [exposure.number for exposure in of(*KEPT).exposures if exposure.what == FAULTY] == [1000.0, 1000.0]
    # A rollback strikes nobody, which is no doubt.
    made = whole(cell(ROLLBACK, Verdict.UPHELD, counters={CONTENDED: 1, "operations in the mixed state": 1}))
    assert made.decision is Decision.NO_REGRESSION
    missed = [exposure for exposure in made.exposures if exposure.stage == ROLLBACK and not exposure.number]
    assert {exposure.why for exposure in missed} == {"nobody is struck while servers go back"}


def test_an_event_is_counted_once_for_each_lane_and_not_for_each_property() -> None:
    cells = [
        cell(stage, Verdict.UPHELD, property=name, lane=lane, counters={CONTENDED: number})
        for stage, (name, number), lane in product(ALONE, (("token-order", 3), ("fifo", 5)), ("a", "b"))
    ]
    assert [exposure.number for exposure in of(*cells).exposures if exposure.what == CONTENDED] == [10, 10]


def test_controls_that_were_shown_are_counted_by_stage() -> None:
    lane = UpgradeLane("a", "unfenced", "grant", controls=frozenset({"permits", "sharing"}))
    tried = [told(stage, lanes=(lane,), by_design=frozenset({"get-then-del"})) for stage in ALONE]
    silent, shown = Verdict.WEAKNESS_NOT_SHOWN, Verdict.WEAKNESS_SHOWN
    words = [(stage, name, silent, 1) for stage in ALONE for name in ("permits", "sharing")]
    words += [(BASELINE, "permits", shown, 2), (CANDIDATE, "fifo", shown, 1)]  # fifo was not certain to show
    made = (cell(stage, word, property=name, seed=seed, attempt=seed) for stage, name, word, seed in words)
    found = of(*(replace(each, lane="a", lock="get-then-del") for each in made), trials=tried).calibration
    assert found.hazards == (
        Shown(BASELINE, 1, 2, ("sharing of a under freeze-holder",)),
        Shown(CANDIDATE, 0, 2, ("permits of a under freeze-holder", "sharing of a under freeze-holder")),
    )
    assert found.locks == (Shown(BASELINE, 1, 1, ()), Shown(CANDIDATE, 0, 1, ("get-then-del",)))


def test_the_conditions_have_times_and_load_and_leave_empty_what_was_not_stored() -> None:
    abouts = (
        {"started": "2026-01-31T23:58:00+00:00", "seconds": 12.0, "stalled": 0.01},
        {"started": "2026-02-01T00:01:00+01:00", "seconds": 30.0, "stalled": 0.4},
        {"started": "2026-02-01T00:02:00+00:00", "seconds": 90.5, "stalled": 0.02},
        {"started": "9999-12-31T23:59:59+00:00", "seconds": 1e300},
        {"error": "before it began"},
    )
    found = conditions({}, [told(BASELINE, name=f"t{number}", about=about) for number, about in enumerate(abouts)])
    assert (found["began"], found["ended"]) == ("2026-01-31T23:01:00+00:00", "2026-02-01T00:03:30+00:00")
    assert found["stalled"] == {"middle": 0.01, "most": 0.4, "busy": 1, "trial": "t1"}
    assert conditions({}, [])["began"] is None
    found = conditions({}, [told(stage, about={"nodes": 3, "versions": None, "host": 9}) for stage in STAGES])
    assert (found["images"], found["configuration"], found["suite"], found["hosts"]) == ([], [], "", [""])


@cases(
    "text, plain",
    ("time", "timeout after 0.03 s", "timeout after N s"),
    ("address", "no answer from 10.77.3.19:6379\n(try 3)", "no answer from ADDRESS (try N)"),
    ("lease", "etcd1:2379: lease 694d8ca5f2b1a30f not found", "ADDRESS: lease ID not found"),
    ("version", "http://etcd2:2379/v3: refused", "http://ADDRESS/vN: refused"),
    ("session", "session 0x1000a2b closed", "session ID closed"),
    ("uuid", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "ID"),
    ("words", "deadbeef faded", "deadbeef faded"),
    ("long", "x " * 200, "x " * 58 + "x..."),
    ("hostile", samples.HOSTILE, samples.HOSTILE.replace("7", "N").replace("1)", "N)").replace("2)", "N)")),
)
def test_what_differs_each_time_is_taken_out_of_an_error(text: str, plain: str) -> None:
    assert normalised(text) == plain


def test_errors_that_are_new_come_first() -> None:
    of = {BASELINE: {"both": 9, "gone": 3}, CANDIDATE: {"both": 1, "new": 1}, MIXED: {"both": 1, "between": 2}}
    lanes = {stage: UpgradeLane("a", "unfenced", "grant", errors=texts) for stage, texts in of.items()}
    tried = [told(stage, lanes=(lane,)) for stage, lane in lanes.items()]
    assert [(one.turn, one.text, dict(one.stages)) for one in errors(tried)] == [
        (Turn.NEW, "new", {CANDIDATE: 1}),
        (Turn.BETWEEN, "between", {MIXED: 2}),
        (Turn.GONE, "gone", {BASELINE: 3}),
        (Turn.BOTH, "both", {BASELINE: 9, CANDIDATE: 1, MIXED: 1}),
    ]


@pytest.mark.parametrize(("servers", "why"), [(1, "a single server has no mixed state"), (3, "")])
def test_operations_in_the_mixed_state_are_not_missed_if_a_single_server_goes_back(servers: int, why: str) -> None:
    lane = UpgradeLane("a", "unfenced", "grant", servers=servers)
    trials = [*(told(stage) for stage in STAGES[:-1]), told(ROLLBACK, lanes=(lane,))]
    made = whole(cell(ROLLBACK, Verdict.UPHELD, counters={CONTENDED: 1}), trials=trials)
    (exposure,) = (one for one in made.exposures if one.what == shared_counters.MIXED and one.stage == ROLLBACK)
    assert (exposure.why, exposure.missing) == (why, not why)
