"""What certificates said of releases known to be bad, and the bugs that they are asked about."""

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from checkers.properties.all_properties import PROPERTIES
from infra.errors import UnknownName
from results.certificate.certificate_files import issue
from results.certificate.certify import Decision
from results.run import Run
from results.storage import files
from results.tests.upgrades import closed
from suites.commands import readme, track_record
from suites.commands.track_record import Bug, main


def test_every_bug_names_properties_and_releases_or_why_it_cannot_be_tried() -> None:
    for bug in track_record.bugs().values():
        assert set(bug.found_by) <= PROPERTIES.keys()
        assert all(bad not in (before, mended) for before, bad, mended in bug.releases)


@pytest.fixture
def regression(tmp_path: Path) -> Run:
    """A run whose certificate says that `fifo` and `token-order` were lost, the first by a known mechanism."""
    run = closed(tmp_path)
    issue(run)
    run.add({"exit status": 1})
    file = run.path / files.CERTIFICATE
    certificate = json.loads(file.read_text())
    page = next(promise["stages"]["baseline"]["page"] for promise in certificate["promises"])
    lost = [
        {"property": name, "lock": "redis", "fault": "freeze-holder", "seen": {"because": why, "page": page}}
        for name, why in (("fifo", "explained by revoked-early"), ("token-order", "reused-token"))
    ]
    file.write_text(json.dumps(certificate | {"verdict": Decision.REGRESSION, "regressed": lost}))
    return run


def test_only_a_regression_that_the_bug_explains_is_right(regression: Run, tmp_path: Path) -> None:
    known = {
        name: Bug(name, "redis", (("7.0", "8.0", "8.1"),), "It forgets.", "redis#1", (found_by,), mechanisms)
        for name, found_by, mechanisms in (
            ("explained", "fifo", ("revoked-early",)),
            ("otherwise", "token-order", ("revoked-early",)),
        )
    }
    with (
        patch.object(track_record, "bugs", lambda: known),
        patch.object(track_record, "TRIES", tmp_path / "tries.json"),
        patch.object(track_record, "run_in", return_value=regression) as ran,
    ):
        assert main() == main() == 1
        assert ran.call_count == 4  # what was tried is not tried again
        right = {(each.bug, each.new): each.right for each in track_record.stored()}
        assert right == {("explained", "8.0"): True, ("explained", "8.1"): False} | {
            ("otherwise", new): False for new in ("8.0", "8.1")
        }
        assert "7.0 → 8.0: as it should be in 1 of 1" in readme._track_record()
        with pytest.raises(UnknownName):
            main(["explain"])
