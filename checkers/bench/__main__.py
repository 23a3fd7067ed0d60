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
from pathlib import Path
from typing import Final, NamedTuple

import click

from checkers.bench import baseline, cases, generate, timing
from checkers.bench.cases import BenchCase
from checkers.bench.generate import HistoryShape
from checkers.command.exit_status import status_of
from checkers.formats.formats import load_any
from checkers.history.history import History, save

SPEND: Final = 10.0
"""Seconds of CPU time after which Porcupine is not asked again."""


class WrongResult(Exception):
    """A result is not what the history was made to be."""


class Options(NamedTuple):
    """alone: without Porcupine."""

    quick: bool
    alone: bool
    folder: Path


def large(options: Options) -> Iterator[str]:
    """Large histories."""
    yield _head("model | operations | processes | keys | history | ours (s) | Porcupine (s) | its memory | ratio")
    for case in cases.large(quick=options.quick):
        yield _row(_beside(case, options), case, case.shape.processes, case.shape.keys, _word(case.shape))


def unanswered(options: Options) -> Iterator[str]:
    """Bad histories of one key, with operations that were never answered."""
    yield _head("model | operations | unanswered | ours (s) | Porcupine (s) | its memory | ratio")
    for case in cases.unanswered():
        yield _row(_beside(case, options), case, case.shape.unknown)


def alone(options: Options) -> Iterator[str]:
    """What Porcupine has no model for."""
    yield _head("model | operations | unanswered | history | ours (s)")
    for case in cases.alone(quick=options.quick):
        history = generate.GENERATORS[case.model](case.shape)
        ours = _ours(case, history)
        yield f"| {case.model} | {len(history):,} | {case.shape.unknown:,} | {_word(case.shape)} | {ours:.4f} |"


def logs(options: Options) -> Iterator[str]:
    """The logs of etcd under Jepsen in Porcupine's module, all of them in one go."""
    histories = [load_any(path) for path in baseline.logs()]
    ours = timing.check("cas-register", histories)
    operations = sum(map(len, histories))
    yield _head("logs | operations | valid | ours (s) | Porcupine (s) | ratio")
    cells = f"| {len(histories)} | {operations:,} | {ours.valid.count(True)} | {ours.seconds:.4f}"
    if options.alone:
        yield f"{cells} | | |"
        return
    theirs = baseline.check(_packed("cas-register", histories, options.folder), runs=timing.RUNS, spend=SPEND)
    if theirs.valid != ours.valid:
        raise WrongResult(f"of logs: ours {ours.valid}, Porcupine {theirs.valid}")
    seconds = statistics.median(theirs.seconds)
    yield f"{cells} | {seconds:.3f} | {seconds / ours.seconds:.0f} × |"


def command(options: Options) -> Iterator[str]:
    """The command line in a new process, and memory."""
    yield _head("model | operations | history | clock (s) | CPU (s) | bytes an operation beyond the columns")
    for model in generate.GENERATORS:
        for bad in (False, True):
            shape = HistoryShape(20_000 if options.quick else 1_000_000, 10, 1_000, bad=bad)
            history = generate.GENERATORS[model](shape)
            path = options.folder / "history.arrow"
            save(history, path)
            _ours(BenchCase(model, shape), history)  # compiles, where that was never done
            cold = timing.command(path, model)
            memory = timing.memory(path, model) / len(history)
            cells = f"{cold.clock:.2f} | {cold.cpu:.2f} | {memory:.0f}"
            yield f"| {model} | {len(history):,} | {_word(shape)} | {cells} |"


def text(options: Options) -> Iterator[str]:
    """Text formats, from the file to columns."""
    yield _head("format | events | megabytes | seconds | events a second")
    history = generate.cas_register(HistoryShape(20_000 if options.quick else 500_000, 10, 100))
    for name, written in cases.FORMATS.items():
        path = options.folder / name
        path.write_text("".join(written(history)))
        seconds = timing.median(lambda path=path: load_any(path))  # type: ignore[misc]
        events = 2 * len(history)
        size = path.stat().st_size / 1e6
        yield f"| {name} | {events:,} | {size:.0f} | {seconds:.2f} | {events / seconds:,.0f} |"


PARTS: Final[Mapping[str, Callable[[Options], Iterator[str]]]] = {
    part.__name__: part for part in (large, unanswered, alone, logs, command, text)
}


def _head(columns: str) -> str:
    return f"| {columns} |\n{'|---' * len(columns.split(' | '))}|"


class _Pair(NamedTuple):
    """ours: seconds. theirs: None where Porcupine was not asked."""

    operations: int
    ours: float
    theirs: baseline.BaselineTiming | None


def _beside(case: BenchCase, options: Options) -> _Pair:
    """Both on one history, which is gone from memory when Porcupine's turn comes."""
    history = generate.GENERATORS[case.model](case.shape)
    operations = len(history)
    files = [] if options.alone else _packed(case.model, [history], options.folder)
    ours = _ours(case, history)
    del history
    if options.alone:
        return _Pair(operations, ours, None)
    theirs = baseline.check(files, runs=timing.RUNS, spend=SPEND)
    if not theirs.passed and theirs.valid != (not case.shape.bad,):
        raise WrongResult(f"{case}: Porcupine says {theirs.valid}")
    return _Pair(operations, ours, theirs)


def _ours(case: BenchCase, history: History) -> float:
    """Seconds. Raises WrongResult."""
    small = case.shape._replace(operations=4_000, keys=min(case.shape.keys, 20), unknown=min(case.shape.unknown, 10))
    timing.compile_for(case.model, generate.GENERATORS[case.model](small))
    ours = timing.check(case.model, [history])
    if ours.valid != (not case.shape.bad,):
        raise WrongResult(f"{case}: we say {ours.valid}")
    return ours.seconds


def _packed(model: str, histories: Sequence[History], folder: Path) -> list[Path]:
    files = [folder / f"{number}.packed" for number in range(len(histories))]
    for file, history in zip(files, histories, strict=True):
        file.write_bytes(baseline.packed(model, history))
    return files


def _row(pair: _Pair, case: BenchCase, *more: object) -> str:
    words = [case.model, f"{pair.operations:,}", *(f"{x:,}" if isinstance(x, int) else str(x) for x in more)]
    words.append(f"{pair.ours:.4f}")
    if pair.theirs is None:
        words += ["", "", ""]
    else:
        seconds = statistics.median(pair.theirs.seconds)
        more_than = "≥ " if pair.theirs.passed else ""
        stopped = " (stopped)" if pair.theirs.passed == "bytes" else ""
        words += [
            f"{more_than}{seconds:.3g}",
            f"{pair.theirs.peak / 1e9:.2f} GB{stopped}",
            f"{more_than}{seconds / pair.ours:,.0f} ×",
        ]
    return f"| {' | '.join(words)} |"


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
