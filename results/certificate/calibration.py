"""Calibration: how much of what is known to be broken was detected. Pure.

A positive control is a hazard that is certain to show. A lock is broken by design if it is one of the suite's
anti-patterns. A run also tries planted bugs: in locks, on the new version, and in servers.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checkers.claims import Verdict
from results.certificate.trials import UpgradeTrial
from results.record import Cell
from results.stages import BROKEN_SERVER, STAGES

_MUTANTS: Final = re.compile("^(mutant|suites.locks.mutants):")
"""What the name of a lock with a planted bug begins with; the second is that of older runs."""
_PLANTS: Final = "image:fencepost/planted-"
"""The beginning of the versions of servers with a planted bug."""

_Controls = defaultdict[str, defaultdict[str, bool]]
"""Stage → name of a control → whether it was shown."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The controls of one stage: how many were shown, of how many, and the names of the others."""

    stage: str
    shown: int
    of: int
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Planted:
    """A planted bug. name: of the lock's class or the server. by: the property that must detect it, and the fault."""

    backend: str
    name: str
    by: str
    caught: bool
    page: Path | None = None


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is known to be broken.

    hazards  of each stage with any: judgements in which a hazard was certain to show.
    locks    of each stage with any: locks that are broken by design and had such a judgement.
    planted  bugs, each in a lock or in a server; empty if none were tried.
    """

    hazards: tuple[Shown, ...]
    locks: tuple[Shown, ...]
    planted: tuple[Planted, ...]


def calibration(cells: Iterable[Cell], trials: Sequence[UpgradeTrial], planted: Iterable[Cell]) -> Calibration:
    """The calibration of a run. The histories declare its controls. planted: the judgements that must detect a bug."""
    certain = {(trial.name, lane.lane, name) for trial in trials for lane in trial.lanes for name in lane.controls}
    by_design = {lock for trial in trials for lock in trial.by_design}
    hazards: _Controls = defaultdict(lambda: defaultdict(bool))
    locks: _Controls = defaultdict(lambda: defaultdict(bool))
    for cell in cells:
        if (cell.trial, cell.lane, cell.property) in certain and cell.word is not Verdict.NOT_APPLICABLE:
            shown = cell.word is Verdict.WEAKNESS_SHOWN
            # Up to three trials of one series are one question: see `results.record.settled`.
            hazards[cell.stage][f"{cell.property} of {cell.lane} under {cell.fault}"] |= shown
            if cell.lock in by_design:
                locks[cell.stage][cell.lock] |= shown
    return Calibration(_shown(hazards), _shown(locks), tuple(map(_planted, planted)))


def _planted(cell: Cell) -> Planted:
    by = f"{cell.property} under {cell.fault}"
    server = f"server {cell.version.removeprefix(_PLANTS)}"
    name = server if cell.stage == BROKEN_SERVER else _MUTANTS.sub("", cell.lock)
    return Planted(cell.backend, name, by, cell.word is Verdict.VIOLATED, cell.page)


def _shown(controls: _Controls) -> tuple[Shown, ...]:
    return tuple(
        Shown(stage, sum(each.values()), len(each), tuple(sorted(name for name, shown in each.items() if not shown)))
        for stage in STAGES
        if (each := controls.get(stage))
    )
