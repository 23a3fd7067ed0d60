"""The queue before a lock: `fifo` asks who was served first, `herd-free` how many were woken.

Both need what the client tells with its acquires: when the request was answered that put it into the queue, and how
often it was woken while it waited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from checkers.exercise import counters, fault_missed, lock_unexercised
from checkers.finding import Finding
from checkers.leases import Grant
from checkers.narrate import Narrator
from checkers.verdict import Verdict
from checkers.view import View
from checkers.wire import NESTED, F, Outcome

FIFO: Final = "fifo"
HERD_FREE: Final = "herd-free"

BYPASSES: Final = "bypasses"
QUEUED: Final = "acquires queued behind another"
WAKES: Final = "wakes"
PER_RELEASES: Final = "wakes per 100 releases"
CROWDED: Final = "releases with several waiting"
WITNESSES: Final = 3
"""Acquires told of one herd: those that were woken most often."""

_BROKEN: Final = {
    "overtaken": "So the lock went first to one that had not yet asked when the other was in the queue.",
    "herd": "So releases woke more than could get in: each acquire leaves the queue once, and may wake one other.",
}


def fifo(view: View) -> Verdict:
    """Whether nobody was granted a key before another that was in its queue before the first one asked.

    Sound. The one that was passed can have been granted the lock earlier only if its lease had ended again by then: a
    pair where that is possible does not count. Readers pass one another rightly and are left out. All pairs are told.
    """
    findings: list[Finding] = []
    behind: set[int] = set()
    for grants in view.by_key.values():
        alone = [grant for grant in grants if not grant.shared]
        for early, late in _behind(view, alone):
            if early.ret > _queued(view, late) > 0:
                behind.add(late.row)
            if late.ret < early.ret and view.windows[early.row].end(early.start) > late.ret:
                findings.append(Finding("overtaken", late.ret, (early.row, late.row), (late.row, early.row)))
    if view.facts.permits > 1:
        findings = []  # both may have got in, and whose answer came first says nothing
    counted = {**counters(view), QUEUED: len(behind), BYPASSES: len(findings)}
    violations = Narrator(view).tell(findings, _BROKEN)
    unexercised = _no_queue(view, len(behind)) or lock_unexercised(view, counted)
    return Verdict(FIFO, not violations, violations, counted, unexercised=unexercised)


def _no_queue(view: View, behind: int) -> str | None:
    if view.facts.permits > 1:
        return "several may hold at once, so that nobody knows who was first"
    if view.grants and not any(_queued(view, grant) for grant in view.grants):
        return "the grants do not tell when they were queued"
    return None if behind else "nobody was queued behind another"


def _behind(view: View, grants: Sequence[Grant]) -> Iterator[tuple[Grant, Grant]]:
    """Pairs (early, late): the early one was in the queue, and had no answer yet, when the late one asked."""
    coming = sorted((g for g in grants if _queued(view, g)), key=lambda g: _queued(view, g), reverse=True)
    waiting: list[Grant] = []
    for late in sorted(grants, key=lambda g: g.inv):
        while coming and _queued(view, coming[-1]) < late.inv:
            waiting.append(coming.pop())
        waiting = [early for early in waiting if early.ret > late.inv]
        for early in waiting:
            yield early, late


def _queued(view: View, grant: Grant) -> int:
    """ns; when it was certainly in the queue, 0 where nobody tells."""
    return max(view.column("base")[grant.row], 0)


def herd_free(view: View) -> Verdict:
    """Whether the acquires of a key were woken no more often than places in its queue disappeared.

    Sound: an acquire has one place in the queue, which disappears once and wakes the one behind. One that gave up may
    leave a watch behind, which wakes its client once more, for nothing. A finding stands for all of one key.
    """
    findings = []
    value, key, outcome, ret = view.column("value"), view.column("key"), view.column("outcome"), view.column("ret")
    rows = _places(view)
    told = [row for row in rows if value[row] >= 0]
    for number in sorted({key[row] for row in told}):
        places = [row for row in rows if key[row] == number]
        allowed = len(places) + sum(outcome[row] != Outcome.OK for row in places)
        woken = [row for row in told if key[row] == number]
        if sum(value[row] for row in woken) > allowed:
            most = sorted(woken, key=lambda row: (-value[row], row))[:WITNESSES]
            at = max((ret[row] for row in woken if outcome[row] != Outcome.INFO), default=view.finish)
            findings.append(Finding("herd", at, tuple(sorted(most))))
    wakes = sum(value[row] for row in told)
    releases = len(_releases(view))
    crowded = _crowded(view)
    counted = {
        **counters(view),
        WAKES: wakes,
        PER_RELEASES: 100 * wakes // max(releases, 1),
        CROWDED: crowded,
    }
    violations = Narrator(view).tell(findings, _BROKEN)
    unexercised = _nobody_woken(len(told), wakes, crowded) or fault_missed(view, counted)
    return Verdict(HERD_FREE, not violations, violations, counted, unexercised=unexercised)


def _nobody_woken(told: int, wakes: int, crowded: int) -> str | None:
    if not told:
        return "the client does not tell how often it was woken"
    if not wakes:
        return "nobody was woken"
    return None if crowded else "never were two waiting at a release"


def _places(view: View) -> list[int]:
    """Rows of the acquires that stood in a queue."""
    flags = view.column("flags")
    return [row for row in view.rows(F.ACQUIRE, F.TRY_ACQUIRE) if not flags[row] & NESTED]


def _releases(view: View) -> list[int]:
    flags = view.column("flags")
    return [row for row in view.rows(F.RELEASE, outcomes=(Outcome.OK, Outcome.INFO)) if not flags[row] & NESTED]


def _crowded(view: View) -> int:
    """Releases during which two or more acquires of the key had no answer yet."""
    inv, ret, key = view.array("inv"), np.maximum(view.array("ret"), view.array("inv")), view.array("key")
    places, releases = np.array(_places(view), int), np.array(_releases(view), int)
    total = 0
    for number in np.unique(key[releases]):
        waiting, at = places[key[places] == number], inv[releases[key[releases] == number]]
        begun = np.searchsorted(np.sort(inv[waiting]), at, "left")
        ended = np.searchsorted(np.sort(ret[waiting]), at, "right")
        total += int((begun - ended >= 2).sum())
    return total
