"""The register of properties."""

from collections.abc import Mapping
from typing import Final

from checkers.belief import BELIEF
from checkers.calls import FAIL_FAST
from checkers.deadlock import DEADLOCK_FREE
from checkers.duplicates import NO_DUPLICATE
from checkers.exclusion import HOLDER_EXCLUSION, SERVER_EXCLUSION
from checkers.fencing import FENCED_STORE
from checkers.independence import INDEPENDENCE
from checkers.liveness import RECOVERY
from checkers.permits import PERMITS
from checkers.property import Property
from checkers.queueing import FIFO, HERD_FREE
from checkers.reentrancy import REENTRANCY
from checkers.releases import CRASH_RELEASE, OWNER_RELEASE
from checkers.renewals import HONEST_RENEWAL
from checkers.sharing import SHARING
from checkers.tokens import TOKEN_ORDER
from checkers.updates import NO_LOST_UPDATE

PROPERTIES: Final[Mapping[str, Property]] = {
    each.id: each
    for each in (
        SERVER_EXCLUSION,
        PERMITS,
        HOLDER_EXCLUSION,
        TOKEN_ORDER,
        FIFO,
        HERD_FREE,
        SHARING,
        REENTRANCY,
        OWNER_RELEASE,
        HONEST_RENEWAL,
        RECOVERY,
        BELIEF,
        CRASH_RELEASE,
        FAIL_FAST,
        INDEPENDENCE,
        FENCED_STORE,
        NO_LOST_UPDATE,
        NO_DUPLICATE,
        DEADLOCK_FREE,
    )
}
"""Id → property, in the order in which they are told."""

BOUNDED: Final = tuple(each.id for each in PROPERTIES.values() if each.bounded)
"""Those that are judged by a bound of time alone, which the lock declares."""
