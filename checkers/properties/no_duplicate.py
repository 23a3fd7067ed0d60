"""`no-duplicate`: each job is done once, each item is sold once. A lock for efficiency is made for that.

A job (`F.EFFECT`) cannot be undone, and no fence can refuse it: done twice, it is a duplicate. Items are sold one after
another, and each sale is written under the list that it was made from: two acknowledged sales from one list sold one
item.
"""

from typing import Final

from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.view import View
from checkers.properties.property import Examined, Property
from checkers.properties.shared_counters import Exercise, lock_unexercised, write_missed
from checkers.row_format import LATE, F, Outcome

SALES: Final = "inventory"
"""The workload in which the jobs are the sales."""
JOBS: Final = "jobs"
DUPLICATES: Final = "duplicates"
PER_JOBS: Final = "duplicates per 1000 jobs"
MIN_JOBS: Final = 2


def _examine(view: View) -> Examined:
    """Exact. Reports each repetition, with the first time. A job without an answer may never have been done."""
    sales, jobs = view.facts.workload == SALES, view.once(_jobs)
    findings = [
        Finding("sold-twice" if sales else "done-twice", view.column("inv")[again], (first, again))
        for first, *repetitions in jobs
        for again in repetitions
    ]
    return Examined(findings, {DUPLICATES: len(findings), PER_JOBS: 1000 * len(findings) // max(len(jobs), 1)})


def _exercise(view: View) -> Exercise:
    jobs = len(view.once(_jobs))
    few = None if jobs >= MIN_JOBS else f"{jobs or 'no'} job{'s' * (jobs != 1)} done, {MIN_JOBS} needed"
    return Exercise(few or lock_unexercised(view) or write_missed(view), {JOBS: jobs})


def _jobs(view: View) -> list[list[int]]:
    """For each job the rows in which it was done, in order of invocation."""
    sales = view.facts.workload == SALES
    key, job, flags = view.column("key"), view.column("base" if sales else "value"), view.column("flags")
    done = [row for row in view.rows(F.WRITE if sales else F.EFFECT, outcomes=(Outcome.OK,)) if not flags[row] & LATE]
    return list(grouped(done, lambda row: (key[row], job[row])).values())


NO_DUPLICATE: Final = Property("no-duplicate", _examine, _exercise, by_workload=True)
