"""How this machine reaches into an environment: by the addresses of the bridges, or by published ports.

On Linux the bridges are ours to reach. Where the engine runs in a virtual machine (macOS, Docker Desktop, rootless)
they are not, and ports of Toxiproxy published on 127.0.0.1 stand in. Those go through a helper of the engine that
accepts connections which Toxiproxy then refuses and turns resets into orderly ends, so some faults look different.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from infra.network import topology

FIRST_BYTES: Final = "10.77"
"""Of every address in an environment; its subnet (`infra.docker.subnets`) is the third byte."""

LOOPBACK: Final = "127.0.0.1"


def address(slot: int, host: int) -> str:
    """The address of a host in the subnet of an environment."""
    return f"{FIRST_BYTES}.{slot}.{host}"


@dataclass(frozen=True, slots=True)
class Reach:
    """Addresses. published: Toxiproxy's port -> ours on 127.0.0.1; None where the bridges are reached."""

    slot: int
    published: Mapping[int, int] | None

    def through(self, node: str, group: int) -> tuple[str, int]:
        """A node, through the link of a client group."""
        return self.listens(topology.listener(node, group))

    def past(self, node: str) -> tuple[str, int]:
        """A node, by a way that no fault touches."""
        if self.published is None:
            return address(self.slot, topology.HOSTS[node]), topology.client_port(node)
        return self.through(node, topology.GOD)

    def listens(self, port: int) -> tuple[str, int]:
        """Where Toxiproxy takes the connections that it knows by this port; KeyError where it is not published."""
        if self.published is None:
            return address(self.slot, topology.TOXIPROXY_HOST), port
        return LOOPBACK, self.published[port]
