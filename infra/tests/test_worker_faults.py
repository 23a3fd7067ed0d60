"""Faults on workers in a simulated world: where workers are caught, what happens meanwhile, when workers go on."""

from collections.abc import Sequence

import pytest

from infra.errors import Failed
from infra.faults.all_faults import FAULTS
from infra.faults.plan import Step
from infra.faults.runner import Record
from infra.faults.workers.holder_faults import INTRUDES_WITHIN
from infra.tests.imagined import Engine, Star, imagined
from infra.tests.simulated import MS, TTL, Lane, World, a_lane, run

PHASES = {
    "freeze-holder": "read", "freeze-after-acquire": "acquired", "freeze-before-release": "written",
    "stall-holder": "read", "long-call": "acquired", "kill-holder": "acquired", "kill-before-release": "written",
}  # fmt: skip
"""Fault -> what its victims had just done."""


def of(lane: Lane, records: Sequence[Record]) -> list[Record]:
    """The records of the lane's workers and of their renewals."""
    return [record for record in records if any(record.process % 100_000 == w.process for w in lane.workers)]


def acquired(lane: Lane, *, without: int) -> list[int]:
    """When other processes than this one got the lock (ns)."""
    return [now for now, what, process, _ in lane.story if what == "acquired" and process != without]


def done(lane: Lane, what: str, process: int) -> list[int]:
    return [now for now, said, who, _ in lane.story if (said, who) == (what, process)]


@pytest.mark.parametrize("name", PHASES)
def test_a_holder_of_every_lane_is_hit_at_its_gate_for_longer_than_its_ttl(name: str) -> None:
    world = World([a_lane("a", 0, 0, 0), a_lane("b", 0, 0)])
    # The workers of b are late. The worker of a stays hit as long as the worker of b.
    for worker in world.lane("b").workers:
        worker.due = world.time + 2500 * MS
    records = run(world, name)
    assert len(records) == len(world.all_lanes)
    last = max(record.applied for record in records)
    assert last >= 3500 * MS
    for lane in world.all_lanes:
        [record] = of(lane, records)
        assert (record.name, record.kind, record.owner) == (name, FAULTS[name].kind, 1000 + record.process)
        assert [worker.caught for worker in lane.workers].count("kill") == (record.kind == "kill")
        assert record.begun <= record.applied <= record.healing <= record.healed
        assert record.healing >= (record.applied if name == "long-call" else last) + 1.6 * TTL * 1e9
        # If freeze-holder caught a worker before its last look at the lock, the worker would not write at all.
        assert (record.applied, PHASES[name], record.process, 0) in lane.story
        others, renewed = (
            [now for now in moments if record.applied < now < record.healing]
            for moments in (acquired(lane, without=record.process), done(lane, "renewed", record.process))
        )
        if record.kind == "freeze":
            assert (max(others) >= record.applied + TTL * 1e9, renewed) == (True, [])
        elif record.kind == "stall":  # a stalled worker keeps its lock
            assert (others, len(renewed) >= 4) == ([], True)


@pytest.mark.parametrize(("name", "renewals"), [("freeze-in-renewal", 0), ("kill-after-renewal", 1)])
def test_a_holder_is_frozen_before_its_renewal_and_killed_after_it(name: str, renewals: int) -> None:
    world = World([a_lane("a", 0, 0)])
    lane = world.lane("a")
    busy = lane.workers[0]
    busy.phase, busy.due, busy.renews = "read", 1 << 62, world.time + 1500 * MS  # it works long
    lane.leases[0] = (busy.process, world.time + int(TTL * 1e9 * 2))
    [hit] = run(world, name)
    assert (hit.process, hit.owner, hit.applied) == (busy.process, 1000 + busy.process, 2500 * MS)
    assert hit.kind == ("kill" if renewals else "freeze")
    assert done(lane, "renewed", busy.process) == [hit.applied] * renewals
    next_in = acquired(lane, without=busy.process)[0]
    assert next_in >= hit.applied + TTL * 1e9 if renewals else next_in < hit.healing


def test_the_clocks_of_two_workers_of_every_lane_are_moved_apart_and_set_right() -> None:
    world = World([a_lane("a", 0, 0, 0), a_lane("b", 0)])
    moved: list[list[float]] = []  # seconds by which wall clocks are ahead
    step = Step("skew-workers", 0.5, 1.0, {"seconds": 30})
    records = run(world, step, say=lambda _: moved.append([ahead for *_, ahead in world.skewed]))
    assert [-30, 30, -30] in moved
    a, b = world.all_lanes
    hit = [worker.process for worker in (*a.workers[:2], b.workers[0])]
    assert [(record.kind, record.process) for record in records] == [("skew", process) for process in hit]
    assert all(record.healing - record.applied >= 1000 * MS for record in records)
    assert world.at_rest()


def test_a_call_ends_by_itself() -> None:
    world = World([a_lane("a", 0, 0)])
    [called] = run(world, Step("long-call", 0.5, 5.0, {}))
    assert called.healing == called.healed == called.applied + 1.6 * TTL * 1e9
    [read, *_] = [now for now in done(world.lane("a"), "read", called.process) if now > called.applied]
    assert called.healed <= read < called.healed + 50 * MS


def test_one_of_two_workers_caught_at_once_goes_on_and_both_are_recorded() -> None:
    """With two keys, two holders reach the gate between two looks. Neither may stay frozen without a record.

    A lane in which nobody holds is left alone.
    """
    frozen, stray = run(World([a_lane("a", 0, 1), a_lane("empty")]), "freeze-holder")
    assert frozen.healing - frozen.applied > TTL * 1e9
    assert stray.healed - stray.applied < 50 * MS


@pytest.mark.parametrize("keys", [(0, 0), (0, 0, 0, 0), (0, 1, 2, 0, 1, 2)])
def test_a_late_write_lands_between_the_requests_of_its_successors_read(keys: tuple[int, ...]) -> None:
    world = World([a_lane("a", *keys), a_lane("b", *keys)])
    records = run(world, "late-write")
    world.sleep(0.1)  # the successors write
    for lane in world.all_lanes:
        mine = of(lane, records)
        [stalled] = [record for record in mine if record.kind == "stall"]
        stale = max((record for record in mine if record.kind == "freeze"), key=lambda record: record.healed)
        assert stale.process != stalled.process
        assert stale.healed - stale.applied >= 0.98 * TTL * 1e9
        [key] = {key for _, _, process, key in lane.story if process == stalled.process}
        who = {stale.process: "stale", stalled.process: "next"}
        seen = [(who.get(process), what) for now, what, process, at in lane.story if at == key and now >= stale.applied]
        accesses = [f"{name} {what}" for name, what in seen if what in ("acquired", "read", "written")]
        assert accesses[:5] == ["stale read", "next acquired", "stale written", "next read", "next written"]
        assert stalled.healing - stale.healed >= INTRUDES_WITHIN * 1e9  # a lock that was freed is taken meanwhile


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(("name", "options"), [("reset-connections", {"times": 3}), ("lose-replies", {"group": "c2"})])
def test_a_write_to_the_service_is_done_and_unanswered(name: str, options: dict[str, object], *, alone: bool) -> None:
    lanes = a_lane("a", 0, 0, 0), a_lane("b", 0, 0, 0)
    lanes[0].guarded = True
    lost: dict[str, set[str]] = {}  # the group of a worker that goes on -> the links by which it loses bytes
    with imagined("etcd", *lanes) as star, pytest.MonkeyPatch.context() as patch:
        thaw, cut = vars(World)["thaw"], star.links.active
        patch.setattr(World, "thaw", lambda *whose: lost.setdefault(whose[1].group, set(cut())) and thaw(*whose))
        hits = FAULTS[name].make("etcd", options).apply(star.target("a", alone=alone))
    assert [hit.lane for hit in hits if hit.kind == "stall"] == ["a"] * len(lost)
    assert sorted(lost) == (["c2"] if name == "lose-replies" else ["c1", "c2", "c3"]) * alone
    for group, links in lost.items():
        assert {link[:11] for link in links if group in link} == {f"etcd{number} -> {group}" for number in (1, 2, 3)}


@pytest.mark.parametrize(("mute", "kinds"), [(False, ["freeze"]), (True, ["freeze", "stall"])])
def test_a_late_write_gives_up_without_a_successor_or_an_answer(mute: bool, kinds: list[str]) -> None:
    world = World([a_lane("a", 0, 0, expires=mute), a_lane("b", 0, 0)], mute=mute)
    records = run(world, "late-write")
    assert [record.kind for record in of(world.lane("a"), records)] == kinds
    assert len(of(world.lane("b"), records)) == 2
    assert all(0 < record.begun <= record.applied <= record.healing <= record.healed for record in records)
    assert world.time < 13e9


@pytest.mark.parametrize("keys", [(0, 0, 0), (0, 1, 0, 1, 0, 1)])
def test_the_successor_of_a_dead_holder_is_frozen_past_its_own_lease(keys: tuple[int, ...]) -> None:
    world = World([a_lane("a", *keys), a_lane("b", *keys)])
    for worker in world.lane("b").workers:
        worker.due = world.time + 3000 * MS  # a's successor acquires before b's holder is dead
    records = run(world, "freeze-successor")
    for lane in world.all_lanes:
        mine = of(lane, records)
        dead = [record for record in mine if record.kind == "kill"]
        [frozen] = [record for record in mine if record.kind == "freeze"]
        key = next(key for _, _, process, key in lane.story if process == frozen.process)
        of_key = [(now, process) for now, what, process, at in lane.story if (what, at) == ("acquired", key)]
        after = [(now, process) for now, process in of_key if now > dead[0].applied]
        assert after[0] == (frozen.applied, frozen.process)
        assert frozen.applied >= dead[0].applied + TTL * 1e9
        assert after[1][0] >= frozen.applied + TTL * 1e9  # the third holder waits until a lease ends, too
        assert after[1][0] < frozen.healing


@pytest.mark.parametrize("name", ["stall-renewal", "kill-renewal"])
def test_a_holder_loses_its_lease_when_its_renewal_stalls_or_dies(name: str) -> None:
    world = World([a_lane("a", 0, 0), a_lane("b", 0, 0)])
    records = run(world, name)
    world.sleep(2.0)
    for lane in world.all_lanes:
        job, renewal = of(lane, records)
        assert (job.kind, renewal.kind) == ("stall", FAULTS[name].kind)
        assert job.owner == renewal.owner == 1000 + job.process
        assert renewal.target == f"the renewal of {job.target}"
        renewed, refused = done(lane, "renewed", job.process), done(lane, "renewal refused", job.process)
        assert not any(job.applied < now < renewal.healing for now in renewed + refused)
        assert [now for now in acquired(lane, without=job.process) if job.applied + TTL * 1e9 <= now < job.healing]
        if name == "stall-renewal":
            # The stalled renewal is sent when it goes on, while the successor holds. The holder notices after that.
            assert len([now for now in refused if renewal.healing <= now <= renewal.healed]) == 1
        [noticed] = done(lane, "noticed", job.process)
        assert noticed >= job.healing


def test_a_waiter_is_stalled_past_its_lease_and_goes_on_before_the_lock_is_released() -> None:
    world = World([a_lane("a", 0, 0), a_lane("b", 0, 0, 0)])
    records = run(world, "stall-waiter")
    world.sleep(1.0)
    for lane in world.all_lanes:
        holder, waiter = of(lane, records)
        keys = {worker.process: worker.key for worker in lane.workers}
        assert waiter.process % 100_000 != holder.process
        assert keys[waiter.process % 100_000] == keys[holder.process]
        assert waiter.target.startswith("the renewal of worker ")
        assert holder.applied < waiter.applied
        assert waiter.healing - waiter.applied > TTL * 1e9
        assert waiter.healed <= holder.healing
        assert min(now for now in done(lane, "released", holder.process) if now > holder.applied) > waiter.healed


def test_a_waiter_dies_and_the_holder_is_stalled_until_the_waiters_lease_is_over() -> None:
    world = World([a_lane("a", 0, 0, 0), a_lane("b", 0, 0, 0)])
    records = run(world, "kill-waiter")
    world.sleep(1.0)
    for lane in world.all_lanes:
        holder, dead = sorted(of(lane, records), key=lambda record: record.applied)
        assert (holder.kind, dead.kind, dead.owner, dead.lane) == ("stall", "kill", 0, lane.name)
        assert holder.applied <= dead.applied
        assert holder.healing >= dead.applied + TTL * 1e9
        assert acquired(lane, without=holder.process)[-1] > holder.healed, "who was behind it"
        assert max(done(lane, "acquired", dead.process), default=0) < dead.applied


def test_the_heal_of_a_fault_thaws_only_the_workers_that_the_fault_caught() -> None:
    world = World([a_lane("a", 0, 0, 0, 0)])
    steps = Step("freeze-holder", 0.5, 4.0, {}), Step("freeze-after-acquire", 1.0, 0.2, {}, beside=True)
    inner, outer = run(world, *steps)
    assert inner.process != outer.process
    assert inner.healed < outer.healed - 1e9
    assert not any(outer.applied < now < outer.healing for now in done(world.lane("a"), "written", outer.process))


@pytest.mark.parametrize("how", ["drop", "hold"])
def test_a_holder_is_cut_off_right_after_its_acquire(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with imagined("etcd", *(a_lane(name, 0, 1, 0, 1) for name in "abc")) as star:
        active: set[str] = set()
        # The proof of the cut takes a while.
        monkeypatch.setattr(star, "ask", lambda *question: star.world.wait(0.05, bool) or Star.ask(star, *question))
        step, target = Step("cut-holder", 0.5, 2.0, {"how": how}), star.target("", alone=True)
        cut, *stalls = run(star.world, step, target=target, say=lambda _: active.update(star.links.active()))
        assert star.unclean() == []
    [group] = {line.split()[0] for line in active}
    assert {line.rpartition(" bytes ")[2] for line in active} == {"dropped" if how == "drop" else "held"}
    assert cut.target.startswith(f"clients {group} from etcd1, etcd2, etcd3, ")
    assert cut.healing - cut.applied >= 2e9
    for lane in star.world.all_lanes:
        mine = of(lane, stalls)
        stalled = max(mine, key=lambda record: record.healed)
        assert stalled.target.endswith(f"({group})")
        assert stalled.applied <= cut.begun < cut.applied <= stalled.healing  # it is stalled until its group is cut off
        assert stalled.healed < cut.applied + 100 * MS
        assert all(stray.healed - stray.applied < 100 * MS for stray in mine if stray is not stalled)
        [worker] = [worker for worker in lane.workers if worker.process == stalled.process]
        assert worker.group == group


def test_nobody_is_cut_when_nobody_holds() -> None:
    with imagined("etcd", a_lane("a")) as star:
        injection, target = Step("cut-holder", 0.5, 2.0, {"how": "drop"}).injection("etcd"), star.target("", alone=True)
        assert (injection.apply(target), star.unclean()) == ([], [])


def test_a_server_crashes_while_a_holder_of_each_lane_stands_after_its_acquire(monkeypatch: pytest.MonkeyPatch) -> None:
    with imagined("etcd", a_lane("a", 0, 0), a_lane("b", 0, 1)) as star:
        leader = star.engines["etcd1"]
        # The proof that the server is down takes a while.
        inspect, wait = Engine.inspect_container, star.world.wait
        monkeypatch.setattr(leader, "inspect_container", lambda name: wait(0.05, bool) or inspect(leader, name))
        crash, *stalls = run(star.world, "crash-after-acquire", target=star.target("", alone=True))
        assert [engine.log for engine in star.engines.values()] == [["kill", "start"], [], []]
    assert (crash.kind, crash.target) == ("kill", "etcd1 (leader), between two operations")
    assert crash.begun <= crash.applied <= crash.healing <= crash.healed
    for lane in star.world.all_lanes:
        stalled = max(of(lane, stalls), key=lambda record: record.healed)
        assert stalled.kind == "stall"
        assert stalled.applied <= crash.begun < crash.healed <= stalled.healing


def test_a_server_that_does_not_come_back_fails_the_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Star, "health", lambda *_: None)
    with imagined("redis") as star:
        injection, target = FAULTS["crash-after-acquire"].make("redis", {}), star.target("", alone=True)
        with pytest.raises(Failed, match="redis1 was killed and started again, but does not serve within 40 s"):
            injection.apply(target)
        injection.heal(target)
        assert star.world.at_rest()
