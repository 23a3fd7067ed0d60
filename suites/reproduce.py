"""`python -m suites literature`: measure what the literature says (`suites.literature`) and write down what came of it.

One trial for each backend and fault carries the lanes of all statements about them. What must break and did not is
tried with the next two seeds. The outcome goes to results/literature/: statements.json, and for each statement the
picture of the probe that decided it. `python -m suites readme` makes the table of that.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from checkers.claims import Word
from checkers.judgement import Judgement
from infra.faults.plan import Plan, compile_plan
from results.commands.find import RUNS
from results.pages.lane import standalone
from results.record import LaneRecord
from results.run import Run
from suites.cycles import Cycles
from suites.lane import Lane, lane_named, longest_ttl
from suites.literature import STATEMENTS, Probe, Statement

FOLDER: Final = Path(__file__).resolve().parent.parent / "results" / "literature"
TOLD: Final = FOLDER / "statements.json"

TRIES: Final = 3
"""Seeds that a probe may take to show what must break."""
LANES: Final = 12
"""Lanes of one trial at most."""
DEADLINE: Final = 45.0
"""Seconds that a trial goes on for what it has not exercised yet."""

HELD: Final = frozenset({Word.UPHELD, Word.NOT_CLAIMED_HELD, Word.HAZARD_NOT_SHOWN})
BROKE: Final = frozenset({Word.VIOLATED, Word.BROKEN_AS_DOCUMENTED, Word.NOT_CLAIMED_BROKEN})

Key = tuple[str, str, str]
"""Lane, fault, property."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a probe came to, in the lane's record."""

    judgement: Judgement
    lane: LaneRecord

    @property
    def held(self) -> bool | None:
        """Whether the property held; None: no answer."""
        word = self.judgement.word
        return True if word in HELD else False if word in BROKE else None


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 every statement got an answer, 1 one did not, 2 no statement contains the text."""
    parser = argparse.ArgumentParser(prog="python -m suites literature", description=main.__doc__, allow_abbrev=False)
    parser.add_argument("--seed", type=int, default=1, help="of the first trials (1)")
    parser.add_argument("--only", metavar="TEXT", default="", help="only statements that contain this text")
    options = parser.parse_args(argv)
    statements = [one for one in STATEMENTS if options.only.lower() in one.says.lower()]
    if not statements:
        print(f"fencepost: no statement contains {options.only!r}", file=sys.stderr)
        return 2
    run = Run.create(RUNS, {"command": ["python", "-m", "suites", "literature", *argv], "seed": options.seed})
    measured = _measure([probe for one in statements for probe in one.probes], options.seed, run)
    print(f"report: {run.close({})}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = json.loads(TOLD.read_text()) if TOLD.exists() else {}
    known = {one.says for one in STATEMENTS}
    told = {says: entry for says, entry in told.items() if says in known}
    for one in statements:
        told[one.says] = _entry(one, measured)
        print(f"{told[one.says]['outcome']:<9} {one.says}", flush=True)
    TOLD.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    return 1 if any(told[one.says]["outcome"] == "open" for one in statements) else 0


def _measure(probes: Sequence[Probe], seed: int, run: Run) -> dict[Key, Measured]:
    found: dict[Key, Measured] = {}
    cycles = Cycles()
    try:
        for attempt in range(TRIES):
            missing = [probe for probe in probes if _unanswered(probe, found.get(_key(probe)), attempt)]
            for backend, fault, lanes in _trials(missing):
                cycle = cycles.run(_plan(backend, fault, seed + attempt, lanes), lanes, DEADLINE)
                if cycle.record is None:
                    print(f"{backend} {fault}: {cycle.wrong}", flush=True)
                    continue
                run.save_trial(cycle.record)
                for lane in cycle.record.lanes:
                    for judgement in lane.judgements:
                        _keep(found, (lane.history.facts.lane, fault, judgement.property), Measured(judgement, lane))
    finally:
        cycles.close()
    return found


def _keep(found: dict[Key, Measured], key: Key, new: Measured) -> None:
    """What broke once is broken; an answer is better than none."""
    old = found.get(key)
    if old is None or old.held is None or (new.held is False and old.held):
        found[key] = new


def _unanswered(probe: Probe, found: Measured | None, attempt: int) -> bool:
    """Whether it has to be tried (again): only what should break may need more than one trial that ran."""
    if found is None or found.held is None:
        return True
    return attempt > 0 and found.held and not probe.holds


def _trials(probes: Sequence[Probe]) -> list[tuple[str, str, tuple[Lane, ...]]]:
    """(backend, fault, lanes) of each trial."""
    wanted: defaultdict[tuple[str, str], dict[str, Lane]] = defaultdict(dict)
    for probe in probes:
        lane = lane_named(probe.lane)
        wanted[lane.backend, probe.fault][lane.name] = lane
    trials = []
    for (backend, fault), lanes in sorted(wanted.items()):
        every = tuple(lanes.values())
        trials += [(backend, fault, every[at : at + LANES]) for at in range(0, len(every), LANES)]
    return trials


def _plan(backend: str, fault: str, seed: int, lanes: Sequence[Lane]) -> Plan:
    return compile_plan([fault], seed, backend, longest_ttl(lanes))


def _key(probe: Probe) -> Key:
    return probe.lane, probe.fault, probe.property


def _entry(statement: Statement, measured: Mapping[Key, Measured]) -> dict[str, Any]:
    """What is stored. The picture is of a probe that refutes the statement, else of one that broke, or the first."""
    answers = [(probe, measured.get(_key(probe))) for probe in statement.probes]
    held = [(probe, found.held if found else None) for probe, found in answers]
    refuted = [probe for probe, answer in held if answer is not None and answer != probe.holds]
    silent = [probe for probe, answer in held if answer is None]
    outcome = "refuted" if refuted else "open" if silent else "upheld"
    broken = [probe for probe, answer in held if answer is False]
    shown = next(iter((*refuted, *broken, *statement.probes)))
    picture = f"{STATEMENTS.index(statement) + 1:02}.svg"
    found = measured.get(_key(shown))
    if found is not None and len(found.lane.history):
        (FOLDER / picture).write_text(standalone.draw(found.lane.history, found.judgement))
    return {
        "outcome": outcome,
        "picture": picture,
        "shown": asdict(shown),
        "versions": dict(found.lane.history.facts.versions) if found else {},
        "words": [str(found.judgement.word) if found else "not measured" for _, found in answers],
    }
