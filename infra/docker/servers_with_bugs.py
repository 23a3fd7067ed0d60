"""`python -m infra planted`: servers with one bug each, for trials of the suite: does it say which bug that is?

The server is the one that Debian packaged. A wrapper in its container starts it, and it is the first process there as
ever, so that whatever is done to it, its clock or its disk is done as to any other. Of Redis a loaded module changes
commands on their way in (`images/planted/planted.c`); before etcd, ZooKeeper, and what is slow, a relay delays or
changes what passes (`relay.c`); in PostgreSQL other functions take the place of its own (`planted.sql`). To the suite
it is an image like any other, which is made where it is missing:

    pytest suites/ --from redis=8.0 --to redis=image:fencepost/planted-redis:lost-token
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.backends import BACKENDS
from infra.docker import images, machine
from infra.docker.images import Image
from infra.docker.machine import Say
from infra.errors import UnknownName
from infra.suggestions import instead


@dataclass(frozen=True, slots=True)
class Plant:
    """A server with a bug.

    server  a recipe of `infra.docker.images`, for which there is a recipe `planted-<server>`.
    name    what its wrapper calls the bug.
    bug     what the server does.
    """

    server: str
    name: str
    bug: str

    def __str__(self) -> str:
        return f"{self.server}:{self.name}"

    @property
    def image(self) -> Image:
        """Of the default version of its server."""
        return images.resolve(self.server, self.version)

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


def main(names: Sequence[str] = (), say: Say = machine.say, *, build: bool = False) -> int:
    """A line for each plant; with --build their images are made. Raises Failed, NotPossible or UnknownName."""
    known = [str(plant) for plant in PLANTS]
    if unknown := [name for name in names if name not in known]:
        raise UnknownName(f"no bug {unknown[0]!r}; {instead(unknown[0], known)}")
    for plant in PLANTS:
        if names and str(plant) not in names:
            continue
        if not build:
            print(f"{plant!s:<21} {plant.bug}\n{'':<21} --to {plant.spelling}")
        else:
            images.ensure(plant.image, say)
            print(plant.spelling)
    return 0
