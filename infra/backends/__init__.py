"""The backends, by name, in the order in which users see them. See `infra.backends.backend`."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from infra.backends.backend import Backend
from infra.backends.etcd import Etcd
from infra.backends.postgres import Postgres
from infra.backends.redis import Redis
from infra.backends.zookeeper import ZooKeeper

STORE: Final = Postgres()  # the backend that the fenced store runs on

BACKENDS: Final[Mapping[str, Backend]] = MappingProxyType(
    {backend.name: backend for backend in (Redis(), ZooKeeper(), Etcd(), STORE)}
)
