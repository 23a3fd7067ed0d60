"""Makes a run's certificate from what is stored, and writes it into the run's folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

from results.certificate import certificate_page, serialize, trials
from results.certificate.certify import Certificate, certify, sentence
from results.certificate.serialize import DERIVED
from results.run import Run
from results.stages import ALONE, BASELINE, CANDIDATE, STAGES
from results.storage import files, resumable, summary
from results.storage.codec import decoded
from results.storage.files import BadFile


class _Requested(TypedDict, total=False):
    """What was asked for. Runs from before rolling upgrades have no parts."""

    stages: Mapping[str, Mapping[str, str]]
    parts: tuple[str, ...]
    interruptions: tuple[Mapping[str, Any], ...]


def issue(run: Run) -> tuple[Certificate, Path]:
    """Make and store a run's certificate, on its page too. Returns it and the path of its own page. Raises BadFile."""
    run.complete_trials()
    certificate, stored = made(run)
    page = write(run, certificate, stored)
    run.add({summary.CERTIFICATE: sentence(certificate)})
    return certificate, page


def write(run: Run, certificate: Certificate, stored: Mapping[str, Any]) -> Path:
    """Write a certificate and the files that are derived from it. Returns the path of its page. Raises BadFile."""
    files.write_bytes(run.path / files.CERTIFICATE, serialize.canonical(stored))
    for name, render in DERIVED.items():
        files.write_bytes(run.path / name, render(stored))
    page = run.path / files.CERTIFICATE_PAGE
    files.write_text(page, certificate_page.render(certificate, stored, run.path))
    return page


def made(run: Run, came: Mapping[str, Any] | None = None) -> tuple[Certificate, dict[str, Any]]:
    """The certificate of a run, and the content of certificate.json. Raises BadFile, also if the run tried no upgrade.

    came: how the run ended, if it is about to be closed; else that is read from its summary.
    """
    about = run.about()
    requested = decoded(about, _Requested, run.path / "run.json")
    try:
        old, new = requested["stages"][BASELINE], requested["stages"][CANDIDATE]
        upgrades = {backend: (version, new[backend]) for backend, version in old.items()}
    except KeyError as error:
        raise BadFile(f"{run.path}: no upgrade was tried (pytest suites/ --from ... --to ...)") from error
    problems: list[str] = []
    contents, tried = run.read(), trials.load(run.path, problems)
    # A judgement whose history cannot be read has no evidence.
    contents = replace(contents, problems=tuple(dict.fromkeys((*contents.problems, *problems))))
    if came is None and (run.path / summary.NAME).exists():
        came = summary.load_head(run.path).about
    parts = [stage for stage in STAGES if stage in requested.get("parts", ALONE)]
    certificate = certify(contents, upgrades, _cut_short(came), parts=parts, trials=tried)
    return certificate, serialize.to_json(certificate, contents, tried, run.path, about)


def _cut_short(came: Mapping[str, Any] | None) -> str:
    """Why there is less than was asked for, or empty. came: how the run ended; None: it was not closed."""
    if came is None:
        return "the run did not come to its end"
    if came.get("interrupted"):
        return "the run was interrupted"
    if missing := came.get("missing shards"):
        return f"shards are missing: {', '.join(map(str, missing))}"
    return "" if came.get("exit status", 0) in resumable.ENDED else "the run did not come to its end"
