"""`python -m suites`: what there is to run: suites, locks with their claims and hazards, faults, profiles.

It starts nothing. With the name of a command it does something; `--help` lists them, and each has a --help of its own.
"""

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from infra import lifetime
from infra.faults.all_faults import FAULTS
from suites.commands.readme import summary
from suites.locks import registry
from suites.selection.profiles import PROFILES

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "nightly": ("suites.commands.nightly", "the whole matrix, compared with the night before"),
    "soak": ("suites.commands.soak", "random plans of overlapping faults, each of which must leave all clean"),
    "measure": ("suites.commands.fault_table", "how long each fault takes to apply and to heal"),
    "literature": ("suites.commands.literature", "measure what the literature says"),
    "curves": ("suites.commands.curves", "measure P(two inside) against the length of a pause, the jump of a clock"),
    "mutants": ("suites.commands.mutants", "locks broken on purpose, each of which must be found out"),
    "repeat": ("suites.commands.repeat", "the README's two commands again and again, to see whether they are ever red"),
    "readme": ("suites.commands.readme", "write the parts of README.md that are made from the code"),
}
"""Command → the module whose `main` does it, and what help says of it."""


def main(argv: Sequence[str]) -> int:
    """Exit status 2: no such command, or interrupted."""
    if argv and argv[0] in ("-h", "--help"):
        print("usage: python -m suites [COMMAND [-h] ...]\n")
        print("Without a command: all suites, locks with their claims and hazards, faults and profiles.\n")
        for command, (_, purpose) in COMMANDS.items():
            print(f"  {command:<10} {purpose}")
        return 0
    if argv and argv[0] not in COMMANDS:
        print(f"fencepost: no command {argv[0]!r}; there are {', '.join(COMMANDS)}, or none", file=sys.stderr)
        return 2
    if argv:
        run: Callable[[Sequence[str]], int] = importlib.import_module(COMMANDS[argv[0]][0]).main
        try:
            return run(argv[1:])
        except KeyboardInterrupt:
            print(f"{argv[0]}: interrupted", file=sys.stderr)
            return 2
    console = Console()
    for title, columns, rows in _TABLES:
        table = Table(*columns, title=title, title_justify="left")
        for row in rows():
            table.add_row(*row)
        console.print(table)
    return 0


Rows = Iterator[tuple[str, ...]]


def _suites() -> Rows:
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        question = path.read_text().partition('"""')[2].partition('"""')[0]
        yield path.name, question.splitlines()[0]


def _locks() -> Rows:
    for family, name in _named():
        lock = registry.load(name)
        yield family, name, lock.backend, ", ".join(lock.lanes), summary(lock)


def _promises() -> Rows:
    for _, name in _named():
        lock = registry.load(name)
        for claim in lock.claims:
            yield name, claim.property, ", ".join(claim.under) or "none", ", ".join(claim.stores)
        for hazard in lock.hazards:
            breaks = f"{'breaks' if hazard.certain else 'may break'} {hazard.property} ({hazard.mechanism})"
            yield name, breaks, ", ".join(hazard.under), ", ".join(hazard.stores)


def _faults() -> Rows:
    yield from ((fault.name, fault.summary) for fault in FAULTS.values())


def _profiles() -> Rows:
    for profile in PROFILES.values():
        storms = [f"{profile.storms} random storms (storm-SEED)"] if profile.storms else []
        yield profile.name, ", ".join([*(profile.faults or ("all",)), *storms])


def _named() -> Iterator[tuple[str, str]]:
    """(family, lock)."""
    return ((family, name) for family, names in registry.FAMILIES.items() for name in names)


_TABLES: Final[tuple[tuple[str, tuple[str, ...], Callable[[], Rows]], ...]] = (
    ("Suites", ("suite", "question"), _suites),
    ("Locks", ("family", "lock", "backend", "lanes", "what it is"), _locks),
    ("Claims and hazards", ("lock", "promises", "under", "store"), _promises),
    ("Faults", ("fault", "what it does"), _faults),
    ("Profiles", ("profile", "faults"), _profiles),
)

if __name__ == "__main__":
    lifetime.to_the_end(main)
