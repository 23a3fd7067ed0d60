"""The backends, by name, in the order in which users see them. See `infra.backends.backend`."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from infra.backends.backend import Backend
from infra.backends.etcd import Etcd
from infra.backends.postgres import Postgres
from infra.backends.redis import Redis
from infra.backends.zookeeper import ZooKeeper
from infra.errors import UnknownName

STORE: Final = Postgres()  # the backend that the fenced store runs on

BACKENDS: Final[Mapping[str, Backend]] = MappingProxyType(
    {backend.name: backend for backend in (Redis(), ZooKeeper(), Etcd(), STORE)}
)

SHAPES: Final = {f"{name}={shape}": (name, shape) for name, backend in BACKENDS.items() for shape in backend.shapes}
"""How a shape is asked for -> its backend and its name."""


def shaped(shapes: Mapping[str, str]) -> Mapping[str, Backend]:
    """The backends by name, these in these shapes (backend -> one of its `shapes`), and all others in their usual."""
    return {name: type(backend)(shapes.get(name, "")) for name, backend in BACKENDS.items()}


def parse_shapes(pairs: Iterable[str]) -> dict[str, str]:
    """Backend -> shape, from options `--shape BACKEND=SHAPE`. Raises UnknownName, which lists what there is."""
    shapes: dict[str, str] = {}
    for pair in pairs:
        if pair not in SHAPES:
            raise UnknownName(f"--shape {pair}: there is no such shape; there are {', '.join(SHAPES)}")
        backend, shape = SHAPES[pair]
        if shapes.setdefault(backend, shape) != shape:
            raise UnknownName(f"--shape {pair}: {backend}={shapes[backend]} is asked for as well")
    return shapes
