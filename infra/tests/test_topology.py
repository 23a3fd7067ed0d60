"""The table of the star."""

import pytest

from infra.backends import BACKENDS
from infra.backends.postgres import BOUNCER
from infra.backends.redis import REPLICA
from infra.network import topology


def test_every_pair_has_a_listener_of_its_own() -> None:
    proxies = list(topology.proxies())
    assert len({proxy.name for proxy in proxies}) == len({proxy.listen for proxy in proxies}) == len(proxies)
    assert len(proxies) == 4 * 14 + 1 + 6 + 2 * 6 + 2


def test_backends_and_nodes_have_names() -> None:
    assert topology.backend_of("zk2") == "zookeeper"
    assert topology.client_port("store") == topology.client_port("postgres") == 5432
    assert [topology.backend_of(node) for node in (REPLICA, BOUNCER)] == ["redis", "postgres"]
    assert REPLICA not in BACKENDS["redis"].members
    assert topology.own_image_variable(REPLICA) == "REDIS1_REPLICA_IMAGE"
    with pytest.raises(KeyError):
        topology.backend_of("store")
