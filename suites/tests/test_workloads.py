"""What each workload does under one grant, on a lock and a store in memory that do as they are told."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest

from checkers.row_format import ACQUIRES, NESTED, NONE, RUN, SHARED, Action, Command, F, Gate, Outcome, Reason
from checkers.tests.build import cases, there
from infra.store.store import MAX_ELEMENTS, StoreError, Unavailable, Unknown
from suites.lanes.lane import WORKLOADS, lanes_of
from suites.lock import Declarations, Indeterminate, LockError, Refused
from suites.tests.bench import Fake, MakeWorker, Rich, held, kinds, lock_of, raising, rows, store_of
from suites.worker import gates
from suites.worker.critical_section import Section
from suites.workloads.several_locks import OTHERS, SOON, STEPS, Backoff, Opposite, Transfer
from suites.workloads.workload import Stopped, Workload

TRANSFERS = ["ACQUIRE", "READ", "READ", "WRITE", "WRITE", "RELEASE"]
SECTIONS = {
    "once": ["READ", "EFFECT", "WRITE"],
    "work": [],
    "apart": [],
    "beside": [],
    "leader": ["READ", "WRITE"] * 9,
    **dict.fromkeys(("transfer", "transfer-opposite", "transfer-backoff"), TRANSFERS),
    **{name: ["READ", "WRITE"] for name in ("impatient", "crowd", "many")},
    "churn": ["READ", *["ACQUIRE"] * OTHERS, *["RELEASE"] * OTHERS, "WRITE"] * STEPS,
}


@pytest.mark.parametrize("name", ["set", "inventory", "register"])
def test_a_cell_is_updated_up_to_five_times_under_one_grant(a_worker: MakeWorker, name: str) -> None:
    rounds = " ".join(kinds(a_worker(WORKLOADS[name], 40))).split("RELEASE")[:-1]
    assert {in_round.partition("ACQUIRE")[2].count("WRITE") for in_round in rounds} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("name", ["set", "inventory", "register"])
@pytest.mark.parametrize(("at", "works"), [(6.4, False), (6.6, True), (8.1, False)])
def test_sections_without_work_come_in_bursts(a_worker: MakeWorker, name: str, at: float, works: bool) -> None:
    others = (a_worker(WORKLOADS[name], lane=lane, number=number) for number, lane in enumerate("aba"))
    first, other, again = (Section(worker, there(worker.acquire(0, 1.0))) for worker in others)
    assert first.burst == again.burst != other.burst, "lanes of a trial do not starve each other"
    now = at - first.burst
    with patch("suites.workloads.workload.time.monotonic", lambda: now), patch.object(Section, "work") as work:
        WORKLOADS[name]().section(first)
    assert {call.args[0] > 0 for call in work.call_args_list} == {works}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_round_is_recorded_in_order(a_worker: MakeWorker, name: str) -> None:
    worker = a_worker(WORKLOADS[name], 1)
    assert [kind.removeprefix("TRY_") for kind in kinds(worker)] == ["ACQUIRE", *SECTIONS[name], "RELEASE"]
    assert set(rows(worker)["outcome"]) == {Outcome.OK}
    assert worker.renewal.held == ()


@pytest.mark.parametrize(("name", "at_work"), [("transfer", {1, 2}), ("churn", {1 + OTHERS})])
def test_all_locks_are_renewed_while_held(a_worker: MakeWorker, name: str, at_work: set[int]) -> None:
    worker = a_worker(WORKLOADS[name])
    kept = set[int]()
    with patch.object(Section, "work", side_effect=lambda _: kept.add(len(worker.renewal.held))):
        worker._round()
    assert kept == {0, *at_work}, "at rest, and at work"


def test_when_the_trial_is_over_work_is_cut_short_and_no_section_begins(a_worker: MakeWorker) -> None:
    worker = a_worker(WORKLOADS["set"], pace=3600.0)
    worker.recorder.page[RUN] = Command.FINISH
    worker._round()
    assert kinds(worker) == ["ACQUIRE", "RELEASE"]
    worker.workload.section(Section(worker, there(worker.acquire(0, 1.0))))
    assert kinds(worker)[2:5] == ["ACQUIRE", "READ", "WRITE"]


def test_a_leader_stays_for_a_term_after_a_fault_but_not_for_ever(a_worker: MakeWorker) -> None:
    with patch.object(Section, "stays", side_effect=[True] * 4 + [False] * 9):
        assert kinds(a_worker(WORKLOADS["leader"], 1)).count("WRITE") == 4 + 9
    worker = a_worker(WORKLOADS["leader"])
    worker.recorder.page[RUN] = Command.STAY
    worker._round()
    assert kinds(worker).count("WRITE") == 5 * 9


@pytest.mark.parametrize(("number", "checks"), [(0, 5), (1, 1)])
def test_one_lock_is_held_during_a_fault_beside_another(a_worker: MakeWorker, number: int, checks: int) -> None:
    worker = a_worker(WORKLOADS["beside"], number=number, count=3)
    with patch.object(Section, "stays", side_effect=[True] * 4 + [False]), patch.object(Section, "check") as check:
        worker._round()
    assert check.call_count == checks


@pytest.mark.parametrize(("name", "crowds"), [("set", [1, 1, 2, 3, 3]), ("beside", [0] * 5)])
def test_the_first_rounds_are_crowds_but_not_after_giving_up(
    a_worker: MakeWorker, name: str, crowds: list[int]
) -> None:
    worker = a_worker(WORKLOADS[name])
    page, pauses, before = worker.recorder.page, list[float](), list[int]()
    worker._in_line, page[RUN] = False, Command.GO

    def in_turn() -> None:
        before.append(sum(0.0 < seconds <= 0.4 for seconds in pauses))
        worker._cancelled = len(before) == 1
        page[RUN] = Command.FINISH if len(before) == 5 else Command.GO

    with patch.object(worker, "_round", in_turn), patch("suites.worker.worker.time.sleep", pauses.append):
        worker.run()
    assert before == crowds


@pytest.mark.parametrize("name", ["set", "once", "transfer"])
def test_a_full_list_is_only_read(a_worker: MakeWorker, name: str) -> None:
    worker = a_worker(WORKLOADS[name])
    store_of(worker).lists = dict.fromkeys(worker.spec.keys, tuple(range(MAX_ELEMENTS)))
    worker._round()
    assert {"READ", "EFFECT", "WRITE"} & set(kinds(worker)) == {"READ"}


@pytest.mark.parametrize("gate", [Gate.BETWEEN_READ_AND_WRITE, Gate.BETWEEN_REQUESTS])
@pytest.mark.parametrize("workload", WORKLOADS.values())
def test_every_workload_passes_the_gates_of_holders(a_worker: MakeWorker, workload: type[Workload], gate: Gate) -> None:
    """Otherwise faults on holders would hit nobody."""
    worker = a_worker(workload)
    page = worker.recorder.page
    gates.arm(page, gate, Action.CALL, lambda: True, seconds=0.0)
    rounds = 0
    with patch.object(Section, "work", autospec=True, side_effect=Section.work) as work:
        while (caught := gates.caught(page, gate)) is None:
            assert rounds < 30, "who only reads does not act, but nobody reads for that long"
            rounds += 1
            worker._round()
    assert max((call.args[1] for call in work.call_args_list), default=0) < 100 * worker.spec.pace
    assert caught.owner in set(rows(worker)["owner"].tolist())


@pytest.mark.parametrize(("requests", "late", "caught"), [(1, False, 0), (2, False, 1), (2, True, 0)])
def test_an_access_of_two_requests_is_interrupted(a_worker: MakeWorker, requests: int, late: bool, caught: int) -> None:
    worker = a_worker(WORKLOADS["register"], store_mode="fence-writes")
    holding = there(worker.acquire(0, 1.0))
    section, page, store = Section(worker, holding), worker.recorder.page, store_of(worker)
    store.requests = requests
    gates.arm(page, Gate.BETWEEN_REQUESTS, Action.CALL, lambda: True, seconds=0.0)
    if not late:  # a late write is no access of a holder
        worker.renewal.take(holding)
    with patch.object(Section, "work") as work:
        (section.write_late if late else section.read)()
    assert (work.call_count, gates.caught(page, Gate.BETWEEN_REQUESTS) is not None) == (requests - 1, caught)


def test_readers_only_read_and_all_their_operations_are_marked_as_shared(a_worker: MakeWorker) -> None:
    worker = a_worker(WORKLOADS["share"], 120)
    seen: dict[bool, set[str]] = {True: set(), False: set()}
    for row in rows(worker):
        seen[bool(row["flags"] & SHARED)].add(F(row["f"]).name)
    asked = {"ACQUIRE", "TRY_ACQUIRE", "RELEASE"}  # some readers and some writers only try
    assert seen == {True: {*asked, "READ"}, False: {*asked, "READ", "WRITE"}}


@pytest.mark.parametrize(("number", "keys"), [(0, [0, 0, 0, 0]), (1, [1, 1, 2, 2])])
def test_a_lone_worker_takes_another_lock_after_no_answer(a_worker: MakeWorker, number: int, keys: list[int]) -> None:
    worker = a_worker(WORKLOADS["apart"], 1, number=number, count=3)
    lock_of(worker).fails |= {"a": Indeterminate("lost"), "b": Indeterminate("lost")}
    worker._round()
    lock_of(worker).fails.clear()
    for _ in range(2):
        worker._round()
    assert rows(worker, F.ACQUIRE)["key"].tolist() == keys


class TestNested:
    def test_an_inner_acquire_is_a_try_that_names_the_grant(self, a_worker: MakeWorker) -> None:
        worker = a_worker(WORKLOADS["nested"], 1)
        inner = [row for row in rows(worker) if row["flags"] & NESTED]
        names = [F(row["f"]).name for row in inner if row["f"] != F.READ]
        assert names in (["ACQUIRE", "RELEASE"], ["ACQUIRE", "ACQUIRE", "RELEASE", "RELEASE"])
        assert {timeout for _, timeout in lock_of(worker).asked[1:]} == {0}
        assert len({(row["owner"], row["token"]) for row in rows(worker)}) == 1

    @pytest.mark.parametrize("failure", [Refused(Reason.HELD), Indeterminate("lost"), None])
    def test_an_inner_failure_names_the_grant_and_stops(self, a_worker: MakeWorker, failure: LockError | None) -> None:
        worker = a_worker(WORKLOADS["nested"])
        holding = there(worker.acquire(0, 1.0))
        lock_of(worker).fails["a"] = failure
        with pytest.raises(Stopped), Section(worker, holding).again():
            raise AssertionError("inside without a grant")
        inner = rows(worker)[1]
        assert (inner["flags"], inner["owner"], inner["token"]) == (NESTED, holding.grant.owner, holding.grant.token)
        assert inner["outcome"] != Outcome.OK

    def test_an_inner_release_that_is_refused_ends_the_belief(self, a_worker: MakeWorker) -> None:
        worker = a_worker(WORKLOADS["nested"])
        lock_of(worker).refuses.add(1)
        worker._round()
        *others, last = kinds(worker)
        assert (others.count("LOST"), others.count("WRITE"), last) == (1, 0, "RELEASE")


class TestOnce:
    @pytest.mark.parametrize(("mode", "done"), [("unfenced", [0, 1, 2, 3]), ("idempotency-key", [1, 3])])
    def test_a_claimed_job_is_noted_and_not_done(self, a_worker: MakeWorker, mode: str, done: list[int]) -> None:
        worker = a_worker(WORKLOADS["once"], store_mode=mode)
        store_of(worker).claimed = {0, 2}
        for _ in range(4):
            worker._round()
        assert [row["value"] for row in rows(worker) if row["f"] == F.EFFECT] == done
        assert len(store_of(worker).lists["a"]) == 4

    @pytest.mark.parametrize("error", [Unknown("lost"), Unavailable("refused")])
    def test_an_unanswered_claim_is_not_acted_upon(self, a_worker: MakeWorker, error: StoreError) -> None:
        worker = a_worker(WORKLOADS["once"], store_mode="idempotency-key")
        store_of(worker).fails["claim"] = error
        worker._round()
        assert kinds(worker) == ["ACQUIRE", "READ", "RELEASE"]


class TestTransfer:
    def test_both_lists_get_an_entry_made_from_what_was_read(self, a_worker: MakeWorker) -> None:
        worker = a_worker(Transfer, 3)
        assert {key: len(entries) for key, entries in store_of(worker).lists.items()} == {"a": 3, "b": 3}
        assert len(set(rows(worker, F.WRITE)["value"].tolist())) == 6
        assert sorted(rows(worker, F.WRITE)["key"].tolist()) == [0, 0, 0, 1, 1, 1]

    @pytest.mark.parametrize(("workload", "first"), [(Transfer, "aaaa"), (Opposite, "abab"), (Backoff, "abab")])
    def test_the_workload_sets_order_and_wait(self, a_worker: MakeWorker, workload: type[Workload], first: str) -> None:
        begun = ""
        for number in range(4):
            worker = a_worker(workload, 1, number=number)
            (one, patience), (other, patience_then) = lock_of(worker).asked
            assert ({one, other}, patience) == ({"a", "b"}, worker.spec.acquire_timeout)
            assert patience_then == (SOON if workload is Backoff else patience + workload.waits)
            begun += one
        assert begun == first

    def test_a_transfer_without_its_second_lock_lets_go_of_the_first(self, a_worker: MakeWorker) -> None:
        worker = a_worker(Opposite)
        lock_of(worker).fails["a"] = None
        worker._round()
        assert (kinds(worker), rows(worker)["key"].tolist()) == (["ACQUIRE", "ACQUIRE", "RELEASE"], [1, 0, 1])

    def test_pauses_double_until_it_gets_both(self, a_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
        worker = a_worker(Backoff)
        slept: list[float] = []
        monkeypatch.setattr(Section, "work", lambda _, seconds: slept.append(seconds / worker.spec.pace))
        for misses in (1, 2, 3, 4):
            lock_of(worker).fails["a"] = None
            worker._round()
            assert 0.5 * 2**misses <= slept[-1] <= 1.5 * 2**misses
        lock_of(worker).fails.clear()
        worker._round()
        assert slept[-1] <= 1.5


class TestChurn:
    def test_churn_takes_other_locks_in_order_and_never_the_locks_held_for_long(self, a_worker: MakeWorker) -> None:
        worker = a_worker(WORKLOADS["churn"], 2)
        asked = [int(row["key"]) for row in rows(worker) if row["f"] in ACQUIRES]
        firsts, rounds = asked[:: STEPS * OTHERS + 1], [asked[1 : STEPS * OTHERS + 1], asked[STEPS * OTHERS + 2 :]]
        assert set(firsts) == {1}, "worker 1 of two that are held for long"
        for others in rounds:
            steps = [others[at : at + OTHERS] for at in range(0, len(others), OTHERS)]
            assert all(step == sorted(set(step)) and step[0] > 1 for step in steps)

    def test_a_gate_catches_churn_only_under_the_lock_that_others_wait_for(self, a_worker: MakeWorker) -> None:
        worker = a_worker(WORKLOADS["churn"])
        gates.arm(worker.recorder.page, Gate.AFTER_ACQUIRE, Action.CALL, lambda: True, key=NONE, seconds=0.0)
        with worker.inside(there(worker.acquire(7, 1.0))):
            assert gates.caught(worker.recorder.page, Gate.AFTER_ACQUIRE) is None
        worker._round()
        assert held(worker.recorder.page, Gate.AFTER_ACQUIRE).key == 1


class TestGuarded:
    def test_the_lock_service_keeps_what_is_written_while_the_grant_is_valid(self, a_worker: MakeWorker) -> None:
        worker = a_worker(WORKLOADS["set"], 2, store_mode="guarded")
        values = rows(worker, F.WRITE)["value"].tolist()
        assert lock_of(worker).cells == {"a": (values[-1], values)}
        lock_of(worker).refuses.add(1)
        worker._round()
        write = rows(worker, F.WRITE)[-1]
        assert (write["outcome"], write["reason"]) == (Outcome.FAIL, Reason.STALE_TOKEN)

    @cases(
        "error, outcome, reason",
        ("not the owner", Refused(Reason.NOT_OWNER), Outcome.FAIL, Reason.STALE_TOKEN),
        ("unavailable", Refused(Reason.UNAVAILABLE), Outcome.FAIL, Reason.UNAVAILABLE),
        ("no answer", Indeterminate("lost"), Outcome.INFO, Reason.NONE),
    )
    def test_no_answer_is_no_refusal(
        self, a_worker: MakeWorker, monkeypatch: pytest.MonkeyPatch, error: LockError, outcome: Outcome, reason: Reason
    ) -> None:
        worker = a_worker(WORKLOADS["set"], store_mode="guarded")
        monkeypatch.setattr(lock_of(worker), "read", raising(error))
        worker._round()
        row = rows(worker)[1]
        assert (row["f"], row["outcome"], row["reason"]) == (F.READ, outcome, reason)
        assert kinds(worker) == ["ACQUIRE", "READ", "RELEASE"]


class Plain(Declarations, Fake):
    backend = "redis"
    lanes = ("*",)


def lanes_for(lock: Any) -> set[tuple[str, str]]:
    return {(lane.workload.name, lane.store) for lane in lanes_of("all", lock)}


class All(Plain, Rich):
    reentrant = True
    tokens = True

    @classmethod
    def final(cls, *_: object) -> tuple[int, Sequence[int]]:
        return -1, ()


def test_a_lock_is_tried_in_every_lane_for_what_it_can_do_and_in_no_other() -> None:
    """A lock with tokens needs no substitute for them (`compare-owner`)."""
    assert not {"share", "nested", "guarded"} & {name for lane in lanes_for(Plain) for name in lane}
    every = {(name, store) for name, workload in WORKLOADS.items() for store in workload.stores}
    assert lanes_for(All) == {(name, store) for name, store in every if store != "compare-owner"}


def test_compare_and_set_gets_the_value_that_a_write_was_made_from(a_worker: MakeWorker) -> None:
    worker = a_worker(WORKLOADS["set"], 3, store_mode="compare-and-set")
    assert store_of(worker).bases == [-1, *rows(worker, F.WRITE)["value"].tolist()[:-1]]
