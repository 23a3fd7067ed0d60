"""Judge histories, without Docker and without the suite: ``python -m checkers FILE... [--model NAME]``.

A history from elsewhere is judged under a model: one of ours, or a class of the user's. A recording of the suite may
be, too; without ``--model`` it is judged again under the properties that it was made for. Formats are found by content.

Exit status: 0 valid, 1 invalid, 2 usage or bad input, 3 unknown; over several files 1 beats 2 beats 3 beats 0.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from json import dumps
from math import isfinite
from pathlib import Path
from typing import Any, Final

import click
from click import option

from checkers.command.exit_status import BAD, status_of, to_the_end
from checkers.command.file_result import FileResult
from checkers.engines.kernel import slowed
from checkers.history.history import BadHistory
from checkers.models.all_models import MODELS
from checkers.models.stores import RULES

_STATUSES: Final[Mapping[bool | None, int]] = {True: 0, False: 1, None: 3}
_WEIGHTS: Final = (1, BAD, 3, 0)  # statuses, the one that counts most first

RECORDINGS: Final = ".arrow"
SUFFIXES: Final = (RECORDINGS, ".jsonl", ".edn", ".txt", ".log")
"""The files of a folder that are judged; without ``--model`` only recordings."""

FASTER: Final = (
    "fencepost: checked in plain Python; pip install 'fencepost[fast]' compiles the checks, "
    "which makes them 3 to 4 times as fast on a million operations"
)


class _Finite(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        return number if isfinite(number) else self.fail(f"{value!r} is not finite", param, ctx)


_SECONDS: Final = _Finite(min=0, min_open=True)


@click.command(
    epilog=f"models: {', '.join(MODELS)}, or a class of your own: file.py:Class or package.module:Class. "
    "Exit status: 0 valid, 1 invalid, 2 usage or bad input, 3 unknown; 1 beats 2 beats 3 beats 0.",
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@option("--model", metavar="NAME", help="what the history must obey (see below)")
@option("--initial", metavar="VALUE", help="the value before everything, as JSON or EDN (default: nil, nothing, 0)")
@option("--json", is_flag=True, help="print one JSON object a line and file")
@option("--budget", type=_SECONDS, metavar="S", help="seconds after which a file is given up as unknown")
@option("--permits", type=click.IntRange(1), metavar="N", help="how many may hold a semaphore at once (default: 1)")
@option("--ttl", type=_SECONDS, metavar="S", help="seconds that a lease lasts, where its grants do not say it")
@option("--drift", type=_Finite(0, 1, max_open=True), help="how much too fast the server's clock may run: 0.01")
@option("--failed-cas", type=click.Choice(["observes", "ignored"]), help="did a failed compare-and-set see a value?")
@option("--nil-read", type=click.Choice(["value", "unknown"]), help="did a read of nil see nil, or nobody knows what?")
@option("--store", type=click.Choice([*RULES]), help="the rule of a fenced store (default: the first)")
@option("--strict-try", flag_value=True, default=None, help="a failed try-acquire proves that somebody held")
@option("--explain", is_flag=True, help="every violation, the operations of a witness, and what else there is")
@option("--property", "properties", multiple=True, metavar="NAME", help="of a recording; repeatable")
def judge(paths: Sequence[Path], **options: Any) -> int:
    """Judge histories of locks and data: under a model, or recordings under their properties.

    FILE is a history in any format, or a folder with histories.
    """
    _validate(options)
    statuses: list[int] = []
    suffixes = SUFFIXES if options["model"] else (RECORDINGS,)
    for path in paths:
        within = sorted(file for file in path.rglob("*") if file.suffix in suffixes) if path.is_dir() else [path]
        statuses += [_judge(file, options) for file in within]
        if not within:
            statuses.append(_complain(path, options, f"{path}: no history ({', '.join(suffixes)}) in this folder"))
    if slowed():
        print(FASTER, file=sys.stderr)
    return min(statuses, key=_WEIGHTS.index)


def _validate(options: Mapping[str, Any]) -> None:
    """Raises click.UsageError where the options make no sense."""
    if options["properties"]:
        from checkers.properties.all_properties import PROPERTIES

        for name in options["properties"]:
            if name not in PROPERTIES:
                raise click.UsageError(f"--property: {name} is none of {', '.join(PROPERTIES)}")
        if options["model"]:
            raise click.UsageError("--property: a model is asked for already")
    if options["model"]:
        from checkers.models.user_model import ModelError, specification

        try:
            specification(options["model"])
        except ModelError as error:
            raise click.UsageError(f"--model: {error}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    return status_of(judge, "python -m checkers", arguments)


def _judge(file: Path, options: Mapping[str, Any]) -> int:
    begun = time.monotonic()
    try:
        result = _result(file, options)
    except BadHistory as error:
        return _complain(file, options, str(error))
    except OSError as error:
        return _complain(file, options, f"{file}: {error.strerror or error}")
    except MemoryError:
        return _complain(file, options, f"{file}: more than this machine's memory holds")
    if options["json"]:
        _print_json(file, result, time.monotonic() - begun)
    else:
        print(*result.lines, sep="\n")
    return _STATUSES[result.valid]


def _result(file: Path, options: Mapping[str, Any]) -> FileResult:
    """Raises BadHistory, OSError or MemoryError."""
    from checkers.formats.formats import Family, load_with_defaults

    loaded = load_with_defaults(file)
    if options["model"]:
        from checkers.command import judge_file

        return judge_file.result(file, loaded, options)
    if loaded.family == Family.RECORDED and loaded.history.facts.trial:
        from checkers.command import recording

        return recording.result(file, loaded.history, options["properties"], explain=options["explain"])
    raise BadHistory(f"{file}: --model is missing, one of {', '.join(MODELS)}, file.py:Class or package.module:Class")


def _complain(file: Path, options: Mapping[str, Any], line: str) -> int:
    line = " ".join(line.splitlines())  # a file's name may have several lines
    print(line, file=sys.stderr)
    if options["json"]:
        _print_json(file, FileResult(None, options["model"] or "", -1, (), reason=line), None)
    return BAD


def _print_json(file: Path, result: FileResult, seconds: float | None) -> None:
    """seconds: None if nothing could be judged."""
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
    print(dumps(answer, default=str))


if __name__ == "__main__":
    to_the_end(main)
