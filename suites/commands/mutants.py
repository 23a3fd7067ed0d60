"""`python -m suites mutants`: tries locks with one bug each, and says which bugs the suite finds: under the fault that
is expected to reveal the bug, under the faults of a default run, or under the faults of other suites, at their times.

A bug is caught when a property that names it is violated (`suites.mutants.catalogue`). Correct locks run beside those
with a bug; where one of them fails, the suite is wrong, and the status is 1.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec

from checkers.claims import NO_FAULT, Verdict
from infra.backends import BACKENDS
from infra.docker.servers_with_bugs import PLANTS
from infra.errors import UnknownName
from infra.faults.all_faults import FAULTS
from infra.faults.plan import plan_of_steps
from infra.suggestions import instead
from results.record import Cell
from results.storage import reading, resumable, summary
from results.storage.files import RUNS
from suites.commands.cycles import Cycles, violated
from suites.lanes.lane import lane_named
from suites.locks import registry
from suites.mutants.catalogue import Mutant, catalogue, mutant_of
from suites.rounds import run_in
from suites.selection.profiles import BOUNDARIES, PROFILES
from suites.worker.pool import ROOT

DEADLINE: Final = 15.0  # seconds; a lock that is never freed exercises nothing more, so its trial goes on until then
SEED: Final = 1
_DEFAULT: Final = (*(PROFILES["default"].faults or ()), *PROFILES["default"].own)
_OFTEN: Final = (NO_FAULT, "freeze-holder", "pause-server", "kill-holder", "cut-client-drop")
"""The faults that catch most bugs for the time that they take."""
STAGES: Final = (
    *((fault,) for fault in _OFTEN),
    tuple(fault for fault in _DEFAULT if fault not in (*_OFTEN, *BOUNDARIES)),
    tuple(fault for fault in _DEFAULT if fault in BOUNDARIES),
)
"""The faults of a default run, in several runs. A bug that one run catches is not tried in the next runs."""
SCHEDULES: Final[Mapping[str, tuple[tuple[tuple[str, ...], float, float], ...]]] = {
    "no-fault": (),
    "frozen-5-of-10-s": ((("pause-server",), 5.0, 5.0),),
    "ring-20-of-40-s": ((("split-ring", "cut-client-drop"), 20.0, 20.0),),
    "cut-and-killed-1-s": ((("isolate-leader-drop", "cut-client-drop"), 2.0, 1.0), (("kill-server",), 2.0, 1.0)),
}
"""What other suites do to servers: Jepsen's tests of etcd and of Hazelcast, and etcd's robustness tests. Name → steps:
faults (the first that can be done to the backend is used), seconds before the fault, seconds that it lasts."""
SCHEDULE_LASTS: Final = 40  # seconds of a trial of a schedule, at least
SCORES: Final = ROOT / "results" / "mutants"  # a file for each seed of `--score`, and one of `--schedules`
_OF_SCHEDULES: Final = "schedules.json"


@dataclass(frozen=True, slots=True)
class Catch:
    """How a bug was caught first."""

    property: str
    fault: str
    seconds: float  # from the first attempt at a lock to the instant from which the property is certainly broken
    trials: tuple[int, int]  # (trials of that run that judged it broken, trials of that run that tried it)


@dataclass(frozen=True, slots=True)
class Score:
    """What a default run made of a bug. also: the other properties that were violated."""

    mutant: str
    catch: Catch | None
    also: tuple[str, ...]

    def beside(self, before: "Score | None") -> "Score":
        return self if before is None else replace(self, also=tuple(dict.fromkeys((*before.also, *self.also))))

    def __str__(self) -> str:
        beside = f"; also {', '.join(self.also)}" if self.also else ""
        if self.catch is None:
            return f"{self.mutant}: MISSED{beside}"
        shown, tried = self.catch.trials
        return (
            f"{self.mutant}: {self.catch.property} under {self.catch.fault} after {self.catch.seconds:.1f} s, "
            f"in {shown} of {tried} trials{beside}"
        )


@dataclass(frozen=True, slots=True)
class Result:
    """What one trial made of a bug. by: the properties that were violated; trouble: why there was no verdict, or ""."""

    mutant: Mutant
    by: tuple[str, ...]
    trouble: str = ""

    @property
    def caught(self) -> bool:
        return not set(self.mutant.found_by).isdisjoint(self.by)

    def __str__(self) -> str:
        if self.caught:
            return f"{self.mutant.name}: caught by {', '.join(self.by)}"
        instead = self.trouble or (f"only {', '.join(self.by)}" if self.by else "nothing was violated")
        return f"{self.mutant.name}: MISSED by {' and '.join(self.mutant.found_by)}; {instead}"


def main(names: Sequence[str] = (), sample: int | None = None, seed: int = 1, **wanted: bool) -> int:
    """Exit status: 0 all were caught, or nothing was run; 1 one was missed, or a correct lock failed. Raises Unfinished
    (status 2).
    """
    if wanted.get("score") or wanted.get("schedules"):
        caught = {known.mutant for scores in stored().values() for known in scores if known.catch is not None}
        left = [mutant for mutant in catalogue().values() if not (wanted["missed"] and mutant.name in caught)]
        mutants = _sample(left, sample)
        return _try_schedules(mutants, seed) if wanted["schedules"] else _score(mutants, seed)
    if unknown := [name for name in names if name not in catalogue()]:
        raise UnknownName(f"no mutant {unknown[0]!r}; {instead(unknown[0], catalogue())}")
    if not wanted.get("tried"):
        for mutant in map(catalogue().__getitem__, names or catalogue()):
            print(f"{mutant.name:<36} {mutant.bug} {', '.join(mutant.found_by)}, {mutant.fault} ({mutant.lock})")
        return 0
    results: list[Result] = []
    for result in run([catalogue()[name] for name in names or catalogue()]):
        print(result, flush=True)
        results.append(result)
    silent = sum(not result.caught for result in results)
    print(f"{len(results)} mutants, {silent} missed")
    return 1 if silent else 0


def run(mutants: Iterable[Mutant]) -> Iterator[Result]:
    """Run the trials, one for all mutants with the same server, backend and fault."""
    ordered = sorted(mutants, key=lambda each: (each.server, *_trial_of(each)))
    for server, on_it in groupby(ordered, attrgetter("server")):
        with Cycles({plant.server: plant.version for plant in PLANTS if str(plant) == server}) as cycles:
            for (_, fault), group in groupby(on_it, key=_trial_of):
                tried = list(group)
                lanes = [lane_named(name) for mutant in tried for name in mutant.lanes]
                cycle = cycles.run_fault(fault, SEED, lanes, DEADLINE)
                if cycle.record is None:
                    yield from (Result(mutant, (), cycle.wrong) for mutant in tried)
                    continue
                broken = list(violated(cycle.record))
                for mutant in tried:
                    by = dict.fromkeys(judgement.property for lane, judgement in broken if lane in mutant.lanes)
                    yield Result(mutant, tuple(by))


def _trial_of(mutant: Mutant) -> tuple[str, str]:
    return _backend(mutant), mutant.fault


def _backend(mutant: Mutant) -> str:
    return registry.load(mutant.lock).backend


def _sample(mutants: Sequence[Mutant], count: int | None) -> list[Mutant]:
    """`count` of the mutants, at equal distances in the catalogue; all of them for None."""
    if count is None or count >= len(mutants):
        return list(mutants)
    return [mutants[number * len(mutants) // count] for number in range(count)]


def _score(mutants: Sequence[Mutant], seed: int) -> int:
    scores: dict[str, Score] = {}
    alarms: list[str] = []
    folder = RUNS / f"mutants-{seed}-{len(mutants)}"
    left = list(mutants)
    for number, faults in enumerate(STAGES, 1):
        print(f"stage {number} of {len(STAGES)}: {len(left)} mutants under {', '.join(faults)}", flush=True)
        of_this_stage, of_correct = _tried(left, ["--faults", ",".join(faults)], seed, folder / str(number))
        print("\n".join(str(score) for score in of_this_stage.values() if score.catch is not None), flush=True)
        scores |= {name: score.beside(scores.get(name)) for name, score in of_this_stage.items()}
        alarms += map(_alarm, of_correct)
        left = [mutant for mutant in left if of_this_stage[mutant.name].catch is None]
        if not left:
            break
    known = {score.mutant: score for score in stored().get(seed, ())} | scores  # scores of untried bugs stay
    report = {"seed": seed, "alarms": alarms, "scores": [asdict(score) for score in known.values()]}
    _store(f"{seed}.json", report)
    print("\n".join(str(scores[mutant.name]) for mutant in left))
    print("\n".join([*alarms, *in_words(scores.values())]))
    return 1 if alarms or left else 0


def _try_schedules(mutants: Sequence[Mutant], seed: int) -> int:
    caught: dict[str, list[str]] = {}
    alarms: list[str] = []
    for schedule in SCHEDULES:
        folder = RUNS / f"schedules-{seed}-{len(mutants)}" / schedule
        scores, of_correct = _tried(mutants, _words(schedule, seed, folder), seed, folder)
        caught[schedule] = [score.mutant for score in scores.values() if score.catch is not None]
        alarms += (_alarm(cell) for cell in of_correct if cell.word is Verdict.VIOLATED)
        print("\n".join([f"{schedule}:", *in_words(scores.values())]), flush=True)
    _store(_OF_SCHEDULES, {"seed": seed, "tried": [mutant.name for mutant in mutants], "caught": caught})
    print("\n".join(alarms))
    return 1 if alarms else 0


def _words(schedule: str, seed: int, folder: Path) -> list[str]:
    """Arguments for pytest. Writes the plans of the schedule, one for each backend, to the folder."""
    words = ["--duration", str(SCHEDULE_LASTS)]
    if not SCHEDULES[schedule]:
        return [*words, "--faults", NO_FAULT]
    folder.mkdir(parents=True, exist_ok=True)
    for backend in BACKENDS:
        steps = [
            (next(fault for fault in faults if FAULTS[fault].applies(backend) is None), after, lasts)
            for faults, after, lasts in SCHEDULES[schedule]
        ]
        file = folder / f"{backend}.json"
        file.write_text(json.dumps(plan_of_steps(f"{schedule}-{backend}", steps, seed, backend).to_json()))
        words += ["--plan", str(file)]
    return words


def _tried(
    mutants: Sequence[Mutant], words: Sequence[str], seed: int, folder: Path
) -> tuple[dict[str, Score], list[Cell]]:
    """Runs pytest with these arguments: (mutant → score, failures of the correct locks that run beside the mutants).

    Raises Unfinished.
    """
    scores: dict[str, Score] = {}
    failures: list[Cell] = []
    for number, together in enumerate(_runs(mutants)):
        correct = dict.fromkeys(mutant.lock for mutant in together if not mutant.server)
        locks = [f"--lock={name}" for name in (*(mutant.lock_name for mutant in together), *correct)]
        # A bug in a server may keep a fault from showing (a disk that is not written to is never slow).
        ends = (*resumable.ENDED, *([resumable.ENVIRONMENT_FAILED] if together[0].server else []))
        run_folder = run_in(folder / str(number), ["--seed", str(seed), *words, *locks], ends).path
        cells = summary.load(run_folder).cells
        scores |= {mutant.name: _scored(mutant, cells, run_folder) for mutant in together}
        failures += [cell for cell in cells if mutant_of(cell.lock) is None and cell.word.fails]
    return scores, failures


def _runs(mutants: Iterable[Mutant]) -> list[list[Mutant]]:
    """The mutants of each run: one run tries all whose bug is in no server, each other run at most one per backend."""
    runs: list[list[Mutant]] = [[]]
    for mutant in mutants:
        room = (run for run in runs[1:] if _backend(mutant) not in map(_backend, run))
        run = next(room, None) if mutant.server else runs[0]
        if run is None:
            runs.append([mutant])
        else:
            run.append(mutant)
    return [run for run in runs if run]


def _scored(mutant: Mutant, cells: Iterable[Cell], run_folder: Path) -> Score:
    mine = [cell for cell in cells if cell.lock == mutant.lock_name and cell.page is not None]
    broken = [cell for cell in mine if cell.word is Verdict.VIOLATED]
    naming = [cell for cell in broken if cell.property in mutant.found_by]
    also = dict.fromkeys(cell.property for cell in broken if cell.property not in mutant.found_by)
    if not naming:
        return Score(mutant.name, None, tuple(also))
    first = min(naming, key=lambda cell: str(reading.about_trial(_trial_folder(run_folder, cell)).get("started", "")))
    tried = {cell.trial for cell in mine if cell.property in mutant.found_by}
    shown = {cell.trial for cell in naming}
    catch = Catch(first.property, first.fault, _seconds(run_folder, first), (len(shown), len(tried)))
    return Score(mutant.name, catch, tuple(also))


def _alarm(cell: Cell) -> str:
    return f"ALARM on a correct lock: {cell.lane}, {cell.property} under {cell.fault}: {cell.word}"


def _trial_folder(run_folder: Path, cell: Cell) -> Path:
    assert cell.page is not None
    return (run_folder / cell.page).parent


def _seconds(run_folder: Path, cell: Cell) -> float:
    """Seconds from the first attempt at a lock to the violation."""
    for lane in reading.load_trial(_trial_folder(run_folder, cell)).lanes:
        if lane.history.facts.lane == cell.lane:
            for judgement in lane.judgements:
                if judgement.property == cell.property and judgement.violation is not None:
                    return float(judgement.violation.at - lane.history.columns["inv"].min()) / 1e9
    raise LookupError(f"{cell.trial}: no violation of {cell.property} in {cell.lane}")


def _store(file: str, report: Mapping[str, Any]) -> None:
    SCORES.mkdir(exist_ok=True)
    (SCORES / file).write_text(json.dumps(report, indent=1) + "\n")


def stored() -> dict[int, list[Score]]:
    """What `--score` has stored, by seed."""
    reports = [json.loads(file.read_text()) for file in sorted(SCORES.glob("[0-9]*.json"))]
    return {report["seed"]: msgspec.convert(report["scores"], list[Score]) for report in reports}


def stored_schedules() -> tuple[list[str], dict[str, list[str]]]:
    """What `--schedules` has stored: the bugs that were tried, and which each schedule caught; ([], {}) for nothing."""
    file = SCORES / _OF_SCHEDULES
    report = json.loads(file.read_text()) if file.exists() else {"tried": [], "caught": {}}
    return report["tried"], report["caught"]


def in_words(scores: Collection[Score]) -> list[str]:
    """How many bugs were caught, and after how many seconds; also how many of those set aside, and of the others."""
    lines = []
    for what, aside in ((" bugs caught", None), (" of those set aside", True), (" of the others", False)):
        some = [each for each in scores if aside is None or catalogue()[each.mutant].set_aside is aside]
        caught = [each.catch for each in some if each.catch is not None]
        if some:
            lines.append(f"{len(caught)} of {len(some)}{what} ({len(caught) / len(some):.0%})")
        if caught and aside is None:
            lines[-1] += f", the median after {median(catch.seconds for catch in caught):.1f} s of a trial"
    return lines
