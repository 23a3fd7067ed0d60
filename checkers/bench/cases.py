"""What is measured: the histories of each table."""

from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

from checkers.bench.generate import HistoryShape

UNKNOWN: Final = (0, 20, 50, 100)
"""Operations without an answer, in bad histories of one key."""


class BenchCase(NamedTuple):
    model: str
    shape: HistoryShape


def large(*, quick: bool) -> Iterator[BenchCase]:
    """Large histories, of one key and of many, valid and bad."""
    sizes: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = [(20_000, (2, 10), (1, 100))]
    if not quick:
        sizes = [
            (100_000, (2, 5, 10, 50), (1, 10, 1_000)),
            (1_000_000, (2, 5, 10, 50), (100, 1_000, 100_000)),
            (10_000_000, (2, 10, 50), (10_000, 100_000)),
        ]
    for model in ("mutex", "fenced-store"):
        for operations, processes, keys in sizes:
            for p, k, bad in product(processes, keys, (False, True)):
                yield BenchCase(model, HistoryShape(operations, p, k, bad=bad))
    registers = [(20_000, 5, 10)] if quick else [(100_000, 5, 10), (100_000, 20, 100), (1_000_000, 5, 1_000)]
    for (operations, p, k), bad in product(registers, (False, True)):
        yield BenchCase("cas-register", HistoryShape(operations, p, k, bad=bad))


def unanswered() -> Iterator[BenchCase]:
    """Bad histories of one key, with operations that were never answered."""
    for model, unknown in product(("mutex", "fenced-store", "cas-register"), UNKNOWN):
        yield BenchCase(model, HistoryShape(2_000, 10, 1, unknown=unknown, bad=True))


def alone(*, quick: bool) -> Iterator[BenchCase]:
    """What Porcupine has no model for."""
    for operations, bad in product((20_000,) if quick else (100_000, 1_000_000), (False, True)):
        yield BenchCase("lease", HistoryShape(operations, 2, 10, unknown=operations // 100, bad=bad))
