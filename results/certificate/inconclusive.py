"""Reasons why a certificate is not conclusive, a line each. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product

from checkers.claims import Verdict
from checkers.properties.all_properties import BOUNDED
from results.certificate.power import Exposure, Planted
from results.certificate.promise_losses import Loss, Promise
from results.certificate.trials import BUSY, UpgradeTrial
from results.comparison.compare import CellChange, Comparison, question
from results.record import Cell
from results.stages import ALONE, BASELINE, CANDIDATE, TOGETHER, WHEN
from results.storage.reading import RunContents
from results.text import count


def without_counterpart(contents: RunContents, comparison: Comparison) -> Iterator[str]:
    """That the new version lacks judgements of the old one."""
    if not comparison.common:
        yield "no judgement is there on both versions"
    elif alone := len(_unanswered(comparison.changes, contents.cells)):
        yield f"{count(alone, 'judgement')} of the old version {'has' if alone == 1 else 'have'} none beside it"


def not_exercised(
    backends: Iterable[str], parts: Collection[str], known: Collection[tuple[str, str]], exposures: Iterable[Exposure]
) -> Iterator[str]:
    """Parts that were asked for and not tried, and events that did not happen. known: parts tried, or impossible."""
    for backend, stage in product(backends, TOGETHER):
        if stage in parts and (backend, stage) not in known:
            yield f"{backend}: nothing was tried {WHEN[stage]}"
    for exposure in exposures:
        if exposure.missing:
            yield f"{exposure.backend}: no {exposure.what} {WHEN[exposure.stage]}"


def without_evidence(comparison: Comparison, promises: Iterable[Promise], silent: Sequence[Loss]) -> Iterator[str]:
    """Judgements that came to no verdict. silent: positive controls that fell silent."""
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


def not_detected(planted: Iterable[Planted]) -> Iterator[str]:
    if escaped := [bug for bug in planted if not bug.caught]:
        bug, more = escaped[0], f" (nor {count(len(escaped) - 1, 'other')})" if len(escaped) > 1 else ""
        yield f"{bug.name} on {bug.backend} is broken on purpose, and {bug.by} did not show it{more}"


def left_out(contents: RunContents) -> Iterator[str]:
    if contents.problems:
        yield f"{count(len(contents.problems), 'trial')} came to no verdict: {contents.problems[0]}"


def _unanswered(changes: Iterable[CellChange], cells: Iterable[Cell]) -> list[CellChange]:
    """Judgements of the old version that the new version does not have.

    Left out is what is no promise and did not come up on the new version, such as a stale attempt without a fence.
    """
    on_the_new = (cell for cell in cells if cell.stage == CANDIDATE and cell.trial)
    did_not_come_up = {question(cell) for cell in on_the_new if cell.word is Verdict.NOT_APPLICABLE}

    def excused(change: CellChange) -> bool:
        no_promise = change.before is not None and change.before.word is not Verdict.UPHELD
        return no_promise and question(change) in did_not_come_up

    return [change for change in changes if change.after is None and not excused(change)]


def late_of_the_machine(losses: Iterable[Loss], trials: Iterable[UpgradeTrial]) -> list[Loss]:
    """Losses that missed a bound of time while the machine did not run the workers: they are no evidence."""
    busy = {trial.name for trial in trials if trial.stalled > BUSY}
    bounded = [loss for loss in losses if loss.property in BOUNDED]
    return [loss for loss in bounded if loss.seen.page is not None and loss.seen.page.parent.name in busy]


def lateness(late: Sequence[Loss]) -> Iterator[str]:
    """late: see `late_of_the_machine`."""
    if late:
        busy = f"while the machine was too busy to run the workers for more than {BUSY:.0%} of the time"
        yield f"{_first(late)} missed its bound {busy}: try again on an idle one"


def _first(changes: Sequence[Loss] | Sequence[CellChange]) -> str:
    first = changes[0]
    more = f" and {count(len(changes) - 1, 'other judgement')}" if len(changes) > 1 else ""
    return f"{first.property} of {first.lane} under {first.fault}{more}"
