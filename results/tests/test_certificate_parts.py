"""Beside the verdict: whether the test bit, what was caught, what clients were told, under which conditions."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from checkers.claims import Verdict
from checkers.properties import shared_counters
from checkers.properties.fenced_store import STALE
from checkers.properties.shared_counters import CONTENDED, EXPIRED
from results.certificate import trials
from results.certificate.calibration import Shown
from results.certificate.certify import Decision, certify
from results.certificate.conditions import conditions
from results.certificate.error_texts import Turn, errors, normalised
from results.certificate.exposure import FAULTY, REFUSED, UNFENCED
from results.certificate.trials import UpgradeLane
from results.stages import ALONE, BASELINE, CANDIDATE, MIXED, ROLLBACK, STAGES
from results.storage.reading import RunContents
from results.tests import samples
from results.tests.upgrades import KEPT, OCCURRED, UPGRADES, cell, of, record, run, told, whole


@pytest.mark.parametrize(
    ("name", "numbers", "doubt"),
    [
        (CONTENDED, (0, 0), "no contended acquires on the old version"),
        (CONTENDED, (2, 0), "no contended acquires on the new version"),
        (EXPIRED, (4, 0), "no leases that expired while held on the new version"),
        (EXPIRED, (0, 0), "no leases that expired while held on the old version"),
        (STALE, (0, 1), "no stale attempts without a fence on the old version"),
        (STALE, (1, 1), ""),
    ],
)
def test_a_part_that_did_not_bite_is_inconclusive(name: str, numbers: tuple[int, int], doubt: str) -> None:
    both = zip(ALONE, numbers, strict=True)
    made = of(*(cell(stage, Verdict.UPHELD, counters=OCCURRED | {name: number}) for stage, number in both))
    assert (made.decision is Decision.INCONCLUSIVE) == bool(doubt)
    assert doubt in "; ".join(made.doubts)


def test_stale_attempts_are_missed_only_where_a_lane_without_a_fence_is_asked_for_them() -> None:
    uncounted = {name: number for name, number in OCCURRED.items() if name != STALE}
    made = of(*(replace(one, counters=uncounted) for one in KEPT))
    found = {exposure.why for exposure in made.exposures if exposure.what == UNFENCED}
    assert found == {"no lane without a fence was asked for it"}


@pytest.mark.parametrize(
    ("lanes", "what", "why"),
    [
        ([("unfenced", "none", 0)], EXPIRED, "no lock that was tried has a lease"),
        ([("unfenced", "grant", 0), ("compare-and-set", "none", 0)], REFUSED, "no lane that was tried has a fence"),
        ([("fence-writes", "grant", 2)], UNFENCED, "every lane that was tried has a fence"),
        ([("unfenced", "grant", 0), ("guarded", "grant", 0)], REFUSED, ""),
        ([("unfenced", "none", 0), ("unfenced", "touch", 0)], EXPIRED, ""),
    ],
)
def test_what_a_backend_cannot_have_is_not_applicable(lanes: list[tuple[str, str, int]], what: str, why: str) -> None:
    some = tuple(UpgradeLane(str(n), "redis", *lane) for n, lane in enumerate(lanes))
    never = [replace(one, counters={CONTENDED: 1}) for one in KEPT]
    made = of(*never, trials=[told(stage, lanes=some) for stage in ALONE])
    found = {(exposure.why, exposure.missing) for exposure in made.exposures if exposure.what == what}
    assert found == {(why, not why)}


def test_without_a_fault_no_fault_bit() -> None:
    quiet = {"cycles": [{"phase": "before", "seconds": 9.0}]}
    calm = tuple(samples.summary(quiet, stage=stage) for stage in ALONE)
    made = certify(RunContents(KEPT, calm, ()), UPGRADES, trials=[told(stage) for stage in ALONE])
    assert made.doubts == ("redis: no fault seconds on the old version", "redis: no fault seconds on the new version")
    assert [exposure.number for exposure in of(*KEPT).exposures if exposure.what == FAULTY] == [1000.0, 1000.0]


def test_nobody_need_be_struck_while_servers_go_back() -> None:
    made = whole(cell(ROLLBACK, Verdict.UPHELD, counters={CONTENDED: 1, "operations in the mixed state": 1}))
    assert made.decision is Decision.NO_REGRESSION
    missed = [exposure for exposure in made.exposures if exposure.stage == ROLLBACK and not exposure.number]
    assert {exposure.why for exposure in missed} == {"nobody is struck while servers go back"}


def test_counters_are_of_histories_not_of_the_properties_that_saw_them() -> None:
    cells = [
        cell(stage, Verdict.UPHELD, property=name, lane=lane, counters={CONTENDED: number})
        for stage, (name, number), lane in product(ALONE, (("token-order", 3), ("fifo", 5)), ("a", "b"))
    ]
    assert [exposure.number for exposure in of(*cells).exposures if exposure.what == CONTENDED] == [10, 10]


def test_controls_that_were_shown_are_counted_by_stage() -> None:
    lane = UpgradeLane("a", "get-then-del", "unfenced", "grant", controls=frozenset({"permits", "sharing"}))
    tried = [told(stage, lanes=(lane,), by_design=frozenset({"get-then-del"})) for stage in ALONE]
    silent, shown = Verdict.HAZARD_NOT_SHOWN, Verdict.BROKEN_AS_DOCUMENTED
    words = [(stage, name, silent, 1) for stage in ALONE for name in ("permits", "sharing")]
    words += [(BASELINE, "permits", shown, 2), (CANDIDATE, "fifo", shown, 1)]  # fifo might have held as well
    cells = [
        cell(stage, word, lane="a", lock="get-then-del", property=name, seed=seed, attempt=seed)
        for stage, name, word, seed in words
    ]
    found = of(*cells, trials=tried).calibration
    assert found.hazards == (
        Shown(BASELINE, 1, 2, ("sharing of a under freeze-holder",)),
        Shown(CANDIDATE, 0, 2, ("permits of a under freeze-holder", "sharing of a under freeze-holder")),
    )
    assert found.locks == (Shown(BASELINE, 1, 1, ()), Shown(CANDIDATE, 0, 1, ("get-then-del",)))


def test_a_lock_of_the_anti_patterns_is_broken_by_design(tmp_path: Path) -> None:
    made = run(tmp_path, parts=ALONE)
    of_ours = {"redis": "antipatterns.get_then_del:GetThenDel", "other": "redis_single:RedisLock"}
    locks = {name: f"suites.locks.{place}" for name, place in of_ours.items()}
    made.save_trial(record(BASELINE, "none", locks=locks))
    (found,) = [one for one in trials.load(made.path, []) if one.column == "none"]
    assert found.by_design == {"redis"}


def test_it_says_when_it_was_tried_and_how_busy_the_machine_was() -> None:
    abouts = (
        {"started": "2026-01-31T23:58:00+00:00", "seconds": 12.0, "stalled": 0.01},
        {"started": "2026-02-01T00:01:00+01:00", "seconds": 30.0, "stalled": 0.4},
        {"started": "2026-02-01T00:02:00+00:00", "seconds": 90.5, "stalled": 0.02},
        {"started": "9999-12-31T23:59:59+00:00", "seconds": 1e300},
        {"error": "before it began"},
    )
    tried = [told(BASELINE, name=f"t{number}", about=about) for number, about in enumerate(abouts)]
    found = conditions({}, tried)
    assert (found["began"], found["ended"]) == ("2026-01-31T23:01:00+00:00", "2026-02-01T00:03:30+00:00")
    assert found["stalled"] == {"middle": 0.01, "most": 0.4, "busy": 1, "trial": "t1"}
    assert conditions({}, [])["began"] is None


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("timeout after 0.03 s", "timeout after N s"),
        ("no answer from 10.77.3.19:6379\n(try 3)", "no answer from ADDRESS (try N)"),
        ("etcd1:2379: lease 694d8ca5f2b1a30f not found", "ADDRESS: lease ID not found"),
        ("http://etcd2:2379/v3: refused", "http://ADDRESS/vN: refused"),
        ("session 0x1000a2b closed", "session ID closed"),
        ("6f9619ff-8b86-d011-b42d-00cf4fc964ff", "ID"),
        ("deadbeef faded", "deadbeef faded"),
        ("x " * 200, "x " * 58 + "x..."),
        (samples.HOSTILE, samples.HOSTILE.replace("7", "N").replace("1)", "N)").replace("2)", "N)")),
    ],
)  # fmt: skip
def test_what_differs_each_time_is_taken_out_of_an_error(text: str, plain: str) -> None:
    assert normalised(text) == plain


def test_errors_that_are_new_come_first() -> None:
    of = {BASELINE: {"both": 9, "gone": 3}, CANDIDATE: {"both": 1, "new": 1}, MIXED: {"both": 1, "between": 2}}
    lanes = {stage: UpgradeLane("a", "redis", "unfenced", "grant", errors=texts) for stage, texts in of.items()}
    tried = [told(stage, lanes=(lane,)) for stage, lane in lanes.items()]
    assert [(one.turn, one.text, dict(one.stages)) for one in errors(tried)] == [
        (Turn.NEW, "new", {CANDIDATE: 1}),
        (Turn.BETWEEN, "between", {MIXED: 2}),
        (Turn.GONE, "gone", {BASELINE: 3}),
        (Turn.BOTH, "both", {BASELINE: 9, CANDIDATE: 1, MIXED: 1}),
    ]


def test_what_was_not_stored_is_left_empty() -> None:
    found = conditions({}, [told(stage, about={"nodes": 3, "versions": None, "host": 9}) for stage in STAGES])
    assert (found["images"], found["configuration"], found["suite"], found["hosts"]) == ([], [], "", [""])


@pytest.mark.parametrize(("servers", "why"), [(1, "a single server has no mixed state"), (3, "")])
def test_one_server_that_goes_back_is_never_of_two_versions(servers: int, why: str) -> None:
    lane = UpgradeLane("a", "redis", "unfenced", "grant", servers=servers)
    trials = [*(told(stage) for stage in STAGES[:-1]), told(ROLLBACK, lanes=(lane,))]
    made = whole(cell(ROLLBACK, Verdict.UPHELD, counters={CONTENDED: 1}), trials=trials)
    (exposure,) = (one for one in made.exposures if one.what == shared_counters.MIXED and one.stage == ROLLBACK)
    assert (exposure.why, exposure.missing) == (why, not why)
