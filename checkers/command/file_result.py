"""What the command says of one file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FileResult:
    valid: bool | None  # True, False, or None: unknown
    model: str  # its name; empty for a recording that was judged under its properties
    operations: int  # how many the history has
    lines: tuple[str, ...]  # for people
    witness: Any = None  # for JSON: what proves that it is invalid, or None
    reason: str = ""  # why it is unknown, or what kind of violation it is; empty where it is valid
    more: Mapping[str, Any] = field(default_factory=dict)  # for JSON: whatever else there is to say
