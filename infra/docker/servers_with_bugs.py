"""`python -m infra planted`: servers with one bug each, for trials of the suite: does it say which bug that is?

The server is the one that Debian packaged. A wrapper in its container starts it, and it is the first process there as
ever, so that whatever is done to it, its clock or its disk is done as to any other. Of Redis a loaded module changes
commands on their way in (`images/planted/planted.c`); before etcd, ZooKeeper, and what is slow, a relay delays or
changes what passes (`relay.c`); in PostgreSQL other functions take the place of its own (`planted.sql`). To the suite
it is an image like any other, which is made where it is missing:

    pytest suites/ --from redis=8.0 --to redis=image:fencepost/planted-redis:lost-token
"""

from dataclasses import dataclass
from typing import Final

from infra.backends import BACKENDS


@dataclass(frozen=True, slots=True)
class Plant:
    """A server with a bug."""

    # A recipe of `infra.docker.images`, for which there is a recipe `planted-<server>`; its default version.
    server: str
    name: str  # what its wrapper calls the bug
    bug: str  # what the server does

    def __str__(self) -> str:
        return f"{self.server}:{self.name}"

    @property
    def version(self) -> str:
        """As users ask for it."""
        return f"image:fencepost/planted-{self.server}:{self.name}"

    @property
    def spelling(self) -> str:
        """What to write behind --to."""
        return f"{self.server}={self.version}"


PLANTS: Final = tuple(
    Plant(server, name, bug) for server, backend in BACKENDS.items() for name, bug in backend.plants.items()
)


def main() -> int:
    """A line for each plant, and what to ask for."""
    for plant in PLANTS:
        print(f"{plant!s:<21} {plant.bug}\n{'':<21} --to {plant.spelling}")
    return 0
