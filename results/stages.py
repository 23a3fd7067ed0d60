"""The stages of an upgrade, and the columns of the matrix that are tried in each."""

from collections.abc import Mapping
from typing import Final

BASELINE: Final = "baseline"
CANDIDATE: Final = "candidate"
MIXED: Final = "mixed"
ROLLBACK: Final = "rollback"

ALONE: Final = (BASELINE, CANDIDATE)
"""Stages whose servers have one version. Both run the same trials."""
TOGETHER: Final = (MIXED, ROLLBACK)
"""Stages in whose trials one version replaces the other, member by member."""
STAGES: Final = (*ALONE, *TOGETHER)

CALIBRATION: Final = "calibration"
BROKEN_SERVER: Final = "broken-server"
CALIBRATIONS: Final = (CALIBRATION, BROKEN_SERVER)
"""Stages that try what is broken on purpose: broken locks on the new version, and a broken server. They are no part of
the upgrade. They measure what the run is able to detect."""

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    MIXED: ("upgrade-leader-last", "upgrade-leader-first"),
    ROLLBACK: ("rollback-half", "rollback-end"),
}
"""Stage → the columns of the matrix that belong to the stage if servers are upgraded."""

CLIENTS: Final = "old-and-new-clients"
"""The column of `MIXED` if client libraries are upgraded: half of the workers of each lane have the old release."""
WHENCE: Final[Mapping[str, str]] = {"rollback-half": "from half-way, ", "rollback-end": "from the end, "}
"""Column → from where the servers go back."""

TITLES: Final[Mapping[str, str]] = {stage: stage for stage in (*ALONE, MIXED)} | {ROLLBACK: "after rollback"}
WHEN: Final[Mapping[str, str]] = {
    BASELINE: "on the old version",
    CANDIDATE: "on the new version",
    MIXED: "during the rolling upgrade",
    ROLLBACK: "after rolling back",
}
"""Stage → the end of a sentence that says when something happened."""
