"""How this machine reaches into an environment: by the addresses of the bridges, or by published ports.

On Linux the bridges are ours to reach. Where the engine runs in a virtual machine (macOS, Docker Desktop, rootless)
they are not, and ports of Toxiproxy published on 127.0.0.1 stand in. Those go through a helper of the engine that
accepts connections which Toxiproxy then refuses and turns resets into orderly ends, so some faults look different.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from docker import DockerClient

from infra import compose, slots, star
from infra.compose import Settings
from infra.star import API_PORT, GOD

LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Reach:
    """Addresses. published: Toxiproxy's port -> ours on 127.0.0.1; None where the bridges are reached."""

    slot: int
    published: Mapping[int, int] | None

    @classmethod
    def to(cls, client: DockerClient, settings: Settings) -> Self:
        """Find out for an environment whose Toxiproxy runs."""
        if not settings.publish:
            return cls(settings.slot, None)
        told = client.api.inspect_container(compose.container(settings.name, "toxiproxy"))
        ports = told["NetworkSettings"]["Ports"]
        return cls(
            settings.slot,
            {int(port.partition("/")[0]): int(ours[0]["HostPort"]) for port, ours in ports.items() if ours},
        )

    def api(self) -> tuple[str, int]:
        """Toxiproxy's API."""
        return self.listens(API_PORT)

    def through(self, node: str, group: int) -> tuple[str, int]:
        """A node, through the link of a client group."""
        return self.listens(star.listener(node, group))

    def past(self, node: str) -> tuple[str, int]:
        """A node, by a way that no fault touches."""
        if self.published is None:
            return slots.address(self.slot, star.HOSTS[node]), star.client_port(node)
        return self.through(node, GOD)

    def listens(self, port: int) -> tuple[str, int]:
        """Where Toxiproxy takes the connections that it knows by this port; KeyError where it is not published."""
        if self.published is None:
            return slots.address(self.slot, star.TOXIPROXY_HOST), port
        return LOOPBACK, self.published[port]


def needs_published(client: DockerClient) -> bool:
    """Whether the bridges of this engine are out of our reach. FENCEPOST_PUBLISH=1 says so whatever we think."""
    if os.environ.get("FENCEPOST_PUBLISH") == "1" or sys.platform != "linux":
        return True
    if not client.api.base_url.startswith("http+docker://"):  # not a socket of this machine
        return True
    told = client.info()
    return "Docker Desktop" in told["OperatingSystem"] or "name=rootless" in (told.get("SecurityOptions") or ())
