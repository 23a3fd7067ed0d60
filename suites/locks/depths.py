"""Hold counts of a lock that is reentrant in its client.

As Curator's InterProcessMutex: the service sees one grant, the client counts. Unlike there, an inner acquire is refused
when the client no longer believes in the outer one: it would enter what may be somebody else's by now.
"""

from collections.abc import Callable
from typing import Final

from checkers.wire import Reason
from suites.lock import Grant, Refused

LANES: Final = ("nested/*", "set/unfenced", "register/fence-reads-and-writes")


class Depths:
    """Of one client. Its worker's main thread alone acquires and releases."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Grant, int]] = {}

    def acquire(self, name: str, believes: Callable[[Grant], bool], outer: Callable[[], Grant | None]) -> Grant | None:
        """The grant that is held already, or what `outer` gives. Raises Refused(NOT_OWNER), and as `outer` does."""
        grant, depth = self._held.get(name, (None, 0))
        if grant is None:
            grant = outer()
        elif not believes(grant):
            raise Refused(Reason.NOT_OWNER, "what is to be held again is lost")
        if grant is not None:
            self._held[name] = grant, depth + 1
        return grant

    def release(self, grant: Grant, outer: Callable[[Grant], None]) -> None:
        """Count down, and let go by `outer` at the last. Raises as that does."""
        held, depth = self._held.get(grant.name, (None, 1))
        if held is not None and held.owner == grant.owner:
            if depth > 1:
                self._held[grant.name] = held, depth - 1
                return
            del self._held[grant.name]
        outer(grant)
