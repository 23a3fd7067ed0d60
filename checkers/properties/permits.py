"""`permits`: of a semaphore with N permits, never more than N grants are in force at once.

Source: checkers/CONDITIONS.md, section 7. Only cores count: too many cores are certainly too many grants.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from checkers.history.finding import Finding
from checkers.history.holds_and_leases import Hold
from checkers.history.view import View
from checkers.properties.property import Examined, Need, Property
from checkers.properties.shared_counters import Exercise, lock_unexercised
from checkers.properties.stories import earliest

MOST_INSIDE: Final = "most inside at once"


Span = tuple[int, int, Hold]
"""From when to when (ns), and whose."""


def _examine(view: View) -> Examined:
    """Sound: every time that somebody was granted a permit while all of them were certainly taken."""
    findings = []
    for holds in view.holds.by_key.values():
        spans = sorted(((hold.latest, hold.core_end, hold) for hold in holds), key=lambda span: span[0])
        findings += [crowd_finding("too-many-granted", at, crowd) for at, crowd in crowds(spans, view.facts.permits)]
    return Examined(findings)


def exercise(view: View) -> Exercise:
    """What exercised the capacity of a semaphore."""
    most, room = most_inside(view), view.facts.permits
    empty = None if most >= room else f"no more than {most} inside at once, {room} needed"
    return Exercise(empty or lock_unexercised(view), {MOST_INSIDE: most})


def crowds(spans: Iterable[Span], room: int) -> Iterator[tuple[int, tuple[Hold, ...]]]:
    """Every time at which one more comes than there is room for: when, and all that are there, the last to come at the
    end.

    spans must be in the order in which they begin; one without length does not count.
    """
    there: list[tuple[int, Hold]] = []
    for begin, end, hold in spans:
        there = [(until, other) for until, other in there if until > begin]
        if end > begin:
            there.append((end, hold))
            if len(there) > room:
                yield begin, tuple(other for _, other in there)


def crowd_finding(kind: str, at: int, crowd: tuple[Hold, ...]) -> Finding:
    """A finding whose witness is the whole crowd."""
    return Finding(kind, at, tuple(g.row for g in crowd), tuple(g.row for g in sorted(crowd, key=earliest)))


def inside(holds: Iterable[Hold]) -> list[Span]:
    """When each client was inside. holds: in the order in which their acquires returned."""
    return [(hold.ret, hold.left, hold) for hold in holds]


def most_inside(view: View, *, shared: bool = False) -> int:
    """The largest number of clients that were inside one key at once. shared: counts readers alone."""
    return max(
        (
            len(crowd)
            for holds in view.holds.by_key.values()
            for _, crowd in crowds(inside(hold for hold in holds if hold.shared or not shared), 0)
        ),
        default=0,
    )


PERMITS: Final = Property("permits", _examine, exercise, needs=frozenset({Need.EXCLUDES, Need.PERMITS}))
