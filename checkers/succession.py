"""Who came after whom: from when on a lock was certainly no longer a client's, since another had been given it.

What a client does after that moment under its old grant (believe, renew, release) tells whether it, and the service,
know whose the lock is. No TTL enters.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from checkers.accesses import next_granted
from checkers.leases import INFINITY, Grant
from checkers.view import View

NOBODY: Final = (INFINITY, -1)
"""Nobody certainly came later."""


def superseded(view: View) -> dict[int, tuple[int, int]]:
    """Acquire row → (ns, acquire row) of the first return of a grant that certainly came later and excludes this one.

    A reader is superseded by a writer only, and then by real time: readers may share one token. Who holds one of
    several permits is superseded by nobody.
    """
    if view.facts.permits > 1:
        return {grant.row: NOBODY for grant in view.grants}
    following = next_granted(view, by_time=True)
    for grants in view.by_key.values():
        if any(grant.shared for grant in grants):
            following |= _by_writers(grants)
    return following


def _by_writers(grants: Sequence[Grant]) -> dict[int, tuple[int, int]]:
    """For the readers among the grants of one key."""
    writers = sorted((grant for grant in grants if not grant.shared), key=lambda grant: grant.start)
    starts = [writer.start for writer in writers]
    first = [NOBODY] * (len(writers) + 1)
    for place in range(len(writers) - 1, -1, -1):
        first[place] = min(first[place + 1], (writers[place].ret, writers[place].row))
    return {grant.row: first[bisect_right(starts, grant.ret)] for grant in grants if grant.shared}
