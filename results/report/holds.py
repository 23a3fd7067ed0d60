"""Who held what: the grants of a history as bars, with the same ends and expiries that the checkers reckon with."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from checkers.history import History
from checkers.leases import INFINITY
from checkers.view import View

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Holds:
    """Parallel arrays, one entry per grant, in the order of the acquires' returns. Times in ns.

    acquire  row of the acquire.
    end      the earlier of the release's invocation and the notice of loss; without both, the last event.
    lease    the earliest moment at which the lease may have run out, acknowledged renewals believed; 0 for no lease.
    open     whether neither a release nor a notice of loss is known.
    """

    acquire: Ints
    begin: Ints
    end: Ints
    lease: Ints
    open: npt.NDArray[np.bool_]


def holds(history: History, view: View | None = None) -> Holds:
    """All grants of a history. view: of it, where the caller has one."""
    view = view or View(history)
    grants = sorted(view.grants, key=lambda grant: grant.ret)
    windows = [view.windows[grant.row] for grant in grants]
    expiries = [window.expiry(window.start) for window in windows]
    begin = np.array([grant.ret for grant in grants], np.int64)
    left = np.array([grant.left for grant in grants], np.int64)
    return Holds(
        acquire=np.array([grant.row for grant in grants], np.int64),
        begin=begin,
        end=np.where(left >= INFINITY, begin, np.maximum(left, begin)),
        lease=np.array([0 if expiry >= INFINITY else expiry for expiry in expiries], np.int64),
        open=np.array([grant.release < 0 and grant.lost < 0 for grant in grants], np.bool_),
    )


def worker_of(history: History, process: int) -> int:
    """The worker behind a process number, or its renewal thread (see `process` in `checkers.wire`)."""
    return process % max(history.facts.workers, 1)
