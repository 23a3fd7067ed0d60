"""`python -m suites`: what there is to run: suites, locks with their claims and hazards, faults, profiles."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from infra.faults.all_faults import FAULTS
from suites.commands.readme import summary
from suites.locks import registry
from suites.selection.profiles import PROFILES


def main() -> int:
    console = Console()
    for title, columns, rows in _TABLES:
        table = Table(*columns, title=title, title_justify="left")
        for row in rows():
            table.add_row(*row)
        console.print(table)
    return 0


Rows = Iterator[tuple[str, ...]]


def _suites() -> Rows:
    for path in sorted(Path(__file__).parents[1].glob("test_*.py")):
        question = path.read_text().partition('"""')[2].partition('"""')[0]
        yield path.name, question.splitlines()[0]


def _locks() -> Rows:
    for family, names in registry.FAMILIES.items():
        for name in names:
            lock = registry.load(name)
            yield family, name, lock.backend, ", ".join(lock.lanes), summary(lock)


def _promises() -> Rows:
    for name in registry.LOCKS:
        lock = registry.load(name)
        for claim in lock.claims:
            yield name, claim.property, ", ".join(claim.under) or "none", ", ".join(claim.stores)
        for hazard in lock.hazards:
            breaks = f"{'breaks' if hazard.certain else 'may break'} {hazard.property} ({hazard.mechanism})"
            yield name, breaks, ", ".join(hazard.under), ", ".join(hazard.stores)


def _profiles() -> Rows:
    for profile in PROFILES.values():
        storms = [f"{profile.storms} random storms (storm-SEED)"] if profile.storms else []
        yield profile.name, ", ".join([*(profile.faults or ("all",)), *storms])


_TABLES: Final[tuple[tuple[str, tuple[str, ...], Callable[[], Rows]], ...]] = (
    ("Suites", ("suite", "question"), _suites),
    ("Locks", ("family", "lock", "backend", "lanes", "what it is"), _locks),
    ("Claims and hazards", ("lock", "promises", "under", "store"), _promises),
    ("Faults", ("fault", "what it does"), lambda: ((fault.name, fault.summary) for fault in FAULTS.values())),
    ("Profiles", ("profile", "faults"), _profiles),
)
