"""What conclusions.toml says of each kind of finding: how its story ends, and what it costs."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_BY_COST: Final = tomllib.loads(Path(__file__).with_name("conclusions.toml").read_text("utf-8"))

_OF_MODELS: Final = _BY_COST.pop("models")
CONCLUSIONS: Final[Mapping[str, str]] = _OF_MODELS | {
    kind: sentence for kinds in _BY_COST.values() for kind, sentence in kinds.items() if sentence
}
CONCLUSIONS_OF_MODELS: Final[Mapping[str, str]] = CONCLUSIONS | _OF_MODELS
COSTS: Final[Mapping[str, str]] = {kind: cost for cost, kinds in _BY_COST.items() for kind in kinds}
"""Kind of finding of a property → what it costs those who rely on the lock."""
