import json
import os
import subprocess
from typing import Any

import pytest

from infra.backends import shaped
from infra.backends.postgres import BOUNCER
from infra.backends.redis import REPLICA
from infra.docker import compose
from infra.docker.compose import ComposeSettings
from infra.network import topology

FIVE = {"etcd": "five", "zookeeper": "five"}
PROXIES = list(topology.proxies(shaped(FIVE)))


@pytest.fixture(scope="module")
def file() -> dict[str, Any]:
    """The files of the largest shapes together with the published ports, filled in, as compose understands them."""
    images = {"ETCD_IMAGE": "etcd:old", "ETCD2_IMAGE": "etcd:new"}
    settings = ComposeSettings("test", 9, "nobody", "secret", images, publish=True, shapes=FIVE)
    told = subprocess.run(
        ["docker", "compose", *(f"-f{file}" for file in settings.files), "--profile=five", "config", "--format=json"],
        cwd=compose.ROOT,
        env=dict(os.environ, **settings.variables()),
        check=True,
        capture_output=True,
    )
    config: dict[str, Any] = json.loads(told.stdout)
    return config


class TestComposeFile:
    """docker-compose.yml says the same as the table in `infra.network.topology`."""

    def test_addresses_are_those_of_the_topology(self, file: dict[str, Any]) -> None:
        for node, host in topology.HOSTS.items():
            (network,) = file["services"][node]["networks"].values()
            assert network["ipv4_address"] == topology.address(9, host)
        centre = file["services"]["toxiproxy"]
        assert centre["networks"]["ctl"]["ipv4_address"] == topology.address(9, topology.TOXIPROXY_HOST)
        hosts = dict(line.replace("=", ":", 1).split(":", 1) for line in centre["extra_hosts"])
        assert hosts == {f"{node}-node": topology.address(9, host) for node, host in topology.HOSTS.items()}

    def test_every_listener_is_an_alias_of_toxiproxy(self, file: dict[str, Any]) -> None:
        networks = file["services"]["toxiproxy"]["networks"].values()
        aliases = {alias for network in networks for alias in (network or {}).get("aliases", ())}
        assert {proxy.listen.partition(":")[0] for proxy in PROXIES} <= aliases

    def test_everything_is_labelled(self, file: dict[str, Any]) -> None:
        for kind in ("services", "networks", "volumes"):
            for thing in file[kind].values():
                assert (thing["labels"]["fencepost.env"], thing["labels"]["fencepost.owner"]) == ("test", "nobody")

    def test_the_loopback_alone_is_published_and_the_clients_bridge_alone_leads_out(self, file: dict[str, Any]) -> None:
        published = {name: service["ports"] for name, service in file["services"].items() if "ports" in service}
        assert list(published) == ["toxiproxy"]
        assert {port["host_ip"] for port in published["toxiproxy"]} == {"127.0.0.1"}
        clients = [topology.client(group) for group in (topology.GOD, *topology.GROUPS)]
        listeners = {int(proxy.listen.partition(":")[2]) for proxy in PROXIES if proxy.source in clients}
        assert {port["target"] for port in published["toxiproxy"]} == {topology.API_PORT, *listeners}

        assert [name for name, network in file["networks"].items() if not network.get("internal")] == ["ctl"]

    def test_auxiliaries_dial_through_toxiproxy(self, file: dict[str, Any]) -> None:
        via = topology.address(9, topology.DATA_HOST)
        assert file["services"]["toxiproxy"]["networks"]["data"]["ipv4_address"] == via
        assert f"replicaof {via} {topology.dialled(REPLICA)}" in " ".join(file["services"][REPLICA]["command"])
        bouncer = file["services"][BOUNCER]["environment"]
        assert bouncer["PGBOUNCER_SERVER"] == f"host={via} port={topology.dialled(BOUNCER)}"

    def test_a_node_may_have_its_own_image_and_is_labelled_with_the_booted_one(self, file: dict[str, Any]) -> None:
        assert [file["services"][f"etcd{i}"]["image"] for i in (1, 2, 3)] == ["etcd:old", "etcd:new", "etcd:old"]
        booted = [file["services"][f"etcd{i}"]["labels"][compose.BOOTED] for i in (1, 2, 3)]
        assert booted == ["etcd:old", "etcd:old", "etcd:old"]
        for backend in shaped(FIVE).values():
            for node in backend.nodes:
                assert file["services"][node]["labels"][compose.BOOTED]
