"""A /24 of its own for every environment: 10.77.N.0, N chosen so that nobody else has it.

The engine refuses overlapping networks, so the engine decides. The lock file only keeps two processes of this user from
choosing the same N in the second between the choice and the creation of the networks. Subnets are fixed because the
engine's own pools end at about thirty networks, which is three environments.
"""

import contextlib
import fcntl
import ipaddress
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from docker import DockerClient

from infra.docker import machine
from infra.errors import Failed
from infra.network.topology import FIRST_BYTES, address
from infra.suggestions import command

SLOTS: Final = range(256)


class Taken(Failed):
    """The subnet was taken between our check and our use of it, or the engine lost it; the next subnet may work."""


def net(slot: int) -> str:
    """The slot as docker-compose.yml wants it: the second and third byte."""
    return f"{FIRST_BYTES.partition('.')[2]}.{slot}"


def free(client: DockerClient) -> Generator[int, None, None]:
    """Slots that look free. We lock a slot until the next one is drawn, or this is closed. Raises Failed at the end."""
    folder = machine.cache_dir()
    for slot in SLOTS:
        with (folder / f"slot-{slot}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            # Checked under the lock: a process that held it before has made its networks by now.
            ours = ipaddress.ip_network(f"{address(slot, 0)}/24")
            if not any(ours.overlaps(other) for other in _in_use(client)):
                yield slot
    raise Failed(f"no free subnet: all of {FIRST_BYTES}.0.0/16 is in use ({command('down --all')}, docker network ls)")


def _in_use(client: DockerClient) -> Iterator[ipaddress.IPv4Network]:
    """The networks of the engine, and the subnets that this machine has routes to, a VPN's say. Default routes cover
    everything and do not count.
    """
    for network in client.api.networks():
        for config in (network.get("IPAM") or {}).get("Config") or ():
            with contextlib.suppress(ValueError):  # IPv6
                yield ipaddress.IPv4Network(config.get("Subnet", ""))
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/route").read_text().splitlines()[1:]:
            words = line.split()
            to, mask = (int.from_bytes(bytes.fromhex(words[i]), "little") for i in (1, 7))
            if mask:
                yield ipaddress.IPv4Network((to, mask.bit_count()))
