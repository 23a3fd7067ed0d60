"""Whether a run is still going on: its process holds a lock on `run.json`, which ends with it, even if it is killed."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from results.storage import files
from results.storage.files import BadFile


def hold(root: Path) -> BinaryIO:
    """Mark the run of this folder as going on, until the returned file is closed or this process ends."""
    file = (root / "run.json").open("rb")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Keep other processes from running, merging or pruning this folder. Raises BadFile if one does so already."""
    path = files.plain(root / "run.json")
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), path.stat()):  # another process has taken it over since
                raise BlockingIOError
        except BlockingIOError:
            raise BadFile(f"{root}: this run is still going on") from None
        yield


def take_over(root: Path, write: Callable[[Path], None]) -> BinaryIO:
    """`hold` for an interrupted run. write: writes its new run.json to the given path.

    The new file is locked before it replaces the old one: of two processes that try at once one is refused (BadFile).
    """
    with alone(root):
        path = root / "run.json"
        new = files.partial_name(path)
        try:
            write(new)
            file = new.open("rb")
            fcntl.flock(file, fcntl.LOCK_SH)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    return file


def is_running(root: Path) -> bool:
    """Whether a process runs it now. Raises BadFile where there is no run."""
    try:
        with alone(root):
            return False
    except BadFile:
        files.plain(root / "run.json")
        return True
