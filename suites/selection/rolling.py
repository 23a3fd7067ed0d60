"""Plans of a rolling upgrade under load and of the way back.

They are columns that a certification has besides its faults. In the columns of stage `MIXED` the members are upgraded
one after another; while both versions run, the leader is killed, a member is cut off, and holders are frozen across the
restart of a server. In the columns of stage `ROLLBACK` the members go back, half-way or at the end. Where a server
refuses to go back the trial continues with the members that run, and stores the server's own words.
"""

import random
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from infra.backends import BACKENDS
from infra.backends.backend import Trait
from infra.docker import images
from infra.faults.all_faults import FAULTS
from infra.faults.fault_options import FOLLOWER, LEADER
from infra.faults.plan import Plan, Step
from results.stages import COLUMNS, MIXED, ROLLBACK

LEADER_LAST, LEADER_FIRST = COLUMNS[MIXED]
HALF, END = COLUMNS[ROLLBACK]
ROLLING: Final = tuple(column for columns in COLUMNS.values() for column in columns)

CALM: Final = 1.0
"""Seconds without a fault before each step, in which waiting clients are granted the lock."""


def plan(column: str, backend: str, seed: int, ttl: float, old: str, new: str) -> Plan:
    """old, new: versions, as the user spelled them. ttl: the longest of the lanes, in seconds."""
    rng = random.Random(f"{seed}:{column}")
    return Plan(column, backend, seed, tuple(_steps(column, backend, rng, ttl, old, new)))


@cache
def impossible(column: str, backend: str, old: str, new: str) -> str | None:
    """Why a backend cannot have a column between these versions, or None. Cached: every case asks."""
    if images.resolve(backend, old).name == images.resolve(backend, new).name:
        return "both versions are the same image: nothing becomes another"
    if column != END and len(BACKENDS[backend].members) == 1:
        return "a single server has no mixed state"
    return None


def _steps(column: str, backend: str, rng: random.Random, ttl: float, old: str, new: str) -> Iterator[Step]:
    if column in (LEADER_LAST, LEADER_FIRST):
        yield from _upgrade(FOLLOWER if column == LEADER_LAST else LEADER, backend, rng, ttl, new)
    else:
        everybody = len(BACKENDS[backend].members)
        members = everybody if column == END else (everybody + 1) // 2
        yield _roll(new, FOLLOWER, members)
        yield _roll(old, FOLLOWER, members)


def _upgrade(first: str, backend: str, rng: random.Random, ttl: float, new: str) -> Iterator[Step]:
    """Upgrade one member; kill and cut; upgrade all but one; upgrade the last while holders are frozen past a lease."""
    led, members = BACKENDS[backend].has(Trait.LEADER), BACKENDS[backend].members
    killed: dict[str, Any] = {"nodes": [LEADER if led else members[0]]}
    cut: tuple[str, dict[str, Any]] = ("cut-nodes-drop", {"follower": 0}) if led else ("cut-minority-drop", killed)
    yield _roll(new, first, 1)
    for name, options in (("kill-server", killed), cut):
        yield Step(name, CALM, FAULTS[name].lasts(rng, backend, ttl), options)
    yield _roll(new, first, len(members) - 2)
    # As long as ever after the restart: of etcd and ZooKeeper a new leader lets every lease begin anew.
    yield Step("freeze-holder", CALM, FAULTS["freeze-holder"].lasts(rng, backend, ttl), {})
    yield _roll(new, first, 1, beside=True)


def _roll(version: str, first: str, members: int, *, beside: bool = False) -> Step:
    options = {"version": version, "first": first, "members": members}
    return Step("roll-version", 0.0 if beside else CALM, CALM, options, beside)
