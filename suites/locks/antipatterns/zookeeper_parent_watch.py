"""``zookeeper-parent-watch``: each waiter watches the whole queue, and is woken by each client that comes or goes.

It excludes as well as ``zookeeper``. But N waiters are woken where only one can get in, and each of them reads the
queue again. This is the herd effect, which the recipe avoids by watching only the next lower node
(https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks).
"""

from typing import ClassVar

from checkers.claims import NO_FAULT, Claim, Hazard
from suites.locks.antipatterns.tutorial import UNFENCED
from suites.locks.lease_claims import besides
from suites.locks.zookeeper import ZooKeeperLock

_OTHERS = ("token-order", "fenced-store", "herd-free")


class ZooKeeperParentWatch(ZooKeeperLock):
    tokens: ClassVar[bool] = False
    lanes: ClassVar[tuple[str, ...]] = UNFENCED
    claims: ClassVar[tuple[Claim, ...]] = besides(_OTHERS, ZooKeeperLock.claims)
    hazards: ClassVar[tuple[Hazard, ...]] = (
        *besides(_OTHERS, ZooKeeperLock.hazards),
        Hazard("herd-free", (NO_FAULT,), "woken-all"),
    )

    watches_all: ClassVar[bool] = True
