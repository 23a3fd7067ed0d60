"""Each promise in each stage of an upgrade, and which of them were lost. Pure.

A promise is a property of a lock on a backend, under all faults together: if the old version broke it anywhere, the
upgrade did not lose it. A known weakness, or a break of what nobody promised, is a loss only if it shows in so many
more trials of the new version that chance would do so, in any one column, less often than `BY_CHANCE` (Fisher's exact
test, one-sided; all locks of a backend together, since a trial strikes the service that they share).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import comb
from typing import Final

from checkers.claims import Verdict
from checkers.judging.excuses_by_fault import OF_A_VERSION
from results.comparison.compare import Comparison, Seen, question
from results.record import Cell, grouped, judged
from results.report.verdict_changes import BLIND, worse
from results.stages import ALONE, BASELINE, CANDIDATE, COLUMNS, STAGES, TOGETHER

BY_CHANCE: Final = 0.025
DECIDING: Final = 5
"""Trials of each version that decide whether only one of them has a weakness. Five of five against one, or four against
none, come by chance less often than `BY_CHANCE`."""

Name = tuple[str, str, str]
"""backend, lock, property"""


@dataclass(frozen=True, slots=True)
class Promise:
    """One property of one lock, under all faults together."""

    backend: str
    lock: str
    property: str
    stages: Mapping[str, Seen]  # stage → its verdict
    absent: Mapping[str, str]  # stage → why it was not judged there
    blind: frozenset[str]  # stages without any evidence

    def name(self) -> Name:
        return self.backend, self.lock, self.property

    def turned(self) -> bool:
        """Whether the baseline kept a property that is no promise, and the candidate broke it: that is no loss."""
        old, new = (self.stages[stage].word if stage in self.stages else None for stage in ALONE)
        return old is Verdict.NOT_PROMISED_HELD and new in (Verdict.NOT_PROMISED_BROKEN, Verdict.WEAKNESS_SHOWN)

    def broke(self, stage: str) -> bool:
        return stage in self.stages and self.stages[stage].word is Verdict.VIOLATED

    def cleared(self) -> bool:
        return self.broke(BASELINE) and CANDIDATE in self.stages and not self.broke(CANDIDATE)


@dataclass(frozen=True, slots=True)
class Loss:
    """A judgement that got worse in the candidate, or a violation or silent positive control while versions change."""

    backend: str
    lock: str
    lane: str
    fault: str  # the column of the matrix
    property: str
    stage: str
    why: str  # how it is worse
    seen: Seen

    def name(self) -> Name:
        return self.backend, self.lock, self.property


def promises(cells: Iterable[Cell]) -> tuple[Promise, ...]:
    """All promises that were judged in any stage, the heaviest first. cells: also those of what was not tried."""
    cells = list(cells)
    of_stages = (cell for cell in judged(cells) if cell.stage in STAGES)
    not_judged = _all_reasons(cells)
    made = []
    for name, mine in sorted(grouped(of_stages, lambda cell: (cell.backend, cell.lock, cell.property)).items()):
        stages = grouped(mine, lambda cell: cell.stage)
        seen: dict[str, Seen] = {stage: Seen.of(stages[stage]) for stage in STAGES if stage in stages}
        reasons = {stage: _why_not(name, not_judged[stage]) for stage in STAGES if stage not in stages}
        absent = {stage: why for stage, why in reasons.items() if why is not None}
        blind = frozenset(stage for stage, all_ in stages.items() if all(cell.word in BLIND for cell in all_))
        made.append(Promise(*name, seen, absent, blind))
    return tuple(sorted(made, key=lambda promise: min(seen.word.weight for seen in promise.stages.values())))


def _all_reasons(cells: Iterable[Cell]) -> dict[str, dict[Name, str]]:
    """Stage → the promises that were not judged in it → why. Empty names mean all."""
    reasons: dict[str, dict[Name, str]] = {stage: {} for stage in STAGES}
    for cell in cells:
        if cell.word is Verdict.NOT_APPLICABLE:
            for stage in STAGES:
                if cell.stage == stage or (not cell.stage and cell.fault in COLUMNS.get(stage, ())):
                    reasons[stage].setdefault((cell.backend, cell.lock, cell.property), cell.because)
    return reasons


def _why_not(name: Name, why: Mapping[Name, str]) -> str | None:
    """The most specific reason for this promise; None if there is none."""
    names = product(*((part, "") for part in name))
    return next((why[backend, lock, what] for backend, lock, what in names if (backend, lock, what) in why), None)


def not_applicable(cells: Iterable[Cell], named: Iterable[Promise]) -> dict[tuple[str, str], str]:
    """(backend, stage) → why the backend can have no trial of the stage, if it is so for every lock with a promise."""
    locks: dict[str, set[str]] = defaultdict(set)
    for promise in named:
        locks[promise.backend].add(promise.lock)
    not_tried: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for cell in cells:
        if cell.word is Verdict.NOT_APPLICABLE and not cell.stage:
            for stage in TOGETHER:
                if cell.fault in COLUMNS[stage]:
                    not_tried[cell.backend, stage].setdefault(cell.lock, cell.because)
    return {
        place: next(iter(reasons.values()))
        for place, reasons in not_tried.items()
        if "" in reasons or locks[place[0]] <= reasons.keys()
    }


@dataclass(frozen=True, slots=True)
class Weakness:
    """In how many trials of each version a known weakness showed, or something broke that nobody promised, by one
    mechanism under one fault.

    shown, trials  (baseline, candidate): the number of trials in which the weakness showed, and of all trials.
    cells          cells of the candidate in which the weakness showed.
    """

    backend: str
    fault: str
    mechanism: str
    shown: tuple[int, int]
    trials: tuple[int, int]
    cells: tuple[Cell, ...]

    @property
    def suspected(self) -> bool:
        """Whether the weakness showed repeatedly, and in the candidate alone, but not often enough to decide."""
        return self.shown[0] == 0 and self.shown[1] > 1 and self.chance > BY_CHANCE and not self.undecided

    @property
    def undecided(self) -> bool:
        """Whether it is of a kind that is tried until counts decide, showed in the candidate alone, and would be a loss
        if it showed in the trials up to `DECIDING` that were not run: the budget was spent.
        """
        broken = any(cell.word is Verdict.NOT_PROMISED_BROKEN for cell in self.cells)
        if self.shown[0] or self.chance <= BY_CHANCE or not (broken or self.mechanism in OF_A_VERSION):
            return False
        old, new = (max(number, DECIDING) for number in self.trials)
        return replace(self, shown=(0, self.shown[1] + new - self.trials[1]), trials=(old, new)).chance <= BY_CHANCE

    @property
    def chance(self) -> float:
        """How likely the candidate is to show the weakness in so many trials or more, if both versions are alike."""
        (few, many), (old, new) = self.shown, self.trials
        ways = range(many, min(few + many, new) + 1)
        return sum(comb(new, k) * comb(old, few + many - k) for k in ways) / comb(old + new, few + many)

    def __str__(self) -> str:
        (few, many), (old, new) = self.shown, self.trials
        return f"it showed in {many} of {new} trials of the new version, in {few} of {old} of the old one"


def weaknesses(cells: Iterable[Cell]) -> list[Weakness]:
    """Weaknesses that showed in a larger part of the candidate's trials, and that both versions could have shown."""
    alone = [cell for cell in judged(cells) if cell.stage in ALONE]
    shown = [cell for cell in alone if cell.word in (Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_BROKEN)]
    tried = grouped(alone, lambda cell: (cell.lane, cell.fault, cell.property, cell.stage))
    made = []
    by_mechanism = grouped(shown, lambda cell: (cell.backend, cell.fault, cell.because))
    for (backend, fault, mechanism), mine in by_mechanism.items():
        places = {(cell.lane, fault, cell.property) for cell in mine}
        trials = [{cell.trial for place in places for cell in tried.get((*place, stage), ())} for stage in ALONE]
        hits = [{cell.trial for cell in mine if cell.stage == stage} for stage in ALONE]
        numbers, all_ = ((len(pair[0]), len(pair[1])) for pair in (hits, trials))
        if all(all_) and numbers[1] * all_[0] > numbers[0] * all_[1]:
            of_new = tuple(cell for cell in mine if cell.stage == CANDIDATE)
            made.append(Weakness(backend, fault, mechanism.removeprefix("explained by "), numbers, all_, of_new))
    return sorted(made, key=lambda weakness: weakness.chance)


def losses(comparison: Comparison, cells: Iterable[Cell]) -> list[Loss]:
    """All losses (see `Loss`), those included that `certify` does not count as regressions."""
    cells = list(cells)
    lost = [
        Loss(*question(change), CANDIDATE, change.worse, change.after)
        for change in comparison.changes
        if change.worse and change.after is not None
    ]
    for weakness in weaknesses(cells):
        if weakness.chance <= BY_CHANCE:
            by_question = grouped(weakness.cells, question)
            lost += (Loss(*key, CANDIDATE, str(weakness), Seen.of(mine)) for key, mine in by_question.items())
    while_versions_change = (cell for cell in judged(cells) if cell.stage in TOGETHER)
    for key, mine in sorted(grouped(while_versions_change, lambda cell: (*question(cell), cell.stage)).items()):
        seen = Seen.of(mine)
        if why := worse(Verdict.NOT_PROMISED_HELD, seen.word):
            lost.append(Loss(*key, why, seen))
    return lost
