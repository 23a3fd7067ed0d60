"""What a property is, in one declaration: its question, what exercises it, and what a lock needs to be asked it.

A running trial asks `Property.exercise` whether the trial may end. The final result rests on `Property.exercise`, too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, final

from checkers.history.finding import Finding
from checkers.history.history import Facts
from checkers.history.view import View
from checkers.properties.check_result import CheckResult, Proof
from checkers.properties.shared_counters import Exercise, counters
from checkers.properties.violation_stories import Narrator

HANGS: Final = ("stall-holder", "long-call")  # faults under which a holder hangs while its client's renewal goes on
NO_BOUND: Final = "the lock declares no bound"


class Need(StrEnum):
    """What a lock must have so that a property can be asked of it, in words for the author of a lock."""

    EXCLUDES = "excludes = True"
    ONE_PERMIT = "permits = 1; a semaphore is asked for `permits` instead"
    PERMITS = "permits above 1"
    TOKENS = "tokens = True"
    FAIR = "fair = True"
    WAKES = "a property `wakes` that counts how often a client was woken"
    SHARED = "a method acquire_shared(name, timeout)"
    REENTRANT = "reentrant = True"
    RENEWED = "renewed = True"


EXCLUDES: Final = frozenset({Need.EXCLUDES})
ONE_HOLDER: Final = EXCLUDES | {Need.ONE_PERMIT}


@final
@dataclass(frozen=True, slots=True)
class Examined:
    """What the check of a property found in a history."""

    findings: Sequence[Finding]
    counters: Mapping[str, int] = field(default_factory=dict)  # counted beside those of `Property.exercise`
    undecided: str | None = None  # why the answer is not known if nothing was found, or None
    unjudged: str | None = None  # why a pass would mean nothing, if only a finished history can tell; or None
    proof: Proof | None = None


@final
@dataclass(frozen=True, slots=True)
class Property:
    id: str
    examine: Callable[[View], Examined]  # looks for violations
    # Counts what exercised the property, and says what is missing so that a pass means something. It must be cheap: a
    # trial that still runs calls it twice a second.
    exercise: Callable[[View], Exercise]
    needs: frozenset[Need] = frozenset()  # what a lock must have so that the property can be asked of it
    bounded: bool = False  # whether only a bound of time decides it, which the lock must then declare as well
    optional: bool = False  # whether it is asked only of locks that say something about it
    by_workload: bool = False  # whether only workloads that name it exercise it
    under: tuple[str, ...] = ()  # patterns of the faults without which nothing can exercise it; empty if any trial can
    # Why a trial is not made to exercise it, or None. It is asked all the same, but a pass that nothing exercised is
    # then not applicable.
    unexpected: Callable[[Facts], str | None] = lambda _: None
    when_said: tuple[str, ...] = ()  # faults of `under` under which it is asked only of locks that say something of it
    final: bool = False  # whether it is judged by what is read at the end, which a trial that still runs does not have
    of_the_service: bool = False  # whether the service owes it to every lock, whether the lock claims it or not
    # Store mode → why nobody exercises it there on purpose, unless the lock claims it or has a hazard.
    not_expected_in: Mapping[str, str] = field(default_factory=dict)

    def missing(self, view: View) -> str | None:
        """Why a pass would mean nothing yet, or None."""
        if self.bounded and self.id not in view.facts.bounds:
            return NO_BOUND
        return view.once(self.exercise).missing

    def result(self, view: View) -> CheckResult:
        """The whole answer on a finished history."""
        examined, exercise = self.examine(view), view.once(self.exercise)
        violations = Narrator(view).tell(examined.findings)
        return CheckResult(
            self.id,
            False if violations else None if examined.undecided else True,
            violations,
            {**view.once(counters), **exercise.counters, **examined.counters},
            unexercised=self.missing(view) or examined.unjudged,
            reason=examined.undecided,
            proof=None if violations or examined.undecided else examined.proof,
        )
