"""Whether a run is still going on: who runs it holds a lock on its `run.json` until it is closed or the process dies.

A file lock needs no cleaning up, and none is left behind by a process that was killed.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from results import files
from results.files import BadFile


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
        except BlockingIOError:
            raise BadFile(f"{root}: this run is still going on") from None
        yield


def is_running(root: Path) -> bool:
    """Whether somebody runs it now. Raises BadFile where there is no run."""
    try:
        with alone(root):
            return False
    except BadFile:
        files.plain(root / "run.json")
        return True
