"""The names of the stages between which an upgrade is judged."""

from __future__ import annotations

from typing import Final

BASELINE: Final = "baseline"
CANDIDATE: Final = "candidate"
MIXED: Final = "mixed"
ROLLBACK: Final = "rollback"
STAGES: Final = (BASELINE, CANDIDATE)
