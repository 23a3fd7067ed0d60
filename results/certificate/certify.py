"""Decides on an upgrade from what a run with `--from` and `--to` found. Pure.

results/README.md says what is a regression, what is known, what a warning, and what inconclusive. So is a positive
control that fell silent: this run was not able to detect what it should. A regression outranks everything inconclusive.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Final

from checkers.claims import Verdict
from checkers.properties.all_properties import BOUNDED
from checkers.properties.recovery import RECOVERY
from results.certificate import detection_power
from results.certificate.detection_power import Calibration, Exposure, HandoverGap, LockGap, Planted, Tries
from results.certificate.promise_losses import Loss, Promise, Weakness, losses, not_applicable, promises, weaknesses
from results.certificate.trials import BUSY, ErrorText, ServerStep, UpgradeTrial, errors, one_version, steps
from results.comparison.compare import CellChange, Comparison, compare, question
from results.comparison.speeds import Speed
from results.record import Cell, grouped
from results.report.verdict_changes import BLIND
from results.stages import ALONE, BASELINE, CANDIDATE, STAGES, TOGETHER, WHEN, WHENCE
from results.storage.reading import RunContents
from results.text import count


class Decision(StrEnum):
    """The decision on an upgrade, the heaviest first."""

    REGRESSION = "REGRESSION"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_REGRESSION = "NO REGRESSION FOUND"


STATUS: Final[Mapping[Decision, int]] = {Decision.NO_REGRESSION: 0, Decision.REGRESSION: 1, Decision.INCONCLUSIVE: 5}
"""Exit statuses of `pytest suites/`, which leaves 2 to 4 to pytest, and of the commands."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was found, and the decision on the upgrade."""

    # Backend → (from, to), as they were asked for; or client library → its releases.
    upgrades: Mapping[str, tuple[str, str]]
    parts: tuple[str, ...]  # the stages that were asked for or have trials
    comparison: Comparison  # from the baseline to the candidate
    promises: tuple[Promise, ...]  # the heaviest first
    absent: Mapping[tuple[str, str], str]  # (backend, stage) → why there can be no trial of it
    regressed: tuple[Loss, ...]  # losses that make it a regression; slower: times and rates that do
    slower: tuple[Speed, ...]
    known: tuple[Loss, ...]  # failures of promises that the baseline had broken elsewhere
    weaknesses: tuple[Weakness, ...]  # those that showed in the candidate alone, but not often enough to decide
    one_version: Mapping[str, str]  # backend → the version that all its servers report, before and after
    steps: tuple[ServerStep, ...]
    # Messages of servers of the new version that did not start on the old data, each once.
    no_way_there: tuple[str, ...]
    handover_gaps: tuple[HandoverGap, ...]
    gaps: tuple[LockGap, ...]  # the longest first
    tries: tuple[Tries, ...]
    boundaries: tuple[int, int]  # between requests: hit on the new version, and all; (0, 0) if none were tried
    errors: tuple[ErrorText, ...]
    exposures: tuple[Exposure, ...]
    calibration: Calibration
    doubts: tuple[str, ...]  # why it is not conclusive, a line each

    @property
    def decision(self) -> Decision:
        if self.regressed or self.slower:
            return Decision.REGRESSION
        return Decision.INCONCLUSIVE if self.doubts else Decision.NO_REGRESSION

    @property
    def cleared(self) -> tuple[Promise, ...]:
        return tuple(promise for promise in self.promises if promise.cleared())

    @property
    def turned(self) -> tuple[Promise, ...]:
        """Properties that nobody promised, which the baseline kept and the candidate broke."""
        return tuple(promise for promise in self.promises if promise.turned())

    @property
    def plan_for(self) -> tuple[str, ...]:
        """What an operator must plan for while versions change: for how long locks could not be taken, the longest
        first. A gap is listed if it is longer than the lock promises to recover, or if the lock did not recover.
        """
        recovery = {(each.backend, each.lock): each for each in self.promises if each.property == RECOVERY.id}
        lines: dict[tuple[str, str, str], str] = {}
        for gap in self.gaps:
            why = _late(recovery.get((gap.backend, gap.lock)), gap)
            if why and (gap.backend, gap.lock, gap.stage) not in lines:
                length = f"{gap.seconds:.0f} s" if gap.seconds >= 10 else f"{gap.seconds:.1f} s"
                words = f"{gap.lock} could not be taken for up to {length} {WHEN[gap.stage]}: {why}"
                lines[gap.backend, gap.lock, gap.stage] = words
        return tuple(lines.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Lines that belong to every decision."""
        same = (
            f"the servers of {backend} say that they are {version}, before and after: unless their images differ in "
            "more, a version was held against itself"
            for backend, version in self.one_version.items()
        )
        untimed = () if self.comparison.timed else ("times and rates are not judged: too few trials",)
        there = (f"no way there: {words}" for words in self.no_way_there)
        weaker = (f"{each.backend}, {each.mechanism} under {each.fault}: {each}" for each in self.weaknesses)
        return (*same, *there, *weaker, *untimed, *(f"no way back {words}" for words in self.no_way_back))

    @property
    def no_way_back(self) -> tuple[str, ...]:
        """Messages of servers that refused to go back, each once, with the point of the upgrade (`WHENCE`) in front."""
        refused = [step for step in self.steps if step.refused]
        return tuple(dict.fromkeys(f"{WHENCE.get(step.column, '')}{step.backend}: {step.what}" for step in refused))


def _late(promise: Promise | None, gap: LockGap) -> str:
    """What is known of a gap that is longer than it should be; empty if it is not. promise: `recovery` of the lock."""
    words = {stage: seen.word for stage, seen in promise.stages.items()} if promise else {}
    weak = [stage for stage in (*ALONE, gap.stage) if words.get(stage) in _BROKEN]
    if words.get(gap.stage) is Verdict.VIOLATED:
        return "recovery was violated"
    if not (words.get(gap.stage) in _BROKEN or 0 < gap.recovery < gap.seconds):
        return ""
    if weak:
        name = "known weakness" if words[weak[0]] is Verdict.WEAKNESS_SHOWN else "not promised"
        where = "both versions" if {*ALONE} <= {*weak} else "neither version alone" if weak[0] == gap.stage else ""
        return f"{name}, {where or WHEN[weak[0]]}"
    return f"it promises {gap.recovery:g} s after a fault" if gap.recovery else "it promises no bound"


_BROKEN: Final = (Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_BROKEN)


def certify(
    contents: RunContents,
    upgrades: Mapping[str, tuple[str, str]],
    cut_short: str = "",
    *,
    libraries: Mapping[str, tuple[str, str]] | None = None,
    parts: Collection[str] = ALONE,
    trials: Sequence[UpgradeTrial] = (),
) -> Certificate:
    """The certificate of a run. cut_short: why the run has less than was asked for. libraries: client library → (from,
    to), if the upgrade is one of client libraries. parts: the stages asked for.
    """
    before, after = (_of(contents, stage) for stage in ALONE)
    comparison, replaced = compare(before, after), steps(trials)
    named = promises(contents.cells)
    failures = losses(comparison, contents.cells)
    broken = {promise.name() for promise in named if promise.broke(BASELINE)}
    silent = [loss for loss in failures if loss.seen.word is Verdict.WEAKNESS_NOT_SHOWN]
    late = late_of_the_machine(failures, trials)
    accused = [loss for loss in failures if loss not in silent and loss not in late]
    exposed = detection_power.exposures(contents.cells, contents.lanes, trials, replaced)
    calibrated = detection_power.calibration(contents.cells, trials, contents.planted)
    tried = {(cell.backend, cell.stage) for cell in contents.cells} | {(step.backend, step.stage) for step in replaced}
    absent = {place: why for place, why in not_applicable(contents.cells, named).items() if place not in tried}
    libraries, weak = libraries or {}, weaknesses(contents.cells)
    refusals = ((trial.backend, trial.about.get("no_way_there")) for trial in trials)
    return Certificate(
        upgrades={**upgrades, **libraries},
        parts=tuple(stage for stage in STAGES if stage in {*parts, *(stage for _, stage in tried)}),
        comparison=comparison,
        promises=named,
        absent=absent,
        regressed=tuple(loss for loss in accused if loss.name() not in broken),
        slower=tuple(speed for speed in comparison.speeds if speed.word == "worse"),
        one_version={} if libraries else one_version(trials),
        known=tuple(loss for loss in accused if loss.name() in broken),
        weaknesses=tuple(each for each in weak if each.suspected),
        steps=replaced,
        no_way_there=tuple(dict.fromkeys(f"{backend}: {words}" for backend, words in refusals if words)),
        handover_gaps=detection_power.handover_gaps(contents.lanes),
        gaps=detection_power.lock_gaps(trials),
        tries=detection_power.tries(contents.cells),
        boundaries=detection_power.boundaries(contents.lanes),
        errors=errors(trials),
        exposures=exposed,
        calibration=calibrated,
        doubts=(
            *filter(None, [cut_short]),
            *without_counterpart(contents, comparison),
            *not_exercised(upgrades or {backend for backend, _ in tried}, parts, {*tried, *absent}, exposed),
            *same_clients(trials, libraries),
            *without_evidence(comparison, named, silent),
            *undecided(weak),
            *not_detected(calibrated.planted),
            *(f"{count(len(contents.problems), 'trial')} came to no verdict: {why}" for why in contents.problems[:1]),
            *lateness(late),
        ),
    )


def _of(contents: RunContents, stage: str) -> RunContents:
    cells = tuple(cell for cell in contents.cells if cell.stage == stage)
    return RunContents(cells, tuple(lane for lane in contents.lanes if lane.stage == stage), ())


def sentence(certificate: Certificate) -> str:
    """The decision in one sentence, with its first reasons and the number of cleared defects."""
    decision = str(certificate.decision)
    if certificate.decision is Decision.REGRESSION:
        return f"{decision}: {'; '.join(_accusations(certificate))}"
    cleared = f" ({count(len(certificate.cleared), 'defect')} cleared)" if certificate.cleared else ""
    if certificate.decision is Decision.INCONCLUSIVE:
        more = f", and {len(certificate.doubts) - 1} more" if len(certificate.doubts) > 1 else ""
        return f"{decision}{cleared}: {certificate.doubts[0]}{more}"
    return decision + cleared


def _accusations(certificate: Certificate) -> Iterable[str]:
    broken = grouped(certificate.regressed, Loss.name)
    lines = [f"{lock} lost {name} {_where(all_)}" for (_, lock, name), all_ in broken.items()]
    lines += [
        f"{speed.lock or f'all locks on {speed.backend}'}: {speed.measure} is {speed.ratio:.1f} times what it was"
        for speed in certificate.slower
    ]
    return lines[:3] + [f"and {len(lines) - 3} more"] * (len(lines) > 3)


def _where(losses: Sequence[Loss]) -> str:
    faults = sorted({loss.fault for loss in losses if loss.stage == CANDIDATE})
    places = [f"under {' and '.join(faults[:2])}"] if faults else []
    places += [WHEN[stage] for stage in TOGETHER if any(loss.stage == stage for loss in losses)]
    return " and ".join(places)


def without_counterpart(contents: RunContents, comparison: Comparison) -> Iterator[str]:
    """A line if the new version lacks judgements that the old version has."""
    if not comparison.common:
        yield "no judgement is there on both versions"
    elif alone := len(_unanswered(comparison.changes, contents.cells)):
        yield f"{count(alone, 'judgement')} of the old version {'has' if alone == 1 else 'have'} none beside it"


def not_exercised(
    backends: Iterable[str], parts: Collection[str], known: Collection[tuple[str, str]], exposures: Iterable[Exposure]
) -> Iterator[str]:
    """Lines on stages asked for but not tried, and on events that did not happen. known: stages tried or impossible."""
    for backend, stage in product(backends, TOGETHER):
        if stage in parts and (backend, stage) not in known:
            yield f"{backend}: nothing was tried {WHEN[stage]}"
    for exposure in exposures:
        if exposure.missing:
            yield f"{exposure.backend}: no {exposure.what} {WHEN[exposure.stage]}"


def same_clients(trials: Sequence[UpgradeTrial], libraries: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """A line for each backend whose locks loaded the same client libraries before and after, though releases differ."""
    if all(old == new for old, new in libraries.values()):
        return
    for backend, mine in grouped(trials, lambda trial: trial.backend).items():
        old, new = (
            {each for trial in mine if trial.stage == stage for each in trial.clients.items()} for stage in ALONE
        )
        if old == new:
            yield f"{backend}: no lock loaded another release of {' or '.join(libraries)} than before"


def without_evidence(comparison: Comparison, promises: Iterable[Promise], silent: Sequence[Loss]) -> Iterator[str]:
    """Lines on judgements that came to no verdict. silent: positive controls that fell silent."""
    for stage in (*ALONE[1:], *TOGETHER):
        if silenced := [loss for loss in silent if loss.stage == stage]:
            yield f"{_first(silenced)} fell silent {WHEN[stage]}: this run could not have seen what it was to see"
    if lost := [change for change in comparison.changes if change.lost]:
        yield f"{_first(lost)} came to no verdict {WHEN[ALONE[1]]} ({lost[0].lost})"
    judged_before = [promise for promise in promises if BASELINE in promise.stages and BASELINE not in promise.blind]
    for stage in TOGETHER:
        if blind := [promise for promise in judged_before if stage in promise.blind]:
            more = f" and {count(len(blind) - 1, 'other promise')}" if len(blind) > 1 else ""
            word, because = blind[0].stages[stage].word, blind[0].stages[stage].because
            yield f"{blind[0].property} of {blind[0].lock}{more}: {word} {WHEN[stage]} ({because})"


def undecided(weak: Iterable[Weakness]) -> Iterator[str]:
    """Lines on what only the new version showed, in so few trials that it may be chance."""
    for each in weak:
        if each.undecided:
            yield f"{each.backend}, {each.mechanism} under {each.fault}: {each}; more trials decide (--budget)"


def not_detected(planted: Iterable[Planted]) -> Iterator[str]:
    if escaped := [bug for bug in planted if not bug.caught]:
        bug, more = escaped[0], f" (nor {count(len(escaped) - 1, 'other')})" if len(escaped) > 1 else ""
        yield f"{bug.name} on {bug.backend} is broken on purpose, and {bug.by} did not show it{more}"


def _unanswered(changes: Iterable[CellChange], cells: Iterable[Cell]) -> list[CellChange]:
    """Judgements of the old version that the new one lacks. A judgement is left out if its question did not come up on
    the new version, and it either is no promise (a stale attempt without a fence), or the new version judged the same
    property of the lock elsewhere (a hand-over away from faults, where faults may take up all of the time).
    """
    on_the_new = [cell for cell in cells if cell.stage == CANDIDATE and cell.trial]
    did_not_come_up = {question(cell) for cell in on_the_new if cell.word is Verdict.NOT_APPLICABLE}
    judged = {(cell.lock, cell.property) for cell in on_the_new if cell.word not in {Verdict.NOT_APPLICABLE, *BLIND}}

    def excused(change: CellChange) -> bool:
        no_promise = change.before is not None and change.before.word is not Verdict.UPHELD
        enough = no_promise or (change.lock, change.property) in judged
        return enough and question(change) in did_not_come_up

    return [change for change in changes if change.after is None and not excused(change)]


def late_of_the_machine(losses: Iterable[Loss], trials: Iterable[UpgradeTrial]) -> list[Loss]:
    """Losses that missed a bound of time while the machine did not run the workers: they are no evidence."""
    busy = {trial.name for trial in trials if trial.stalled > BUSY}
    bounded = [loss for loss in losses if loss.property in BOUNDED]
    return [loss for loss in bounded if loss.seen.page is not None and loss.seen.page.parent.name in busy]


def lateness(late: Sequence[Loss]) -> Iterator[str]:
    """A line if there are late losses. late: see `late_of_the_machine`."""
    if late:
        busy = f"while the machine was too busy to run the workers for more than {BUSY:.0%} of the time"
        yield f"{_first(late)} missed its bound {busy}: try again on an idle one"


def _first(changes: Sequence[Loss] | Sequence[CellChange]) -> str:
    first = changes[0]
    more = f" and {count(len(changes) - 1, 'other judgement')}" if len(changes) > 1 else ""
    return f"{first.property} of {first.lane} under {first.fault}{more}"
