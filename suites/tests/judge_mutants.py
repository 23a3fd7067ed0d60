"""Which bugs in recorder and checkers show on stored histories: ``python -m suites.tests.judge_mutants [NAME]``.

``judged``: with the bug, a history gets other verdicts than the stored ones; with a bug in the recorder, others than
a recording of the same operations without it. ``proof``: the verifier of proofs, which has no bug, rejects what a model
with the bug says. Tiny random histories, named by numbers, are judged after the stored ones. The exit status is 1 if a
bug does not show in every way in which it must be found.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final
from unittest import mock

from checkers.history.history import History, load, malformed
from checkers.models import all_models
from checkers.models.all_models import MODELS
from checkers.models.model import Settings
from checkers.models.stores import RULES
from checkers.proofs.verify_proof import verify_invalid, verify_valid
from checkers.tests import generate
from results.tests.judged import FOLDER, Answers, judged, kept
from suites.mutants.catalogue import AlteredModules, Mutant, on_stored_histories
from suites.tests.replayed import replayed
from suites.worker.recorder import folder

RUNS: Final = ("default", "nightly", "upgrade")
EVERY: Final = 3  # one stored history in so many is recorded anew, or has its proofs verified
DRAWN: Final = 1_000
NOTHING: Final = Mutant("nothing", "", (), "", set_aside=False, where=())
OF_LEASES: Final = ("lease", "fencing-tokens", "fenced-store")
OF_OTHERS: Final = ("mutex", "rwlock", "semaphore", "reentrant-mutex", "fencing-tokens", "fenced-store")
SECONDS: Final = 10.0
WAYS: Final = ((True, SECONDS), (False, SECONDS), (False, 0.0))
"""(Whether a model's engine is asked, seconds that it gets.) A search without time must not pretend to know."""


@dataclass(frozen=True, slots=True)
class Shown:
    """by: ``judged`` or ``proof`` → where the bug showed first, and how."""

    mutant: Mutant
    by: dict[str, str]

    @property
    def missed(self) -> list[str]:
        return [way for way in self.mutant.found_by if way not in self.by]

    def __str__(self) -> str:
        ways = [*(f"{way} ({where})" for way, where in self.by.items()), *(f"MISSED by {way}" for way in self.missed)]
        return f"{self.mutant.name}: {'; '.join(ways)}"


class Histories:
    """Histories of stored runs (names of archives), and tiny random ones. Each is loaded or made when it is needed."""

    def __init__(self, runs: Sequence[str], place: Path) -> None:
        self._place = place
        archives = {run: kept(FOLDER / f"{run}.tar.xz", place / run) for run in runs}
        self._was = {f"{run}/{name}": was for run, answers in archives.items() for name, was in answers.items()}
        self._some = list(self._was)[::EVERY]
        self._was |= {str(number): judged(drawn(number)) for number in range(DRAWN)}
        self._recorded: dict[str, Answers] = {}

    def show(self, mutant: Mutant) -> Shown:
        modules = AlteredModules(mutant)
        ways = {"judged": self._judged(modules), "proof": self._proofs(modules)}
        if any(change.file.startswith("suites/") for change in mutant.changes):
            ways = {"judged": self._recordings(modules)}
        return Shown(mutant, {way: first for way in mutant.found_by if (first := next(ways[way], None)) is not None})

    def _history(self, name: str) -> History:
        return drawn(int(name)) if name.isdigit() else load(self._place / name)

    def _judged(self, modules: AlteredModules) -> Iterator[str]:
        altered = modules.module("results.tests.judged")
        for name, was in self._was.items():
            try:
                now = altered.judged(self._history(name))
            except Exception as error:  # noqa: BLE001 - however it ends, it is told
                yield f"{name} {error!r}"
                continue
            yield from _differences(name, was, now)

    def _proofs(self, modules: AlteredModules) -> Iterator[str]:
        for name in (*self._some, *map(str, range(DRAWN))):
            yield from (f"{name} {what}" for what in rejected(self._history(name), modules, AlteredModules(NOTHING)))

    def _recordings(self, modules: AlteredModules) -> Iterator[str]:
        for name in self._some:
            if name not in self._recorded:
                self._recorded[name] = judged(self._anew(name, AlteredModules(NOTHING)))
            now = self._anew(name, modules)
            problem = malformed(now)
            yield from [f"{name} {problem}"] if problem else _differences(name, self._recorded[name], judged(now))

    def _anew(self, name: str, modules: AlteredModules) -> History:
        with folder() as empty:
            return replayed(self._history(name), modules, Path(empty))


def drawn(number: int) -> History:
    rng = Random(number)
    if number % 2:
        mode = rng.choice([*RULES, "compare-owner"])
        return generate.store_book(generate.either(rng, mode), mode).history()
    kind = rng.choice(("grant", "touch", "session"))
    return generate.lease_book(generate.leases(rng, kind), kind, rng).history()


def _differences(name: str, was: Answers, now: Answers) -> Iterator[str]:
    for asked in {**was, **now}:
        if was.get(asked) != now.get(asked):
            yield f"{name} {asked}: {was.get(asked)} became {now.get(asked)}"


def rejected(history: History, modules: AlteredModules, correct: AlteredModules) -> Iterator[str]:
    """What the verifier of proofs, which has no bug, rejects from these modules' models, and not from correct ones."""
    for model in OF_OTHERS if history.facts.lease == "none" else OF_LEASES:
        for engine, seconds in WAYS if MODELS[model].certify is None else WAYS[:1]:
            wrong = _wrong(history, modules, model, seconds, engine=engine)
            if wrong and not _wrong(history, correct, model, seconds, engine=engine):
                yield f"{model}: {wrong}"


def _wrong(history: History, modules: AlteredModules, model: str, seconds: float, *, engine: bool) -> str | None:
    statement = MODELS[model] if engine else replace(MODELS[model], engine=None)
    settings = Settings(permits=history.facts.permits)

    def named(place: str) -> object:
        return getattr(modules.module(place.partition(":")[0]), place.partition(":")[2])

    with mock.patch.object(all_models, "resolve_name", named):  # models name their engines by their modules
        try:
            theirs = modules.module("checkers.models.model").Settings(permits=settings.permits, budget=seconds)
            answer = modules.module("checkers.linearizability").decide(history, statement, theirs)
            proof = answer.order().tolist() if answer.valid else answer.rows
        except modules.module("checkers.models.user_model").ModelError:
            return None
        except Exception as error:  # noqa: BLE001 - however it ends, it is told
            return repr(error)
    if answer.valid is None:
        return str(answer.reason) if seconds else None
    return (verify_valid if answer.valid else verify_invalid)(history, MODELS[model], settings, proof)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.tests.judge_mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    names = parser.parse_args(argv).names or list(on_stored_histories())
    with tempfile.TemporaryDirectory() as place:
        histories, results = Histories(RUNS, Path(place)), list[Shown]()
        for name in names:
            results.append(histories.show(on_stored_histories()[name]))
            print(str(results[-1])[:300], flush=True)
    for aside in (False, True):
        some = [result for result in results if result.mutant.set_aside is aside]
        wholly = sum(not result.missed for result in some)
        whose = "those set aside" if aside else "the others"
        print(f"{wholly} of {len(some)} of {whose} show as they are to, {sum(map(bool, (r.by for r in some)))} at all")
    return int(any(result.missed for result in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
