"""Judge histories again, without Docker and without the suite: ``python -m checkers FILE...``.

Exit status: 0 valid, 1 invalid, 2 usage or bad input, 3 unknown; over several files 1 beats 2 beats 3 beats 0.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from checkers.check import PROPERTIES, check
from checkers.history import BadHistory, History, load
from checkers.judgement import judge
from checkers.verdict import Verdict

VALID: Final = 0
INVALID: Final = 1
BAD_INPUT: Final = 2
UNKNOWN: Final = 3
_WEIGHTS: Final = (INVALID, BAD_INPUT, UNKNOWN, VALID)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status; a wrong option ends the process with 2."""
    options = _parser().parse_args(arguments)
    statuses = [VALID]
    answers: list[dict[str, Any]] = []
    for path in options.paths:
        files = sorted(path.rglob("*.arrow")) if path.is_dir() else [path]
        if not files:
            statuses.append(_complain(f"{path}: no history (.arrow) in this folder"))
        statuses += [_judge_one(file, options, answers) for file in files]
    if options.json:
        print(json.dumps(answers, indent=2))
    return min(statuses, key=_WEIGHTS.index)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m checkers",
        description="Judge recorded histories again.",
        epilog="exit status: 0 valid, 1 invalid, 2 usage or bad input, 3 unknown; 1 beats 2 beats 3 beats 0",
        allow_abbrev=False,
    )
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="FILE", help="a history (.arrow), or a folder with histories"
    )
    parser.add_argument(
        "--property",
        dest="properties",
        action="append",
        choices=tuple(PROPERTIES),
        metavar="NAME",
        help=f"judge only this, repeatable: {', '.join(PROPERTIES)}",
    )
    parser.add_argument("--explain", action="store_true", help="tell the story of every violation")
    parser.add_argument("--json", action="store_true", help="print everything as one JSON document")
    return parser


def _judge_one(file: Path, options: argparse.Namespace, answers: list[dict[str, Any]]) -> int:
    try:
        history = load(file)
        unknown = [name for name in history.facts.properties if name not in PROPERTIES]
        if unknown and not options.properties:
            raise BadHistory(f"{file}: names a property that this version does not know: {', '.join(unknown)}")
    except (BadHistory, OSError) as error:
        return _complain(str(error) if isinstance(error, BadHistory) else f"{file}: {error.strerror or error}")
    verdicts = check(history, options.properties)
    if options.json:
        answers.append(_as_json(file, history, verdicts))
    else:
        _print(file, history, verdicts, explain=options.explain)
    if any(verdict.valid is False for verdict in verdicts):
        return INVALID
    return UNKNOWN if any(verdict.valid is None for verdict in verdicts) else VALID


def _print(file: Path, history: History, verdicts: Sequence[Verdict], *, explain: bool) -> None:
    facts = history.facts
    print(f"{file}: {facts.lane} under {', '.join(facts.fault_names) or 'no fault'}, {len(history)} operations")
    for verdict in verdicts:
        judgement = judge(verdict, history)
        print(f"  {verdict.property:<18} {_in_short(verdict):<28} {judgement.word}: {judgement.because}")
        stories = verdict.violations if explain else verdict.violations[:1]
        for violation in stories:
            print(*(f"      {sentence}" for sentence in violation.story), sep="\n")
        if len(stories) < len(verdict.violations):
            print(f"      and {len(verdict.violations) - len(stories)} more (--explain)")


def _in_short(verdict: Verdict) -> str:
    if verdict.violations:
        return f"invalid ({len(verdict.violations)})"
    if verdict.valid is None:
        return "unknown"
    return "valid" if verdict.unexercised is None else "valid, unexercised"


def _as_json(file: Path, history: History, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    told = []
    for verdict in verdicts:
        judgement = judge(verdict, history)
        told.append({**asdict(verdict), "word": judgement.word, "because": judgement.because})
    return {
        "file": str(file),
        "lane": history.facts.lane,
        "faults": history.facts.fault_names,
        "operations": len(history),
        "verdicts": told,
    }


def _complain(line: str) -> int:
    print(line, file=sys.stderr)
    return BAD_INPUT


if __name__ == "__main__":
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us has seen enough; nothing more can be said, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = BAD_INPUT
    sys.exit(status)
