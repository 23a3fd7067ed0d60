"""Files of a run folder: written whole or not at all, under names that any file system takes; read with suspicion.

A run folder may come from another machine, or from a disk that was full: nothing in it is followed out of it, and what
is wrong with it is told in one line.
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

FORMAT: Final = 2
"""Of run.json, trial.json, verdicts.json, not-run/*.json and summary.json, as they are written."""
READABLE: Final = (1, 2)

CERTIFICATE: Final = "certificate.json"
CERTIFICATE_PAGE: Final = "certificate.html"
JUNIT: Final = "junit.xml"
ATTESTATION: Final = "attestation.json"
"""Of a run with `--from` and `--to`, beside its own page: the certificate, its sheet, and what follows from it."""

_HOSTILE: Final = re.compile(r"[^A-Za-z0-9._+=@~-]+")
_LONGEST: Final = 100


class BadFile(Exception):
    """A file of a run folder is missing, damaged or of another format. The text names it, in one line."""


def safe_name(text: str, taken: Collection[str] = ()) -> str:
    """A file name that reads like `text`: no separators, no leading dot, dash or tilde, at most 100 characters.

    Distinct texts may give one name, so pass the names that are `taken` already; comparison ignores case, as some
    file systems do.
    """
    name = _HOSTILE.sub("-", text).strip(".-~")[:_LONGEST] or "unnamed"
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
    except OSError as error:
        error.filename, error.filename2 = str(path), None  # nobody knows the temporary one
        raise
    finally:
        with suppress(OSError):  # of what could not be written, whose reason is told
            partial.unlink()


def write_text(path: Path, text: str) -> None:
    """As UTF-8. Recorded texts may hold lone surrogates, from a client's error message: they are spelled out."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Raises TypeError or ValueError where `data` is not plain JSON, which has no NaN and no infinity."""
    write_text(path, json.dumps({"format": FORMAT, **data}, indent=1, allow_nan=False) + "\n")


def inside(folder: Path, name: str) -> Path:
    """The file of this name in a folder. Raises BadFile where the name, which a file told us, leads elsewhere."""
    if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
        raise BadFile(f"{folder}: {name!r} is not the name of a file in it")
    if folder.is_symlink():
        raise BadFile(f"{folder}: a link, which is not followed")
    return folder / name


def plain(path: Path) -> Path:
    """The path, if a file stands there itself: no link, which may lead out of the folder, no pipe, no folder.

    Raises BadFile.
    """
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise BadFile(f"{path}: {'a link, which is not followed' if stat.S_ISLNK(mode) else 'not a file'}")
    return path


def read_bytes(path: Path) -> bytes:
    """Raises BadFile."""
    try:
        return plain(path).read_bytes()
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror}") from error


def read_json(path: Path, formats: Collection[int] | None = READABLE) -> dict[str, Any]:
    """Of one of these formats; None: of whatever it says. Raises BadFile."""
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
        known = " and ".join(map(str, READABLE))
        shown = _short(number) if isinstance(number, int | str) else "of no number"
        raise BadFile(f"{path}: format {shown}, this version reads {known}{newer}")
    return data


def entries(folder: Path, problems: list[str], *, follow: bool = False) -> list[Path]:
    """What stands in a folder, by name, without what is half written. What cannot be read is told in `problems`.

    follow: the folder itself may be a link, as the one that people keep their runs in.
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
    """What went wrong: of the file system with the file first, without the number of the error."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _no_number(text)


def _whole(text: str) -> int:
    """Of 64 bits, as times in ns are."""
    value = int(text)
    return value if -(2**63) <= value < 2**63 else _no_number(text)


def _short(value: object) -> str:
    return cut(in_a_line(str(value)), 80)
