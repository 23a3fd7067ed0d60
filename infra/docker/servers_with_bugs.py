"""`python -m infra planted`: servers with one bug each, to test whether the suite names the bug.

infra/README.md says how the bugs get in (`infra/images/planted/`: planted.c, relay.c, planted.sql). To the suite, this
is an image like any other, and it is built where it is missing.
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
