"""`python -m results prune`: removes old runs, but none that may still be needed."""

import os
import re
import secrets
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from results.commands import find
from results.pages import trend
from results.storage import files
from results.storage.files import BadFile
from results.storage.run_folder import RunFolder, alone, is_running
from results.terminal.output import say, warn
from results.text import count, moment


def main(results: Path, keep: int | None, younger_than: timedelta | None, named: Sequence[str], **flags: bool) -> int:
    """Returns 0; 2 if the removal was not confirmed, or if a part of it failed. Raises BadFile without a criterion."""
    if keep is None and younger_than is None:
        raise BadFile("say what to keep: --keep N, --younger-than AGE, or both")
    names = {find.find(name, results).path.resolve() for name in named}
    stored = find.runs(results)
    last = {run.path for run in stored[-keep:]} if keep else set()
    since = None if younger_than is None else datetime.now(UTC) - younger_than
    gone: list[find.Stored] = []
    size = 0
    for run in stored:
        if kept := _why_kept(run, last, since, names, failed_too=flags["failed_too"]):
            say(f"{run.path.name}  kept: {kept}")
        else:
            of_run = _size(run.path)
            say(f"{run.path.name}  to be removed, {of_run / 1e6:.1f} MB")
            gone.append(run)
            size += of_run
    if not gone:
        print("nothing to remove")
        return 0
    total = f"{count(len(gone), 'run')}, {size / 1e6:.1f} MB"
    if flags["dry_run"]:
        print(f"would remove {total}")
        return 0
    if not flags["yes"] and not _agreed(f"Remove {total}?"):
        warn("nothing was removed; --yes removes without asking")
        return 2
    _sweep(results)
    failed = [line for run in gone if (line := _remove(run, results))]
    print(f"removed {len(gone) - len(failed)} of {total}" if failed else f"removed {total}")
    wrong = failed + trend.refresh(results)
    warn(*wrong)
    return 2 if wrong else 0


def _why_kept(run: find.Stored, last: set[Path], since: datetime | None, names: set[Path], *, failed_too: bool) -> str:
    if run.path in last:
        return "one of the last"
    if run.path.resolve() in names:
        return "named"
    if run.wrong:
        return f"damaged, {run.wrong}"
    if since is not None and (began := moment(run.started)) is not None and began > since:
        return "young enough"
    try:
        if is_running(run.path):
            return "still going on"
        head, _ = RunFolder(run.path).head()
    except BadFile as error:
        return f"damaged, {error}"
    if head.failed and not failed_too:
        return "it failed"
    if head.problems and not failed_too:
        return "something in it was left out"
    return ""


def _size(folder: Path) -> int:
    """Bytes of a folder's files. Links are not followed."""
    return sum(os.lstat(Path(path, name)).st_size for path, _, names in os.walk(folder) for name in names)


def _agreed(question: str) -> bool:
    return sys.stdin.isatty() and input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


def _remove(run: find.Stored, root: Path) -> str:
    """Hide a run in one step, then remove its files. Links are removed, never followed. Returns the error or empty."""
    try:
        with alone(run.path):
            hidden = root / f".{run.path.name}.{secrets.token_hex(4)}.removed"
            run.path.rename(hidden)
        shutil.rmtree(hidden)
    except (BadFile, OSError) as error:
        return files.reason(error)
    return ""


def _sweep(root: Path) -> None:
    """Remove what an interrupted removal left hidden."""
    for path in root.iterdir():
        if re.fullmatch(r"\..+\.[0-9a-f]{8}\.removed", path.name) and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
