"""A run's certificate: made from what is stored, and written beside the run's page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from checkers.history import BadHistory
from results import files, resuming, running, shape, summary
from results.certificate import attestation, junit, trials, written
from results.certificate.certificate import Certificate, certify, sentence
from results.certificate.stages import ALONE, BASELINE, CANDIDATE, STAGES
from results.files import BadFile
from results.pages import certificate_page
from results.run import Run
from results.shape import Damaged, field

DERIVED: Final[Mapping[str, Callable[[Mapping[str, Any]], bytes]]] = {
    junit.NAME: junit.render,
    attestation.NAME: attestation.render,
}
"""Files beside certificate.json that follow from it."""


def issue(run: Run) -> tuple[Certificate, Path]:
    """Make the certificate of a run, beside its page, which tells of it then. Returns it with the path of its sheet.

    Raises BadFile.
    """
    for folder in files.entries(run.path / "trials", []):
        with suppress(BadFile, BadHistory):  # a doubt
            run.complete_trial(folder)
    certificate, told = made(run)
    files.write_bytes(run.path / written.NAME, written.canonical(told))
    for name, render in DERIVED.items():
        files.write_bytes(run.path / name, render(told))
    page = run.path / summary.CERTIFICATE_PAGE
    files.write_text(page, certificate_page.render(certificate, told, run.path))
    run.add({summary.CERTIFICATE: sentence(certificate)})
    return certificate, page


def of(run: Run) -> Certificate:
    """What a run says. Raises BadFile, also for a run that had no upgrade in mind."""
    return made(run)[0]


def made(run: Run) -> tuple[Certificate, dict[str, Any]]:
    """`of`, with what certificate.json says. Raises BadFile."""
    about = run.about()
    try:
        stages = field(about, "stages", shape.named(shape.named(shape.text)))
        old, new = stages[BASELINE], stages[CANDIDATE]
        upgrades = {backend: (version, new[backend]) for backend, version in old.items()}
    except (Damaged, KeyError) as error:
        raise BadFile(f"{run.path}: no upgrade was tried (pytest suites/ --from ... --to ...)") from error
    try:
        # Runs from before rolling upgrades say nothing of parts.
        parts = field(about, "parts", shape.many(shape.text)) if "parts" in about else ALONE
        if "interruptions" in about:
            field(about, "interruptions", shape.many(shape.table))
    except Damaged as error:
        raise BadFile(f"{run.path / 'run.json'}: damaged ({error})") from error
    problems: list[str] = []
    contents, told = run.read(), trials.told(run.path, problems)
    # Judgements can be read where their history cannot: then they rest on nothing.
    contents = replace(contents, problems=tuple(dict.fromkeys((*contents.problems, *problems))))
    certificate = certify(
        contents,
        upgrades,
        _cut_short(run),
        parts=[stage for stage in STAGES if stage in parts],
        trials=told,
    )
    return certificate, written.to_json(certificate, contents, told, run.path, about)


def _cut_short(run: Run) -> str:
    """Why there is less than was asked for, or empty."""
    if (run.path / summary.NAME).exists():
        about = summary.load_head(run.path).about
        if about.get("interrupted"):
            return "the run was interrupted"
        if missing := about.get("missing shards"):
            return f"shards are missing: {', '.join(map(str, missing))}"
        ended = about.get("exit status", 0) in resuming.ENDED
    elif running.is_running(run.path):
        ended = run.going_on is not None  # then who asks is the run itself, at its end
    else:
        ended = False
    return "" if ended else "the run did not come to its end"
