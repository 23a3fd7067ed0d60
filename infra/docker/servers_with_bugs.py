"""`python -m infra planted`: servers with one bug each, to test whether the suite names the bug.

The server is the one that Debian packaged. A wrapper in its container starts it. The server is still the first process
there, so every fault on it, its clock or its disk works as on any other server. In Redis a loaded module changes
incoming commands (`images/planted/planted.c`). A relay in front of etcd, ZooKeeper and the slow servers delays or
changes what passes (`relay.c`). In PostgreSQL other functions replace its own (`planted.sql`). To the suite, this is an
image like any other, and it is built where it is missing:

    pytest suites/ --from redis=8.0 --to redis=image:fencepost/planted-redis:lost-token
"""

from dataclasses import dataclass
from typing import Final

from infra.backends import BACKENDS


@dataclass(frozen=True, slots=True)
class Plant:
    # The recipe in `infra.docker.images` of the server, in its default version; `planted-<server>` builds on it.
    server: str
    name: str  # what its wrapper calls the bug
    bug: str  # what the server does

    def __str__(self) -> str:
        return f"{self.server}:{self.name}"

    @property
    def version(self) -> str:
        """The version as users ask for it."""
        return f"image:fencepost/planted-{self.server}:{self.name}"

    @property
    def spelling(self) -> str:
        """What to write behind --to."""
        return f"{self.server}={self.version}"


PLANTS: Final = tuple(
    Plant(server, name, bug) for server, backend in BACKENDS.items() for name, bug in backend.plants.items()
)


def main() -> int:
    """Print a line for each plant, and one with what to ask for."""
    for plant in PLANTS:
        print(f"{plant!s:<21} {plant.bug}\n{'':<21} --to {plant.spelling}")
    return 0
