"""A run's certificate: made from what is stored, and written beside the run's page."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypedDict

from results.certificate import attestation, certificate_page, junit, serialize, trials
from results.certificate.certify import Certificate, certify, sentence
from results.run import Run
from results.stages import ALONE, BASELINE, CANDIDATE, STAGES
from results.storage import files, resuming, summary
from results.storage.codec import decoded
from results.storage.files import BadFile

DERIVED: Final[Mapping[str, Callable[[Mapping[str, Any]], bytes]]] = {
    files.JUNIT: junit.render,
    files.ATTESTATION: attestation.render,
}
"""Files beside certificate.json that follow from it."""


class _Requested(TypedDict, total=False):
    """Of what was asked for. Runs from before rolling upgrades say nothing of parts."""

    stages: Mapping[str, Mapping[str, str]]
    parts: tuple[str, ...]
    interruptions: tuple[Mapping[str, Any], ...]


def issue(run: Run) -> tuple[Certificate, Path]:
    """Make the certificate of a run, beside its page, which tells of it then. Returns it with the path of its sheet.

    Raises BadFile.
    """
    run.complete_trials()
    certificate, stored = made(run)
    page = write(run, certificate, stored)
    run.add({summary.CERTIFICATE: sentence(certificate)})
    return certificate, page


def write(run: Run, certificate: Certificate, stored: Mapping[str, Any]) -> Path:
    """What was `made`, with all that follows from it. Returns the path of its sheet. Raises BadFile."""
    files.write_bytes(run.path / files.CERTIFICATE, serialize.canonical(stored))
    for name, render in DERIVED.items():
        files.write_bytes(run.path / name, render(stored))
    page = run.path / files.CERTIFICATE_PAGE
    files.write_text(page, certificate_page.render(certificate, stored, run.path))
    return page


def made(run: Run, came: Mapping[str, Any] | None = None) -> tuple[Certificate, dict[str, Any]]:
    """What a run says, and what certificate.json says of it. Raises BadFile, also where no upgrade was in mind.

    came: what came of it, where it is about to be closed; elsewhere its summary tells.
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
    # Judgements can be read where their history cannot: then they rest on nothing.
    contents = replace(contents, problems=tuple(dict.fromkeys((*contents.problems, *problems))))
    certificate = certify(
        contents,
        upgrades,
        _cut_short(_came(run) if came is None else came),
        parts=[stage for stage in STAGES if stage in requested.get("parts", ALONE)],
        trials=tried,
    )
    return certificate, serialize.to_json(certificate, contents, tried, run.path, about)


def _came(run: Run) -> Mapping[str, Any] | None:
    """What its summary tells; None where it was not closed. Raises BadFile."""
    return summary.load_head(run.path).about if (run.path / summary.NAME).exists() else None


def _cut_short(came: Mapping[str, Any] | None) -> str:
    """Why there is less than was asked for, or empty."""
    if came is not None:
        if came.get("interrupted"):
            return "the run was interrupted"
        if missing := came.get("missing shards"):
            return f"shards are missing: {', '.join(map(str, missing))}"
    ended = came is not None and came.get("exit status", 0) in resuming.ENDED
    return "" if ended else "the run did not come to its end"
