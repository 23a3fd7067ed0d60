"""Locks that their client may acquire again, and that it releases as often: what it remembers of what it holds.

``etcd-reentrant`` and ``zookeeper-reentrant`` are reentrant in the client alone. As in Curator's InterProcessMutex, the
service sees one grant, and the client counts. Unlike there, an inner acquire is refused when the client no longer
believes in the outer grant: another client may hold the lock by now. The service was not asked, and may still say that
no other client does. Where the service counts as well, a lock overrides `_again` and `_release_inner`.
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
        self._inside: dict[str, list[Grant]] = {}
        """Lock name → the grants of this client that are not released. They have one owner."""

    def acquire(self, name: str, timeout: float) -> Grant | None:
        """The grant that is held already, at once, or a new one. Raises what `_again` or the lock itself raises."""
        held = self._inside.setdefault(name, [])
        grant = self._again(held[0]) if held else super().acquire(name, timeout)  # type: ignore[misc]
        if grant is not None:
            held.append(grant)
        return grant

    def release(self, grant: Grant) -> None:
        """Called once for every acquire. After the last call the client no longer holds, whatever its outcome."""
        held = self._inside.get(grant.name, [])
        mine = [each for each in held if each.owner == grant.owner]
        if mine:
            held.remove(mine[-1])
        if len(mine) > 1:
            self._release_inner(grant)
        else:
            super().release(grant)  # type: ignore[misc]

    def _again(self, held: Grant) -> Grant:
        """The grant of an inner acquire. Raises Refused(UNAVAILABLE) if the client no longer believes in `held`."""
        if not self.belief(held):  # type: ignore[attr-defined]
            raise Refused(Reason.UNAVAILABLE, "what is to be held again may be lost")
        return held

    def _release_inner(self, grant: Grant) -> None:
        """A release after which the client still holds. The service has seen one grant, so it is told nothing."""
