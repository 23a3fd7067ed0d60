"""``lockfile``: a file that only one client can create (O_CREAT with O_EXCL), in a folder that all clients share.

It is exact on one machine, or on a file system whose exclusive creation is exact, as long as every holder lives to
remove its file. A killed holder's file stays, and nobody can tell it from the file of a working holder. (The usual
remedy, the holder's process id in the file, fails across machines, and looks and removes in two steps.)

The lock needs no server: it runs beside those of Redis, and their faults do not affect it. It removes hour-old files.
"""

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Self

from checkers.claims import ANY, Claim, Hazard
from checkers.row_format import Reason
from suites.lock import NEVER, Grant, Refused, new_owner, now
from suites.locks.antipatterns.tutorial import CRASHED, UNFENCED
from suites.locks.lease_claims import EXCLUSION
from suites.locks.polling import polled
from suites.locks.without.no_lock import Endless

FOLDER: Final = Path(tempfile.gettempdir()) / f"fencepost-lockfiles-{os.getuid()}"
FORGOTTEN: Final = 3600.0
"""Seconds after which a file is certainly nobody's."""


class LockFile(Endless):
    lanes: ClassVar[tuple[str, ...]] = UNFENCED
    bounds: ClassVar[Mapping[str, float]] = {"crash-release": 0.3}
    claims: ClassVar[tuple[Claim, ...]] = tuple(Claim(name, under=(ANY,)) for name in EXCLUSION)
    hazards: ClassVar[tuple[Hazard, ...]] = CRASHED

    def __init__(self, ttl: float) -> None:
        super().__init__(ttl)
        self._held: set[int] = set()
        """Owners of the grants that are held. A file does not say whose it is."""

    @classmethod
    def open(cls, endpoints: Sequence[str], ttl: float) -> Self:  # noqa: ARG003 - it asks no server
        """Make the folder, and clear it of what others left behind long ago."""
        FOLDER.mkdir(mode=0o700, exist_ok=True)
        for file in FOLDER.iterdir():
            with contextlib.suppress(FileNotFoundError):  # somebody else was faster
                if time.time() - file.stat().st_mtime > FORGOTTEN:
                    file.unlink()
        return cls(ttl)

    def acquire(self, name: str, timeout: float) -> Grant | None:
        def attempt() -> Grant | None:
            sent = now()
            try:
                os.close(os.open(_file(name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                return None
            grant = Grant(name, new_owner(), None, sent, self._ttl, NEVER)
            self._held.add(grant.owner)
            return grant

        return polled(attempt, timeout)

    def release(self, grant: Grant) -> None:
        if grant.owner not in self._held:
            raise Refused(Reason.NOT_OWNER)
        self._held.remove(grant.owner)
        try:
            _file(grant.name).unlink()
        except FileNotFoundError as error:
            raise Refused(Reason.NOT_OWNER) from error


def _file(name: str) -> Path:
    return FOLDER / hashlib.sha256(name.encode()).hexdigest()[:32]
