"""Targets: clusters that exist already. Parses the options `--target`, and checks that every node lets us in.

The nodes get the names that our nodes have (redis1, redis2, ... in the order given). User, password and certificate
files come from environment variables: see `infra.access`. `infra/target/external_environment.py` reaches the clusters.
"""

import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from infra.access import TLS, Access, BadAccess, variable
from infra.backends import BACKENDS
from infra.backends.answers import Health
from infra.backends.backend import Server
from infra.backends.conversation import EXPLAINS_WITHIN, unexpected
from infra.errors import Failed
from infra.faults.fault import Need, World
from infra.target.hooks import NEEDED, Hooks
from infra.waiting import at_once

_ADDRESS: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]/,\s]+)):([0-9]{1,5})")


class BadTarget(ValueError):
    """A target that cannot be understood. The text says why, and repeats nothing that may be secret."""


@dataclass(frozen=True, slots=True)
class External:
    """A cluster that is not ours. addresses: host and port of each node, in order."""

    backend: str
    addresses: tuple[tuple[str, int], ...]
    access: Access

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its nodes here, in order."""
        return tuple(map(BACKENDS[self.backend].member, range(1, len(self) + 1)))

    def __len__(self) -> int:
        return len(self.addresses)

    def where(self, index: int) -> str:
        """The name and the address of a node, for people: "redis2 (10.1.2.4:6379)"."""
        return f"{self.names[index]} ({self.server(index).endpoint})"

    def server(self, index: int) -> Server:
        """A node, past all links."""
        return Server(self.names[index], endpoint(*self.addresses[index]), self.access)


def endpoint(host: str, port: int) -> str:
    """`host:port`, with the brackets that an address of IPv6 needs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse(pairs: Sequence[str], environ: Mapping[str, str]) -> dict[str, External]:
    """Backend -> its cluster, from options `BACKEND=[tls://]HOST:PORT,...`. Raises BadTarget."""
    externals: dict[str, External] = {}
    for pair in pairs:
        backend, _, rest = pair.partition("=")
        if "@" in pair:
            named = backend if backend in BACKENDS else "<backend>"
            user, password = (variable(named, what) for what in ("user", "password"))
            raise BadTarget(f"user and password are taken from {user} and {password}, never from the command line")
        if backend not in BACKENDS:
            raise BadTarget(f"{pair}: expected one of {', '.join(BACKENDS)} and =HOST:PORT,...")
        if backend in externals:
            raise BadTarget(f"{pair}: there is one of {backend} already")
        parts = [part.strip() for part in rest.split(",")]
        tls = parts[0].startswith(TLS)
        addresses = tuple(_address(part.removeprefix(TLS) if tls else part, pair) for part in parts)
        if len(set(addresses)) < len(addresses):
            raise BadTarget(f"{pair}: names a node twice")
        if len(addresses) > 1 == len(BACKENDS[backend].hosts):
            raise BadTarget(f"{pair}: one server, please")
        try:
            access = Access.of(backend, environ, tls=tls, password_alone=BACKENDS[backend].password_alone)
        except BadAccess as error:
            raise BadTarget(str(error)) from error
        externals[backend] = External(backend, addresses, access)
    return externals


def world(external: External, hooks: Hooks) -> World:
    """What faults can be done to a cluster that is not ours."""
    missing: dict[Need, str] = {
        "peer-links": "the links between the nodes of a target are not ours to cut",
        "clock": "the clocks of a target are not ours to set",
        "disk": "the disks of a target are not ours to fill or to slow down",
        "version": "the versions of a target are not ours to change",
        "failover": "the roles of a target's nodes are not ours to change",
        "maintenance": "what a target keeps is not ours to compact or to rewrite",
        "load": "nothing is written to a target but what locks write",
    }
    if external.access.tls:
        missing["tap"] = "what passes between clients and this target is encrypted, so its messages cannot be counted"
    for need in NEEDED:
        if verbs := hooks.missing(need):
            give = " and ".join(f"--hook {verb}='...'" for verb in verbs)
            missing[need] = f"no control over the nodes of a target: {give} {'gives' if len(verbs) == 1 else 'give'} it"
    return World(missing, external.names)


def check(external: External) -> None:
    """Check from here that every node is there and lets us in. Raises Failed: one line that names those that fail."""
    answers = at_once(partial(_examine, external), range(len(external)))
    wrong: dict[str, list[str]] = {}
    for index, why in enumerate(answers):
        if isinstance(why, str):
            wrong.setdefault(why, []).append(external.where(index))
    if wrong:
        raise Failed(external.access.masked("; ".join(f"{', '.join(who)}: {why}" for why, who in wrong.items())))
    healths = [health for health in answers if isinstance(health, Health)]
    if not BACKENDS[external.backend].whole(healths):
        raise Failed(f"{external.backend}: these nodes do not follow one leader among them: name all of its members")


def _address(text: str, pair: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[3]) < 65536:
        raise BadTarget(f"{pair}: {text!r} is not HOST:PORT ({TLS} may stand before the first)")
    return match[1] or match[2], int(match[3])


def _examine(external: External, index: int) -> Health | str:
    """The health of a node, or the reason why clients cannot use the node."""
    backend, access, server = BACKENDS[external.backend], external.access, external.server(index)
    try:
        health = backend.probe(server)
        if health is None:
            return backend.refusal(server)
    except socket.gaierror:
        return "no such host"
    except TimeoutError:
        return f"no answer within {EXPLAINS_WITHIN:.0f} s" + (" (does it speak TLS there?)" if access.tls else "")
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not accepted: {error.verify_message}"
    except ssl.SSLError as error:
        why = "it hangs up" if isinstance(error, ssl.SSLEOFError) else error.reason or str(error)
        wants = f"; if it wants a certificate of ours, name one in {variable(external.backend, 'cert')}"
        return f"no TLS with us: {why} (if it speaks none, leave {TLS} away{'' if access.cert else wants})"
    except ConnectionResetError:
        return unexpected("", access)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return backend.unusable(health) or health
