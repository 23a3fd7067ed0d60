"""What is measured: the histories of each table, and those that are read as text."""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from checkers.bench.generate import HistoryShape
from checkers.history.history import History
from checkers.row_format import NONE, F, Outcome

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


_NAMES: Final = {F.READ: "read", F.WRITE: "write", F.CAS: "cas"}
_TYPES: Final = {Outcome.OK: "ok", Outcome.FAIL: "fail", Outcome.INFO: "info"}


def edn(history: History) -> Iterator[str]:
    """Jepsen's ``history.edn``: a map a line, independent keys. Of registers only."""
    for n, (time, process, kind, f, key, value) in enumerate(_events(history, "nil", "[{} {}]")):
        yield (f"{{:index {n}, :time {time}, :type :{kind}, :process {process}, :f :{f}, :value [{key} {value}]}}\n")


def jsonl(history: History) -> Iterator[str]:
    """One JSON object a line, with times: the order of the lines says nothing."""
    for time, process, kind, f, key, value in _events(history, "null", "[{}, {}]"):
        start = f'"time": {time}, "process": {process}, "type": "{kind}"'
        yield f'{{{start}, "f": "{f}", "key": {key}, "value": {value}}}\n'


FORMATS: Final[Mapping[str, Callable[[History], Iterator[str]]]] = {"history.edn": edn, "history.jsonl": jsonl}


def _events(history: History, nil: str, pair: str) -> Iterator[tuple[int, int, str, str, int, str]]:
    """time, process, type, f, key, value: invocations and completions, as they followed one another."""
    names = ("process", "f", "outcome", "key", "value", "base")
    process, f, outcome, key, value, base = (history.columns[name].tolist() for name in names)
    ends = np.where(history.columns["outcome"] == Outcome.INFO, history.columns["inv"] + 1, history.columns["ret"])
    times = np.concatenate([history.columns["inv"], ends])
    order = np.lexsort((np.repeat([0, 1], len(history)), times))
    for event in order.tolist():
        row = event % len(history)
        begins = event < len(history)
        shown = nil if value[row] == NONE or (begins and f[row] == F.READ) else str(value[row])
        if f[row] == F.CAS:
            shown = pair.format(base[row], value[row])
        kind = "invoke" if begins else _TYPES[outcome[row]]
        yield int(times[event]), process[row], kind, _NAMES[f[row]], key[row], shown
