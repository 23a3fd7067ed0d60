"""The function that judges a history, and the function that says what a running trial still lacks."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from checkers.claims import Verdict
from checkers.history.history import History
from checkers.history.view import View
from checkers.judging.excuses_by_fault import BY_STRIKE
from checkers.judging.judgement import declared, judge, not_applicable, not_expected
from checkers.properties.all_properties import PROPERTIES
from checkers.properties.check_result import CheckResult
from checkers.properties.exclusion import HOLDER_EXCLUSION, PERMITS, SERVER_EXCLUSION
from checkers.properties.fenced_store import FENCED_STORE, TOKEN_ORDER
from checkers.properties.property import Property
from checkers.properties.recovery import RECOVERY
from checkers.properties.shared_counters import fault_missed, write_missed
from checkers.properties.updates import NO_DUPLICATE, NO_LOST_UPDATE, SALES
from checkers.row_format import NONE, F


def check(history: History, properties: Iterable[str] | None = None) -> tuple[CheckResult, ...]:
    """Results in the order of `properties`, else of those that the history names or, else, shows. Raises KeyError."""
    view = history.once(View)
    return tuple(PROPERTIES[name].result(view) for name in _names(view, properties))


class Lack(NamedTuple):
    reason: str  # why a pass would mean nothing yet, or which hazard has not shown yet
    by_strike: bool  # whether only another strike of the fault can change that


def missing(history: History, properties: Iterable[str] | None = None, wanted: Collection[str] = ()) -> dict[str, Lack]:
    """Property → what a trial that still runs lacks.

    wanted: mechanisms of hazards that need not show, but are waited for all the same.
    """
    view = history.once(View)
    lacks = {name: _missing(PROPERTIES[name], view, wanted) for name in _names(view, properties)}
    return {name: lack for name, lack in lacks.items() if lack is not None}


def broken(history: History) -> bool:
    """Whether a trial that still runs has broken a promise: that is an answer, whatever else is not exercised."""
    view = history.once(View)
    not_final = (PROPERTIES[name] for name in _names(view, None) if not PROPERTIES[name].final)
    return any(judge(each.result(view), history).word is Verdict.VIOLATED for each in not_final)


def _names(view: View, properties: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(properties) if properties is not None else view.facts.properties or applicable(view)


def _missing(property: Property, view: View, wanted: Collection[str]) -> Lack | None:
    facts = view.facts
    stands = declared(property.id, facts)
    if not_applicable(property.id, facts) is not None or not_expected(property.id, facts, stands) is not None:
        return None
    reason = property.missing(view)
    awaited = [hazard.mechanism for hazard in stands.hazards if hazard.certain or hazard.mechanism in wanted]
    if reason is None and awaited and not property.final and not property.examine(view).findings:
        return Lack(f"no violation by {awaited[0]} yet", BY_STRIKE.keys() >= {*awaited})
    return None if reason is None else Lack(reason, reason in (fault_missed(view), write_missed(view)))


def applicable(view: View) -> tuple[str, ...]:
    """The properties that a history without a list of its own can be judged for."""
    properties = [PERMITS if view.facts.permits > 1 else SERVER_EXCLUSION, HOLDER_EXCLUSION]
    if any(hold.token != NONE for hold in view.holds):
        properties.append(TOKEN_ORDER)
    if view.rows(F.EFFECT) or view.facts.workload == SALES:
        properties.append(NO_DUPLICATE)
    if view.facts.keeps_lists:
        properties.append(NO_LOST_UPDATE)
    elif view.rows(F.READ, F.WRITE):
        properties.append(FENCED_STORE)
    if RECOVERY.id in view.facts.bounds and view.facts.planned:
        properties.append(RECOVERY)
    return tuple(each.id for each in properties)
