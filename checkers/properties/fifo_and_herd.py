"""The queue before a lock: `fifo` asks who was served first, `herd-free` how many were woken.

Both need what the client tells with its acquires: when its place in the queue was answered, and how often it was woken.
"""

from operator import attrgetter
from typing import Final

import numpy as np

from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.holds_and_leases import Hold
from checkers.history.view import View
from checkers.properties.property import Examined, Need, Property
from checkers.properties.shared_counters import Exercise, fault_missed, lock_unexercised, unless
from checkers.row_format import F, Outcome

BYPASSES: Final = "bypasses"
QUEUED: Final = "acquires queued behind another"
WAKES: Final = "wakes"
PER_RELEASES: Final = "wakes per 100 releases"
CROWDED: Final = "releases with several waiting"
WITNESSES: Final = 3
"""Acquires told of one herd: those that were woken most often."""


def _examine_fifo(view: View) -> Examined:
    """Whether nobody got a key before another that had been in its queue. Sound: checkers/CONDITIONS.md, section 14."""
    findings = [
        Finding("overtaken", late.ret, (early.row, late.row), (late.row, early.row))
        for early, late in view.once(_behind)
        if late.ret < early.ret and early.core_end > late.ret
    ]
    if view.facts.permits > 1:
        findings = []  # both may have got in, and whose answer came first says nothing
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
    """ns; when it was certainly in the queue, 0 where nobody tells."""
    return max(view.column("base")[hold.row], 0)


def _examine_herd_free(view: View) -> Examined:
    """Whether a key's acquires were woken no more than places in its queue went: checkers/CONDITIONS.md, section 14."""
    findings = []
    value, outcome, ret = view.column("value"), view.column("outcome"), view.column("ret")
    for key, woken in sorted(grouped(view.once(_with_wakes), view.column("key").__getitem__).items()):
        places = view.attempts_by_key[key]
        allowed = len(places) + sum(outcome[row] != Outcome.OK for row in places)
        if sum(value[row] for row in woken) > allowed:
            most = sorted(woken, key=lambda row: (-value[row], row))[:WITNESSES]
            at = max((ret[row] for row in woken if outcome[row] != Outcome.INFO), default=view.finish)
            findings.append(Finding("herd", at, tuple(sorted(most))))
    return Examined(findings)


def _exercise_herd_free(view: View) -> Exercise:
    counted, crowded, value = view.once(_with_wakes), _crowded(view), view.column("value")
    wakes = sum(value[row] for row in counted)
    missing = unless(counted, "the client does not tell how often it was woken") or unless(wakes, "nobody was woken")
    missing = missing or unless(crowded, "never were two waiting at a release") or fault_missed(view)
    per_releases = 100 * wakes // max(len(_releases(view)), 1)
    return Exercise(missing, {WAKES: wakes, PER_RELEASES: per_releases, CROWDED: crowded})


def _with_wakes(view: View) -> list[int]:
    """Rows of the acquires whose client tells how often it was woken."""
    value = view.column("value")
    return [row for row in view.attempts() if value[row] >= 0]


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


FIFO: Final = Property("fifo", _examine_fifo, _exercise_fifo, needs=frozenset({Need.EXCLUDES, Need.FAIR}))
HERD_FREE: Final = Property(
    "herd-free", _examine_herd_free, _exercise_herd_free, needs=frozenset({Need.WAKES}), optional=True
)
