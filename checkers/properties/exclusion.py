"""Mutual exclusion of the service's grants, and of the clients inside.

`server-exclusion` asks whether the service's grants can have been in force one after another; it believes every
acknowledged renewal. `holder-exclusion` asks whether two clients (readers aside), or more than there are permits, were
inside at once; no TTL enters. `permits` asks whether a semaphore ever had more grants in force than permits.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter, itemgetter
from statistics import median
from typing import Final

import numpy as np

from checkers.engines.lease_problem import Problem, posed
from checkers.engines.lease_schedule import conflicts
from checkers.engines.lease_sessions import fewest_grants, solve_sessions
from checkers.history.finding import Finding, OutOfBudget
from checkers.history.holds_and_lease_ends import IN_SESSIONS, Hold, exclude
from checkers.history.interval_sets import Span
from checkers.history.order_of_grants import ordered_by_tokens
from checkers.history.view import View
from checkers.properties.property import EXCLUDES, ONE_HOLDER, Examined, Need, Property
from checkers.properties.shared_counters import Exercise, lock_unexercised
from checkers.properties.violation_stories import in_turn

GAP: Final = "gap at hand-over (ms, median)"
OVERLAP: Final = "longest overlap (ms)"
MOST_INSIDE: Final = "most inside at once"

SECONDS: Final = 30.0  # the limit of the search for an order of grants, for all keys one by one; few histories need it
SECONDS_ACROSS: Final = 20.0  # likewise, for all keys together

_INSIDE: Final = attrgetter("ret", "left")  # when a client was inside: (begin, end), in ns


def _examine_server(view: View) -> Examined:
    """Whether each grant of a key began when the ones before it were over: checkers/CONDITIONS.md, section 7."""
    findings: list[Finding] = []
    undecided: list[str] = []
    deadline = time.monotonic() + SECONDS
    by_key = view.holds.by_key
    holds = tuple(hold for of_key in by_key.values() for hold in of_key)
    problem = posed(holds, view.facts.lease, view.once(ordered_by_tokens))
    first = 0
    for key, of_key in by_key.items():
        numbers = np.arange(first, first + len(of_key))
        first += len(of_key)
        findings += [
            Finding("renewed-after-release", hold.renewed, (hold.row, hold.release), (hold.row,))
            for hold in of_key
            if hold.renewed > hold.freed
        ]
        try:
            for conflict in conflicts(problem.part(numbers), deadline):
                findings.append(_finding([of_key[n] for n in conflict]))  # stays even if a budget runs out later
        except OutOfBudget as spent:
            undecided.append(f"{view.facts.keys[key]}: {spent}")
    if not findings and not undecided:
        findings, undecided = _across_keys(view, problem, holds)
    return Examined(findings, undecided="; ".join(undecided) or None)


def _examine_holders(view: View) -> Examined:
    """Whether no two, or no more than there are permits, were inside at once: checkers/CONDITIONS.md, section 7."""
    if view.facts.permits > 1:
        findings = _crowd_findings(view, "too-many-inside", _INSIDE)
    else:
        findings = [
            Finding("overlap", later.ret, (earlier.row, later.row), in_turn((earlier, later)))
            for holds in view.holds.by_key.values()
            for earlier, later in overlaps(holds)
        ]
    return Examined(findings, _hand_over_times(view))


def _exercise_server(view: View) -> Exercise:
    return Exercise(lock_unexercised(view))


def _hand_over_times(view: View) -> dict[str, int]:
    """How long nobody was inside while another client waited already, and how long two clients were inside at once."""
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
    """Pairs of grants of one key, two readers aside, that were inside together. holds: in order of their returns."""
    there: list[Hold] = []
    for hold in holds:
        there = [earlier for earlier in there if earlier.left > hold.ret]
        if hold.left > hold.ret:
            yield from ((earlier, hold) for earlier in there if exclude(earlier, hold))
            there.append(hold)


def _across_keys(view: View, problem: Problem, holds: Sequence[Hold]) -> tuple[list[Finding], list[str]]:
    """Findings on keys that share sessions, and why such keys are undecided. holds: those of the problem."""
    several = {(hold.session, hold.key) for hold in holds if hold.session}
    alone = len(several) == len({session for session, _ in several})
    if view.facts.lease not in IN_SESSIONS or alone or any(hold.shared for hold in holds):
        return [], []
    deadline = time.monotonic() + SECONDS_ACROSS
    solution = solve_sessions(problem, deadline)
    conflicts = solution.conflicts.values()
    conflicting = [[holds[n] for n in fewest_grants(problem, grants, deadline)] for grants in conflicts]
    return [_finding(conflict) for conflict in conflicting], sorted(set(solution.undecided.values()))


def _finding(conflict: Sequence[Hold]) -> Finding:
    rows = [row for hold in conflict[:-1] for row in (hold.row, hold.release) if row >= 0]
    kind = "granted-while-held" if len(conflict) == 2 else "no-room"
    at = max(hold.latest for hold in conflict)
    return Finding(kind, at, (*rows, conflict[-1].row), in_turn(conflict))


def _examine_permits(view: View) -> Examined:
    """Sound. A finding for each grant of a permit while all permits were certainly taken."""
    return Examined(_crowd_findings(view, "too-many-granted", attrgetter("latest", "core_end")))


def _exercise_holders(view: View) -> Exercise:
    return _exercise_permits(view) if view.facts.permits > 1 else Exercise(lock_unexercised(view))


def _exercise_permits(view: View) -> Exercise:
    most, room = most_inside(view), view.facts.permits
    empty = None if most >= room else f"no more than {most} inside at once, {room} needed"
    return Exercise(empty or lock_unexercised(view), {MOST_INSIDE: most})


def _crowd_findings(view: View, kind: str, times: Callable[[Hold], Span]) -> list[Finding]:
    crowds = (each for holds in view.holds.by_key.values() for each in _crowds(holds, times, view.facts.permits))
    return [Finding(kind, at, tuple(hold.row for hold in crowd), in_turn(crowd)) for at, crowd in crowds]


def _crowds(holds: Iterable[Hold], times: Callable[[Hold], Span], room: int) -> Iterator[tuple[int, tuple[Hold, ...]]]:
    """Every time at which one more hold begins than there is room for: (ns, all open holds, the newest last).

    times: when a hold begins and ends; one without length does not count.
    """
    there: list[tuple[int, Hold]] = []
    for begin, end, hold in sorted(((*times(hold), hold) for hold in holds), key=itemgetter(0)):
        there = [(until, other) for until, other in there if until > begin]
        if end > begin:
            there.append((end, hold))
            if len(there) > room:
                yield begin, tuple(other for _, other in there)


def most_inside(view: View, *, shared: bool = False) -> int:
    """The largest number of clients that were inside one key at once. shared: counts readers alone."""
    counted = [[hold for hold in holds if hold.shared or not shared] for holds in view.holds.by_key.values()]
    return max((len(crowd) for holds in counted for _, crowd in _crowds(holds, _INSIDE, 0)), default=0)


SERVER_EXCLUSION: Final = Property("server-exclusion", _examine_server, _exercise_server, needs=ONE_HOLDER)
HOLDER_EXCLUSION: Final = Property("holder-exclusion", _examine_holders, _exercise_holders, needs=EXCLUDES)
PERMITS: Final = Property("permits", _examine_permits, _exercise_permits, needs=EXCLUDES | {Need.PERMITS})
