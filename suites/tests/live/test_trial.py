"""One trial per fault, with all locks side by side, finds each planted bug that the fault brings out, and no other."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final
from unittest.mock import patch

import pytest

from checkers.claims import Verdict
from checkers.judging.judgement import Judgement
from infra.own_environment import OwnEnvironment
from infra.tests.environments import taken
from results.record import LaneRecord, TrialRecord
from suites.lanes.lane import Lane, lanes_of
from suites.locks import registry
from suites.selection import bugs_of_certification
from suites.selection.trial import Trial
from suites.tests.bench import SOON, await_gone, raising
from suites.trial.run_trial import run_trial
from suites.trial.worker_control import WorkerControl
from suites.worker.pool import ForkServer, WorkerBroke

pytestmark = pytest.mark.needs("redis")

SET, REGISTER, PAIRS = "set/unfenced", "register/fence-writes", "pairs/unfenced"
BETWEEN = "at-every-request-freeze"
TRIALS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "none": {
        "Unchanged": (SET, REGISTER),
        **dict.fromkeys(("LooksThenTakes", "ClockToken", "ConstantToken", "Undeclared"), (SET,)),
    },
    "freeze-holder": {
        "Unchanged": (SET, REGISTER),
        "ShortTtl": (SET, REGISTER),
        "RenewsAnyones": (SET, REGISTER, "set/fence-writes", "register/unfenced"),
        "Undeclared": (SET,),
    },
    "late-write": {"Unchanged": (SET, REGISTER), "DeletesAnyones": (SET, REGISTER)},
    "stall-renewal": {"Unchanged": (SET, REGISTER), "RenewsAnyones": (SET, REGISTER)},
    "kill-holder": {"Unchanged": (SET, REGISTER), "NeverExpires": (REGISTER,), "Undeclared": (SET,)},
    BETWEEN: {"Unchanged": (PAIRS,), "LooksThenDeletes": (PAIRS,)},
}  # fault → lock → its lanes

FOUND: Final = [
    ("none", "LooksThenTakes", "server-exclusion"),
    ("none", "ClockToken", "token-order"),
    ("none", "ConstantToken", "token-order"),
    ("freeze-holder", "ShortTtl", "server-exclusion"),
    ("freeze-holder", "RenewsAnyones", "honest-renewal"),
    ("late-write", "DeletesAnyones", "server-exclusion"),
    ("stall-renewal", "RenewsAnyones", "server-exclusion"),
    ("kill-holder", "NeverExpires", "recovery"),
    (BETWEEN, "LooksThenDeletes", "server-exclusion"),
]  # fault, lock, and the property that names the bug of the lock

DEADLINE: Final = 600.0  # seconds within which any trial has exercised everything, on any machine


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with closing(ForkServer(["suites.tests.planted:Unchanged"])) as server:
        yield server


def tried(trial: Trial, environment: OwnEnvironment, server: ForkServer) -> TrialRecord:
    """Run a trial whose workers get the time to end by themselves, however slow the machine is."""
    with patch("suites.trial.timeouts.workers_end_within", return_value=SOON), tempfile.TemporaryDirectory() as folder:
        return run_trial(trial, environment, server, Path(folder), DEADLINE, lambda _: None)


class Trials:
    """Runs the trial of a fault when it is first asked for. For a lock with a bug, the trial waits only for the bug."""

    def __init__(self, environment: OwnEnvironment, server: ForkServer) -> None:
        self._environment = environment
        self._server = server
        self._records: dict[str, TrialRecord] = {}

    def of(self, fault: str) -> TrialRecord:
        if fault not in self._records:
            lanes = tuple(lane for name, stores in TRIALS[fault].items() for lane in lanes_in(name, stores))
            bugs = {spelled(lock): name for where, lock, name in FOUND if where == fault}
            planted = {lane.name: bugs[lane.lock_name] for lane in lanes if lane.lock_name in bugs}
            trial = Trial("redis", fault, 1, lanes, planted=planted)
            self._records[fault] = tried(trial, self._environment, self._server)
        return self._records[fault]

    def lanes(self, fault: str, lock: str) -> list[LaneRecord]:
        return [lane for lane in self.of(fault).lanes if lane.history.facts.lock == spelled(lock)]

    def judgements(self, fault: str, lock: str) -> list[Judgement]:
        return [judgement for lane in self.lanes(fault, lock) for judgement in lane.judgements]


@pytest.fixture(scope="module")
def trials(server: ForkServer) -> Trials:
    return Trials(taken("redis"), server)


def spelled(lock: str) -> str:
    return f"suites.tests.planted:{lock}"


def lanes_in(lock: str, stores: tuple[str, ...]) -> list[Lane]:
    of_lock = lanes_of(spelled(lock), registry.load(spelled(lock)))
    lanes = [lane for lane in of_lock if f"{lane.workload.name}/{lane.store}" in stores]
    assert len(lanes) == len(stores)
    return lanes


@pytest.mark.parametrize(("fault", "lock", "name"), FOUND)
def test_a_planted_bug_is_found_in_the_first_trial(trials: Trials, fault: str, lock: str, name: str) -> None:
    told = [judgement for judgement in trials.judgements(fault, lock) if judgement.property == name]
    found = [judgement for judgement in told if judgement.word is Verdict.VIOLATED]
    assert found, [(judgement.word, judgement.because) for judgement in told]
    assert all(each.violation and each.violation.story and each.violation.rows for each in found)


def test_every_message_of_a_verb_is_hit(trials: Trials) -> None:
    least = {"acquire at once": 1, "acquire after waiting": 2, "release": 1, "renew": 1}
    for lock, more in {"Unchanged": {}, "LooksThenDeletes": {"release": 2}}.items():
        verbs = trials.of(BETWEEN).about["boundaries"][f"{spelled(lock)}/{PAIRS}"]
        for verb, messages in {**least, **more}.items():
            assert set(range(1, messages + 1)) <= set(verbs[verb]["hit"]), (lock, verb, verbs[verb])
            assert verbs[verb]["messages"] >= messages


@pytest.mark.parametrize("fault", TRIALS)
def test_a_trial_stores_the_unexercised_parts_of_each_cycle_and_ends_with_none(trials: Trials, fault: str) -> None:
    *before, last = trials.of(fault).about["missing_after_each_cycle"]
    assert all(before)
    assert last == {}


@pytest.mark.parametrize("fault", TRIALS)
def test_the_unchanged_lock_keeps_every_promise(trials: Trials, fault: str) -> None:
    judgements = trials.judgements(fault, "Unchanged")
    failing = [(each.property, each.word, each.because) for each in judgements if each.word.fails]
    # A positive control has three trials to be shown.
    assert [each for each in failing if each[1] is not Verdict.WEAKNESS_NOT_SHOWN] == []
    upheld = {each.property for each in judgements if each.word is Verdict.UPHELD}
    assert {"server-exclusion", "token-order"} <= upheld
    assert fault == "none" or "recovery" in upheld


@pytest.mark.parametrize("fault", ["none", "freeze-holder", "kill-holder"])
def test_a_lock_that_declares_nothing_fails_nothing_without_a_bug(trials: Trials, fault: str) -> None:
    judgements = trials.judgements(fault, "Undeclared")
    assert [(one.property, one.word, one.because) for one in judgements if one.word.fails] == []
    upheld = [one.property for one in judgements if one.word is Verdict.UPHELD]
    assert upheld == [*(["server-exclusion"] if fault == "none" else []), "members-agree"], "the service owes the last"


class TestTheRecord:
    def test_a_record_carries_what_a_report_and_a_replay_need(self, trials: Trials) -> None:
        record = trials.of("freeze-holder")
        assert record.name == "redis-freeze-holder-1"
        assert record.about["plan"]["steps"][0]["fault"] == "freeze-holder"
        assert record.about["plan_lines"]
        assert set(record.about["versions"]) == set(record.logs) == {f"redis{n}" for n in range(1, 6)}
        assert record.about["error"] is None
        assert record.about["killed_at_the_end"] == []

    def test_each_lane_has_its_own_victims_alone(self, trials: Trials) -> None:
        for lane in trials.of("freeze-holder").lanes:
            victims = {fault.owner for fault in lane.history.faults}
            assert victims
            assert victims <= set(lane.history.columns["owner"].tolist())

    def test_every_key_is_read_in_the_end(self, trials: Trials) -> None:
        for lane in trials.of("none").lanes:
            assert (lane.history.columns["flags"] == 1).sum() == len(lane.history.facts.keys)


def test_a_trial_of_a_buggy_lock_waits_only_for_its_known_bug(environment: OwnEnvironment, server: ForkServer) -> None:
    """A lock that nobody renews never shows what comes of renewal for a holder that hangs, however long one waits."""
    (lane,) = (lane for lane in bugs_of_certification.lanes(("redis",)) if lane.lock_name == "mutant:renews-nothing")
    trial = Trial("redis", "stall-holder", 1, (lane,), planted={lane.name: bugs_of_certification.found_by(lane)})
    record = tried(trial, environment, server)
    words = {judgement.property: judgement.word for judgement in record.lanes[0].judgements}
    assert words["server-exclusion"] is Verdict.VIOLATED
    assert words["crash-release"] is not Verdict.WEAKNESS_SHOWN
    assert record.about["missing_after_each_cycle"][-1] == {}


def test_a_worker_that_breaks_ends_the_trial_and_leaves_nothing_running(environment: OwnEnvironment) -> None:
    (lane,) = lanes_in("Breaks", (SET,))
    with closing(ForkServer(["suites.tests.planted:Unchanged"])) as server:
        with pytest.raises(WorkerBroke, match=r"worker \d of .*Breaks(?s:.)*TypeError: planted"):
            tried(Trial("redis", "freeze-holder", 1, (lane,)), environment, server)
        pids = list(server.handles)
        assert pids
        await_gone(pids)


def test_a_history_in_which_two_grants_share_an_owner_is_not_judged(environment: OwnEnvironment) -> None:
    (lane,) = lanes_in("OneOwner", (SET,))
    with closing(ForkServer(["suites.tests.planted:OneOwner"])) as server:
        with pytest.raises(WorkerBroke, match="OneOwner/set/unfenced: two grants share one owner"):
            tried(Trial("redis", "none", 1, (lane,)), environment, server)
        assert server.handles == {}


def test_an_interrupted_trial_leaves_all_clean(environment: OwnEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WorkerControl, "fill_up", raising(KeyboardInterrupt()))
    with closing(ForkServer(["suites.tests.planted:Unchanged"])) as server:
        with pytest.raises(KeyboardInterrupt):
            tried(Trial("redis", "cut-client-drop", 1, tuple(lanes_in("Unchanged", (SET,)))), environment, server)
        assert server.handles == {}
