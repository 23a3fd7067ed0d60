"""`sharing`: the readers of a read/write lock exclude no reader.

Three kinds of writers may make a reader wait: one that holds, one that waits (which keeps writers from starving), and
one whose fate is unknown. If there was none of them while the reader asked, only readers can have kept it out.
"""

from typing import Final

from checkers.history.counting import grouped
from checkers.history.finding import Finding
from checkers.history.interval_sets import meets
from checkers.history.order_of_grants import first_sent_later
from checkers.history.view import View
from checkers.properties.exclusion import most_inside
from checkers.properties.property import Examined, Need, Property
from checkers.properties.shared_counters import Exercise, fault_missed, undisturbed
from checkers.row_format import SHARED, Outcome, Reason

READERS: Final = "most readers inside at once"
REFUSED: Final = "readers that were refused"


def _examine(view: View) -> Examined:
    """Sound. A reader whose time passed counts as refused, unless a fault or a stall can have made it late."""
    inv, ret, key, reason = (view.column(name) for name in ("inv", "ret", "key", "reason"))
    spans = _writers(view)
    findings = [
        Finding("reader-refused", ret[row], (*_readers(view, row), row))
        for row in view.once(_refused)
        if not meets(*spans.get(key[row], ([], [])), inv[row], ret[row])
        and (reason[row] == Reason.HELD or undisturbed(row, view))
    ]
    return Examined(findings)


def _exercise(view: View) -> Exercise:
    readers = most_inside(view, shared=True)
    few = None if readers >= 2 else f"no more than {readers} readers inside at once, 2 needed"
    return Exercise(few or fault_missed(view), {READERS: readers, REFUSED: len(view.once(_refused))})


def _refused(view: View) -> list[int]:
    """Rows of the readers to which somebody else's hold was given as the reason, or whose time passed."""
    flags, reason = view.column("flags"), view.column("reason")
    refused = view.attempts(Outcome.FAIL)
    return [row for row in refused if flags[row] & SHARED and reason[row] in (Reason.HELD, Reason.TIMEOUT)]


def _writers(view: View) -> dict[int, tuple[list[int], list[int]]]:
    """Key → the times in which a writer may have held or waited: all beginnings, and all ends, each in order.

    A grant is over when it was certainly released, or given to another worker: one's own may be a downgrade, and then
    counts from its request on. One without an answer is counted to the end.
    """
    inv, ret, key, flags = (view.column(name) for name in ("inv", "ret", "key", "flags"))
    over: dict[int, int] = {}
    for holds in view.holds.by_key.values():
        for worker, own in grouped(holds, lambda hold: view.worker(hold.row)).items():
            others = (hold for hold in holds if view.worker(hold.row) != worker)
            given = first_sent_later([hold.ret for hold in own], others)
            over |= {hold.row: min(hold.freed, first) for hold, (first, _) in zip(own, given, strict=True)}
    writers = grouped((row for row in view.attempts() if not flags[row] & SHARED), key.__getitem__)
    return {
        name: ([inv[row] for row in rows], sorted(over.get(row, ret[row]) for row in rows))
        for name, rows in writers.items()
    }


def _readers(view: View, row: int) -> tuple[int, ...]:
    """Acquire rows of the readers that were inside when this one was refused."""
    moment = view.column("ret")[row]
    return tuple(
        g.row for g in view.holds.by_key.get(view.column("key")[row], ()) if g.shared and g.ret <= moment < g.left
    )


SHARING: Final = Property("sharing", _examine, _exercise, needs=frozenset({Need.EXCLUDES, Need.SHARED}))
