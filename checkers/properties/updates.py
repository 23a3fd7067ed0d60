"""`no-lost-update` and `no-duplicate`: each acknowledged element is in the final list; each job is done once.

Each write carries its new element and, as its base, the last element of the list from which it was made. So lists form
a forest, and the final list is a path to its root: acknowledged writes off it are lost; the fork shows who overwrote.

A job (`F.EFFECT`) cannot be undone, and no fence can refuse it: a job done twice is a duplicate. Each sale has as its
base the list from which it was made: two acknowledged sales from one list sold one item.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.view import View
from checkers.properties.property import Examined, Property
from checkers.properties.shared_counters import Exercise, lock_unexercised, short_of, write_missed
from checkers.row_format import FINAL, LATE, NONE, F, Outcome

ACKNOWLEDGED: Final = "acknowledged updates"
LOST: Final = "lost updates"
FORKS: Final = "lists that were written back twice"

SALES: Final = "inventory"  # the workload in which the jobs are the sales
JOBS: Final = "jobs"
DUPLICATES: Final = "duplicates"
PER_JOBS: Final = "duplicates per 1000 jobs"


def _examine_lists(view: View) -> Examined:
    """Exact, given a final read of each key; a key without one is not judged.

    There is one violation for each branch of lost writes that leaves the path of the surviving writes. Its witness is
    both writes at the fork, the reads before them and the final read.
    """
    if not view.facts.keeps_lists:
        return Examined(())
    findings: list[Finding] = []
    final, writes = _final_reads(view), _writes(view)
    reads = grouped(view.rows(F.READ, outcomes=(Outcome.OK,)), view.owner.__getitem__)
    lost = forks = 0
    for key, path, problem, missing in _judged(view):
        if problem is not None:
            findings.append(problem)
        lost += len(missing)
        if problem is not None and problem.kind != "corrupt-list":
            continue
        kept = set(path)
        branches = {_branch(row, kept, writes[key], view.base) for row in missing}
        by_base = {view.base[row]: row for row in path}
        findings += (_fork(view, reads, by_base.get(view.base[root]), root, final[key]) for root in sorted(branches))
        forks += len({view.base[root] for root in branches})
    unread = [view.facts.keys[key] for key in writes if key not in final]
    unjudged = f"no final read of {', '.join(unread)}" if unread else None
    return Examined(findings, {LOST: lost, FORKS: forks}, unjudged=unjudged)


def _exercise_lists(view: View) -> Exercise:
    if not view.facts.keeps_lists:
        return Exercise(f"the workload {view.facts.workload} keeps no list of updates")
    counted = {ACKNOWLEDGED: len(view.rows(F.WRITE, outcomes=(Outcome.OK,)))}
    few = short_of(counted, {ACKNOWLEDGED: 2})
    return Exercise(few or lock_unexercised(view) or write_missed(view), counted)


def lost_updates(view: View) -> list[int]:
    """Rows of the acknowledged writes that the final lists do not hold."""
    return [row for *_, missing in _judged(view) for row in missing]


def _judged(view: View) -> Iterator[tuple[int, list[int], Finding | None, list[int]]]:
    """(key, what `_path` says, acknowledged writes that are not on the path) of each key with a final read."""
    final = _final_reads(view)
    for key, by_value in _writes(view).items():
        if key in final:
            path, problem = _path(view, by_value, final[key])
            kept = set(path)
            missing = [row for row in by_value.values() if view.outcome[row] == Outcome.OK and row not in kept]
            yield key, path, problem, missing


def _final_reads(view: View) -> dict[int, int]:
    """Key → row of its last final read."""
    return {view.key[row]: row for row in view.rows(F.READ, outcomes=(Outcome.OK,)) if view.flags[row] & FINAL}


def _writes(view: View) -> dict[int, dict[int, int]]:
    """Key → element → row of its write, refused ones included."""
    by_key = grouped(view.rows(F.WRITE), view.key.__getitem__)
    return {key: {view.value[row]: row for row in rows} for key, rows in by_key.items()}


def _path(view: View, by_value: Mapping[int, int], final: int) -> tuple[list[int], Finding | None]:
    """Rows of the writes that the final list holds, the last first, and what is wrong with that list."""
    path: list[int] = []
    seen = set()
    element = view.value[final]
    while element != NONE:
        row = by_value.get(element)
        if row is None:
            return path, Finding("value-never-written", view.inv[final], (*path[-1:], final))
        if view.outcome[row] == Outcome.FAIL:
            return path, Finding("refused-value-read", view.inv[final], (row, final))
        if row in seen:
            return path, Finding("corrupt-list", view.inv[final], (row, final))
        seen.add(row)
        path.append(row)
        element = view.base[row]
    if len(path) != view.base[final]:
        right = f"{len(path)} element{'s' * (len(path) != 1)}"
        why = f"So the final list is not what its writers made of it, which has {right}."
        return path, Finding("corrupt-list", view.inv[final], (*path[:1], final), conclusion=why)
    return path, None


def _branch(row: int, kept: set[int], by_value: Mapping[int, int], base: Sequence[int]) -> int:
    """The first write of the lost branch to which a lost write belongs."""
    seen = {row}
    while True:
        parent = by_value.get(base[row])
        if parent is None or parent in kept or parent in seen:
            return row
        seen.add(parent)
        row = parent


def _fork(view: View, reads: Mapping[int, list[int]], survivor: int | None, root: int, final: int) -> Finding:
    if survivor is None:
        return Finding("vanished", view.inv[root], (*_read_before(view, reads, root), root, final))
    first, second = sorted((survivor, root), key=lambda row: view.inv[row])
    rows = (*_read_before(view, reads, first), *_read_before(view, reads, second), first, second, final)
    lost, kept = (f"{view.who(view.process[row])}'s element {view.value[row]}" for row in (root, survivor))
    seen = (row for rows in reads.values() for row in rows if view.inv[row] > view.ret[root])
    later = any(view.key[row] == view.key[root] and view.value[row] == view.value[survivor] for row in seen)
    what = f"the write of {kept} took effect later" if later else f"the final list has {kept} instead"
    why = f"So {lost} is lost: both writes replaced the same list, and {what}."
    return Finding("lost-update", view.inv[second], tuple(dict.fromkeys(rows)), conclusion=why)


def _read_before(view: View, reads: Mapping[int, list[int]], write: int) -> Iterator[int]:
    """The read from which a write was made: the last one of its grant that returned the write's base."""
    base, sent = view.base[write], view.inv[write]
    of_base = [row for row in reads.get(view.owner[write], ()) if view.value[row] == base and view.inv[row] < sent]
    yield from of_base[-1:]


def _examine_duplicates(view: View) -> Examined:
    """Exact. Reports each repetition, with the first time. A job without an answer may never have been done."""
    kind, jobs = "sold-twice" if view.facts.workload == SALES else "done-twice", view.once(_jobs)
    repeated = ((first, again) for first, *repetitions in jobs for again in repetitions)
    findings = [Finding(kind, view.inv[again], (first, again)) for first, again in repeated]
    return Examined(findings, {DUPLICATES: len(findings), PER_JOBS: 1000 * len(findings) // max(len(jobs), 1)})


def _exercise_jobs(view: View) -> Exercise:
    jobs = len(view.once(_jobs))
    few = None if jobs >= 2 else f"{jobs or 'no'} job{'s' * (jobs != 1)} done, 2 needed"
    return Exercise(few or lock_unexercised(view) or write_missed(view), {JOBS: jobs})


def _jobs(view: View) -> list[list[int]]:
    """For each job the rows in which it was done, in order of invocation."""
    kind, job = (F.WRITE, view.base) if view.facts.workload == SALES else (F.EFFECT, view.value)
    done = [row for row in view.rows(kind, outcomes=(Outcome.OK,)) if not view.flags[row] & LATE]
    return list(grouped(done, lambda row: (view.key[row], job[row])).values())


NO_LOST_UPDATE: Final = Property("no-lost-update", _examine_lists, _exercise_lists, by_workload=True, final=True)
NO_DUPLICATE: Final = Property("no-duplicate", _examine_duplicates, _exercise_jobs, by_workload=True)
