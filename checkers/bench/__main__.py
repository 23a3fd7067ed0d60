"""How fast the checks are, beside Porcupine on the same histories, core and day: ``make bench``.

python -m checkers.bench [--quick] [--part NAME]... [--alone]

Every table is Markdown, and every result on the way is compared with what is known of the history. Exit status: 0
done, 1 a wrong result, 2 usage, or Porcupine cannot be built.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import click
import numpy as np

from checkers.bench import baseline, generate, timing
from checkers.bench.generate import HistoryShape
from checkers.command.exit_status import status_of
from checkers.formats.formats import load_with_defaults
from checkers.history.history import History, save
from checkers.row_format import NONE, F, Outcome

UNANSWERED: Final = (0, 20, 50, 100)  # operations without an answer, in bad histories of one key


class WrongResult(Exception):
    """A result differs from what the history was made to give."""


class BenchCase(NamedTuple):
    model: str
    shape: HistoryShape


class Options(NamedTuple):
    """alone: without Porcupine."""

    quick: bool
    alone: bool
    folder: Path


def large(options: Options) -> Iterator[str]:
    """Large histories."""
    yield _head("model | operations | processes | keys | history | ours (s) | Porcupine (s) | its memory | ratio")
    for case in large_cases(quick=options.quick):
        yield _row(case, options, case.shape.processes, case.shape.keys, _word(case.shape))


def unanswered(options: Options) -> Iterator[str]:
    """Bad histories of one key, with operations that were never answered."""
    yield _head("model | operations | unanswered | ours (s) | Porcupine (s) | its memory | ratio")
    for model, unknown in product(("mutex", "fenced-store", "cas-register"), UNANSWERED):
        yield _row(BenchCase(model, HistoryShape(2_000, 10, 1, unknown=unknown, bad=True)), options, unknown)


def alone(options: Options) -> Iterator[str]:
    """Histories that Porcupine has no model for."""
    yield _head("model | operations | unanswered | history | ours (s)")
    for operations, bad in product((20_000,) if options.quick else (100_000, 1_000_000), (False, True)):
        case = BenchCase("lease", HistoryShape(operations, 2, 10, unknown=operations // 100, bad=bad))
        history = generate.GENERATORS[case.model](case.shape)
        ours = _ours(case, history)
        yield f"| {case.model} | {len(history):,} | {case.shape.unknown:,} | {_word(case.shape)} | {ours:.4f} |"


def logs(options: Options) -> Iterator[str]:
    """The logs of etcd under Jepsen in Porcupine's module, all of them in one go."""
    histories = [load_with_defaults(path).history for path in baseline.logs()]
    valid, ours = timing.check("cas-register", histories)
    operations = sum(map(len, histories))
    yield _head("logs | operations | valid | ours (s) | Porcupine (s) | ratio")
    cells = f"| {len(histories)} | {operations:,} | {valid.count(True)} | {ours:.4f}"
    if options.alone:
        yield f"{cells} | | |"
        return
    theirs = baseline.check(_packed("cas-register", histories, options.folder))
    if theirs.valid != valid:
        raise WrongResult(f"of logs: ours {valid}, Porcupine {theirs.valid}")
    seconds = statistics.median(theirs.seconds)
    yield f"{cells} | {seconds:.3f} | {seconds / ours:.0f} × |"


def command(options: Options) -> Iterator[str]:
    """The command line in a new process, and memory."""
    yield _head("model | operations | history | clock (s) | CPU (s) | bytes an operation beyond the columns")
    for model in generate.GENERATORS:
        for bad in (False, True):
            shape = HistoryShape(20_000 if options.quick else 1_000_000, 10, 1_000, bad=bad)
            history = generate.GENERATORS[model](shape)
            path = options.folder / "history.arrow"
            save(history, path)
            _ours(BenchCase(model, shape), history)  # compiles the kernels, if that was never done
            clock, cpu = timing.command(path, model)
            memory = timing.memory(path, model) / len(history)
            cells = f"{clock:.2f} | {cpu:.2f} | {memory:.0f}"
            yield f"| {model} | {len(history):,} | {_word(shape)} | {cells} |"


def text(options: Options) -> Iterator[str]:
    """Text formats, from the file to columns."""
    yield _head("format | events | megabytes | seconds | events a second")
    history = generate.cas_register(HistoryShape(20_000 if options.quick else 500_000, 10, 100))
    for name, written in FORMATS.items():
        path = options.folder / name
        path.write_text("".join(written(history)))
        seconds = timing.median(lambda path=path: load_with_defaults(path).history)  # type: ignore[misc]
        events = 2 * len(history)
        size = path.stat().st_size / 1e6
        yield f"| {name} | {events:,} | {size:.0f} | {seconds:.2f} | {events / seconds:,.0f} |"


PARTS: Final[Mapping[str, Callable[[Options], Iterator[str]]]] = {
    part.__name__: part for part in (large, unanswered, alone, logs, command, text)
}


def _head(columns: str) -> str:
    return f"| {columns} |\n{'|---' * len(columns.split(' | '))}|"


def large_cases(*, quick: bool) -> Iterator[BenchCase]:
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


def edn(history: History) -> Iterator[str]:
    """Jepsen's ``history.edn``: one map a line, independent keys. Only for histories of registers."""
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
        kind = "invoke" if begins else Outcome(outcome[row]).name.lower()
        yield int(times[event]), process[row], kind, F(f[row]).name.lower(), key[row], shown


def _ours(case: BenchCase, history: History) -> float:
    """Seconds that our check takes. Raises WrongResult."""
    small = case.shape._replace(operations=4_000, keys=min(case.shape.keys, 20), unknown=min(case.shape.unknown, 10))
    timing.compile_for(case.model, generate.GENERATORS[case.model](small))
    valid, seconds = timing.check(case.model, [history])
    if valid != (not case.shape.bad,):
        raise WrongResult(f"{case}: we say {valid}")
    return seconds


def _packed(model: str, histories: Sequence[History], folder: Path) -> list[Path]:
    files = [folder / f"{number}.packed" for number in range(len(histories))]
    for file, history in zip(files, histories, strict=True):
        file.write_bytes(baseline.packed(model, history))
    return files


def _row(case: BenchCase, options: Options, *more: object) -> str:
    """Both checkers on one history, which is gone from memory when Porcupine runs. Raises WrongResult."""
    history = generate.GENERATORS[case.model](case.shape)
    files = [] if options.alone else _packed(case.model, [history], options.folder)
    words = [case.model, f"{len(history):,}", *(f"{x:,}" if isinstance(x, int) else str(x) for x in more)]
    ours = _ours(case, history)
    words.append(f"{ours:.4f}")
    del history
    if options.alone:
        return f"| {' | '.join([*words, '', '', ''])} |"
    theirs = baseline.check(files)
    if not theirs.passed and theirs.valid != (not case.shape.bad,):
        raise WrongResult(f"{case}: Porcupine says {theirs.valid}")
    seconds = statistics.median(theirs.seconds)
    more_than = "≥ " if theirs.passed else ""
    stopped = " (stopped)" if theirs.passed == "bytes" else ""
    memory, ratio = f"{theirs.peak / 1e9:.2f} GB{stopped}", f"{more_than}{seconds / ours:,.0f} ×"
    return f"| {' | '.join([*words, f'{more_than}{seconds:.3g}', memory, ratio])} |"


def _word(shape: HistoryShape) -> str:
    return "bad" if shape.bad else "valid"


@click.command()
@click.option("--quick", is_flag=True, help="small histories, in a minute or two")
@click.option("--alone", is_flag=True, help="without Porcupine (which takes Go)")
@click.option("--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="only this; repeatable")
def bench(parts: Sequence[str], *, quick: bool, alone: bool) -> int:
    """How fast the checks are, beside Porcupine."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # children inherit it
    with tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder:
        chosen = Options(quick, alone, Path(folder))
        try:
            if not alone:
                baseline.build()
            print(timing.form(), end="\n\n", flush=True)
            for name in parts or PARTS:
                for line in PARTS[name](chosen):
                    print(line, flush=True)
                print(flush=True)
        except baseline.PorcupineUnavailable as error:
            print(f"{error}\n(--alone measures without it)", file=sys.stderr)
            return 2
        except WrongResult as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(status_of(bench, "python -m checkers.bench"))
