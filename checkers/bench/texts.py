"""Histories as text, to measure how fast it is read."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from checkers.history.history import History
from checkers.row_format import NONE, F, Outcome

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
