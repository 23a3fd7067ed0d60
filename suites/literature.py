"""What the literature says of these locks, each sentence that can be checked, with the lanes that check it.

A statement predicts, for each of its probes, that a property holds or that it breaks in a lane under a fault. It is
upheld if every probe came out as predicted, refuted if one did not, and open where a lane gave no answer. The sentences
are told in our words; who says them stands beside them.
"""

from dataclasses import dataclass
from typing import Final

from checkers.claims import NO_FAULT

KLEPPMANN: Final = (
    "Kleppmann, How to do distributed locking (2016)",
    "https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html",
)
ANTIREZ: Final = ("antirez, Is Redlock safe? (2016)", "http://antirez.com/news/101")
REDIS: Final = (
    "Redis, Distributed locks with Redis",
    "https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/",
)
REDIS_EXPIRE: Final = ("Redis, EXPIRE", "https://redis.io/docs/latest/commands/expire/")
REDISSON: Final = (
    "Redisson, Locks and synchronizers",
    "https://redisson.pro/docs/data-and-services/locks-and-synchronizers/",
)
FOLKLORE: Final = ("folklore", "")
ZOOKEEPER: Final = ("ZooKeeper, Recipes and solutions", "https://zookeeper.apache.org/doc/current/recipes.html")
KAZOO: Final = ("kazoo, Lock", "https://kazoo.readthedocs.io/en/latest/api/recipe/lock.html")
ETCD: Final = ("etcd, concurrency package", "https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency")
JEPSEN: Final = ("Jepsen, etcd 3.4.3 (2020)", "https://jepsen.io/analyses/etcd-3.4.3")
CHUBBY: Final = (
    "Burrows, The Chubby lock service (2006)",
    "https://research.google/pubs/the-chubby-lock-service-for-loosely-coupled-distributed-systems/",
)
POSTGRES: Final = (
    "PostgreSQL, Advisory locks",
    "https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS",
)
PGBOUNCER: Final = ("PgBouncer, Features", "https://www.pgbouncer.org/features.html")


@dataclass(frozen=True, slots=True)
class Probe:
    """One question to one lane: does the property hold under the fault? holds: what the statement predicts."""

    lane: str
    fault: str
    property: str
    holds: bool = True


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence that can be checked. source: name and address."""

    says: str
    source: tuple[str, str]
    probes: tuple[Probe, ...]


STATEMENTS: Final[tuple[Statement, ...]] = (
    Statement(
        "A holder that is paused for longer than its lease comes back beside its successor, whatever the lock.",
        KLEPPMANN,
        tuple(
            Probe(f"{lock}/register/unfenced", "freeze-holder", "holder-exclusion", holds=False)
            for lock in ("redis", "redlock", "zookeeper", "etcd", "postgres-lease")
        ),
    ),
    Statement(
        "If the storage refuses older tokens, a paused client's late write does no harm.",
        KLEPPMANN,
        tuple(
            Probe(f"{lock}/register/fence-writes", "late-write", "fenced-store")
            for lock in ("redis", "zookeeper", "etcd", "postgres-lease")
        ),
    ),
    Statement(
        "Fencing on write suffices.",
        FOLKLORE,
        tuple(
            Probe(f"{lock}/set/fence-writes", "late-write", "no-lost-update")
            for lock in ("redis", "zookeeper", "etcd", "postgres-lease")
        ),
    ),
    Statement(
        "Fencing on reads and writes suffices.",
        FOLKLORE,
        tuple(
            Probe(f"{lock}/set/fence-reads-and-writes", "late-write", "no-lost-update")
            for lock in ("redis", "zookeeper", "etcd", "postgres-lease")
        ),
    ),
    Statement(
        "ZooKeeper's czxid serves as a fencing token.",
        KLEPPMANN,
        (
            Probe("zookeeper/register/fence-writes", "freeze-holder", "token-order"),
            Probe("zookeeper/register/fence-writes", "isolate-leader-drop", "token-order"),
        ),
    ),
    Statement(
        "A watchdog that renews the lease fixes GC pauses.",
        FOLKLORE,
        (Probe("redis-watchdog/register/unfenced", "freeze-holder", "holder-exclusion"),),
    ),
    Statement(
        "A watchdog keeps the lock as long as its holder's process lives.",
        REDISSON,
        (Probe("redis-watchdog/register/unfenced", "stall-holder", "crash-release", holds=False),),
    ),
    Statement(
        "ZooKeeper has no pause problem.",
        FOLKLORE,
        (Probe("zookeeper/register/unfenced", "freeze-holder", "holder-exclusion"),),
    ),
    Statement(
        "A clock that jumps ahead on one Redis node ends a lock before its time.",
        KLEPPMANN,
        (Probe("redis/register/unfenced", "clock-jump-forward", "server-exclusion", holds=False),),
    ),
    Statement(
        "Redis 7 expires by the monotonic clock.",
        FOLKLORE,
        (Probe("redis/register/unfenced", "clock-jump-forward", "server-exclusion"),),
    ),
    Statement(
        "One jumping clock of five does not break Redlock.",
        ANTIREZ,
        (Probe("redlock/register/unfenced", "clock-jump-forward", "server-exclusion"),),
    ),
    Statement(
        "With asynchronous replication a promoted replica may not know of the lock.",
        REDIS,
        (Probe("redis/register/unfenced", "promote-replica", "token-order", holds=False),),
    ),
    Statement(
        "Without a look at the time that the attempt took, an answer that comes late grants what has expired.",
        ANTIREZ,
        (Probe("redlock-unchecked/set/unfenced", "pause-server", "holder-exclusion", holds=False),),
    ),
    Statement(
        "The check of the elapsed time makes Redlock immune to late replies.",
        ANTIREZ,
        (Probe("redlock/register/unfenced", "lose-replies", "holder-exclusion"),),
    ),
    Statement(
        "A node that stays away for a TTL after a crash takes no vote from anybody.",
        REDIS,
        (Probe("redlock-delayed-restart/register/unfenced", "wipe-server", "server-exclusion"),),
    ),
    Statement(
        "A majority of ceil(N/2) + 1, three of five, is needed: with two nodes cut off there is no lock.",
        FOLKLORE,
        (Probe("redlock/register/unfenced", "cut-minority-drop", "recovery", holds=False),),
    ),
    Statement(
        "Deleting the key only if it is one's own keeps a late release from hitting another's lock.",
        REDIS,
        (
            Probe("redis/register/unfenced", "freeze-before-release", "owner-release"),
            Probe("unconditional-del/register/unfenced", "freeze-before-release", "owner-release", holds=False),
        ),
    ),
    Statement(
        "SETNX alone leaves the lock taken for ever when its holder dies.",
        REDIS,
        (
            Probe("setnx-no-ttl/register/unfenced", "kill-holder", "crash-release", holds=False),
            Probe("redis/register/unfenced", "kill-holder", "crash-release"),
        ),
    ),
    Statement(
        "Watching only the predecessor avoids the herd.",
        ZOOKEEPER,
        (
            Probe("zookeeper/register/unfenced", NO_FAULT, "herd-free"),
            Probe("zookeeper-parent-watch/set/unfenced", NO_FAULT, "herd-free", holds=False),
        ),
    ),
    Statement(
        "Predecessor watches avoid the herd, for readers as well.",
        FOLKLORE,
        (Probe("zookeeper-rw/share/unfenced", NO_FAULT, "herd-free"),),
    ),
    Statement(
        "The queue serves in the order of arrival.",
        ZOOKEEPER,
        (
            Probe("zookeeper/register/unfenced", NO_FAULT, "fifo"),
            Probe("etcd/register/unfenced", NO_FAULT, "fifo"),
        ),
    ),
    Statement(
        "A lock whose client died is free once its session has expired.",
        ZOOKEEPER,
        (
            Probe("zookeeper/register/unfenced", "kill-holder", "crash-release"),
            Probe("kazoo-lock/register/unfenced", "kill-holder", "crash-release"),
        ),
    ),
    Statement(
        "etcd's own lock service excludes.",
        ETCD,
        (Probe("etcd-v3lock/set/unfenced", "freeze-holder", "holder-exclusion"),),
    ),
    Statement(
        "etcd's locks lose updates when a holder is paused; its revision as a fencing token does not.",
        JEPSEN,
        (
            Probe("etcd/set/unfenced", "late-write", "no-lost-update", holds=False),
            Probe("etcd/set/fence-reads-and-writes", "late-write", "no-lost-update"),
        ),
    ),
    Statement(
        "A transaction that is guarded by the lock's key protects data in etcd itself.",
        JEPSEN,
        (Probe("etcd/set/guarded", "late-write", "no-lost-update"),),
    ),
    Statement(
        "A sequencer, checked by the server that is asked, keeps late requests out.",
        CHUBBY,
        (
            Probe("etcd/register/guarded", "freeze-holder", "fenced-store"),
            Probe("zookeeper/register/guarded", "freeze-holder", "fenced-store"),
        ),
    ),
    Statement(
        "A session's advisory lock excludes until its holder releases it, whatever becomes of the session.",
        FOLKLORE,
        (Probe("postgres-session/register/unfenced", "terminate-backends", "holder-exclusion"),),
    ),
    Statement(
        "A lock of a session is freed by the server when its client dies.",
        POSTGRES,
        (Probe("postgres-session/register/unfenced", "kill-holder", "crash-release"),),
    ),
    Statement(
        "Session locks do not work behind a pooler in transaction mode.",
        PGBOUNCER,
        (Probe("postgres-bouncer/register/unfenced", NO_FAULT, "server-exclusion", holds=False),),
    ),
    Statement(
        "For efficiency alone one Redis node is enough: now and then a job is done twice when a holder pauses.",
        KLEPPMANN,
        (
            Probe("redis/once/unfenced", NO_FAULT, "no-duplicate"),
            Probe("redis/once/unfenced", "freeze-holder", "no-duplicate", holds=False),
        ),
    ),
    Statement(
        "An idempotency key does without a lock: each job is done once.",
        FOLKLORE,
        (Probe("no-lock/once/idempotency-key", NO_FAULT, "no-duplicate"),),
    ),
    Statement(
        "Compare-and-set with retry does without a lock: no update is lost.",
        FOLKLORE,
        (Probe("no-lock/set/compare-and-set", NO_FAULT, "no-lost-update"),),
    ),
    Statement(
        "Locks taken in one order never deadlock; in opposite orders they do.",
        FOLKLORE,
        (
            Probe("redis/transfer/unfenced", NO_FAULT, "deadlock-free"),
            Probe("redis/transfer-opposite/unfenced", NO_FAULT, "deadlock-free", holds=False),
        ),
    ),
)
