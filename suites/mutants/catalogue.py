"""Bugs to plant in a correct lock, the fenced store, a server, the recorder or the checkers, and what must name them.

They stand in the TOML files beside this module, one file for each place. Where a bug was one of released software, or
of a printed algorithm, it says of which. `mutant:NAME` names the lock with the bug, or the correct lock on the server
with the bug, wherever a lock can be named. A bug without a lock is one of our own, which stored histories are to show
(`suites.tests.judge_mutants`).
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

PREFIX: Final = "mutant:"
"""The beginning of the name of a lock with a bug."""
FILES: Final = ("redis", "zookeeper", "etcd", "postgres", "store", "servers", "recorder", "checkers")
"""Which files there are, in the order of the catalogue."""
_SET_ASIDE: Final = 3


@dataclass(frozen=True, slots=True)
class Change:
    """file: path of a module in the repository; old: a text that stands there once; new: what takes its place."""

    file: str
    old: str
    new: str

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug.

    lock       the correct lock that is changed, or that runs on what is changed (`suites.locks.registry.LOCKS`); the
               bug is judged by its claims. "" for a bug that stored histories are to show.
    bug        what it does, in a sentence.
    found_by   the properties one of which must be violated; others do not name the bug. Without a lock: ``judged`` if
               some history is judged otherwise, ``proof`` if the verifier of proofs rejects what a model says of one.
    why        how the bug comes to violate it.
    fault      the fault that is expected to reveal it; "" without a lock.
    where      workload/store of the lanes in which it is tried under that fault: more than one where chance decides.
    origin     the released software or the printed algorithm that had it, "" for none.
    changes    of source code; () where the bug is in the server.
    server     the server that has the bug (`python -m infra planted`), "" for none.
    set_aside  whether it belongs to the third that is scored apart, and not looked at while the suite is improved.
    """

    name: str
    bug: str
    found_by: tuple[str, ...]
    why: str
    set_aside: bool
    lock: str = ""
    fault: str = ""
    where: tuple[str, ...] = ("set/unfenced",)
    origin: str = ""
    changes: tuple[Change, ...] = ()
    server: str = ""

    @property
    def lock_name(self) -> str:
        """As `--lock` and `suites.locks.registry` spell it."""
        return PREFIX + self.name

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of the lanes in which it is tried under its fault."""
        return tuple(f"{self.lock_name}/{lane}" for lane in self.where)


def mutant_of(lock: str) -> Mutant | None:
    """The bug of the lock of this name; None for a name without the prefix, or with one that names no bug."""
    return catalogue().get(lock.removeprefix(PREFIX)) if lock.startswith(PREFIX) else None


@cache
def catalogue() -> Mapping[str, Mutant]:
    """All that are tried on real servers, by name."""
    return {mutant.name: mutant for mutant in _all() if mutant.lock}


@cache
def on_stored_histories() -> Mapping[str, Mutant]:
    """All that stored histories are to show, by name."""
    return {mutant.name: mutant for mutant in _all() if not mutant.lock}


@cache
def _all() -> tuple[Mutant, ...]:
    made: list[Mutant] = []
    for file in FILES:
        entries = tomllib.loads(Path(__file__).with_name(f"{file}.toml").read_text(encoding="utf-8"))
        for number, (name, entry) in enumerate(entries.items()):
            aside = number % _SET_ASIDE == _SET_ASIDE - 1
            entry |= {"name": name, "changes": entry.get("change", ()), "set_aside": aside}
            made.append(msgspec.convert(entry, Mutant))
    return tuple(made)
