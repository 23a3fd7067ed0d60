"""A run's certificate: made from what is stored, and written beside the run's page."""

from __future__ import annotations

from pathlib import Path

from results import files, running, shape, summary
from results.certificate import written
from results.certificate.certificate import Certificate, certify
from results.certificate.stages import BASELINE, CANDIDATE
from results.files import BadFile
from results.pages import certificate_page
from results.run import Run
from results.shape import Damaged, field


def issue(run: Run) -> tuple[Certificate, Path]:
    """Make the certificate of a run, beside its page. Returns it with the path of its page. Raises BadFile."""
    certificate = of(run)
    told = written.to_json(certificate, run.path, run.about())
    files.write_bytes(run.path / written.NAME, written.canonical(told))
    page = run.path / "certificate.html"
    files.write_text(page, certificate_page.render(certificate, told, run.path))
    return certificate, page


def of(run: Run) -> Certificate:
    """What a run says. Raises BadFile, also for a run that had no upgrade in mind."""
    try:
        stages = field(run.about(), "stages", shape.named(shape.named(shape.text)))
        old, new = stages[BASELINE], stages[CANDIDATE]
        upgrades = {backend: (version, new[backend]) for backend, version in old.items()}
    except (Damaged, KeyError) as error:
        raise BadFile(f"{run.path}: no upgrade was tried (pytest suites/ --from ... --to ...)") from error
    return certify(run.read(), upgrades, _cut_short(run))


def _cut_short(run: Run) -> str:
    """Why there is less than was asked for, or empty."""
    if (run.path / summary.NAME).exists():
        return "the run was interrupted" if summary.load_head(run.path).about.get("interrupted") else ""
    return "" if running.is_running(run.path) else "the run did not come to its end"
