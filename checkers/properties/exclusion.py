"""Mutual exclusion of the service's grants, and of the clients inside.

`server-exclusion` asks whether the service's grants can have followed one another; it believes every acknowledged
renewal. `holder-exclusion` asks whether two clients were inside at once; no TTL enters. Two readers may be inside
together, and as many clients as a semaphore has permits. `checkers.properties.permits` asks what the service of a
semaphore granted.
"""

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

import numpy as np

from checkers.engines.lease_problem import Problem, posed
from checkers.engines.lease_schedule import conflicts
from checkers.engines.lease_sessions import fewest_grants, solve_sessions
from checkers.history.finding import Finding, OutOfBudget
from checkers.history.holds_and_leases import IN_SESSIONS, Hold, exclude
from checkers.history.order_of_grants import disordered, tokens_of
from checkers.history.view import View
from checkers.properties import permits
from checkers.properties.permits import crowd_finding, crowds, inside
from checkers.properties.property import Examined, Need, Property
from checkers.properties.shared_counters import Exercise, exercised_lock
from checkers.properties.stories import earliest

GAP: Final = "gap at hand-over (ms, median)"
OVERLAP: Final = "longest overlap (ms)"

SECONDS: Final = 30.0
SECONDS_ACROSS: Final = 20.0
"""For the search for an order of grants, all keys one by one, and all together. Few histories need any of it."""


def _examine_server(view: View) -> Examined:
    """Whether each grant of a key began when the ones before it were over: checkers/CONDITIONS.md, section 7."""
    findings: list[Finding] = []
    undecided: list[str] = []
    deadline = time.monotonic() + SECONDS
    by_key = view.holds.by_key
    holds = tuple(hold for of_key in by_key.values() for hold in of_key)
    ordered = frozenset(key for key, of_key in by_key.items() if tokens_of(of_key) and not disordered(of_key))
    problem = posed(holds, view.facts.lease, ordered)
    first = 0
    for key, of_key in by_key.items():
        numbers = np.arange(first, first + len(of_key))
        first += len(of_key)
        findings += _after_release(of_key)
        try:
            for conflict in conflicts(problem.part(numbers), deadline):
                findings.append(_finding([of_key[n] for n in conflict]))  # stays if a budget then runs out
        except OutOfBudget as spent:
            undecided.append(f"{view.facts.keys[key]}: {spent}")
    if not findings and not undecided:
        findings, undecided = _across_keys(view, problem, holds)
    return Examined(findings, undecided="; ".join(undecided) or None)


def _examine_holders(view: View) -> Examined:
    """Whether no two clients, or more than there are permits, were inside one key at once, for some length of time.

    Source: checkers/CONDITIONS.md, section 7. All pairs are reported.
    """
    if view.facts.permits > 1:
        findings = [
            crowd_finding("too-many-inside", at, crowd)
            for holds in view.holds.by_key.values()
            for at, crowd in crowds(inside(holds), view.facts.permits)
        ]
    else:
        findings = [
            Finding("overlap", later.ret, (earlier.row, later.row), _in_order((earlier, later)))
            for holds in view.holds.by_key.values()
            for earlier, later in overlaps(holds)
        ]
    return Examined(findings, _hand_over_times(view))


def _exercise_holders(view: View) -> Exercise:
    return permits.exercise(view) if view.facts.permits > 1 else exercised_lock(view)


def _hand_over_times(view: View) -> dict[str, int]:
    """How long nobody was inside while another client waited already, and how long two clients were."""
    gaps = [0]
    overlapped = 0
    if view.facts.permits == 1:
        for holds in view.holds.by_key.values():
            for earlier, later in pairwise(holds):
                if earlier.shared or later.shared or view.worker(earlier.row) == view.worker(later.row):
                    continue
                overlapped = max(overlapped, min(earlier.left, later.left) - later.ret)
                if later.inv <= earlier.left <= later.ret:
                    gaps.append(later.ret - earlier.left)
    return {GAP: int(median(gaps[1:] or gaps)) // 1_000_000, OVERLAP: overlapped // 1_000_000}


def overlaps(holds: Sequence[Hold]) -> Iterator[tuple[Hold, Hold]]:
    """Every pair of grants of one key whose holders were inside together, once, for each later hold in turn.

    grants must be in the order in which their acquires returned. Two readers are no pair.
    """
    there: list[Hold] = []
    for hold in holds:
        there = [earlier for earlier in there if earlier.left > hold.ret]
        if hold.left > hold.ret:
            yield from ((earlier, hold) for earlier in there if exclude(earlier, hold))
            there.append(hold)


def _across_keys(view: View, problem: Problem, holds: Sequence[Hold]) -> tuple[list[Finding], list[str]]:
    """What has no room among the keys that share sessions, and why that is not known. holds: of the problem."""
    several = {(hold.session, hold.key) for hold in holds if hold.session}
    if view.facts.lease not in IN_SESSIONS or len(several) == len({session for session, _ in several}):
        return [], []
    if any(hold.shared for hold in holds):
        return [], []
    solution = solve_sessions(problem, SECONDS_ACROSS)
    conflicting = [[holds[n] for n in fewest_grants(problem, grants)] for grants in solution.conflicts.values()]
    return [_finding(conflict) for conflict in conflicting], sorted(set(solution.undecided.values()))


def _after_release(holds: Sequence[Hold]) -> Iterator[Finding]:
    for hold in holds:
        if hold.renewed > hold.freed:
            yield Finding("renewed-after-release", hold.renewed, (hold.row, hold.release), (hold.row,))


def _finding(conflict: Sequence[Hold]) -> Finding:
    rows: list[int] = []
    for hold in conflict:
        rows.append(hold.row)
        if hold.release >= 0 and hold is not conflict[-1]:
            rows.append(hold.release)
    holders = _in_order(conflict)
    kind = "granted-while-held" if len(conflict) == 2 else "no-room"
    at = max(hold.latest for hold in conflict)
    return Finding(kind, at, tuple(rows), holders)


def _in_order(holds: Sequence[Hold]) -> tuple[int, ...]:
    return tuple(hold.row for hold in sorted(holds, key=earliest))


SERVER_EXCLUSION: Final = Property(
    "server-exclusion", _examine_server, exercised_lock, needs=frozenset({Need.EXCLUDES, Need.ONE_PERMIT})
)
HOLDER_EXCLUSION: Final = Property(
    "holder-exclusion", _examine_holders, _exercise_holders, needs=frozenset({Need.EXCLUDES})
)
