"""What a certificate says of the stages of an upgrade."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from checkers.claims import Verdict
from checkers.properties.shared_counters import CONTENDED
from results.certificate.certify import Certificate, Decision, certify, sentence
from results.record import Cell
from results.stages import ALONE, BASELINE, CANDIDATE, COLUMNS, MIXED, ROLLBACK, STAGES, TOGETHER, WHEN
from results.storage.reading import RunContents
from results.tests.test_comparison import WORDS, lanes
from results.tests.upgrades import KEPT, OCCURRED, UPGRADES, cell, of, step, told, whole

BLIND = (Verdict.UNKNOWN, Verdict.UNEXERCISED)


@pytest.mark.parametrize(("old", "new"), list(product(WORDS, WORDS)), ids=lambda word: word.name.lower())
def test_each_turn_of_a_word(old: Verdict, new: Verdict) -> None:
    made = of(cell(BASELINE, old), cell(CANDIDATE, new))
    broke = new is Verdict.VIOLATED and old is not Verdict.VIOLATED
    no_longer_promised = new is Verdict.NOT_CLAIMED_BROKEN and old is Verdict.UPHELD
    assert (made.decision is Decision.REGRESSION) == (broke or no_longer_promised)
    silent = new is Verdict.HAZARD_NOT_SHOWN and not old.fails
    assert (made.decision is Decision.INCONCLUSIVE) == ((new in BLIND and old not in BLIND) or silent)
    assert bool(made.cleared) == (old is Verdict.VIOLATED and new is not Verdict.VIOLATED)


@pytest.mark.parametrize("stage", TOGETHER)
@pytest.mark.parametrize(("old", "new"), list(product(WORDS, WORDS)), ids=lambda word: word.name.lower())
def test_each_turn_of_a_word_while_versions_change(old: Verdict, new: Verdict, stage: str) -> None:
    """Whatever the new version alone says: here the same as the old one."""
    made = whole(cell(BASELINE, old), cell(CANDIDATE, old), cell(stage, new))
    assert (made.decision is Decision.REGRESSION) == (new is Verdict.VIOLATED and old is not Verdict.VIOLATED)
    assert bool(made.known) == (new is old is Verdict.VIOLATED)
    doubtful = new is Verdict.HAZARD_NOT_SHOWN or (new in BLIND and old not in BLIND)
    assert (made.decision is Decision.INCONCLUSIVE) == doubtful
    assert made.cleared == ()


@pytest.mark.parametrize(
    ("stages", "said"),
    [
        ([MIXED], "redis lost token-order during the rolling upgrade"),
        ([ROLLBACK], "redis lost token-order after rolling back"),
        ([MIXED, ROLLBACK], "redis lost token-order during the rolling upgrade and after rolling back"),
        ([CANDIDATE, MIXED], "redis lost token-order under freeze-holder and during the rolling upgrade"),
    ],
)
def test_the_sentence_says_when_it_was_lost(stages: list[str], said: str) -> None:
    made = whole(*(cell(stage, Verdict.VIOLATED) for stage in stages))
    assert sentence(made) == f"REGRESSION: {said}"
    assert {one.stage for one in made.regressed} == set(stages)


def test_what_the_old_version_broke_elsewhere_is_not_lost_by_the_upgrade() -> None:
    cells = [cell(BASELINE, Verdict.VIOLATED), cell(CANDIDATE, Verdict.UPHELD), cell(MIXED, Verdict.VIOLATED)]
    turned = ((BASELINE, Verdict.UPHELD), (CANDIDATE, Verdict.VIOLATED))
    cells += [cell(stage, word, fault="none") for stage, word in turned]
    made = of(*cells)
    assert made.decision is Decision.NO_REGRESSION
    assert [one.fault for one in made.known] == ["none", "upgrade-leader-last"]
    assert made.cleared == ()
    of_another = [replace(one, property="fenced-store") if one.fault == "none" else one for one in cells]
    assert sentence(of(*of_another)) == "REGRESSION: redis lost fenced-store under none"


def test_a_regression_outranks_every_doubt() -> None:
    doubtful = [cell(BASELINE, Verdict.UPHELD, lane="b"), cell(CANDIDATE, Verdict.UNKNOWN, lane="b")]
    assert sentence(of(*doubtful)).startswith("INCONCLUSIVE: token-order of b under freeze-holder came to no verdict")
    broken = [cell(BASELINE, Verdict.UPHELD), cell(CANDIDATE, Verdict.VIOLATED)]
    assert of(*doubtful, *broken).decision is Decision.REGRESSION
    assert whole(cell(MIXED, Verdict.VIOLATED), problems=("trials/x: aborted: no",)).decision is Decision.REGRESSION


def test_what_was_cleared_is_counted_by_promise() -> None:
    cells = [
        cell(stage, Verdict.VIOLATED if stage == BASELINE else Verdict.UPHELD, fault=fault, property=name)
        for stage, fault, name in product(ALONE, ("none", "freeze-holder"), ("token-order", "fenced-store"))
    ]
    assert sentence(of(*cells)) == "NO REGRESSION FOUND (2 defects cleared)"


def test_a_defect_that_shows_while_old_servers_are_there_is_known_and_cleared() -> None:
    made = whole(cell(BASELINE, Verdict.VIOLATED), cell(MIXED, Verdict.VIOLATED))
    assert sentence(made) == "NO REGRESSION FOUND (1 defect cleared)"
    assert [one.stage for one in made.known] == [MIXED]


@pytest.mark.parametrize("new", [Verdict.NOT_CLAIMED_BROKEN, Verdict.BROKEN_AS_DOCUMENTED])
def test_what_nobody_promised_is_told_where_it_broke_and_is_no_loss(new: Verdict) -> None:
    made = of(cell(BASELINE, Verdict.NOT_CLAIMED_HELD), cell(CANDIDATE, new))
    assert [one.property for one in made.turned] == ["token-order"]
    assert made.decision is Decision.NO_REGRESSION
    elsewhere = cell(BASELINE, new, fault="stall-holder")
    assert not of(cell(BASELINE, Verdict.NOT_CLAIMED_HELD), elsewhere, cell(CANDIDATE, new)).turned


@pytest.mark.parametrize(
    ("old", "new", "one"),
    [(["8.0.2"], ["8.0.2"], True), (["8.0.2"], ["8.0.3"], False), (["8.0.2", "8.0.3"], ["8.0.2", "8.0.3"], False)],
)
def test_one_version_of_two_names_is_told(old: list[str], new: list[str], one: bool) -> None:
    both = zip(ALONE, (old, new), strict=True)
    trials = [told(stage, about={"versions": dict(enumerate(said))}) for stage, said in both]
    made = of(*KEPT, trials=trials)
    assert any(words.startswith("the servers of redis say that they are 8.0.2,") for words in made.warnings) == one


def timed(*times: float) -> Certificate:
    """Of stages in which all is upheld and takes so many times as long as usual."""
    stages = STAGES[: len(times)]
    slow = (replace(one, stage=stage) for stage, n in zip(stages, times, strict=True) for one in lanes(n).lanes)
    contents = RunContents(tuple(cell(stage, Verdict.UPHELD) for stage in stages), tuple(slow), ())
    return certify(contents, UPGRADES, parts=stages, trials=[told(stage) for stage in stages])


def test_three_times_slower_is_a_regression_and_the_same_is_none() -> None:
    assert timed(1.0, 1.0).decision is Decision.NO_REGRESSION
    slow = timed(1.0, 3.0)
    assert slow.decision is Decision.REGRESSION
    assert "times what it was" in sentence(slow)


def test_no_time_while_versions_change_makes_a_regression() -> None:
    made = timed(1.0, 1.0, 9.0, 9.0)
    assert made.decision is Decision.NO_REGRESSION
    gaps = {(one.measure, one.stage) for one in made.handover_gaps}
    assert gaps == {*product(("recovery", "longest gap"), TOGETHER)}
    for one in made.handover_gaps:
        assert one.worst >= one.middle > 0
        assert (one.trials, one.unit) == (1, "s")


DOUBTS: dict[str, tuple[Sequence[Cell], dict[str, Any], list[str]]] = {
    "none": ((), {}, []),
    "aborted": ((), {"problems": ("trials/x: aborted: no",)}, ["1 trial came to no verdict: trials/x: aborted: no"]),
    "only-old": ([cell(BASELINE, Verdict.UPHELD, lane="b")], {}, ["1 judgement of the old version has none beside it"]),
    "not-tried": ((), {"parts": STAGES}, [f"redis: nothing was tried {WHEN[stage]}" for stage in TOGETHER]),
}


@pytest.mark.parametrize("what", DOUBTS)
def test_doubts(what: str) -> None:
    more, given, doubts = DOUBTS[what]
    made = of(*KEPT, *more, **given)
    assert list(made.doubts) == doubts
    assert made.decision is (Decision.INCONCLUSIVE if doubts else Decision.NO_REGRESSION)
    assert of(**given).decision is Decision.INCONCLUSIVE


def not_run(column: str, **given: str) -> Cell:
    """As the run folder gives it: of no trial, and so of no stage."""
    nothing = dict.fromkeys(("lock", "workload", "store", "lane", "property", "trial"), "")
    because = "one server has no mixed state"
    return cell("", Verdict.NOT_APPLICABLE, **{**nothing, "counters": {}, "fault": column, "because": because, **given})


def test_what_could_not_be_tried_is_not_applicable_for_its_reason() -> None:
    absent = [not_run(column) for stage in TOGETHER for column in COLUMNS[stage]]
    made = of(*KEPT, *absent, parts=STAGES)
    assert made.decision is Decision.NO_REGRESSION
    assert made.absent == {("redis", stage): "one server has no mixed state" for stage in TOGETHER}
    (promise,) = made.promises
    assert promise.absent == dict.fromkeys(TOGETHER, "one server has no mixed state")


def test_what_could_not_be_asked_of_one_lock_says_nothing_of_the_others() -> None:
    other = [replace(one, lock="redlock") for one in KEPT]
    made = whole(*other, not_run(COLUMNS[MIXED][0], lock="redlock", because="it needs five"))
    reasons = {one.lock: one.absent for one in made.promises}
    assert reasons == {"redis": {}, "redlock": {MIXED: "it needs five"}}
    assert made.absent == {}
    alone = of(*KEPT, *other, *(not_run(COLUMNS[stage][0], lock="redlock") for stage in TOGETHER), parts=STAGES)
    assert alone.doubts == tuple(f"redis: nothing was tried {WHEN[stage]}" for stage in TOGETHER)


@pytest.mark.parametrize(("stage", "number", "doubtful"), [(MIXED, 0, True), (ROLLBACK, 0, True), (MIXED, 1, False)])
def test_no_operation_in_the_mixed_state_is_a_doubt(stage: str, number: int, doubtful: bool) -> None:
    counters = {**OCCURRED, "operations in the mixed state": number}
    made = whole(cell(stage, Verdict.UPHELD, counters=counters))
    said = f"redis: no operations in the mixed state {WHEN[stage]}"
    assert made.doubts == ((said,) if doubtful else ())


def test_a_server_that_would_not_go_back_is_told_and_is_no_regression() -> None:
    words = "etcd1 stays 3.5.16: does not start on its data"
    rolled = [step(4.0, "etcd4"), step(3.0, words, refused=True), step(2.0, "etcd2")]
    trials = [*(told(stage) for stage in STAGES[:3]), told(ROLLBACK, about={"rolled": rolled})]
    stayed = cell(ROLLBACK, Verdict.UPHELD, counters={CONTENDED: 1})
    made = whole(stayed, trials=trials)
    assert made.decision is Decision.NO_REGRESSION
    assert made.no_way_back == (f"from half-way, redis: {words}",)
    assert [(one.stage, one.at) for one in made.steps] == [(ROLLBACK, 2.0), (ROLLBACK, 3.0), (ROLLBACK, 4.0)]
    # So it is where nothing could be judged behind it.
    alone = [cell(stage, Verdict.UPHELD) for stage in STAGES[:3]]
    assert of(*alone, parts=STAGES, trials=trials).decision is Decision.NO_REGRESSION


@pytest.mark.parametrize(
    ("before", "trial", "doubtful"),
    [
        (Verdict.BROKEN_AS_DOCUMENTED, "t", False),  # it did not come up
        (Verdict.NOT_CLAIMED_HELD, "t", False),
        (Verdict.BROKEN_AS_DOCUMENTED, "", True),  # nobody tried it
        (Verdict.UPHELD, "t", True),
    ],
)
def test_what_the_new_version_lacks_is_a_doubt_where_promised(before: Verdict, trial: str, doubtful: bool) -> None:
    old = cell(BASELINE, before, property="fenced-store")
    new = cell(CANDIDATE, Verdict.NOT_APPLICABLE, property="fenced-store", trial=trial)
    made = of(*KEPT, old, new)
    assert made.doubts == (("1 judgement of the old version has none beside it",) if doubtful else ())


def test_a_new_version_that_does_not_start_on_the_data_is_told_above_all_else() -> None:
    words = "etcd:new does not start on its data: unknown file format"
    trials = [*(told(stage) for stage in ALONE), told(MIXED, lanes=(), about={"no_way_there": words})]
    made = whole(trials=trials, problems=(f"trials/x: aborted: {words}",))
    assert made.no_way_there == (f"redis: {words}",)
    assert made.warnings[0] == f"no way there: redis: {words}"
    assert made.decision is Decision.INCONCLUSIVE
