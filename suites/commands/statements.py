"""Statements of the literature about these locks that can be checked, with the lanes that check them.

A statement predicts, for each of its probes, that a property holds or that it breaks in a lane under a fault. It is
upheld if every probe came out as predicted, refuted if one did not, and open where a lane gave no answer. The
statements, in our words and with their sources, stand in statements.toml.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from suites.worker.pool import ROOT

FOLDER: Final = ROOT / "results" / "literature"
"""Holds the results of `python -m suites literature` and `curves`."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One question to one lane: does the property hold under the fault? holds: what the statement predicts."""

    lane: str
    fault: str
    property: str
    holds: bool = True


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence that can be checked. source: name and address."""

    says: str
    source: tuple[str, str]
    probes: tuple[Probe, ...]


def _statements(data: dict[str, Any]) -> tuple[Statement, ...]:
    """A probe is written as `lane fault property holds`, or `breaks` for the last."""
    outcomes = {"holds": True, "breaks": False}
    statements = []
    for entry in data["statements"]:
        words = (probe.split() for probe in entry["probes"])
        probes = tuple(Probe(lane, fault, name, outcomes[outcome]) for lane, fault, name, outcome in words)
        author, address = data["sources"][entry["source"]]
        statements.append(Statement(entry["says"], (author, address), probes))
    return tuple(statements)


STATEMENTS: Final = _statements(tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")))
