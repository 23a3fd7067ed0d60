"""`python -m results verify certificate.json`: whether it was not changed, and its run's histories say what it says.

Exit status: that of the certificate, 0 no regression, 1 a regression, 5 inconclusive; 4 where its evidence does not
bear it out, whatever it says; 2 bad usage or input.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from checkers.history import BadHistory
from results import files, shape, verdicts
from results.certificate import written
from results.certificate.certificate import STATUS, sentence
from results.certificate.issue import DERIVED, made
from results.files import BadFile
from results.find import parser
from results.run import Run
from results.shape import Damaged, field
from results.summary import CERTIFICATE_PAGE
from results.terminal.plain import plain

NOT_BORNE_OUT: Final = 4


def main(arguments: Sequence[str]) -> int:
    """Whether the file was not changed, its evidence was not changed, and says today what it said."""
    parsed = parser("verify", "Check a certificate's digests, judge its histories again, and derive its verdict anew.")
    parsed.add_argument("file", metavar="FILE", type=Path, help="certificate.json in its run's folder, or that folder")
    file: Path = parsed.parse_args(arguments).file
    if file.is_dir():
        file /= written.NAME
    if not file.exists():
        raise BadFile(f"{file}: there is no such file")
    if file.name == CERTIFICATE_PAGE:
        raise BadFile(f"{file}: the sheet is for reading; what can be verified is {written.NAME} beside it")
    stored = _read(file)
    run = Run.open(file.resolve().parent)
    now, again = made(run)
    if again["run"] != stored.get("run"):
        print(plain(f"its run was {stored.get('run')}, and is in a folder of another name now: {again['run']}"))
        again["run"] = stored.get("run")  # nothing follows from what the folder is called
    wrong = list(_mismatches(stored, again, run))
    for line in wrong:
        print(plain(f"results: {file}: {line}"), file=sys.stderr)
    if wrong:
        return NOT_BORNE_OUT
    print(plain(f"verified: {sentence(now)}"))
    return STATUS[now.verdict]


def _read(file: Path) -> Mapping[str, Any]:
    """Raises BadFile."""
    try:
        told = shape.table(json.loads(files.read_bytes(files.plain(file))))
        if field(told, "format", shape.whole) not in (1, written.FORMAT):
            raise BadFile(f"{file}: format {told['format']} is not known; this version reads 1 and {written.FORMAT}")
        field(told, "run", shape.text)
        field(told, "sentence", shape.text)
        field(told, "digest", shape.text)
        field(told, "evidence", shape.named(shape.text))
    except (ValueError, RecursionError, Damaged) as error:
        raise BadFile(f"{file}: no certificate, or a damaged one ({error})") from error
    return told


def _mismatches(stored: Mapping[str, Any], again: Mapping[str, Any], run: Run) -> Iterator[str]:
    """again: what the run says today."""
    if written.digest(stored) != stored["digest"]:
        yield "it was changed: its digest is another"
    there, same = again["evidence"], True
    for name in sorted(there.keys() | stored["evidence"].keys()):
        same = same and there.get(name) == stored["evidence"].get(name)
        if name not in there:
            yield f"{name} is missing"
        elif name not in stored["evidence"]:
            yield f"{name} was added"
        elif there[name] != stored["evidence"][name]:
            yield f"{name} was changed"
    yield from _not_of_the_histories(run)
    older = stored["format"] != written.FORMAT
    if older and (newer := sorted(written.SINCE_2 & stored.keys())):
        yield f"its format is 1, which has no {', '.join(newer)}"
    names = written.SAME_SINCE_1 if older else sorted(again.keys() | stored.keys())
    other = [name for name in names if name not in ("digest", "evidence") and again.get(name) != stored.get(name)]
    if other:
        yield f"{', '.join(other)} {'is' if len(other) == 1 else 'are'} not what the run says"
    if same and not other and not older:  # else what follows is another as well, and nobody touched it
        yield from _derived_otherwise(stored, run)


def _derived_otherwise(stored: Mapping[str, Any], run: Run) -> Iterator[str]:
    """What stands beside the certificate and follows from it."""
    for name, render in DERIVED.items():
        try:
            if files.read_bytes(run.path / name) != render(stored):
                yield f"{name} is not what the certificate says"
        except BadFile as error:
            yield str(error).removeprefix(f"{run.path}/")


def _not_of_the_histories(run: Run) -> Iterator[str]:
    """What trials say of their histories and these do not: judgements, measures, stories, which lock it was."""
    problems: list[str] = []
    for folder in files.entries(run.path / "trials", problems):
        try:
            yield from (f"{folder.name}  {line}" for line in verdicts.otherwise(folder))
        except (BadFile, BadHistory) as error:
            yield str(error).removeprefix(f"{run.path}/")
    yield from problems
