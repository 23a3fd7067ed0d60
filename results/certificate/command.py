"""`python -m results certificate RUN`, `python -m results verify certificate.json`.

Exit status: 0 no regression, and verified; 1 a regression, or a certificate that its evidence does not bear out; 2 bad
usage or input; 3 inconclusive.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkers.history import BadHistory
from results import files, rejudge, shape
from results.certificate import written
from results.certificate.certificate import STATUS, sentence
from results.certificate.issue import DERIVED, issue, made
from results.files import BadFile
from results.find import NAMING, find, parser
from results.run import Run, load_trial
from results.shape import Damaged, field
from results.terminal.plain import plain


def certificate(arguments: Sequence[str]) -> int:
    """Make it again from what is stored."""
    parsed = parser("certificate", "May we go from this version to that one? What a run with --from and --to says.")
    parsed.add_argument("run", metavar="RUN", help=NAMING)
    options = parsed.parse_args(arguments)
    certificate, page = issue(find(options.run, options.results))
    print(plain(sentence(certificate)))
    for doubt in certificate.doubts:
        print(plain(f"  {doubt}"))
    for words in certificate.warnings:
        print(plain(f"  {words}"))
    print(plain(f"certificate: {files.typed(page)}"))
    return STATUS[certificate.verdict]


def verify(arguments: Sequence[str]) -> int:
    """Whether the file was not changed, its evidence was not changed, and says today what it said."""
    parsed = parser("verify", "Check a certificate's digests, judge its histories again, and derive its verdict anew.")
    parsed.add_argument("file", metavar="FILE", type=Path, help="certificate.json in its run's folder, or that folder")
    file: Path = parsed.parse_args(arguments).file
    if file.is_dir():
        file /= written.NAME
    if not file.exists():
        raise BadFile(f"{file}: there is no such file")
    run = Run.open(file.resolve().parent)
    stored = _read(file)
    now, again = made(run)
    wrong = list(_mismatches(stored, again, run))
    for line in wrong:
        print(plain(f"results: {file}: {line}"), file=sys.stderr)
    if wrong:
        return 1
    print(plain(f"verified: {sentence(now)}"))
    return STATUS[now.verdict]


def _read(file: Path) -> Mapping[str, Any]:
    """Raises BadFile."""
    try:
        told = shape.table(json.loads(files.read_bytes(files.plain(file))))
        if field(told, "format", shape.whole) not in (1, written.FORMAT):
            raise BadFile(f"{file}: format {told['format']} is not known; this version reads 1 and {written.FORMAT}")
        field(told, "sentence", shape.text)
        field(told, "digest", shape.text)
        field(told, "evidence", shape.named(shape.text))
    except (ValueError, RecursionError, Damaged) as error:
        raise BadFile(f"{file}: damaged ({error})") from error
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
    yield from _judged_otherwise(run)
    older = stored["format"] != written.FORMAT
    if older and (newer := sorted(written.SINCE_2 & stored.keys())):
        yield f"its format is 1, which has no {', '.join(newer)}"
    names = written.SAME_SINCE_1 if older else sorted(again.keys() | stored.keys())
    other = [name for name in names if name not in ("digest", "evidence") and again.get(name) != stored.get(name)]
    if other:
        yield f"{', '.join(other)} {'is' if len(other) == 1 else 'are'} not what the run says"
    if same and not other and not older:  # else what follows is another as well, and nobody touched it
        yield from _derived_otherwise(again, run)


def _derived_otherwise(again: Mapping[str, Any], run: Run) -> Iterator[str]:
    """What stands beside the certificate and follows from it."""
    for name, render in DERIVED.items():
        try:
            if files.read_bytes(run.path / name) != render(again):
                yield f"{name} is not what the certificate says"
        except BadFile as error:
            yield str(error).removeprefix(f"{run.path}/")


def _judged_otherwise(run: Run) -> Iterator[str]:
    problems: list[str] = []
    for folder in files.entries(run.path / "trials", problems):
        try:
            for lane in load_trial(folder).lanes:
                yield from (f"{folder.name}  {line}" for line in rejudge.differences(lane))
        except (BadFile, BadHistory) as error:
            yield str(error).removeprefix(f"{run.path}/")
    yield from problems
