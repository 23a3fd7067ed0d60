"""`--from BACKEND=VERSION --to BACKEND=VERSION`: the same trials on the old version and on the new one.

Both are tried with the same seeds and plans, trial by trial in turn or side by side (`suites.scheduling`), so that a
slow machine affects both alike; each has an environment of its own. The upgrade itself and the way back are tried in
stages with columns of their own (`suites.selection.rolling`); each of these trials begins with the old version in a new
environment. Known bugs are tried as well (`suites.selection.bugs_of_certification`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from infra.docker import images
from results.stages import BASELINE, BROKEN_SERVER, CALIBRATION, CANDIDATE, COLUMNS
from suites.selection import bugs_of_certification
from suites.selection.bad_option import BadOption
from suites.selection.rolling import ROLLING

OF_UPGRADES: Final = (*ROLLING, *bugs_of_certification.COLUMNS)
"""Columns that only a certification has, each in one stage."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One of the states in which an upgrade is judged, or the calibration.

    versions  with which a trial begins, by backend; the default where a backend is not named.
    columns   those tried in this stage alone; empty: the columns that the user selected.
    """

    name: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def tries(self, column: str) -> bool:
        return column in self.columns if self.columns else column not in OF_UPGRADES


ONLY: Final = (Stage(),)
"""The stages of a run that certifies nothing."""


def upgrade(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[Stage, ...]:
    """The stages of an upgrade of these backends. Raises BadOption."""
    for given, missing, option in ((old, new, "--to"), (new, old, "--from")):
        for backend, version in given.items():
            if backend not in missing:
                other = "--from" if option == "--to" else "--to"
                raise BadOption(f"{other} {backend}={version}: an upgrade has {option} {backend}=VERSION, too")
    with_bug = {name: bugs_of_certification.SERVERS.get(name, version) for name, version in new.items()}
    return (
        Stage(BASELINE, dict(old)),
        Stage(CANDIDATE, dict(new)),
        *(Stage(name, dict(old), columns) for name, columns in COLUMNS.items()),
        Stage(CALIBRATION, dict(new), _of(CALIBRATION)),
        Stage(BROKEN_SERVER, with_bug, _of(BROKEN_SERVER)),
    )


def _of(stage: str) -> tuple[str, ...]:
    """The columns of the calibration that are tried in a stage."""
    return tuple(column for column in bugs_of_certification.COLUMNS if bugs_of_certification.stage(column) == stage)


def upgrade_lines(stages: Sequence[Stage]) -> list[str]:
    """A line for each backend that is certified; it says so where both versions are the same image."""
    old, new = (next((each.versions for each in stages if each.name == name), {}) for name in (BASELINE, CANDIDATE))
    lines = []
    for backend, version in old.items():
        before, after = (images.resolve(backend, name).name for name in (version, new[backend]))
        itself = f": both are {before}, so a version is held against itself" if before == after else ""
        lines.append(f"upgrade: {backend} from {version} to {new[backend]}{itself}")
    return lines


def in_turn(stages: Iterable[Stage], column: int) -> list[Stage]:
    """The order of a column's stages: every second column is reversed, so that it begins where the last one ended."""
    ordered = list(stages)
    return ordered[::-1] if column % 2 else ordered
