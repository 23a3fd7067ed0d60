"""``unconditional-del``: DEL when done, whosever the lock is by then.

A holder that overran its lease frees its successor's lock, and lets a third one in; whose release then frees the third
one's, and so on. The commonest mistake of all, which the random value in the key is there to prevent: see "Correct
Implementation with a Single Instance" on https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/.
"""

from typing import ClassVar

from checkers.claims import Hazard
from suites.locks.antipatterns.broken_claims import ASKED, HAZARDS, broken
from suites.locks.antipatterns.tutorial import TutorialLock


class UnconditionalDel(TutorialLock):
    name: ClassVar[str] = "unconditional-del"
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *broken("released-by-another", "owner-release", under=("freeze-holder",)),
        *broken("released-by-another", "owner-release", *ASKED, certain=False),
        *HAZARDS,
    )

    RELEASE: ClassVar[str] = "redis.call('DEL', KEYS[1]) return 1"
