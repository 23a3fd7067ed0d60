"""What a lane asks under which fault, where it depends on what the lock says or is."""

from typing import ClassVar

import pytest

from suites.lanes.lane import Lane, lanes_of
from suites.lock import LockClient
from suites.locks.antipatterns.tutorial import SetnxNoTtl
from suites.locks.postgres_hashtext import HashtextLock
from suites.locks.redis_single import RedisLock
from suites.locks.zookeeper import ZooKeeperLock


class Permits(RedisLock):
    permits: ClassVar[int] = 2


def lane(lock: type[LockClient]) -> Lane:
    return next(lanes_of("it", lock))


@pytest.mark.parametrize(("lock", "hung"), [(RedisLock, True), (ZooKeeperLock, False)])
def test_hung_holders_are_asked_where_locks_name_them(lock: type[LockClient], hung: bool) -> None:
    assert lane(lock).asks("crash-release", ("kill-holder",))
    assert lane(lock).asks("crash-release", ("stall-holder",)) is hung
    assert not lane(lock).asks("crash-release", ("none",))


def test_what_the_lock_service_guards_does_not_go_to_the_store() -> None:
    lanes = {lane.store: lane for lane in lanes_of("it", ZooKeeperLock) if lane.workload.name == "set"}
    for fault, asked in (("delayed-write", False), ("store-reply-lost", False), ("late-write", True)):
        assert lanes["guarded"].asks("no-lost-update", (fault,)) is asked
        assert lanes["unfenced"].asks("no-lost-update", (fault,))
        assert lanes["guarded"].asks("server-exclusion", (fault,))


def test_where_a_lock_may_be_held_for_ever_what_takes_no_fault_comes_before_the_fault() -> None:
    asked = {*lane(SetnxNoTtl).before_the_fault(("kill-holder",))}
    assert asked == {"server-exclusion", "holder-exclusion", "no-lost-update"}, "not crash-release"
    assert lane(HashtextLock).before_the_fault(("kill-server",)) == ("independence",)
    assert lane(SetnxNoTtl).before_the_fault(("delayed-write",)) == ()
    assert lane(RedisLock).before_the_fault(("kill-holder",)) == ()


@pytest.mark.parametrize("name", ["owner-release", "crash-release", "honest-belief"])
def test_of_several_permits_nobody_can_tell_whose_was_given_on(name: str) -> None:
    faults = ("freeze-holder", "kill-holder")
    assert lane(RedisLock).asks(name, faults)
    assert not lane(Permits).asks(name, faults)
    assert lane(Permits).asks("fail-fast", faults)


def test_a_late_release_takes_a_holder_that_was_frozen() -> None:
    assert lane(RedisLock).asks("owner-release", ("freeze-holder",))
    assert not lane(RedisLock).asks("owner-release", ("clock-jump-forward",))
