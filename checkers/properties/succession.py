"""Who came after whom: from when on a lock was certainly no longer a client's, since another had been given it.

What a client does after that moment under its old grant (believe, renew, release) tells whether it, and the service,
know whose the lock is. No TTL enters.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from checkers.history.holds import Hold
from checkers.history.view import View
from checkers.properties.accesses import next_granted
from checkers.wire import INFINITY

NOBODY: Final = (INFINITY, -1)
"""Nobody certainly came later."""


def superseded(view: View) -> dict[int, tuple[int, int]]:
    """Acquire row → (ns, acquire row) of the first return of a grant that certainly came later and excludes this one.

    A reader is superseded by a writer only, and then by real time: readers may share one token. Who holds one of
    several permits is superseded by nobody.
    """
    if view.facts.permits > 1:
        return {hold.row: NOBODY for hold in view.holds}
    following = next_granted(view, by_time=True)
    for holds in view.holds.by_key.values():
        if any(hold.shared for hold in holds):
            following |= _by_writers(holds)
    return following


def _by_writers(holds: Sequence[Hold]) -> dict[int, tuple[int, int]]:
    """For the readers among the grants of one key."""
    writers = sorted((hold for hold in holds if not hold.shared), key=lambda hold: hold.start)
    starts = [writer.start for writer in writers]
    first = [NOBODY] * (len(writers) + 1)
    for place in range(len(writers) - 1, -1, -1):
        first[place] = min(first[place + 1], (writers[place].ret, writers[place].row))
    return {hold.row: first[bisect_right(starts, hold.ret)] for hold in holds if hold.shared}
