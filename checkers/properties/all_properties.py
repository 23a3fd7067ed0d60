"""The register of properties."""

from collections.abc import Mapping
from typing import Final

from checkers.properties.exclusion import HOLDER_EXCLUSION, PERMITS, SERVER_EXCLUSION
from checkers.properties.fail_fast import FAIL_FAST
from checkers.properties.fenced_store import FENCED_STORE, TOKEN_ORDER
from checkers.properties.fifo_and_deadlock import DEADLOCK_FREE, FIFO, HERD_FREE
from checkers.properties.hand_over import HAND_OVER
from checkers.properties.honest_belief_and_renewal import BELIEF, HONEST_RENEWAL
from checkers.properties.independence_and_sharing import INDEPENDENCE, REENTRANCY, SHARING
from checkers.properties.members_agree import MEMBERS_AGREE
from checkers.properties.property import Property
from checkers.properties.recovery import RECOVERY
from checkers.properties.releases import CRASH_RELEASE, OWNER_RELEASE
from checkers.properties.updates import NO_DUPLICATE, NO_LOST_UPDATE

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
        HAND_OVER,
        INDEPENDENCE,
        FENCED_STORE,
        NO_LOST_UPDATE,
        NO_DUPLICATE,
        DEADLOCK_FREE,
        MEMBERS_AGREE,
    )
}
"""Id → property, in the order in which reports list them."""

BOUNDED: Final = tuple(each.id for each in PROPERTIES.values() if each.bounded)
"""Properties that are judged by a bound of time alone, which the lock declares."""
OF_THE_SERVICE: Final = frozenset(each.id for each in PROPERTIES.values() if each.of_the_service)
"""Properties that the service owes to every lock (`Property.of_the_service`)."""
