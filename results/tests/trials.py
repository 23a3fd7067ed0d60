"""Real trials, condensed to what comparisons use. The machine was as busy as it happened to be.

`python -m results.tests.trials RUN... > FILE` made `one-version.json` from runs of one version, and `slow-server.json`
from pairs of runs with a sound and a slow server (`python -m infra planted`). A run of an upgrade counts as two runs.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from checkers.claims import Verdict
from checkers.measures.latency import BEFORE, DURING
from results.comparison.speeds import MEASURES
from results.record import Cell, LaneSummary
from results.stages import ALONE
from results.storage.reading import RunContents, load_trial
from results.storage.verdicts import measured

ONE_VERSION: Final = Path(__file__).with_name("one-version.json")
SLOW_SERVER: Final = Path(__file__).with_name("slow-server.json")
_WORDS: Final = list(Verdict)
_NAMES: Final = [measure.name for measure in MEASURES]


@dataclass(frozen=True, slots=True)
class Trial:
    run: int
    backend: str
    fault: str
    seed: int
    cells: tuple[Cell, ...]
    lanes: tuple[LaneSummary, ...]


def contents(trials: Iterable[Trial]) -> RunContents:
    trials = list(trials)
    cells = tuple(cell for trial in trials for cell in trial.cells)
    return RunContents(cells, tuple(lane for trial in trials for lane in trial.lanes), ())


def load(file: Path = ONE_VERSION) -> list[Trial]:
    data = json.loads(file.read_text("utf-8"))
    return [_trial(data, *trial) for trial in data["trials"]]


def _trial(data: Mapping[str, Any], run: int, fault: str, seed: int, lanes: Sequence[Sequence[Any]]) -> Trial:
    cells: list[Cell] = []
    summaries: list[LaneSummary] = []
    for place, store, values, words in lanes:
        backend, lane = data["lanes"][place]
        lock, workload, mode = lane.split("/")
        where, trial = (lock, backend, workload, mode, lane, fault), f"{backend}-{fault}-{seed}"
        told = measures(store, dict(zip(_NAMES, values, strict=True)))
        summaries.append(LaneSummary(lock, backend, "", workload, mode, lane, fault, seed, 1, trial, None, 0, "", told))
        for name, letter in zip(data["properties"][place], words, strict=True):
            if letter != "-":
                cells.append(Cell(*where, name, _WORDS[int(letter)], "", {}, (), None, trial, seed, 1))
    return Trial(run, summaries[0].backend, fault, seed, tuple(cells), tuple(summaries))


def measures(store: float | None, values: Mapping[str, float | None]) -> Any:
    """Measures of a lane from which these numbers can be read again, rates up to rounding."""

    def phase(name: str, under: str = "") -> dict[str, Any]:
        acquire, rate = values[f"acquire p50{under}"], values[f"grants{under}"]
        seconds, grants = (0.0, 0.0) if rate is None else (1000.0, rate * 1000.0 - 0.5)
        times = {"count": int(acquire is not None), "p50": acquire}
        return {"phase": name, "seconds": seconds, "grants": grants, "acquire_ms": times}

    return {
        "cycles": [phase(BEFORE), phase(DURING, " under the fault")],
        "acquire_ms": {"p99": values["acquire p99"]},
        "release_ms": {"p10": values["release p10"], "p50": values["release p50"]},
        "recovery_s": [values["recovery"]],
        "longest_gap_s": values["longest gap"],
        "store_ms": {"p50": store},
    }


def slower(trial: Trial, times: float, lock: str = "", only: str = "") -> Trial:
    """The same trial with one lock, or all, `times` times slower: in all times and rates, or in `only` one of them."""

    def changed(lane: LaneSummary) -> LaneSummary:
        if (lock and lane.lock != lock) or lane.measures is None:
            return lane
        values = {measure.name: measure.read(lane.measures) for measure in MEASURES}
        for measure in MEASURES:
            if (number := values[measure.name]) is not None and only in ("", measure.name):
                values[measure.name] = number * times if measure.rises else number / times
        return replace(lane, measures=measures(lane.measures["store_ms"]["p50"], values))

    return replace(trial, lanes=tuple(changed(lane) for lane in trial.lanes))


def _condensed(runs: Sequence[Path]) -> dict[str, Any]:
    lanes: dict[tuple[str, str], int] = {}
    properties: dict[int, dict[str, None]] = {}
    trials: dict[tuple[int, str], tuple[int, dict[int, Any]]] = {}
    numbers: dict[tuple[Path, str], int] = {}
    for run in runs:
        for folder in sorted(path for path in (run / "trials").iterdir() if not path.name.startswith(".")):
            trial = load_trial(folder)
            stage = trial.about["stage"]
            if stage and stage not in ALONE:
                continue
            number = numbers.setdefault((run, stage), len(numbers))
            # A further attempt (another seed) is for what did not show: its verdicts count, with the first one's times.
            _, told = trials.setdefault((number, trial.about["column"]), (trial.about["seed"], {}))
            for lane in trial.lanes:
                facts = lane.history.facts
                place = lanes.setdefault((facts.backend, facts.lane), len(lanes))
                words = {judgement.property: _WORDS.index(judgement.word) for judgement in lane.judgements}
                properties.setdefault(place, {}).update(dict.fromkeys(words))
                read: Any = measured(lane.history)
                times = _short(read["store_ms"]["p50"]), [_short(measure.read(read)) for measure in MEASURES]
                told[place] = told[place][0] if place in told else times, words
    condensed = []
    for (run_number, fault), (seed, of_lanes) in trials.items():
        found = []
        for place, (times, words) in of_lanes.items():
            found.append((place, *times, "".join(str(words.get(name, "-")) for name in properties[place])))
        condensed.append((run_number, fault, seed, found))
    named = [list(properties[place]) for place in range(len(lanes))]
    return {"lanes": list(lanes), "properties": named, "trials": condensed}


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.3g}")


if __name__ == "__main__":
    print(json.dumps(_condensed([Path(name) for name in sys.argv[1:]]), separators=(",", ":")))
