"""The names of the stages between which an upgrade is judged, and of what is tried in each."""

from collections.abc import Mapping
from typing import Final

BASELINE: Final = "baseline"
CANDIDATE: Final = "candidate"
MIXED: Final = "mixed"
ROLLBACK: Final = "rollback"

ALONE: Final = (BASELINE, CANDIDATE)
"""Each on servers of one version, and the same trials on both."""
TOGETHER: Final = (MIXED, ROLLBACK)
"""In trials during which one version takes the place of the other, member by member."""
STAGES: Final = (*ALONE, *TOGETHER)

CALIBRATION: Final = "calibration"
BROKEN_SERVER: Final = "broken-server"
CALIBRATIONS: Final = (CALIBRATION, BROKEN_SERVER)
"""Of trials of what is broken on purpose, locks on the new version and a server of another, which are no part of the
upgrade: what was seen of it tells what could be.
"""

COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    MIXED: ("upgrade-leader-last", "upgrade-leader-first"),
    ROLLBACK: ("rollback-half", "rollback-end"),
}
"""Stage → the columns of the matrix that are it."""

WHENCE: Final[Mapping[str, str]] = {"rollback-half": "from half-way, ", "rollback-end": "from the end, "}
"""Column → from where it goes back."""

TITLES: Final[Mapping[str, str]] = {stage: stage for stage in (*ALONE, MIXED)} | {ROLLBACK: "after rollback"}
WHEN: Final[Mapping[str, str]] = {
    BASELINE: "on the old version",
    CANDIDATE: "on the new version",
    MIXED: "during the rolling upgrade",
    ROLLBACK: "after rolling back",
}
"""Stage → how a sentence ends that says when something was."""
