"""The register of properties, and the one function that judges a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from checkers.belief import BELIEF, honest_belief
from checkers.calls import FAIL_FAST, fail_fast
from checkers.claims import NO_FAULT, matches
from checkers.deadlock import DEADLOCK_FREE, deadlock_free
from checkers.duplicates import NO_DUPLICATE, SALES, no_duplicate
from checkers.exclusion import HOLDER, SERVER, holder_exclusion, server_exclusion
from checkers.fencing import FENCED_STORE, fenced_store
from checkers.history import Facts, History
from checkers.independence import INDEPENDENCE, independence
from checkers.judgement import declared, not_applicable, nothing_to_exercise
from checkers.liveness import RECOVERY, recovery
from checkers.permits import PERMITS, permits
from checkers.queueing import FIFO, HERD_FREE, fifo, herd_free
from checkers.reentrancy import REENTRANCY, reentrancy
from checkers.releases import CRASH_RELEASE, OWNER_RELEASE, crash_release, owner_release
from checkers.renewals import HONEST_RENEWAL, honest_renewal
from checkers.sharing import SHARING, sharing
from checkers.tokens import TOKEN_ORDER, token_order
from checkers.updates import LISTS, NO_LOST_UPDATE, no_lost_update, updates_unexercised
from checkers.verdict import Verdict
from checkers.view import View
from checkers.wire import NONE, F

PROPERTIES: Final[Mapping[str, Callable[[View], Verdict]]] = {
    SERVER: server_exclusion,
    HOLDER: holder_exclusion,
    TOKEN_ORDER: token_order,
    FENCED_STORE: fenced_store,
    NO_LOST_UPDATE: no_lost_update,
    RECOVERY: recovery,
    BELIEF: honest_belief,
    OWNER_RELEASE: owner_release,
    CRASH_RELEASE: crash_release,
    HONEST_RENEWAL: honest_renewal,
    FAIL_FAST: fail_fast,
    FIFO: fifo,
    HERD_FREE: herd_free,
    DEADLOCK_FREE: deadlock_free,
    SHARING: sharing,
    PERMITS: permits,
    REENTRANCY: reentrancy,
    INDEPENDENCE: independence,
    NO_DUPLICATE: no_duplicate,
}
"""Property → its checker, which takes a view of the history: several checkers share one."""


def check(history: History, properties: Iterable[str] | None = None) -> tuple[Verdict, ...]:
    """Verdicts in the order asked for; without `properties`, those that the history names or, failing that, shows.

    Raises KeyError for a property that is not in `PROPERTIES`.
    """
    view = View(history)
    return tuple(PROPERTIES[name](view) for name in _names(view, properties))


def unexercised(history: History, properties: Iterable[str] | None = None) -> dict[str, str]:
    """Property → why a pass would mean nothing yet: for a trial that still runs, and has no final reads.

    A hazard that must show and has not is a reason too: the fault may have met nobody at the wrong moment.
    """
    view = View(history)
    reasons = {
        name: updates_unexercised(view) if name == NO_LOST_UPDATE else _yet_to_come(PROPERTIES[name](view), view.facts)
        for name in _names(view, properties)
        if _expected(name, history.facts)
    }
    return {name: reason for name, reason in reasons.items() if reason is not None}


def _yet_to_come(verdict: Verdict, facts: Facts) -> str | None:
    hazard = declared(verdict.property, facts).certain
    if verdict.unexercised is None and verdict.valid and hazard is not None:
        return f"no violation by {hazard.mechanism} yet"
    return verdict.unexercised


def _expected(name: str, facts: Facts) -> bool:
    """Whether the property means something in this trial, and somebody said something about it."""
    silent = declared(name, facts).silent
    return not_applicable(name, facts) is None and not (silent and nothing_to_exercise(name, facts))


def _names(view: View, properties: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(properties) if properties is not None else view.facts.properties or applicable(view)


def applicable(view: View) -> tuple[str, ...]:
    """The properties that a history without a list of its own can be judged for."""
    names = [PERMITS if view.facts.permits > 1 else SERVER, HOLDER]
    if any(grant.token != NONE for grant in view.grants):
        names.append(TOKEN_ORDER)
    if view.rows(F.EFFECT) or view.facts.workload == SALES:
        names.append(NO_DUPLICATE)
    if matches(view.facts.workload, LISTS):
        names.append(NO_LOST_UPDATE)
    elif view.rows(F.READ, F.WRITE):
        names.append(FENCED_STORE)
    if RECOVERY in view.facts.bounds and any(name != NO_FAULT for name in view.facts.fault_names):
        names.append(RECOVERY)
    return tuple(names)
