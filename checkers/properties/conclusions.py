"""What conclusions.toml says of each kind of finding: how its story ends, and what it costs. Also for models."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_BY_COST: Final = tomllib.loads(Path(__file__).with_name("conclusions.toml").read_text("utf-8"))

CONCLUSIONS: Final[Mapping[str, str]] = {
    kind: sentence for kinds in _BY_COST.values() for kind, sentence in kinds.items() if sentence
}
COSTS: Final[Mapping[str, str]] = {kind: cost for cost, kinds in _BY_COST.items() if cost != "models" for kind in kinds}
"""Kind of finding of a property → what it costs those who rely on the lock."""
