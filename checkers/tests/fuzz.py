"""Compares checkers and engines with exhaustive search on random tiny histories (``make fuzz``).

python -m checkers.tests.fuzz --count 1000000 --seed 1 --jobs 2 [--check NAME]
python -m checkers.tests.fuzz --check NAME --history 1/4711    one history again, as a disagreement names it
python -m checkers.tests.fuzz --check NAME --history 1/40-47   these as keys of one history, if none disagrees alone
"""

import argparse
import os
import pkgutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from importlib import import_module
from random import Random
from typing import Final

from checkers import tests
from checkers.engines.kernel import always
from checkers.tests.batches import Batched
from checkers.tests.build import Disagreement

Check = Callable[[Random], str]
"""Makes a history and judges it in both ways: "valid" or "invalid", maybe more after a comma. Or Disagreement."""

BATCH: Final = 5_000  # histories that a process makes at a time, and that are judged together
ALONE: Final = 32  # one of so many histories is also judged alone
PLAIN: Final = 10_000  # so many first histories go through plain kernels: compiling would take longer than all else
COMPILED: Final = 8  # after these, all but one of so many batches use compiled kernels, as large histories do


def _merged() -> dict[str, Check]:
    """The `CHECKS` of all modules ``fuzz_*`` in this folder."""
    checks: dict[str, Check] = {}
    for module in pkgutil.iter_modules(tests.__path__):
        if module.name.startswith("fuzz_"):
            found: Mapping[str, Check] = import_module(f"{tests.__name__}.{module.name}").CHECKS
            twice = checks.keys() & found.keys()
            assert not twice, f"{module.name}: {', '.join(twice)} is the name of another check already"
            checks.update(found)
    return checks


CHECKS: Final[Mapping[str, Check]] = _merged()


def run(name: str, count: int, seed: int, first: int = 0) -> Counter[str]:
    """How often each word came. Raises Disagreement, which names the history."""
    seen: Counter[str] = Counter()
    together = isinstance(CHECKS[name], Batched)
    for begin, size in _batches(count):
        numbers = range(first + begin, first + begin + size)
        if together:
            seen.update(_batch(name, seed, numbers))
        for number in numbers:
            if not together:
                seen[one(name, f"{seed}/{number}")] += 1
            elif number % ALONE == 0:
                one(name, f"{seed}/{number}")
    return seen


def one(name: str, history: str) -> str:
    """The word for one history, or those for a range together. Raises Disagreement, also if an engine falls over."""
    seed, _, numbers = history.rpartition("/")
    first, _, last = numbers.partition("-")
    try:
        if last:
            return "; ".join(_together(name, seed, range(int(first), int(last) + 1)))
        return CHECKS[name](Random(history))
    except Exception as error:
        told = error if isinstance(error, Disagreement) else repr(error)
        raise Disagreement(f"{name}, history {history}: {told}") from error


def _together(name: str, seed: int | str, numbers: range) -> list[str]:
    check = CHECKS[name]
    if not isinstance(check, Batched):
        raise Disagreement("this check judges each history alone")
    with always(compiled=numbers[0] >= PLAIN and numbers[0] // BATCH % COMPILED != 0):
        return check.together(Random(f"{seed}/{number}") for number in numbers)


def _batch(name: str, seed: int, numbers: range) -> list[str]:
    """The words for histories judged together. Raises Disagreement, for one history if one disagrees alone too."""
    try:
        return _together(name, seed, numbers)
    except Exception as error:
        for number in numbers:
            one(name, f"{seed}/{number}")
        whole = f"{seed}/{numbers[0]}-{numbers[-1]}"
        one(name, whole)
        raise Disagreement(f"{name}, history {whole}: only once, {error!r}") from error


def main() -> int:
    """Exit status 1 if anything disagreed."""
    parser = argparse.ArgumentParser(
        prog="python -m checkers.tests.fuzz", description="Compare with exhaustive search on random tiny histories."
    )
    parser.add_argument("--count", type=int, default=100_000, help="histories for each check")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--check", choices=sorted(CHECKS), action="append", metavar="NAME", help="repeatable")
    parser.add_argument("--history", metavar="SEED/NUMBER", help="only this one, or NUMBER-NUMBER")
    parser.add_argument("--list", action="store_true", help="the names of all checks")
    options = parser.parse_args()
    names = options.check or list(CHECKS)
    if options.list:
        print(*names, sep="\n")
        return 0
    if options.history:
        for name in names:
            print(f"{name}, history {options.history}: {one(name, options.history)}")
        return 0
    status = 0
    with ProcessPoolExecutor(max(1, options.jobs)) as pool:
        for name in names:
            begun = time.monotonic()
            try:
                seen = _parallel(pool, name, options.count, options.seed)
            except Disagreement as error:
                print(error, file=sys.stderr, flush=True)
                status = 1
                continue
            words = ", ".join(f"{count} {word}" for word, count in sorted(seen.items()))
            taken = time.monotonic() - begun
            print(f"{name}: {options.count} histories, no disagreement ({words}; {taken:.0f} s)", flush=True)
    return status


def _parallel(pool: ProcessPoolExecutor, name: str, count: int, seed: int) -> Counter[str]:
    """How often each word came in all processes. Raises the first Disagreement that a process reports."""
    parts: list[Future[Counter[str]]] = [pool.submit(run, name, size, seed, first) for first, size in _batches(count)]
    seen: Counter[str] = Counter()
    try:
        for part in as_completed(parts):
            seen += part.result()
    finally:
        for part in parts:
            part.cancel()
    return seen


def _batches(count: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, BATCH):
        yield first, min(BATCH, count - first)


if __name__ == "__main__":
    sys.exit(main())
