"""`python -m results schema`: the JSON Schema of summary.json, as it stands in `schema/`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from results import find
from results.files import FORMAT

SCHEMA: Final = Path(__file__).parent / "schema" / f"summary-{FORMAT}.json"


def main(arguments: Sequence[str]) -> int:
    """0."""
    find.parser("schema", "Print the JSON Schema (2020-12) of a run's summary.json.").parse_args(arguments)
    print(SCHEMA.read_text("utf-8"), end="")
    return 0
