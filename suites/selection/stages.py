"""`--from BACKEND=VERSION --to BACKEND=VERSION`: the same trials on the version that is there and on the one to come.

Both are tried with the same seeds and plans, trial by trial in turn or side by side (`suites.scheduling`), so that a
machine that is slow for a while hits both alike; each has an environment of its own. What lies between them, and the
way back, is tried in stages that have columns of their own (`suites.selection.rolling`) and begin with the old version,
where no other trial has been. What the suite can see is tried beside it (`suites.selection.calibration`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from infra import images
from results.stages import BASELINE, BROKEN_SERVER, CALIBRATION, CANDIDATE, COLUMNS
from suites.selection import calibration
from suites.selection.rolling import ROLLING

OF_UPGRADES: Final = (*ROLLING, *calibration.COLUMNS)
"""Columns that belong to a stage of their own."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One of the states in which an upgrade is judged, or the calibration.

    versions  of what a trial begins with, by backend; those not named are the default.
    columns   what is tried in it and nowhere else; empty: what was asked for.
    """

    name: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def tries(self, column: str) -> bool:
        """Whether a column of the matrix is tried in it."""
        return column in self.columns if self.columns else column not in OF_UPGRADES


ONLY: Final = (Stage(),)
"""Of a run that certifies nothing."""


class BadUpgrade(ValueError):
    """No upgrade. One line that says what is."""


def upgrade(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Stage, ...]:
    """The stages of an upgrade of these backends. Raises BadUpgrade."""
    for given, missing, option in ((old, new, "--to"), (new, old, "--from")):
        for backend, version in given.items():
            if backend not in missing:
                other = "--from" if option == "--to" else "--to"
                raise BadUpgrade(f"{other} {backend}={version}: an upgrade has {option} {backend}=VERSION, too")
    return (
        Stage(BASELINE, dict(old)),
        Stage(CANDIDATE, dict(new)),
        *(Stage(name, dict(old), columns) for name, columns in COLUMNS.items()),
        Stage(CALIBRATION, dict(new), _of(CALIBRATION)),
        Stage(BROKEN_SERVER, {name: calibration.SERVERS.get(name, new[name]) for name in new}, _of(BROKEN_SERVER)),
    )


def _of(stage: str) -> tuple[str, ...]:
    """The columns of the calibration that are tried in it."""
    return tuple(column for column in calibration.COLUMNS if calibration.stage(column) == stage)


def upgrade_lines(stages: Sequence[Stage]) -> list[str]:
    """What is certified, a line for each backend; where both names stand for one image, that it is so."""
    old, new = (next((each.versions for each in stages if each.name == name), {}) for name in (BASELINE, CANDIDATE))
    lines = []
    for backend, version in old.items():
        before, after = (images.resolve(backend, name).name for name in (version, new[backend]))
        itself = f": both are {before}, so a version is held against itself" if before == after else ""
        lines.append(f"upgrade: {backend} from {version} to {new[backend]}{itself}")
    return lines


def in_turn(stages: Iterable[Stage], column: int) -> list[Stage]:
    """The order in which a column's trials are run: the next column begins with what this one ends with."""
    ordered = list(stages)
    return ordered[::-1] if column % 2 else ordered
