"""Locks with one bug each (`suites.locks.mutants`): the property that names the bug, and the fault that reveals it."""

from dataclasses import dataclass
from typing import Final

from checkers.claims import NO_FAULT
from suites.lanes.lane import Lane, lane_named
from suites.lock import LockClient
from suites.locks import registry


@dataclass(frozen=True, slots=True)
class Mutant:
    """A lock with a bug.

    name      a class of `suites.locks.mutants`.
    found_by  the property that names the bug.
    fault     reveals the bug.
    where     workload/store of its lanes: more than one where chance decides whether a lane shows the bug.
    """

    name: str
    found_by: str
    fault: str = NO_FAULT
    where: tuple[str, ...] = ("set/unfenced",)

    @property
    def lock(self) -> type[LockClient]:
        return registry.load(f"suites.locks.mutants:{self.name}")

    @property
    def lanes(self) -> list[Lane]:
        return [lane_named(f"suites.locks.mutants:{self.name}/{lane}") for lane in self.where]

    @property
    def bug(self) -> str:
        """The first line of its docstring."""
        return (self.lock.__doc__ or "").partition("\n")[0]


CATALOGUE: Final = tuple(
    Mutant(*fields)
    for fields in (
        ("CountsBeforeItHolds", "token-order"),
        (
            "TwoOfFive",
            "server-exclusion",
            "slow-links",
            ("set/unfenced", "inventory/unfenced", "register/compare-owner"),
        ),
        ("NewestFirst", "server-exclusion"),
        ("ByName", "server-exclusion"),
        ("FreesTwo", "server-exclusion"),
        ("LeaseForToken", "token-order"),
        ("WatchesTheHolder", "herd-free"),
        ("RenewsNothing", "server-exclusion", "stall-holder"),
        ("RenewsBriefly", "server-exclusion", "stall-holder"),
        ("RenewsUnderAnotherName", "honest-renewal", "stall-holder"),
        ("BelievesForEver", "holder-exclusion", "stall-renewal", ("leader/unfenced",)),
        ("StealsEarly", "server-exclusion", "freeze-holder"),
        ("ReleasesAlways", "owner-release", "freeze-holder"),
        ("LooksThenDeletes", "server-exclusion", "late-release"),
        ("WaitsForAnswers", "fail-fast", "pause-server"),
        ("ForgetsTheOthers", "server-exclusion", NO_FAULT, ("churn/unfenced",)),
        ("RenewsNeverAgain", "server-exclusion", "refuse-writes", ("churn/unfenced",)),
        ("WaitsThoughItTries", "fail-fast", "stall-holder", ("impatient/unfenced",)),
        ("StaysInTheQueue", "hand-over", NO_FAULT, ("impatient/unfenced",)),
        ("CancelledStays", "hand-over", NO_FAULT, ("impatient/unfenced",)),
        ("ByChecksum", "independence", NO_FAULT, ("apart/unfenced",)),
        ("DowngradesUnrenewed", "server-exclusion", NO_FAULT, ("share/unfenced",)),
        ("ReleasesThenReads", "server-exclusion", NO_FAULT, ("share/unfenced",)),
        ("Persistent", "crash-release", "kill-holder"),
        ("WithoutLease", "crash-release", "kill-holder"),
        ("LocksShared", "server-exclusion"),
        ("TakesEarly", "server-exclusion", "freeze-holder"),
        ("ByItsOwnClock", "server-exclusion", "skew-workers"),
        ("RenewsForLong", "crash-release", "kill-after-renewal"),
        ("GrantedWhenRefused", "server-exclusion", "refuse-writes"),
    )
)
