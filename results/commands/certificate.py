"""`python -m results certificate RUN` makes a certificate again from what is stored; `verify` checks that a
certificate was not changed, and that its histories support it.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypedDict

from results.certificate import certificate_files
from results.certificate.certify import STATUS, sentence
from results.commands.find import find
from results.record import mapping
from results.run import Run
from results.storage import files, verdicts
from results.storage.codec import decoded
from results.storage.files import BadFile
from results.terminal.output import say, warn
from results.text import command_line, typed

NOT_BORNE_OUT: Final = 4


def main(results: Path, run: str) -> int:
    """Make a certificate again. Prints what the replaced one said, if the two differ. Returns the exit status."""
    certified = find(run, results)
    file = certified.path / files.CERTIFICATE
    before = b""
    with suppress(BadFile):
        before = files.read_bytes(file)
    certificate, page = certificate_files.issue(certified)
    verdict = sentence(certificate)
    say(verdict, *(f"  {words}" for words in (*certificate.doubts, *certificate.warnings)))
    say(f"certificate: {typed(page)}")
    if before and before != files.read_bytes(file):
        earlier = "(damaged)"
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            earlier = str(json.loads(before)["sentence"])
        say(f"it takes the place of another, which said: {'the same' if earlier == verdict else earlier}")
    return STATUS[certificate.decision]


def verify(results: Path, run: str) -> int:
    """Check the file, its evidence, and that today's checkers derive the same from it. Returns the exit status."""
    file = Path(run)
    if not file.exists():
        file = find(run, results).path
    file = file / files.CERTIFICATE if file.is_dir() else file
    if not file.exists():
        raise BadFile(f"{file}: there is no such file")
    if file.name == files.CERTIFICATE_PAGE:
        raise BadFile(f"{file}: the sheet is for reading; what can be verified is {files.CERTIFICATE} beside it")
    stored, judged = _read(file), Run(file.resolve().parent)
    if judged.path.name != stored["run"]:
        say(f"its run was {stored['run']}, and is in a folder of another name now: {judged.path.name}")
    try:
        now, again = certificate_files.made(judged)
        wrong = list(_mismatches(file, stored, again, judged))
        if not wrong:
            say(f"verified: {sentence(now)}", f"digest: {stored['digest']}")
            return STATUS[now.decision]
    except BadFile as error:  # evidence is missing or damaged
        wrong = [str(error).removeprefix(f"{judged.path}/")]
    suite = mapping(stored.get("conditions")).get("suite")
    # Another version may judge or word it differently.
    by = f"; it was made by fencepost {suite}, and can be verified by that version only" if suite else ""
    warn(*(f"{file}: {line}" for line in (*wrong, f"not borne out{by}")))
    return NOT_BORNE_OUT


class _Certificate(TypedDict):
    """The keys that every format of a certificate has."""

    format: int
    run: str
    sentence: str
    digest: str
    evidence: Mapping[str, str]


def _read(file: Path) -> dict[str, Any]:
    """The content of a certificate of the current format. Raises BadFile."""
    stored = files.read_json(file, formats=None)
    number = decoded(stored, _Certificate, file)["format"]
    if number != certificate_files.FORMAT:
        again = f"make it again: {command_line('results', 'certificate', 'RUN')}"
        raise BadFile(f"{file}: format {number}, this version verifies {certificate_files.FORMAT}; {again}")
    return stored


def _mismatches(file: Path, stored: Mapping[str, Any], again: Mapping[str, Any], run: Run) -> Iterator[str]:
    """A line for each difference. again: the certificate that follows from the run today."""
    if files.read_bytes(file) != certificate_files.canonical(stored):
        yield "it was changed: it is not written as one is"
    if certificate_files.digest(stored) != stored["digest"]:
        yield "it was changed: its digest is another"
    there, then = again["evidence"], stored["evidence"]
    for name in sorted(there.keys() | then.keys()):
        if name not in there:
            yield f"{name} is missing"
        elif name not in then:
            yield f"{name} was added"
        elif there[name] != then[name]:
            yield f"{name} was changed"
    for folder in files.entries(run.path / "trials", []):
        with suppress(BadFile):  # a damaged trial is a doubt of the certificate, and doubts are compared
            yield from (f"{folder.name}  {line}" for line in verdicts.otherwise(folder))
    names = sorted((again.keys() | stored.keys()) - {"digest", "evidence", "run"})  # the name of the run may differ
    other = [name for name in names if _canonical(again, name) != _canonical(stored, name)]
    if other:
        yield f"{', '.join(other)} {'is' if len(other) == 1 else 'are'} not what the run says"
    if there == then and not other:  # otherwise these files differ although nobody changed them
        for name, render in certificate_files.DERIVED.items():
            try:
                if files.read_bytes(run.path / name) != render(stored):
                    yield f"{name} is not what the certificate says"
            except BadFile as error:
                yield str(error).removeprefix(f"{run.path}/")


def _canonical(fields: Mapping[str, Any], name: str) -> bytes | None:
    """The bytes of one key: 1 differs from 1.0 and true. None: the key is missing."""
    return certificate_files.canonical({name: fields[name]}) if name in fields else None
