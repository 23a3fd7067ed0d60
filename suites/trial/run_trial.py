"""A trial: one fault plan on one backend under one seed, with many lanes side by side.

plan → environment → workers → history → verdict → record. The trial repeats its cycles of faults until every property
that it judges was exercised, or until its deadline. Then it heals, ends the workers and reads each key again.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy.typing as npt

from checkers.check import Lack, broken, check
from checkers.check import missing as not_exercised
from checkers.history.history import History, Outage, malformed
from checkers.judging.excuses_by_fault import OF_A_VERSION
from checkers.judging.judgement import judge_all
from checkers.properties.members_agree import unexplained
from checkers.properties.story_sentences import listing
from checkers.row_format import Command, State
from infra.backends.answers import NO_ANSWER
from infra.cluster.node_repair import DoesNotStart as VersionRefused
from infra.cluster.nodes import READY_WITHIN
from infra.environment import Environment
from infra.errors import Failed
from infra.faults.all_faults import FAULTS
from infra.faults.link_probe import Watch
from infra.faults.runner import Record, Runner
from infra.faults.target import Target
from infra.store import store
from results.record import LaneRecord, TrialRecord
from results.stages import ALONE
from results.terminal.event_journal import Event, Tell, says, step, waits
from results.text import few
from suites.lanes.lane import STRUCK_ALONE, Lane, longest_ttl
from suites.selection.trial import Trial, named
from suites.trial import lane_history, members, target_cleanup, timeouts
from suites.trial.broken_trial import NoWayThere
from suites.trial.lane_history import RunningLane, final_reads, intervals, on_one_clock, so_far, warm, whole
from suites.trial.launch import TAPPED, fit, launch, share_of_a_core, to_be_watched
from suites.trial.metadata import CpuMeter, about, rolled, servers, stalled
from suites.trial.worker_control import WorkerControl
from suites.worker.message_tap import Taps
from suites.worker.pool import ForkServer, Handle, TrialBroke, WorkerBroke

CALM: Final = 2.0  # seconds that a cycle lasts if the plan has no faults
LOOK_EVERY: Final = 0.5  # seconds between two looks at what was not exercised yet, while the trial waits for it
CYCLES_OF_A_VERSION: Final = 2  # in these a hazard that only one of two versions may show gets the chance to show
LONGEST_TTL: Final = 2.0  # seconds; the longest TTL of a lock of ours, unless the user sets another


def run_trial(
    trial: Trial, environment: Environment, server: ForkServer, folder: Path, deadline: float, tell: Tell
) -> TrialRecord:
    """Run a trial to its end; the environment is clean afterwards, whatever happens.

    folder: takes the recordings. deadline: seconds. Raises TrialBroke, or `infra.errors.Trouble` if a fault fails.
    """
    running = RunningTrial(trial, environment, server, folder, tell)
    try:
        try:
            running.start()
            running.cycle_until_exercised(deadline)
        except BaseException:
            running.kill()
            raise
        finally:
            running.heal()
        histories = running.collect()
    finally:
        running.remove_traces()
    return running.judged(histories)


Missing = dict[str, dict[str, str]]  # lane → property → why it was not exercised yet


class RunningTrial:
    """A trial from the start of its workers to their end."""

    def __init__(self, trial: Trial, environment: Environment, server: ForkServer, folder: Path, tell: Tell) -> None:
        """Start the workers, which then connect. Raises Failed where the environment is not clean."""
        self.trial, self.environment, self.server, self.tell = trial, environment, server, tell
        self.started, self.clock = datetime.now(UTC), time.monotonic()
        if unclean := environment.still_unclean(READY_WITHIN):
            raise Failed(f"before the trial: {'; '.join(unclean)}")
        self.cpu = CpuMeter(environment)
        self.plan = trial.plan_to_run()
        locks = list(dict.fromkeys(lane.lock_name for lane in trial.lanes))
        facts = {"lanes": len(trial.lanes), "locks": locks, "plan": self.plan.describe()}
        tell(Event("trial", {**named(trial), **facts}))
        store.prepare(environment.store_dsn(None))
        self.taps = Taps() if any(trial.at_messages) else None  # between the workers and their links, or their servers
        workers, share = sum(lane.workers for lane in trial.lanes), share_of_a_core()
        self.slower = max(1.0, workers * (TAPPED if self.taps else 1) / fit(share))
        pace = f"at a pace {self.slower:.1f} times slower than alone: we get {share:.0%} of a core"
        tell(step(f"{workers} workers, {pace}"))
        self.lanes = launch(trial, environment, server, folder, self.slower, self.taps)
        orders = {lane.name: lane.workload.order for lane in trial.lanes if lane.workload.name in STRUCK_ALONE}
        handles = {lane.lane.name: lane.handles for lane in self.lanes}
        self.actors = WorkerControl(server, handles, longest_ttl(trial.lanes), orders)
        target = Target.of(environment, trial.backend, self.actors)
        self.runner = Runner(self.plan, target, lambda line: tell(step(line)))
        watched = to_be_watched(trial, environment)
        # Records when links or servers stand still while no fault is on, and under faults at messages.
        self.watch = Watch(target.prober, self.taps.endpoints(watched) if self.taps else watched)
        self.missing: list[Missing] = []  # what had not been exercised after each cycle
        self.versions: Mapping[str, str] = {}  # node → version, asked at the start and after a fault that changes them
        # Lanes that lacked something when they were looked at since the last heal, or were not looked at since.
        self.unexercised: list[RunningLane] = []
        self.stuck: list[Handle] = []  # workers that had to be killed at the end
        self.looks: list[Mapping[str, members.Look]] = []  # what members held, by lane, each time that they were asked
        self.gone: list[Outage] = []  # members that do not serve though everything was healed
        self.writes = target.writes  # the client that writes beside the locks, if a fault needs one

    @property
    def handles(self) -> list[Handle]:
        return [handle for lane in self.lanes for handle in lane.handles]

    @property
    def _records(self) -> Sequence[Record]:
        """What was done so far. Servers that are not ours may come back by themselves, or others in their place."""
        records = self.runner.records
        return records if self.environment.ours else [replace(each, silent=()) for each in records]

    def start(self) -> None:
        """Wait for the workers, give the signal, and wait until the first fault may strike."""
        self.tell(waits("the workers to connect", timeouts.START_WITHIN))
        self.server.await_state(self.handles, State.READY, timeouts.START_WITHIN)
        self.versions = self.environment.cluster(self.trial.backend).versions()
        for handle in self.handles:
            handle.ask(Command.GO)
        self.watch.begin()
        self.tell(waits("every lane to be granted once", timeouts.WARM_UP))
        cold = list(self.lanes)

        def all_warm() -> bool:
            cold[:] = [lane for lane in cold if not warm(self.trial, lane)]  # a lane that is warm stays so
            return not cold

        self.server.await_condition(all_warm, timeouts.WARM_UP)
        cold[:] = [lane for lane in cold if self.plan.steps and lane.lane.before_the_fault(self.trial.faults)]
        if cold:
            self.tell(waits("what can only be exercised before the first fault", timeouts.EXERCISED_WITHIN))
            self.server.await_condition(all_warm, timeouts.EXERCISED_WITHIN)

    def cycle_until_exercised(self, deadline: float) -> None:
        """Repeat the plan until all was exercised, or until `deadline` seconds have passed (more with longer TTLs, and
        with workers that work more slowly). A duration that the user sets is always used up.
        """
        duration, longer = self.trial.load.duration or 0.0, longest_ttl(self.trial.lanes) / LONGEST_TTL
        deadline = max(deadline * self.slower * max(longer, 1.0), duration)
        start = time.monotonic()  # by now the workers are connected, which may have taken long
        while True:
            began = time.monotonic()
            served = self._cycle()
            linger = max(timeouts.LINGER, (time.monotonic() - began) / 3) if deadline else 0.0
            self.missing.append(self._missing_after(linger if served else 0.0))
            if not served:
                return
            passed = time.monotonic() - start
            if self.plan.lasting or passed > deadline or not (self.missing[-1] or passed < duration):
                ready = self.environment.cluster(self.trial.backend).ready
                # No fault is on any more. A member that ended by itself is started again, also where none was healed.
                if not self.plan.lasting and (ready() or self._served_after(self.runner.final_heal)):
                    self._look_at_members(quiet=False)
                return
            again = self.missing[-1]
            why = f"since it did not exercise {_lacking(again)}" if again else "for as long as was asked for"
            self.tell(Event("repeats", {"text": f"once more, {why}"}))

    def kill(self) -> None:
        """Kill the workers: there will be no verdict, and Ctrl-C leaves little time (with xdist, ten seconds)."""
        for handle in self.handles:
            self.server.kill(handle)

    def heal(self) -> None:
        """Undo every fault, which also lets every frozen worker continue, and end the workers."""
        try:
            for handle in self.handles:  # they end while it is made sure that all faults are undone
                handle.ask(Command.FINISH)
            if not self.gone:  # else all was healed, in vain
                self._served_after(self.runner.final_heal)
            within = timeouts.workers_end_within(self.trial)
            self.tell(waits("the workers to end", within))
            self.stuck = self.server.finish(self.handles, within)
        finally:
            self.watch.end()
        if self.taps is not None:
            self.taps.close()

    def collect(self) -> list[History]:
        """The history of each lane. Raises WorkerBroke for bad grants, TrialBroke if a key cannot be read or the
        environment is not clean.
        """
        if not self.gone:
            if unclean := self.environment.still_unclean(READY_WITHIN):
                raise TrialBroke(f"after the trial: {'; '.join(unclean)}")
            self._look_at_members(quiet=True)
        self.versions = {**self.versions, **self.environment.cluster(self.trial.backend).versions()}
        records, seen = self._records, {"silences": (*self.watch.silences,), "outages": (*self._outages(),)}

        def history(lane: RunningLane, last: npt.NDArray[Any]) -> History:
            looks = tuple(look[lane.lane.name] for look in self.looks if look)
            made = whole(self.trial, lane, self.versions, records, {**seen, "looks": looks}, last)
            if wrong := malformed(made):
                raise WorkerBroke(f"{lane.lane.name}: {wrong} (see suites.lock.Grant)", {lane.lane.name})
            return made

        last = final_reads(self.lanes, self.environment, whole=not self.gone)
        return on_one_clock(list(map(history, self.lanes, last)))

    def _outages(self) -> list[Outage]:
        return [*members.ends(self.environment, self.trial.backend, round(self.clock * 1e9)), *self.gone]

    def _served_after(self, heal: Callable[[], None]) -> bool:
        """Whether this succeeds, which heals what it does. If not, the trial ends with what it has. Raises Failed
        unless a member ended though no fault ends it, or does not serve any more.
        """
        try:
            heal()
        except Failed as failed:
            self.gone = members.gone(self.environment, self.trial.backend)
            if isinstance(failed, VersionRefused) or not unexplained(self._outages(), intervals(self._records)):
                raise
            self.tell(step(f"the trial ends with what it has: {failed}"))
            return False
        return True

    def _look_at_members(self, *, quiet: bool) -> None:
        self.looks.append(members.look(self.environment, self.trial.backend, self.lanes, self.writes, quiet=quiet))

    def remove_traces(self) -> None:
        """Remove the keys written beside the locks and, on a cluster that is not ours, what the locks left behind."""
        with suppress(*NO_ANSWER):
            self.writes.clear()
        if not self.environment.ours:
            target_cleanup.await_ends([handle.pid for handle in self.handles])
            target_cleanup.sweep(self.environment, self.trial.backend, self.lanes, lambda line: self.tell(says(line)))

    def judged(self, histories: Sequence[History]) -> TrialRecord:
        """The record of the trial to store, with the judgements of each lane."""
        cluster = self.environment.cluster(self.trial.backend)
        seconds = round(time.monotonic() - self.clock, 2)
        lanes = []
        for number, history in enumerate(histories, 1):
            self.tell(Event("judges", {"lane": history.facts.lane, "number": number, "of": len(histories)}))
            lanes.append(LaneRecord(history, judge_all(check(history), history)))
        metadata = {
            **about(self.trial),
            "plan": self.plan.to_json(),
            "plan_lines": self.plan.describe(),
            "versions": self.versions,
            **servers(self.environment, self.trial.backend),
            "clients": self.server.clients,
            "started": self.started.isoformat(timespec="seconds"),
            "seconds": seconds,
            "clock_zero": time.time_ns() - time.monotonic_ns(),
            "missing_after_each_cycle": self.missing,
            "rolled": rolled(self.runner.records, histories),
            "stalled": stalled(histories),
            "slower": round(self.slower, 2),
            "cpu": self.cpu.by_part(sum(handle.cpu for handle in self.handles)),
            **({"boundaries": self.actors.boundaries} if self.actors.boundaries else {}),
            "killed_at_the_end": [handle.spec.name for handle in self.stuck],
            "error": None,
        }
        logs = {node.name: logs for node in cluster.nodes if (logs := node.process.logs())}
        return TrialRecord(self.trial.name, metadata, tuple(lanes), logs)

    def _missing_after(self, patience: float) -> Missing:
        """What each lane without a broken promise has not exercised yet.

        patience: seconds to wait for what may come without a fault.
        """
        missing = self._missing(self.unexercised)
        until = time.monotonic() + patience
        while _without_strike(missing) and (left := until - time.monotonic()) > 0:
            self.tell(waits(f"what would exercise {_lacking(_without_strike(missing))}", left))
            self.server.await_condition(lambda: False, LOOK_EVERY)
            missing = self._missing([lane for lane in self.lanes if lane.lane.name in missing])
        return {
            lane.lane.name: {name: lack.reason for name, lack in missing[lane.lane.name].items()}
            for lane in self.lanes
            if lane.lane.name in missing and not self._broken(lane)
        }

    def _broken(self, lane: RunningLane) -> bool:
        planted = lane.lane.name in self.trial.planted  # wait for the property that must find its bug
        return not planted and broken(so_far(self.trial, lane, self.versions, self._records))

    def _missing(self, lanes: Iterable[RunningLane]) -> dict[str, dict[str, Lack]]:
        """What each lane has not exercised yet. In a lane with a planted bug only the property for that bug counts.

        In further trials of two versions, a hazard that one may show counts too before cycle `CYCLES_OF_A_VERSION`.
        """
        missing = {}
        deciding = self.trial.stage in ALONE and self.trial.attempt > 1
        wanted = OF_A_VERSION if deciding and len(self.missing) + 1 < CYCLES_OF_A_VERSION else ()
        for lane in lanes:
            bug = self.trial.planted.get(lane.lane.name)
            every = not_exercised(so_far(self.trial, lane, self.versions, self._records), wanted=wanted)
            if lacks := {name: lack for name, lack in every.items() if bug in (None, name)}:
                missing[lane.lane.name] = lacks
        return missing

    def _cycle(self) -> bool:
        """Run the plan once; then wait until every lane is back (`_await_recovery`), or its recovery bound has passed.

        If a workload wants it (`returns`), wait until all its workers have held again. False: the trial must end.
        """
        if self.plan.steps:
            struck = any(FAULTS[name].group == "workers" for name in self.trial.faults if name in FAULTS)
            if self.taps is None:  # under faults at messages a lane is judged while others are still struck
                self.watch.end()
            for handle in self.handles:
                handle.ask(Command.GO if struck else Command.STAY)
            try:
                if not self._served_after(self.runner.cycle):
                    self.unexercised = list(self.lanes)
                    return False
            except VersionRefused as refused:
                raise NoWayThere(str(refused)) from refused
            for handle in self.handles:
                handle.ask(Command.GO)
            if self.taps is None:
                self.watch.begin()
        else:
            self.tell(step("no fault"))
            self.server.await_condition(lambda: False, CALM)
        healed = time.monotonic_ns()
        self.actors.fill_up()
        self.unexercised = list(self.lanes)
        self._await_recovery(healed)
        if self.plan.lasting:
            self.versions = self.environment.cluster(self.trial.backend).versions()
        return True

    def _await_recovery(self, healed: int) -> None:
        """Wait until all lanes are granted again and all their workers answered, or until their bounds have passed.

        Meanwhile, look at what the lanes have exercised that are back. It stays exercised. Not with taps.
        healed: ns, when the last fault was undone.
        """
        patience = {lane: timeouts.granted_again_within(lane) for lane in self.trial.lanes}
        pending, unseen = list(self.lanes), [] if self.plan.lasting or self.taps is not None else list(self.lanes)
        looked = dict.fromkeys(patience, 0.0)  # lane → when it was seen last whether all of its lock is back
        announced, announced_at = list[Lane](), healed

        def judged(lane: RunningLane) -> bool:
            unasked = "recovery" in lane.lane.workload.unasked
            returns = lane.lane.workload.returns and bool(self.plan.steps)
            back = lane.granted_since(healed) and (not returns or lane.held_since(healed))
            if back and self.taps is None and (lane.lane.lock.permits > 1 or lane.shared):
                back = time.monotonic() - looked[lane.lane] > LOOK_EVERY
                if back:
                    looked[lane.lane] = time.monotonic()
                    back = lane_history.all_is_back(so_far(self.trial, lane, self.versions, self._records))
            passed = (time.monotonic_ns() - healed) / 1e9 / patience[lane.lane]
            # The bound counts anew from the first failure of a worker that has no answer.
            return unasked or passed > 2 or ((back or passed > 1) and lane.answered_since(healed))

        def all_judged() -> bool:
            nonlocal announced, announced_at
            pending[:] = [lane for lane in pending if not judged(lane)]  # a lane that is judged stays so
            late = [lane.lane for lane in pending]
            if late and (seen := next((lane for lane in unseen if lane.lane not in late), None)):
                unseen.remove(seen)
                if not self._missing([seen]):
                    self.unexercised.remove(seen)
            if late and late != announced and time.monotonic_ns() - announced_at > 1e9:  # once a second is enough
                announced, announced_at = late, time.monotonic_ns()
                left = max(patience[lane] for lane in late) - (announced_at - healed) / 1e9
                self.tell(waits(f"{listing(few((lane.name for lane in late), 1))} to be granted again", left))
            return not late

        self.server.await_condition(all_judged, 2 * max(patience.values()))


def _without_strike(missing: Mapping[str, Mapping[str, Lack]]) -> Missing:
    """What is missing that may come while no fault is on."""
    waited_for = {
        lane: {name: lack.reason for name, lack in lacks.items() if not lack.by_strike}
        for lane, lacks in missing.items()
    }
    return {lane: reasons for lane, reasons in waited_for.items() if reasons}


def _lacking(missing: Missing) -> str:
    places = (f"{name} in {lane} ({why})" for lane, reasons in missing.items() for name, why in reasons.items())
    return listing(few(places, 1))
