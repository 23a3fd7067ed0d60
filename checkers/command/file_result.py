"""What the command says of one file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FileResult:
    """The answer on one file.

    valid       True, False, or None: unknown.
    model       its name; empty for a recording that was judged under its properties.
    operations  how many the history has.
    lines       for people.
    witness     for JSON: what proves that it is invalid, or None.
    reason      why it is unknown, or what kind of violation it is; empty where it is valid.
    more        for JSON: whatever else there is to say.
    """

    valid: bool | None
    model: str
    operations: int
    lines: tuple[str, ...]
    witness: Any = None
    reason: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
