"""`python -m suites mutants`: lists locks with one bug each; --run tests whether the suite finds the bugs.

A bug is caught when the property that names it is violated in the first trial under the fault that reveals it. Mutants
with the same backend and fault share a trial, each in lanes of its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from suites.commands.arguments import Arguments
from suites.commands.cycles import Cycles, violated
from suites.lanes.mutant_catalogue import CATALOGUE, Mutant

DEADLINE: Final = 20.0
"""Seconds; a lock that is never freed exercises nothing more, so its trial goes on until then."""
SEED: Final = 1


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a mutant. by: the properties that were violated; trouble: why there was no verdict, or ""."""

    mutant: Mutant
    by: tuple[str, ...]
    trouble: str = ""

    @property
    def caught(self) -> bool:
        return self.mutant.found_by in self.by

    def __str__(self) -> str:
        if self.caught:
            return f"{self.mutant.name}: caught by {', '.join(self.by)}"
        instead = self.trouble or (f"only {', '.join(self.by)}" if self.by else "nothing was violated")
        return f"{self.mutant.name}: MISSED by {self.mutant.found_by}; {instead}"


def main(argv: Sequence[str]) -> int:
    """Exit status: 0 all were caught, or nothing was run; 1 one was missed."""
    parser = Arguments("mutants", main)
    names = [mutant.name for mutant in CATALOGUE]
    parser.add_argument(
        "--run", nargs="*", choices=names, metavar="NAME", help="try them, or only these, for one trial each"
    )
    options = parser.parse_args(argv)
    if options.run is None:
        for mutant in CATALOGUE:
            print(f"{mutant.name:<23} {mutant.bug} {mutant.found_by}, {mutant.fault} ({mutant.lock.name})")
        return 0
    results: list[Result] = []
    for result in run([mutant for mutant in CATALOGUE if mutant.name in (options.run or names)]):
        print(result, flush=True)
        results.append(result)
    missed = sum(not result.caught for result in results)
    print(f"{len(results)} mutants, {missed} missed")
    return 1 if missed else 0


def run(mutants: Iterable[Mutant]) -> Iterator[Result]:
    """Run the trials, one for all mutants with the same backend and fault."""
    with Cycles() as cycles:
        for (_, fault), group in groupby(sorted(mutants, key=_trial_of), key=_trial_of):
            tried = {mutant: [lane.name for lane in mutant.lanes] for mutant in group}
            lanes = [lane for mutant in tried for lane in mutant.lanes]
            cycle = cycles.run_fault(fault, SEED, lanes, DEADLINE)
            if cycle.record is None:
                yield from (Result(mutant, (), cycle.wrong) for mutant in tried)
                continue
            broken = list(violated(cycle.record))
            for mutant, names in tried.items():
                by = dict.fromkeys(judgement.property for lane, judgement in broken if lane in names)
                yield Result(mutant, tuple(by))


def _trial_of(mutant: Mutant) -> tuple[str, str]:
    return mutant.lock.backend, mutant.fault
