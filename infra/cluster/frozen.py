"""Notes of the user's own processes that a fault by hand has frozen, so that any process that heals finds them.

A note is a file in our folder of the user's cache. It names the process by its label (infra/docker/owner.py), so that
a later process with the same number is never taken for it.
"""

import os
import signal
from pathlib import Path

from infra.docker import machine, owner
from infra.errors import Failed


def note(environment: str, pid: int) -> None:
    """Make a note of a process that is about to be frozen by a fault in this environment."""
    _file(environment, pid).write_text(owner.label_of(pid))


def forget(environment: str, pid: int) -> None:
    """Remove the note of a process that goes on. Idempotent."""
    _file(environment, pid).unlink(missing_ok=True)


def active(environment: str) -> list[str]:
    """The noted processes that are still frozen, a line each."""
    return [f"process {pid} is frozen" for pid, alive in _noted(environment) if alive and _stopped(pid)]


def thaw(environment: str) -> None:
    """Let all noted processes go on, and remove their notes. Idempotent. Raises Failed if we may not signal one."""
    for pid, alive in _noted(environment):
        try:
            if alive:
                os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass  # it has just ended
        except PermissionError as error:
            raise Failed(f"process {pid} is frozen, and not ours to signal: kill -CONT {pid}") from error
        forget(environment, pid)


def _noted(environment: str) -> list[tuple[int, bool]]:
    """(process, whether it lives) of every note."""
    notes = []
    for path in sorted(path for path in _folder().iterdir() if path.stem == environment):
        pid = int(path.suffix[1:])
        notes.append((pid, path.read_text() == owner.label_of(pid)))
    return notes


def _file(environment: str, pid: int) -> Path:
    return _folder() / f"{environment}.{pid}"


def _folder() -> Path:
    folder = machine.cache_dir() / "frozen"
    folder.mkdir(exist_ok=True)
    return folder


def _stopped(pid: int) -> bool:
    """Whether a process is frozen; True where the system does not tell (macOS)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return True
