"""What was asked for: the options of `pytest suites/`, checked once, with an answer that lists what exists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from infra import images
from infra.environment import BACKENDS
from infra.faults.register import FAULTS, NO_FAULT
from results.record import NotRun
from suites import registry
from suites.lane import Lane, lanes_of
from suites.profiles import PROFILES, Profile

EVERY_FAULT: Final = (NO_FAULT, *FAULTS)
RESULTS: Final = Path(__file__).resolve().parent.parent / "results" / "runs"


class BadOption(Exception):
    """Something that does not exist was asked for. The text lists what does."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test: does this property of this lane survive this fault? because: why it cannot be asked, or None."""

    lane: Lane
    property_id: str
    fault: str
    because: str | None

    @property
    def id(self) -> str:
        return f"{self.lane.name}-{self.fault}"


@dataclass(frozen=True, slots=True)
class Asked:
    """The run that was asked for: which lanes, which faults, which seed, on which versions.

    published  whether clients come through published ports here, which makes some faults something else.
    """

    lanes: tuple[Lane, ...]
    faults: tuple[str, ...]
    profile: Profile
    seed: int
    results: Path
    versions: Mapping[str, str] = field(default_factory=dict)
    published: bool = False

    @property
    def backends(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(lane.backend for lane in self.lanes))

    def cases(self, property: str) -> list[Case]:
        """Every case of a property, those that cannot be asked included."""
        return [
            Case(lane, property, fault, self.not_applicable(lane, fault))
            for fault in self.faults
            for lane in self.lanes
            if lane.asks(property, (fault,))
        ]

    def not_applicable(self, lane: Lane, fault: str) -> str | None:
        """Why the case cannot be asked, or None."""
        if fault == NO_FAULT:
            return lane.not_applicable
        return lane.not_applicable or FAULTS[fault].applies(lane.backend, self.published)

    def not_run(self) -> list[NotRun]:
        """What cannot be asked, for the report."""
        return [
            NotRun(
                lane.lock_name,
                lane.backend,
                fault,
                because,
                workload=lane.workload.name,
                store=lane.store,
                lane=lane.name,
            )
            for fault in self.faults
            for lane in self.lanes
            if (because := self.not_applicable(lane, fault)) is not None
        ]

    def runnable(self, backend: str, fault: str) -> tuple[Lane, ...]:
        """The lanes of one trial."""
        return tuple(
            lane for lane in self.lanes if lane.backend == backend and self.not_applicable(lane, fault) is None
        )


def add_options(parser: Any) -> None:
    """parser: pytest's."""
    group = parser.getgroup("fencepost", "fencepost: which promises of a lock survive which faults")
    many = {"action": "append", "default": [], "metavar": "NAME"}
    group.addoption(
        "--lock", **many, help=f"only this lock; repeatable. One of: {', '.join(registry.LOCKS)}; or module:Class"
    )
    group.addoption("--backend", **many, help=f"only locks on this backend; repeatable. One of: {', '.join(BACKENDS)}")
    group.addoption("--faults", **many, help="only these faults, comma-separated; repeatable (python -m infra faults)")
    group.addoption("--profile", default="default", help=f"how much to try: {', '.join(PROFILES)}")
    group.addoption("--seed", type=int, default=1, help="what every random choice of the run starts from (default: 1)")
    group.addoption(
        "--version-of",
        action="append",
        default=[],
        metavar="BACKEND=VERSION",
        help="a series (etcd=3.4), an exact version, or etcd=image:NAME; repeatable (python -m infra versions)",
    )
    group.addoption(
        "--results",
        default=str(RESULTS),
        metavar="DIR",
        help="where runs are stored (default: results/runs of this checkout)",
    )


def parse(option: Any) -> Asked:
    """option: pytest's parsed options. Raises BadOption."""
    profile = _one(option.profile, PROFILES, "profile")
    backends = tuple(_one(name, dict.fromkeys(BACKENDS, name), "backend") for name in option.backend)
    faults = _faults(option.faults) or profile.faults or EVERY_FAULT
    lanes = tuple(lane for lane in _lanes(option.lock) if not backends or lane.backend in backends)
    if not lanes:
        there_is = ", ".join(f"{lane.lock_name} on {lane.backend}" for lane in _one_each(_lanes(option.lock)))
        raise BadOption(f"no lock runs on {', '.join(backends)}; there is {there_is}")
    results = Path(option.results)
    for folder in (results, *results.parents):
        if folder.exists() and not folder.is_dir():
            raise BadOption(f"--results {results}: {folder} is not a folder")
    return Asked(lanes, faults, profile, option.seed, results, _versions(option.version_of))


def _lanes(names: Sequence[str]) -> list[Lane]:
    lanes: list[Lane] = []
    for name in dict.fromkeys(names or registry.LOCKS):
        try:
            lock = registry.lock(name)
        except registry.UnknownLock as error:
            raise BadOption(str(error)) from error
        except (ImportError, SyntaxError) as error:
            raise BadOption(f"--lock {name} cannot be loaded: {error}") from error
        _one(lock.backend, dict.fromkeys(BACKENDS), f"backend of {name}")
        lanes += lanes_of(name, lock)
    return lanes


def _one_each(lanes: Sequence[Lane]) -> Iterable[Lane]:
    return {lane.lock_name: lane for lane in lanes}.values()


def _faults(lists: Sequence[str]) -> tuple[str, ...]:
    names = [name.strip() for text in lists for name in text.split(",")]
    for name in names:
        _one(name, dict.fromkeys(EVERY_FAULT), "fault")
    if lists and not any(names):
        raise BadOption(f"--faults names no fault; there are: {', '.join(EVERY_FAULT)}")
    return tuple(dict.fromkeys(names))


def _versions(pairs: Sequence[str]) -> dict[str, str]:
    versions: dict[str, str] = {}
    for pair in pairs:
        backend, _, version = pair.partition("=")
        if not version.removeprefix("image:"):
            raise BadOption(f"--version-of {pair}: expected BACKEND=VERSION, for example etcd=3.4")
        _one(backend, dict.fromkeys(BACKENDS), "backend")
        try:
            images.resolve(backend, version)
        except images.UnknownVersion as error:
            raise BadOption(f"--version-of {pair}: {error}") from error
        if versions.setdefault(backend, version) != version:
            raise BadOption(f"--version-of {pair}: {backend}={versions[backend]} is asked for as well; one run has one")
    return versions


def _one(name: str, known: Mapping[str, Any], what: str) -> Any:
    if name not in known:
        raise BadOption(f"unknown {what} {name!r}; there are: {', '.join(known)}")
    return known[name]
