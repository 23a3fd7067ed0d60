"""A lock that is reentrant in its client.

As in Curator's InterProcessMutex, the service sees one grant, and the client counts. Unlike there, an inner acquire is
refused when the client no longer believes in the outer grant: another client may hold the lock by now. The service was
not asked, and may still say that no other client does.
"""

from typing import Any, ClassVar, Final

from checkers.row_format import Reason
from suites.lock import Grant, Refused

LANES: Final = ("nested/*", "set/unfenced", "register/fence-reads-and-writes", "impatient/unfenced")


class Reentrant:
    """A base class that stands before the lock among the bases. Only the worker's main thread acquires and releases."""

    reentrant: ClassVar[bool] = True
    lanes: ClassVar[tuple[str, ...]] = LANES

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._depths: dict[str, tuple[Grant, int]] = {}
        """Lock name → (the grant that is held, how often it is held)."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """The grant that is held already, or a new one. Raises Refused(UNAVAILABLE), or what the lock itself raises."""
        grant, depth = self._depths.get(name, (None, 0))
        if grant is None:
            grant = super().acquire(name, timeout)  # type: ignore[misc]
        elif not self.belief(grant):  # type: ignore[attr-defined]
            raise Refused(Reason.UNAVAILABLE, "what is to be held again may be lost")
        if grant is not None:
            self._depths[name] = grant, depth + 1
        return grant

    def release(self, grant: Grant) -> None:
        """Count down; the last release releases the lock itself, and raises what that raises."""
        held, depth = self._depths.get(grant.name, (None, 1))
        if held is not None and held.owner == grant.owner:
            if depth > 1:
                self._depths[grant.name] = held, depth - 1
                return
            del self._depths[grant.name]
        super().release(grant)  # type: ignore[misc]
