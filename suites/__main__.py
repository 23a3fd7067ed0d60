"""`python -m suites`: what there is to run - locks with their claims and hazards, faults, profiles. Starts nothing.

`python -m suites soak` and `python -m suites measure`: see `suites.soak` and `suites.measure`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.table import Table

from infra.faults.register import FAULTS
from suites import measure, registry, soak
from suites.profiles import PROFILES

COMMANDS: Final[Mapping[str, Callable[[Sequence[str]], int]]] = {"soak": soak.main, "measure": measure.main}


def main(argv: Sequence[str]) -> int:
    """Exit status 2: no such command."""
    if argv and argv[0] not in COMMANDS:
        print(f"fencepost: no command {argv[0]!r}; there are {', '.join(COMMANDS)}, or none", file=sys.stderr)
        return 2
    if argv:
        return COMMANDS[argv[0]](argv[1:])
    console = Console()
    locks = Table(
        "lock", "backend", "promises", "under", "store", title="Locks: claims and hazards", title_justify="left"
    )
    for name in registry.LOCKS:
        lock = registry.lock(name)
        for claim in lock.claims:
            locks.add_row(name, lock.backend, claim.property, ", ".join(claim.under), ", ".join(claim.stores))
        for hazard in lock.hazards:
            under = ", ".join(hazard.under)
            locks.add_row(
                name, lock.backend, f"breaks {hazard.property} ({hazard.mechanism})", under, ", ".join(hazard.stores)
            )
    console.print(locks)
    faults = Table("fault", "what it does", title="Faults", title_justify="left")
    for fault in FAULTS.values():
        faults.add_row(fault.name, fault.summary)
    console.print(faults)
    profiles = Table("profile", "faults", title="Profiles", title_justify="left")
    for profile in PROFILES.values():
        profiles.add_row(profile.name, ", ".join(profile.faults or ("all",)))
    console.print(profiles)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
