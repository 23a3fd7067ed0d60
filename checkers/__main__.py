"""Judge histories, without Docker and without the suite: ``python -m checkers FILE... [--model NAME]``.

A history from elsewhere is judged under a model: one of ours, or a class of the user's. A recording of the suite may
be, too; without ``--model`` it is judged again under the properties that it was made for. Formats are found by content.

Exit status: 0 valid, 1 invalid, 2 usage or bad input, 3 unknown; over several files 1 beats 2 beats 3 beats 0.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from math import isfinite, nan
from pathlib import Path
from typing import Final

from checkers.command.exit_status import BAD, to_the_end
from checkers.command.file_result import FileResult
from checkers.engines.kernel import slowed
from checkers.history.history import BadHistory
from checkers.models.all_models import MODELS

VALID: Final = 0
INVALID: Final = 1
BAD_INPUT: Final = BAD
UNKNOWN: Final = 3
_WEIGHTS: Final = (INVALID, BAD_INPUT, UNKNOWN, VALID)
_STATUSES: Final[Mapping[bool | None, int]] = {True: VALID, False: INVALID, None: UNKNOWN}

RECORDINGS: Final = ".arrow"
STORES: Final = tuple(f"fence-{what}{strict}" for what in ("writes", "reads-and-writes") for strict in ("", "-strict"))
SUFFIXES: Final = (RECORDINGS, ".jsonl", ".edn", ".txt", ".log")
"""Of a folder these files are judged; without ``--model`` only recordings."""

FASTER: Final = (
    "fencepost: checked in plain Python; pip install 'fencepost[fast]' compiles the checks, "
    "which makes them 3 to 4 times as fast on a million operations"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status; a wrong option ends the process with 2."""
    parser = _parser()
    options = parser.parse_args(arguments)
    _validate(parser, options)
    statuses: list[int] = []
    suffixes = SUFFIXES if options.model else (RECORDINGS,)
    for path in options.paths:
        within = sorted(file for file in path.rglob("*") if file.suffix in suffixes) if path.is_dir() else [path]
        statuses += [_judge(file, options) for file in within]
        if not within:
            statuses.append(_complain(path, options, f"{path}: no history ({', '.join(suffixes)}) in this folder"))
    if slowed():
        print(FASTER, file=sys.stderr)
    return min(statuses, key=_WEIGHTS.index)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m checkers",
        description="Judge histories of locks and data: under a model, or recordings under their properties.",
        epilog=f"models: {', '.join(MODELS)}, or a class of your own: package.module:Class. "
        "Exit status: 0 valid, 1 invalid, 2 usage or bad input, 3 unknown; 1 beats 2 beats 3 beats 0.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    positive = _number("number above 0", lambda value: isfinite(value) and value > 0)
    fraction = _number("number from 0 to less than 1", lambda value: 0 <= value < 1)
    count = _number("whole number above 0", lambda value: value >= 1 and value.is_integer())
    add("paths", nargs="+", type=Path, metavar="FILE", help="a history in any format, or a folder with histories")
    add("--model", metavar="NAME", help="what the history must obey (see below)")
    add("--initial", metavar="VALUE", help="the value before everything, as JSON or EDN (default: nil, nothing, 0)")
    add("--json", action="store_true", help="print one JSON object a line and file")
    add("--budget", type=positive, metavar="S", help="seconds after which a file is given up as unknown")
    add("--permits", type=count, metavar="N", help="how many may hold a semaphore at once (default: 1)")
    add("--ttl", type=positive, metavar="S", help="seconds that a lease lasts, where its grants do not say it")
    add("--drift", type=fraction, metavar="R", help="how much too fast the server's clock may run, such as 0.01")
    add("--failed-cas", choices=("observes", "ignored"), help="whether a failed compare-and-set saw another value")
    add("--nil-read", choices=("value", "unknown"), help="whether a read of nil saw nil, or nobody knows what")
    add("--store", choices=STORES, metavar="RULE", help=f"of a fenced store: {', '.join(STORES)} (default: the first)")
    add("--strict-try", action="store_true", help="a failed try-acquire proves that somebody held")
    add("--explain", action="store_true", help="every violation, the operations of a witness, and what else there is")
    add("--property", dest="properties", action="append", metavar="NAME", help="of a recording only this; repeatable")
    return parser


def _number(wanted: str, accepts: Callable[[float], bool]) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = nan  # which is in no range
        if not accepts(value):
            raise argparse.ArgumentTypeError(f"{text!r} is no {wanted}")
        return value

    return read


def _validate(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends the process where the options make no sense."""
    if options.properties:
        from checkers.properties.all_properties import PROPERTIES

        for name in options.properties:
            if name not in PROPERTIES:
                parser.error(f"argument --property: {name} is none of {', '.join(PROPERTIES)}")
        if options.model:
            parser.error("argument --property: a model is asked for already")
    if options.model:
        from checkers.models.user_model import ModelError, specification

        try:
            specification(options.model)
        except ModelError as error:
            parser.error(f"argument --model: {error}")


def _judge(file: Path, options: argparse.Namespace) -> int:
    begun = time.monotonic()
    try:
        result = _result(file, options)
    except BadHistory as error:
        return _complain(file, options, str(error))
    except OSError as error:
        return _complain(file, options, f"{file}: {error.strerror or error}")
    except MemoryError:
        return _complain(file, options, f"{file}: more than this machine's memory holds")
    if options.json:
        _print_json(file, result, time.monotonic() - begun)
    else:
        print(*result.lines, sep="\n")
    return _STATUSES[result.valid]


def _result(file: Path, options: argparse.Namespace) -> FileResult:
    """Raises BadHistory, OSError or MemoryError."""
    from checkers.formats.formats import Family, load_with_defaults

    loaded = load_with_defaults(file)
    if options.model:
        from checkers.command import judge_file

        return judge_file.result(file, loaded, options)
    if loaded.family == Family.RECORDED and loaded.history.facts.trial:
        from checkers.command import recording

        return recording.result(file, loaded.history, options.properties, explain=options.explain)
    raise BadHistory(f"{file}: --model is missing, one of {', '.join(MODELS)}, or package.module:Class")


def _complain(file: Path, options: argparse.Namespace, line: str) -> int:
    line = " ".join(line.splitlines())  # a file's name may have several
    print(line, file=sys.stderr)
    if options.json:
        _print_json(file, FileResult(None, options.model or "", -1, (), reason=line), None)
    return BAD_INPUT


def _print_json(file: Path, result: FileResult, seconds: float | None) -> None:
    """seconds: None where nothing could be judged."""
    judged = seconds is not None
    answer = {
        "file": str(file),
        "valid": "unknown" if result.valid is None and judged else result.valid,
        "model": result.model or None,
        "operations": result.operations if judged else None,
        "seconds": None if seconds is None else round(seconds, 6),
        "witness": result.witness,
        "reason": result.reason or None,
        **result.more,
    }
    print(json.dumps(answer, default=str))


if __name__ == "__main__":
    to_the_end(main)
