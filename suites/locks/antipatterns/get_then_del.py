"""``get-then-del``: looks whose the lock is, and then deletes it, in two requests.

Between them the lease may end and somebody else be granted the lock, which the DEL then takes away. Hence the script of
https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/ that does both at once. What happens in between
is usually little; here it is a third of a second of books to keep, and holds last nearly as long as the lease.
"""

import time
from typing import ClassVar, Final

from checkers.claims import Hazard
from suites.lock import Grant
from suites.locks.antipatterns.broken_claims import ASKED, HAZARDS, broken
from suites.locks.antipatterns.tutorial import TutorialLock

BOOKS: Final = 0.35
"""Seconds between the look and the deletion."""

_IS_MINE: Final = "if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end return 0"
_DELETE: Final = "return redis.call('DEL', KEYS[1])"


class GetThenDel(TutorialLock):
    name: ClassVar[str] = "get-then-del"
    renewed: ClassVar[bool] = False
    pace: ClassVar[float] = 0.4
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *broken("released-by-another", "server-exclusion"),
        *broken("released-by-another", *ASKED, certain=False),
        *HAZARDS,
    )

    def release(self, grant: Grant) -> None:
        """The owner is compared by the server; a client that compares what GET answers is no better."""
        self._if_owner(_IS_MINE, grant)
        time.sleep(BOOKS)
        self._if_owner(_DELETE, grant)
