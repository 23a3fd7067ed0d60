"""The rolling upgrade under load, and the way back, as plans: what an operator does, and what goes wrong meanwhile.

The columns of an upgrade beside the faults that were asked for. In those of stage `MIXED` the members of the old
version become the new one, and while some of them have and some have not, the leader is killed, a member is cut off,
and holders are frozen across the restart of a server. In those of stage `ROLLBACK` they go back, half-way or at the
end. Where a server refuses that the trial goes on with what there is, and tells its words.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from infra import images, star
from infra.backends import BACKENDS
from infra.backends.backend import Trait
from infra.faults.options import FOLLOWER, LEADER
from infra.faults.plan import Plan, Step
from infra.faults.register import FAULTS
from results.stages import COLUMNS, MIXED, ROLLBACK

LEADER_LAST, LEADER_FIRST = COLUMNS[MIXED]
HALF, END = COLUMNS[ROLLBACK]
ROLLING: Final = tuple(column for columns in COLUMNS.values() for column in columns)

CALM: Final = 1.0
"""Seconds in which nothing happens, before each step: the lock works as it should, and whoever waits is granted."""


def plan(column: str, backend: str, seed: int, ttl: float, old: str, new: str) -> Plan:
    """old, new: versions, as they were asked for. ttl: the longest of the lanes, in seconds."""
    return Plan(column, backend, seed, tuple(_STEPS[column](backend, ttl, old, new)))


@cache
def impossible(column: str, backend: str, old: str, new: str) -> str | None:
    """Why a backend cannot have a column between these versions, or None. Asked for every case: once is enough."""
    if images.resolve(backend, old).name == images.resolve(backend, new).name:
        return "both versions are the same image: nothing becomes another"
    if column != END and len(star.MEMBERS[backend]) == 1:
        return "a single server has no mixed state"
    return None


def _leader_last(backend: str, ttl: float, _: str, new: str) -> Iterator[Step]:
    return _upgrade(FOLLOWER, backend, ttl, new)


def _leader_first(backend: str, ttl: float, _: str, new: str) -> Iterator[Step]:
    return _upgrade(LEADER, backend, ttl, new)


def _half(backend: str, _ttl: float, old: str, new: str) -> Iterator[Step]:
    half = (len(star.MEMBERS[backend]) + 1) // 2
    yield _roll(new, FOLLOWER, half)
    yield _roll(old, FOLLOWER, half)


def _end(backend: str, _ttl: float, old: str, new: str) -> Iterator[Step]:
    everybody = len(star.MEMBERS[backend])
    yield _roll(new, FOLLOWER, everybody)
    yield _roll(old, FOLLOWER, everybody)


def _upgrade(first: str, backend: str, ttl: float, new: str) -> Iterator[Step]:
    """One member, trouble, all others but one, and the last while holders are frozen for longer than their lease."""
    yield _roll(new, first, 1)
    yield from _trouble(backend)
    yield _roll(new, first, len(star.MEMBERS[backend]) - 2)
    # As long as ever after the restart: of etcd and ZooKeeper a new leader lets every lease begin anew.
    yield Step("freeze-holder", CALM, FAULTS["freeze-holder"].lasts(ttl), {})
    yield _roll(new, first, 1, beside=True)


_STEPS: Final = {LEADER_LAST: _leader_last, LEADER_FIRST: _leader_first, HALF: _half, END: _end}


def _trouble(backend: str) -> Iterator[Step]:
    """The leader killed, a member cut off."""
    if BACKENDS[backend].has(Trait.LEADER):
        yield _step("kill-server", {"nodes": [LEADER]})
        yield _step("cut-nodes-drop", {"follower": 0})
    else:
        first = star.MEMBERS[backend][0]
        yield _step("kill-server", {"nodes": [first]})
        yield _step("cut-minority-drop", {"nodes": [first]})


def _roll(version: str, first: str, members: int, *, beside: bool = False) -> Step:
    options = {"version": version, "first": first, "members": members}
    return Step("roll-version", 0.0 if beside else CALM, CALM, options, beside)


def _step(name: str, options: Mapping[str, Any]) -> Step:
    return Step(name, CALM, FAULTS[name].seconds, dict(options))
