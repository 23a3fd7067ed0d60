"""`python -m results certificate RUN`: make the certificate again from what is stored.

Exit status: 0 no regression, 1 a regression, 5 inconclusive; 2 bad usage or input.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from results.certificate.certify import STATUS, sentence
from results.certificate.write_certificate import issue
from results.commands.find import NAMING, find, parser
from results.storage import files
from results.storage.files import BadFile
from results.terminal.output import say
from results.text import typed


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status. Prints what the replaced certificate said, if that was another."""
    parsed = parser("certificate", "May we go from this version to that one? What a run with --from and --to says.")
    parsed.add_argument("run", metavar="RUN", help=NAMING)
    options = parsed.parse_args(arguments)
    run = find(options.run, options.results)
    file = run.path / files.CERTIFICATE
    before = _bytes(file)
    certificate, page = issue(run)
    say(sentence(certificate))
    for doubt in certificate.doubts:
        say(f"  {doubt}")
    for words in certificate.warnings:
        say(f"  {words}")
    say(f"certificate: {typed(page)}")
    if before and before != _bytes(file):
        earlier = _sentence(before)
        was = "the same" if earlier == sentence(certificate) else earlier
        say(f"it takes the place of another, which said: {was}")
    return STATUS[certificate.decision]


def _bytes(file: Path) -> bytes:
    """The content of a file; empty if there is none."""
    try:
        return files.read_bytes(file)
    except BadFile:
        return b""


def _sentence(stored: bytes) -> str:
    try:
        return str(json.loads(stored)["sentence"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return "(damaged)"
