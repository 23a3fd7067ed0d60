"""Whether a run is still going on: who runs it holds a lock on its `run.json` until it is closed or the process dies.

A file lock needs no cleaning up, and none is left behind by a process that was killed.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from results.storage import files
from results.storage.files import BadFile


def hold(root: Path) -> BinaryIO:
    """Say that the run of this folder is going on, until what is returned is closed or this process is gone."""
    file = (root / "run.json").open("rb")
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Nobody else runs, merges or prunes this folder meanwhile. Raises BadFile where somebody does."""
    path = files.plain(root / "run.json")
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(file.fileno()), path.stat()):  # somebody has taken it over since
                raise BlockingIOError
        except BlockingIOError:
            raise BadFile(f"{root}: this run is still going on") from None
        yield


def take_over(root: Path, write: Callable[[Path], None]) -> BinaryIO:
    """Go on with a run that nobody runs any more, as `hold`. write: makes its run.json anew, at this path.

    The new file is held before it stands there, so that of two who try at once one is refused. Raises BadFile.
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
    """Whether somebody runs it now. Raises BadFile where there is no run."""
    try:
        with alone(root):
            return False
    except BadFile:
        files.plain(root / "run.json")
        return True
