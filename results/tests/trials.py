"""Real trials of one version, condensed to what comparisons look at: `one-version.json`.

Made by `python -m results.tests.trials RUN... > results/tests/one-version.json` from runs of one version under several
seeds, the machine being as busy as it happened to be.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from checkers.claims import Word
from checkers.measures.latency import BEFORE, DURING
from results.comparison.speeds import MEASURES
from results.measured import measured
from results.reading import Contents, load_trial
from results.record import Cell, LaneSummary

FILE: Final = Path(__file__).with_name("one-version.json")
_WORDS: Final = list(Word)
_NAMES: Final = [measure.name for measure in MEASURES]


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial, as a run that holds nothing else has it."""

    run: int
    backend: str
    fault: str
    seed: int
    cells: tuple[Cell, ...]
    lanes: tuple[LaneSummary, ...]


def contents(trials: Iterable[Trial]) -> Contents:
    """A run of these trials."""
    trials = list(trials)
    cells = tuple(cell for trial in trials for cell in trial.cells)
    return Contents(cells, tuple(lane for trial in trials for lane in trial.lanes), ())


def load() -> list[Trial]:
    """All that are stored."""
    data = json.loads(FILE.read_text("utf-8"))
    return [_trial(data, *trial) for trial in data["trials"]]


def _trial(data: Mapping[str, Any], run: int, fault: str, seed: int, lanes: Sequence[Sequence[Any]]) -> Trial:
    cells: list[Cell] = []
    summaries: list[LaneSummary] = []
    for place, store, values, words in lanes:
        backend, lane = data["lanes"][place]
        lock, workload, mode = lane.split("/")
        trial = f"{backend}-{fault}-{seed}"
        summaries.append(
            LaneSummary(
                lock, backend, "", workload, mode, lane, fault, seed, 1, trial, None, 0, "",
                measures(store, dict(zip(_NAMES, values, strict=True))),
            )
        )  # fmt: skip
        for name, letter in zip(data["properties"][place], words, strict=True):
            if letter != "-":
                word = _WORDS[int(letter)]
                cells.append(
                    Cell(lock, backend, workload, mode, lane, fault, name, word, "", trial=trial, seed=seed, attempt=1)
                )
    return Trial(run, summaries[0].backend, fault, seed, tuple(cells), tuple(summaries))


def measures(store: float | None, values: Mapping[str, float | None]) -> dict[str, Any]:
    """Measures of a lane of which these numbers are read again, rates but for rounding."""

    def phase(name: str, acquire: float | None, rate: float | None) -> dict[str, Any]:
        seconds = 1000.0
        grants = 0.0 if rate is None else rate * seconds - 0.5
        return {
            "phase": name,
            "seconds": 0.0 if rate is None else seconds,
            "grants": grants,
            "acquire_ms": {"count": int(acquire is not None), "p50": acquire},
        }

    return {
        "cycles": [
            phase(BEFORE, values["acquire p50"], values["grants"]),
            phase(DURING, values["acquire p50 under the fault"], values["grants under the fault"]),
        ],
        "acquire_ms": {"p99": values["acquire p99"]},
        "release_ms": {"p50": values["release p50"]},
        "recovery_s": [values["recovery"]],
        "longest_gap_s": values["longest gap"],
        "store_ms": {"p50": store},
    }


def slower(trial: Trial, times: float, lock: str = "", only: str = "") -> Trial:
    """The same trial, but a lock (or all of them) is so many times slower: in all its times and rates, or in one."""

    def changed(lane: LaneSummary) -> LaneSummary:
        if (lock and lane.lock != lock) or lane.measures is None:
            return lane
        values = {measure.name: measure.read(lane.measures) for measure in MEASURES}
        for measure in MEASURES:
            number = values[measure.name]
            if number is not None and only in ("", measure.name):
                values[measure.name] = number * times if measure.rises else number / times
        return replace(lane, measures=measures(lane.measures["store_ms"]["p50"], values))

    return replace(trial, lanes=tuple(changed(lane) for lane in trial.lanes))


def _condensed(runs: Sequence[Path]) -> dict[str, Any]:
    lanes: dict[tuple[str, str], int] = {}
    properties: dict[tuple[str, str], dict[str, None]] = {}
    trials: list[Any] = []
    for number, run in enumerate(runs):
        for folder in sorted(path for path in (run / "trials").iterdir() if not path.name.startswith(".")):
            trial = load_trial(folder)
            told = []
            for lane in trial.lanes:
                facts = lane.history.facts
                name = (facts.backend, facts.lane)
                found = measured(lane.history)
                place = lanes.setdefault(name, len(lanes))
                known = properties.setdefault(name, {})
                known.update(dict.fromkeys(judgement.property for judgement in lane.judgements))
                words = {judgement.property: _WORDS.index(judgement.word) for judgement in lane.judgements}
                values = [_short(measure.read(found)) for measure in MEASURES]
                told.append((place, _short(found["store_ms"]["p50"]), values, words))
            if told and trial.about["attempt"] == 1:
                trials.append((number, trial.about["column"], trial.about["seed"], told))
    names = {place: list(properties[name]) for name, place in lanes.items()}
    return {
        "lanes": list(lanes),
        "properties": [names[place] for place in range(len(lanes))],
        "trials": [
            (run, fault, seed, [(p, s, v, "".join(str(w.get(n, "-")) for n in names[p])) for p, s, v, w in told])
            for run, fault, seed, told in trials
        ],
    }


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.3g}")


if __name__ == "__main__":
    print(json.dumps(_condensed([Path(name) for name in sys.argv[1:]]), separators=(",", ":")))
