"""Reads and writes files of a run folder: written whole or not at all, under names that every file system accepts.

A run folder may come from elsewhere. No link is followed out of it, and an error is one line that names the file.
"""

import json
import os
import re
import secrets
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any, Final, NoReturn

from results.text import cut, in_a_line

FORMAT: Final = 3
"""The format in which run.json, trial.json, verdicts.json, not-run/*.json and summary.json are written."""
READABLE: Final = (1, 2, 3)

CERTIFICATE: Final = "certificate.json"
CERTIFICATE_PAGE: Final = "certificate.html"
JUNIT: Final = "junit.xml"
ATTESTATION: Final = "attestation.json"
"""Files of a run with `--from` and `--to`: the certificate, its page, and the files that are derived from it."""

_HOME: Final = Path(__file__).resolve().parents[2]
RUNS: Final = (_HOME if (_HOME / "pyproject.toml").is_file() else Path()) / "results" / "runs"
"""Where runs are stored: in the checkout, or in the working directory if this is installed as a package."""

_HOSTILE: Final = re.compile(r"[^A-Za-z0-9._+=@~-]+")
_LONGEST: Final = 100


class BadFile(Exception):
    """A file of a run folder is missing, damaged or of another format. The text is one line and names the file."""


def safe_name(text: str, taken: Collection[str] = ()) -> str:
    """A file name that reads like `text`: no separators, no leading dot, dash or tilde, at most 100 characters.

    Different texts may give the same name, so pass the names that are `taken`. Case is ignored, as some systems do.
    """
    name = _HOSTILE.sub("-", text).strip(".-~")[:_LONGEST] or "unnamed"
    lower = {other.lower() for other in taken}
    candidate, count = name, 2
    while candidate.lower() in lower:
        candidate, count = f"{name}~{count}", count + 1
    return candidate


def partial_name(path: Path) -> Path:
    """A temporary name beside `path` that no other process uses. It starts with a dot, so readers ignore it."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file in one step: readers see the old content or the new one."""
    partial = partial_name(path)
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # the temporary name means nothing to users
        raise
    finally:
        with suppress(OSError):  # the error above is the one that matters
            partial.unlink()


def write_text(path: Path, text: str) -> None:
    """`write_bytes` in UTF-8. Lone surrogates, which recorded texts may hold, are written as escapes."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """`write_text` of JSON with its format. Raises TypeError or ValueError for what is not JSON, such as NaN."""
    write_text(path, json.dumps({"format": FORMAT, **data}, indent=1, allow_nan=False) + "\n")


def inside(folder: Path, name: str) -> Path:
    """The path of a file in a folder. Raises BadFile if the name (from a file) leads out, or the folder is a link."""
    if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
        raise BadFile(f"{folder}: {name!r} is not the name of a file in it")
    if folder.is_symlink():
        raise BadFile(f"{folder}: a link, which is not followed")
    return folder / name


def plain(path: Path) -> Path:
    """The path, if it is a regular file. Raises BadFile for a link, which may lead out of the folder, and all else."""
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise BadFile(f"{path}: {'a link, which is not followed' if stat.S_ISLNK(mode) else 'not a file'}")
    return path


def read_bytes(path: Path) -> bytes:
    """The content of a regular file. Raises BadFile."""
    try:
        return plain(path).read_bytes()
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror}") from error


def read_json(path: Path, formats: Collection[int] | None = READABLE) -> dict[str, Any]:
    """A JSON object with a format number. formats: the accepted ones, None for all. Raises BadFile."""
    try:
        data = json.loads(read_bytes(path), parse_constant=_no_number, parse_float=_finite, parse_int=_whole)
    except (ValueError, RecursionError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise BadFile(f"{path}: not JSON ({_short(reason)})") from error
    if not isinstance(data, dict) or "format" not in data:
        raise BadFile(f"{path}: not a file of a run folder (no format number)")
    number = data["format"]
    if formats is not None and (type(number) is not int or number not in formats):
        newer = "; a newer version wrote it" if type(number) is int and number > FORMAT else ""
        known = f"{READABLE[0]} to {FORMAT}"
        shown = _short(number) if isinstance(number, int | str) else "of no number"
        raise BadFile(f"{path}: format {shown}, this version reads {known}{newer}")
    return data


def entries(folder: Path, problems: list[str], *, follow: bool = False) -> list[Path]:
    """The entries of a folder by name, without unfinished ones. Adds a line to `problems` if it cannot be read.

    follow: whether the folder itself may be a link, as the folder of all runs may.
    """
    try:
        if folder.is_symlink() and not follow:
            problems.append(f"{folder}: a link, which is not followed")
            return []
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        problems.append(f"{folder}: {error.strerror}")
        return []


def reason(error: Exception) -> str:
    """An error in one line; an OSError as `file: what went wrong`, without its number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _no_number(text)


def _whole(text: str) -> int:
    """A whole number of at most 64 bits: times in ns need no more."""
    value = int(text)
    return value if -(2**63) <= value < 2**63 else _no_number(text)


def _short(value: object) -> str:
    return cut(in_a_line(str(value)), 80)
