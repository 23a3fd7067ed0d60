"""Decides on an upgrade: what a run with `--from` and `--to` found, and the decision. Pure.

A regression is what `results.comparison` calls worse from the baseline to the candidate, and what is violated while
servers of both versions serve together, or after they went back. There are exceptions. If the baseline broke the same
promise of the same lock, in another lane or under another fault, the promise was broken already and the upgrade lost
nothing. A positive control that fell silent is inconclusive: this run was not able to detect what it should. A server
that refuses to go back is a warning. What missed its bound of time while the machine did not run the workers is
inconclusive. A regression outranks everything inconclusive.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from checkers.claims import Verdict
from results.certificate import inconclusive
from results.certificate.conditions import one_version
from results.certificate.power import Calibration, Exposure, HandoverGap, calibration, exposures, handover_gaps
from results.certificate.promise_losses import (
    Loss,
    Promise,
    Weakness,
    losses,
    not_applicable,
    promises,
    weaknesses,
)
from results.certificate.trials import ErrorText, ServerStep, UpgradeTrial, errors, no_way_there, steps
from results.comparison.compare import Comparison, compare
from results.comparison.speeds import Speed
from results.record import grouped
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
    """What was found, and the decision on the upgrade.

    upgrades      backend → (from, to), as they were asked for.
    parts         the stages that were asked for or have trials.
    comparison    from the baseline to the candidate.
    promises      the heaviest first.
    absent        (backend, stage) → why there can be no trial of it.
    regressed     what makes it a regression; slower: the times and rates that do.
    one_version   backend → the version that all its servers report, before and after.
    known         failures of promises that the baseline had broken elsewhere.
    weaknesses    those that showed in the candidate alone, though not often enough to decide.
    no_way_there  messages of servers of the new version that did not start on the old data, each once.
    doubts        why it is not conclusive, a line each.
    """

    upgrades: Mapping[str, tuple[str, str]]
    parts: tuple[str, ...]
    comparison: Comparison
    promises: tuple[Promise, ...]
    absent: Mapping[tuple[str, str], str]
    regressed: tuple[Loss, ...]
    slower: tuple[Speed, ...]
    known: tuple[Loss, ...]
    weaknesses: tuple[Weakness, ...]
    one_version: Mapping[str, str]
    steps: tuple[ServerStep, ...]
    no_way_there: tuple[str, ...]
    handover_gaps: tuple[HandoverGap, ...]
    errors: tuple[ErrorText, ...]
    exposures: tuple[Exposure, ...]
    calibration: Calibration
    doubts: tuple[str, ...]

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
        """Properties without a promise that the baseline kept and the candidate broke."""
        return tuple(promise for promise in self.promises if promise.turned())

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
        """Messages of servers that did not go back, and from where, each once."""
        refused = [step for step in self.steps if step.refused]
        return tuple(dict.fromkeys(f"{WHENCE.get(step.column, '')}{step.backend}: {step.what}" for step in refused))


def certify(
    contents: RunContents,
    upgrades: Mapping[str, tuple[str, str]],
    cut_short: str = "",
    *,
    parts: Collection[str] = ALONE,
    trials: Sequence[UpgradeTrial] = (),
) -> Certificate:
    """The certificate of a run. cut_short: why there is less than was asked for. parts: the stages asked for."""
    before, after = (_of(contents, stage) for stage in ALONE)
    comparison, replaced = compare(before, after), steps(trials)
    named = promises(contents.cells)
    failures = losses(comparison, contents.cells)
    broken = {promise.name() for promise in named if promise.broke(BASELINE)}
    silent = [loss for loss in failures if loss.seen.word is Verdict.WEAKNESS_NOT_SHOWN]
    late = inconclusive.late_of_the_machine(failures, trials)
    accused = [loss for loss in failures if loss not in silent and loss not in late]
    exposed = exposures(contents.cells, contents.lanes, trials, replaced)
    calibrated = calibration(contents.cells, trials, contents.planted)
    tried = {(cell.backend, cell.stage) for cell in contents.cells} | {(step.backend, step.stage) for step in replaced}
    absent = {place: why for place, why in not_applicable(contents.cells, named).items() if place not in tried}
    return Certificate(
        upgrades=upgrades,
        parts=tuple(stage for stage in STAGES if stage in {*parts, *(stage for _, stage in tried)}),
        comparison=comparison,
        promises=named,
        absent=absent,
        regressed=tuple(loss for loss in accused if loss.name() not in broken),
        slower=tuple(speed for speed in comparison.speeds if speed.worse),
        one_version=one_version(trials),
        known=tuple(loss for loss in accused if loss.name() in broken),
        weaknesses=tuple(each for each in weaknesses(contents.cells) if each.suspected),
        steps=replaced,
        no_way_there=no_way_there(trials),
        handover_gaps=handover_gaps(contents.lanes),
        errors=errors(trials),
        exposures=exposed,
        calibration=calibrated,
        doubts=(
            *filter(None, [cut_short]),
            *inconclusive.without_counterpart(contents, comparison),
            *inconclusive.not_exercised(upgrades, parts, {*tried, *absent}, exposed),
            *inconclusive.without_evidence(comparison, named, silent),
            *inconclusive.not_detected(calibrated.planted),
            *inconclusive.left_out(contents),
            *inconclusive.lateness(late),
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
