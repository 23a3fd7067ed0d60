"""Files of a run folder: written whole or not at all, under names that any file system takes."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

_HOSTILE: Final = re.compile(r"[^A-Za-z0-9._+=@-]+")
_LONGEST: Final = 100


class BadFile(Exception):
    """A file of a run folder is missing, damaged or of another format. The text names it, in one line."""


def safe_name(text: str, taken: Collection[str] = ()) -> str:
    """A file name that reads like `text`: no separators, no leading dot or dash, at most 100 characters.

    Distinct texts may give one name, so pass the names that are `taken` already; comparison ignores case, as some
    file systems do.
    """
    name = _HOSTILE.sub("-", text).strip(".-")[:_LONGEST] or "unnamed"
    lower = {other.lower() for other in taken}
    candidate, count = name, 2
    while candidate.lower() in lower:
        candidate, count = f"{name}~{count}", count + 1
    return candidate


def partial_name(path: Path) -> Path:
    """A temporary name beside `path` that no other process uses; it starts with a dot, so readers pass it by."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")


def write_bytes(path: Path, data: bytes) -> None:
    """A reader meets the old file or the new one, never half of it."""
    partial = partial_name(path)
    try:
        partial.write_bytes(data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """As UTF-8. Recorded texts may hold lone surrogates, from a client's error message: they are spelled out."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_json(path: Path, version: int, data: Mapping[str, Any]) -> None:
    """Raises TypeError where `data` is not plain JSON."""
    write_text(path, json.dumps({"format": version, **data}, indent=1) + "\n")


def read_json(path: Path, version: int) -> dict[str, Any]:
    """Raises BadFile."""
    try:
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise BadFile(f"{path}: not JSON ({error})") from error
    if not isinstance(data, dict) or "format" not in data:
        raise BadFile(f"{path}: not a file of a run folder (no format number)")
    if data["format"] != version:
        raise BadFile(f"{path}: format {data['format']}, this version reads {version}")
    return data


def typed(path: Path) -> Path:
    """A path as a person would type it: from the working directory, where that is shorter."""
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path
