"""How clients wait: in what order they get the lock, how many of them are woken, and whether they wait in a circle.

`fifo`: no client overtakes another that was in the queue before it asked; acquires tell when they were queued.
`herd-free`: a key's acquires are woken no more often than places leave its queue; acquires tell how often they were.
`deadlock-free`: no circle of holders, each of which waits for what the next one holds, lasts longer than a TTL. A
worker waits for a key from the invocation of an acquire to its end, and holds a key from its grant until it leaves.
Leases and timeouts break every circle in the end. If a circle lasts longer than a lease, and nearly until one of the
waiting clients gives up, the lock did not break it.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np

from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.holds_and_lease_ends import Hold
from checkers.history.interval_sets import length, moment, without
from checkers.history.view import View
from checkers.properties.property import EXCLUDES, Examined, Need, Property
from checkers.properties.shared_counters import Exercise, fault_missed, idle, lock_unexercised, unless
from checkers.properties.story_sentences import listing
from checkers.properties.violation_stories import in_turn
from checkers.row_format import SHARED, F, Outcome

BYPASSES: Final = "bypasses"
QUEUED: Final = "acquires queued behind another"
WAKES: Final = "wakes"
PER_RELEASES: Final = "wakes per 100 releases"
CROWDED: Final = "releases with several waiting"
WITNESSES: Final = 3  # how many acquires the finding of a herd names: those that were woken most often
BOTH: Final = "acquires by a holder of another key"
CYCLES: Final = "circles of waiting holders"
LONGEST: Final = "longest circle (ms)"
NEARLY: Final = 1_000_000_000
"""ns before the first client of a circle would have given up. The lock did not break a circle that lasts until then."""


def _examine_fifo(view: View) -> Examined:
    """Whether nobody got a key before another that had been in its queue. Sound: checkers/CONDITIONS.md, section 14."""
    # Of several permits both may have got one, and the order of their answers says nothing.
    pairs = view.once(_behind) if view.facts.permits == 1 else ()
    findings = [
        Finding("overtaken", late.ret, (early.row, late.row), (late.row, early.row))
        for early, late in pairs
        if late.ret < early.ret and early.core_end > late.ret
    ]
    return Examined(findings, {BYPASSES: len(findings)})


def _exercise_fifo(view: View) -> Exercise:
    behind = len({late.row for early, late in view.once(_behind) if early.ret > _queued(view, late) > 0})
    queued = not view.holds or any(_queued(view, hold) for hold in view.holds)
    missing = unless(view.facts.permits == 1, "several may hold at once, so that nobody knows who was first")
    missing = missing or unless(queued, "the grants do not tell when they were queued")
    missing = missing or unless(behind, "nobody was queued behind another") or lock_unexercised(view)
    return Exercise(missing, {QUEUED: behind})


def _behind(view: View) -> list[tuple[Hold, Hold]]:
    """Pairs (early, late) of a key's writers: the early one was in the queue, unanswered, when the late one asked."""
    pairs: list[tuple[Hold, Hold]] = []
    for holds in view.holds.by_key.values():
        writers = sorted((hold for hold in holds if not hold.shared), key=attrgetter("inv"))
        coming = sorted(((_queued(view, hold), hold) for hold in writers if _queued(view, hold)), reverse=True)
        waiting: list[Hold] = []
        for late in writers:
            while coming and coming[-1][0] < late.inv:
                waiting.append(coming.pop()[1])
            waiting = [early for early in waiting if early.ret > late.inv]
            pairs += ((early, late) for early in waiting)
    return pairs


def _queued(view: View, hold: Hold) -> int:
    """ns; when the acquire was certainly in the queue, 0 if its client does not tell."""
    return max(view.base[hold.row], 0)


def _examine_herd_free(view: View) -> Examined:
    """Whether a key's acquires woke up no more often than places left its queue: checkers/CONDITIONS.md, section 14."""
    findings = []
    for key, woken in sorted(grouped(view.once(_with_wakes), view.key.__getitem__).items()):
        places = view.attempts_by_key[key]
        allowed = len(places) + sum(view.outcome[row] != Outcome.OK for row in places)
        if (wakes := sum(view.value[row] for row in woken)) > allowed:
            most = sorted(woken, key=lambda row: (-view.value[row], row))[:WITNESSES]
            at = max((view.ret[row] for row in woken if view.outcome[row] != Outcome.INFO), default=view.finish)
            why = f"So {wakes} wake-ups came to {len(woken)} requests in all, though {allowed} would have been enough."
            findings.append(Finding("herd", at, tuple(sorted(most)), conclusion=why))
    return Examined(findings)


def _exercise_herd_free(view: View) -> Exercise:
    counted, crowded = view.once(_with_wakes), _crowded(view)
    wakes = sum(view.value[row] for row in counted)
    missing = unless(counted, "the client does not tell how often it was woken") or unless(wakes, "nobody was woken")
    missing = missing or unless(crowded, "never were two waiting at a release") or fault_missed(view)
    per_releases = 100 * wakes // max(len(_releases(view)), 1)
    return Exercise(missing, {WAKES: wakes, PER_RELEASES: per_releases, CROWDED: crowded})


def _with_wakes(view: View) -> list[int]:
    """Rows of the acquires whose client tells how often it was woken."""
    return [row for row in view.attempts() if view.value[row] >= 0]


def _releases(view: View) -> list[int]:
    return view.whole(F.RELEASE, outcomes=(Outcome.OK, Outcome.INFO))


def _crowded(view: View) -> int:
    """Releases during which two or more acquires of the key had no answer yet."""
    inv, key = view.array("inv"), view.array("key")
    places, releases = np.array(view.attempts(), int), np.array(_releases(view), int)
    total = 0
    for number in np.unique(key[releases]):
        waiting, at = places[key[places] == number], inv[releases[key[releases] == number]]
        begun = np.searchsorted(np.sort(inv[waiting]), at, "left")
        ended = np.searchsorted(np.sort(view.ended[waiting]), at, "right")
        total += int((begun - ended >= 2).sum())
    return total


class Wait(NamedTuple):
    """A worker that holds one key and waits for another, from `begin` to `end` (ns)."""

    begin: int
    end: int
    worker: int
    row: int
    wanted: int
    shared: bool
    held: Hold

    def blocked_by(self, other: "Wait") -> bool:
        """Whether the other wait's worker holds what this one waits for, and the two do not share it."""
        return self.worker != other.worker and self.wanted == other.held.key and not (self.shared and other.held.shared)


def _examine_circles(view: View) -> Examined:
    """Exact, for one permit. Counts each circle, and reports it if it lasts too long, stalls and silences deducted."""
    findings = []
    cycles = longest = 0
    for circle in _circles(view.once(_waits)) if view.facts.permits == 1 else ():
        begin, end = max(wait.begin for wait in circle), min(wait.end for wait in circle)
        lasted, limit = without([(begin, end)], view.once(idle)), _limit(view, circle)
        cycles += 1
        longest = max(longest, length(lasted))
        if length(lasted) > limit:
            rows = (*(wait.held.row for wait in circle), *(wait.row for wait in circle))
            holders = in_turn([wait.held for wait in circle])
            whose = listing([f"worker {worker}" for worker in sorted(wait.worker for wait in circle)])
            why = f"So {whose} waited for each other's locks for longer than the {limit / 1e9:g} s that are allowed."
            findings.append(Finding("deadlock", moment(lasted, limit), rows, holders, why))
    return Examined(findings, {CYCLES: cycles, LONGEST: longest // 1_000_000})


def _exercise_circles(view: View) -> Exercise:
    both = len(view.once(_waits))
    missing = unless(view.facts.permits == 1, "several may hold at once")
    missing = missing or unless(both, "no holder asked for another lock") or lock_unexercised(view)
    return Exercise(missing, {BOTH: both})


def _limit(view: View, circle: Sequence[Wait]) -> int:
    """ns for which a circle may last: a TTL or, if its clients were told to wait for longer, nearly that time."""
    patiences = (view.ttl[wait.row] for wait in circle if view.outcome[wait.row] != Outcome.OK and view.ttl[wait.row])
    return max(view.facts.ttl, min(patiences, default=0) - NEARLY)


def _waits(view: View) -> list[Wait]:
    """All waits in order of their beginnings. An acquire without an answer waits until it was given up."""
    by_worker = grouped(view.holds, lambda hold: view.worker(hold.row))
    waits = []
    current: dict[int, int] = {}
    for row in view.attempts():
        worker = view.worker(row)
        holds = by_worker.get(worker, [])
        # A worker's grants come in order, and few are held at once: grants that are over are never looked at again.
        first = current.get(worker, 0)
        while first < len(holds) and holds[first].left <= view.inv[row]:
            first += 1
        current[worker] = first
        for held in holds[first:]:
            if held.ret > view.inv[row]:
                break
            end = min(view.stopped[row], held.left)
            if held.key != view.key[row] and end > view.inv[row]:
                waits.append(Wait(view.inv[row], end, worker, row, view.key[row], bool(view.flags[row] & SHARED), held))
    return waits


def _circles(waits: Sequence[Wait]) -> Iterator[tuple[Wait, ...]]:
    """Every circle of waits that have some time in common, once. A circle starts at the wait that began last."""
    going: list[Wait] = []
    for last in waits:
        going = [wait for wait in going if wait.end > last.begin]
        yield from _back_to(last, (last,), going)
        going.append(last)


def _back_to(last: Wait, path: tuple[Wait, ...], going: Sequence[Wait]) -> Iterator[tuple[Wait, ...]]:
    if len(path) > 1 and path[-1].blocked_by(last):
        yield path
    workers = {wait.worker for wait in path}
    for wait in going:
        if wait.worker not in workers and path[-1].blocked_by(wait):
            yield from _back_to(last, (*path, wait), going)


FIFO: Final = Property("fifo", _examine_fifo, _exercise_fifo, needs=EXCLUDES | {Need.FAIR})
HERD_FREE: Final = Property(
    "herd-free", _examine_herd_free, _exercise_herd_free, needs=frozenset({Need.WAKES}), optional=True
)
DEADLOCK_FREE: Final = Property("deadlock-free", _examine_circles, _exercise_circles, by_workload=True)
