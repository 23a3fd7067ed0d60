"""`python -m suites literature`: measure what the literature says of these locks, and write it down.

A statement predicts, for each of its probes, that a property holds or that it breaks in a lane under a fault. It is
confirmed if every probe came out as predicted, refuted if one did not, and open where a lane gave no answer. The
statements, in our words and with their sources, stand in statements.toml.

One trial for each backend and fault carries the lanes of all statements about them. A probe that must break and did not
is tried again with the next two seeds. The results go to results/literature/: statements.json, and for each statement
the picture of the probe that decided it. `python -m suites readme` makes the table in README.md from them.
"""

import json
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from checkers.claims import Verdict
from checkers.judging.judgement import Judgement
from infra.errors import UnknownName
from results.pages.lane.windows import standalone
from results.record import LaneRecord
from results.run import Run
from results.storage.files import RUNS
from suites.commands.cycles import Cycles
from suites.lanes.lane import Lane, lane_named
from suites.worker.pool import ROOT

FOLDER: Final = ROOT / "results" / "literature"  # holds the results of `python -m suites literature` and `curves`
OUTCOMES: Final = FOLDER / "statements.json"

TRIES: Final = 3  # seeds that a probe may take to show what must break
LANES: Final = 12  # lanes of one trial at most
DEADLINE: Final = 45.0  # seconds that a trial goes on for what it has not exercised yet

HELD: Final = frozenset({Verdict.UPHELD, Verdict.NOT_PROMISED_HELD, Verdict.WEAKNESS_NOT_SHOWN})
BROKE: Final = frozenset({Verdict.VIOLATED, Verdict.WEAKNESS_SHOWN, Verdict.NOT_PROMISED_BROKEN})


@dataclass(frozen=True, slots=True)
class Probe:
    """One question to one lane: does the property hold under the fault?"""

    lane: str
    fault: str
    property: str
    holds: bool = field(default=True, compare=False)  # what the statement predicts; the question is the same


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence that can be checked. source: name and address. striking: whether README.md quotes it."""

    says: str
    source: tuple[str, str]
    probes: tuple[Probe, ...]
    striking: bool = False


def _statements(data: dict[str, Any]) -> tuple[Statement, ...]:
    """A probe is written as `lane fault property holds`, or `breaks` for the last."""
    outcomes = {"holds": True, "breaks": False}
    statements = []
    for entry in data["statements"]:
        words = (probe.split() for probe in entry["probes"])
        probes = tuple(Probe(lane, fault, name, outcomes[outcome]) for lane, fault, name, outcome in words)
        author, address = data["sources"][entry["source"]]
        statements.append(Statement(entry["says"], (author, address), probes, entry.get("striking", False)))
    return tuple(statements)


STATEMENTS: Final = _statements(tomllib.loads(Path(__file__).with_name("statements.toml").read_text(encoding="utf-8")))


@dataclass(frozen=True, slots=True)
class Measured:
    """The judgement of a probe, and the record of its lane."""

    judgement: Judgement
    lane: LaneRecord

    @property
    def held(self) -> bool | None:
        """Whether the property held; None: no answer."""
        word = self.judgement.word
        return True if word in HELD else False if word in BROKE else None


def main(seed: int, only: str) -> int:
    """Exit status: 0 every statement got an answer, 1 one did not, 2 no statement contains the text."""
    statements = [each for each in STATEMENTS if only.lower() in each.says.lower()]
    if not statements:
        raise UnknownName(f"no statement contains {only!r}")
    words = ["--seed", str(seed), *(["--only", only] if only else [])]
    run = Run.create(RUNS, {"command": ["python", "-m", "suites", "literature", *words], "seed": seed})
    measured = _measure([probe for statement in statements for probe in statement.probes], seed, run)
    print(f"report: {run.close({})}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    known = {statement.says for statement in STATEMENTS}
    entries = {says: entry for says, entry in stored().items() if says in known}
    for statement in statements:
        entry = entries[statement.says] = _entry(statement, measured)
        print(f"{entry['outcome']:<9} {statement.says}", flush=True)
    OUTCOMES.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")
    return 1 if any(entries[statement.says]["outcome"] == "open" for statement in statements) else 0


def stored() -> dict[str, Any]:
    """Text of a statement → its stored entry (see `_entry`), for all that were measured."""
    entries: dict[str, Any] = json.loads(OUTCOMES.read_text()) if OUTCOMES.exists() else {}
    return entries


def _measure(probes: Sequence[Probe], seed: int, run: Run) -> dict[Probe, Measured]:
    measured: dict[Probe, Measured] = {}
    with Cycles() as cycles:
        for attempt in range(TRIES):
            missing = [probe for probe in probes if _unanswered(probe, measured.get(probe))]
            for fault, lanes in _trials(missing):
                record = cycles.run_fault(fault, seed + attempt, lanes, DEADLINE).record
                if record is None:
                    continue
                run.save_trial(record)
                for lane in record.lanes:
                    for judgement in lane.judgements:
                        probe = Probe(lane.history.facts.lane, fault, judgement.property)
                        _keep(measured, probe, Measured(judgement, lane))
    return measured


def _keep(measured: dict[Probe, Measured], probe: Probe, new: Measured) -> None:
    """A judgement that broke replaces one that held, and any answer replaces none."""
    old = measured.get(probe)
    if old is None or old.held is None or (new.held is False and old.held):
        measured[probe] = new


def _unanswered(probe: Probe, answer: Measured | None) -> bool:
    """Whether the probe must be tried (again): without an answer, or where it should have broken and held."""
    return answer is None or answer.held is None or (answer.held and not probe.holds)


def _trials(probes: Sequence[Probe]) -> list[tuple[str, tuple[Lane, ...]]]:
    """(fault, lanes on one backend) of each trial."""
    wanted: defaultdict[tuple[str, str], dict[str, Lane]] = defaultdict(dict)
    for probe in probes:
        lane = lane_named(probe.lane)
        wanted[lane.backend, probe.fault][lane.name] = lane
    trials = []
    for (_, fault), lanes in sorted(wanted.items()):
        every = tuple(lanes.values())
        trials += [(fault, every[at : at + LANES]) for at in range(0, len(every), LANES)]
    return trials


def _entry(statement: Statement, measured: Mapping[Probe, Measured]) -> dict[str, Any]:
    """The entry to store. The picture shows a probe that refutes the statement, else one that broke, else the first."""
    answers = [(probe, measured.get(probe)) for probe in statement.probes]
    held = [(probe, answer.held if answer else None) for probe, answer in answers]
    refuted = [probe for probe, answer in held if answer is not None and answer != probe.holds]
    silent = [probe for probe, answer in held if answer is None]
    outcome = "refuted" if refuted else "open" if silent else "confirmed"
    broken = [probe for probe, answer in held if answer is False]
    shown = next(iter((*refuted, *broken, *statement.probes)))
    picture = f"{STATEMENTS.index(statement) + 1:02}.svg"
    pictured = measured.get(shown)
    if pictured is not None and len(pictured.lane.history):
        (FOLDER / picture).write_text(standalone(pictured.lane.history, pictured.judgement))
    return {
        "outcome": outcome,
        "picture": picture,
        "shown": asdict(shown),
        "versions": dict(pictured.lane.history.facts.versions) if pictured else {},
        "words": [str(answer.judgement.word) if answer else "not measured" for _, answer in answers],
    }
