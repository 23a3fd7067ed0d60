"""Clusters that stand in for those of others: containers beside the star, on a network of their own, with passwords.

Their ports are published on that network's gateway, an address of this machine, as a real cluster has its own address.
"""

import io
import os
import secrets
import socket
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from docker import DockerClient
from docker.models.containers import Container
from docker.types import IPAMConfig, IPAMPool
from kazoo.security import make_digest_acl

from infra.access import Access
from infra.docker import client, images, owner, reaper, subnets
from infra.docker.machine import run
from infra.network import topology
from infra.tests.live.hurting import await_, place, zookeeper

PASSWORD: Final = "s3cret/with%odd'signs"
USER: Final = "guest"
_MAY: Final = "+ping +info +quit +eval +set +get +incr +del +pexpire"  # what the locks need of Redis
_ETCDCTL: Final = "etcdctl", "--cacert=/tls/ca.pem", "--endpoints=https://127.0.0.1:2379", "--command-timeout=60s"
_DONE_BEFORE: Final = b"already exists", b"user name is empty"  # the latter when authentication is on


@dataclass
class Staging:
    """The containers that were started on one network. folder: where certificates are written."""

    docker: DockerClient
    name: str
    gateway: str
    folder: Path
    containers: dict[str, Container] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        return {reaper.ENV: self.name, reaper.OWNER: owner.this_process()}

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    def redis(self, count: int) -> str:
        """Redis with TLS for clients with a certificate; its user may only do what locks need; `host:port,...`."""
        self._certificates()
        rules = f"on >{PASSWORD} ~fencepost:* {_MAY}".split()
        command = ["redis-server", "--port", "0", "--tls-port", "6379", "--tls-auth-clients", "yes"]
        command += ["--tls-ca-cert-file", "/tls/ca.pem", "--tls-cert-file", "/tls/server.pem"]
        command += ["--tls-key-file", "/tls/server.key", "--user", "default", "off", "--user", USER, *rules]
        names = [f"redis{number}" for number in range(1, count + 1)]
        for name in names:
            self._run(name, "redis", 6379, command=command, tls=True)
        return self._listed(names)

    def plain_redis(self) -> str:
        self._run("plain", "redis", 6379)
        return self._listed(["plain"])

    def etcd(self, count: int) -> str:
        """etcd with TLS and two users: root, and one who may only use our prefix; `host:port,...`."""
        self._certificates()
        names = [f"etcd{number}" for number in range(1, count + 1)]
        cluster = ",".join(f"{name}=http://{name}:2380" for name in names)
        for name in names:
            flags = f"""--name={name} --initial-cluster={cluster} --cert-file=/tls/server.pem --key-file=/tls/server.key
                --listen-peer-urls=http://0.0.0.0:2380 --initial-advertise-peer-urls=http://{name}:2380
                --listen-client-urls=https://0.0.0.0:2379 --advertise-client-urls=https://{name}:2379"""
            self._run(name, "etcd", 2379, command=flags.split(), tls=True)
        root = secrets.token_hex(8)
        for line in (
            "endpoint health",
            f"user add root:{root}",
            "user grant-role root root",
            "role add locks",
            "role grant-permission locks --prefix=true readwrite /fencepost",
            f"user add {USER}:{PASSWORD}",
            f"user grant-role {USER} locks",
            "auth enable",
        ):
            await_(partial(self._is_done, names[0], line), lambda line=line: line)  # type: ignore[misc]
        return self._listed(names)

    def _is_done(self, name: str, line: str) -> bool:
        """Whether an `etcdctl` command is done: also if it was done before, and its answer lost, as in an election."""
        status, said = self.containers[name].exec_run([*_ETCDCTL, *line.split(" ")])
        return status == 0 or any(words in said for words in _DONE_BEFORE)

    def zookeeper(self) -> str:
        """One server alone. Only one user may use its `/fencepost`."""
        self._run("zk1", "zookeeper", 2181)
        where = self._listed(["zk1"])
        with zookeeper(where) as client:
            client.create("/fencepost", acl=[make_digest_acl(USER, PASSWORD, all=True)])
        return where

    def secrets(self, backend: str) -> dict[str, str]:
        """The environment variables with which a run is let in."""
        given = {"USER": USER, "PASSWORD": PASSWORD}
        if backend != "zookeeper":
            given["CA"] = str(self.ca)
        if backend == "redis":
            given |= {"CERT": str(self.folder / "client.pem"), "KEY": str(self.folder / "client.key")}
        return {f"FENCEPOST_{backend}_{what}".upper(): value for what, value in given.items()}

    def access(self, backend: str) -> Access:
        return Access.of(backend, self.secrets(backend), tls=backend != "zookeeper")

    def says(self, name: str, words: Sequence[str]) -> str:
        """The output of a command in a container, whatever its exit status."""
        said: Any = self.containers[name].exec_run(list(words)).output
        return str(said.decode())

    def etcdctl(self, *words: str) -> list[str]:
        """The words of an `etcdctl` command, as the user who may only use our prefix."""
        return [*_ETCDCTL, f"--user={USER}:{PASSWORD}", *words]

    def queues(self) -> list[str]:
        """The nodes under ZooKeeper's `/fencepost`."""
        with zookeeper(self.where("zk1"), auth_data=[("digest", f"{USER}:{PASSWORD}")]) as client:
            nodes: list[str] = client.get_children("/fencepost")
        return nodes

    def _run(self, name: str, image: str, port: int, *, command: Sequence[str] = (), tls: bool = False) -> None:
        images.ensure(chosen := images.resolve(image))
        container = self.containers[name] = self.docker.containers.create(
            chosen.name,
            command=list(command) or None,
            name=f"{self.name}-{name}",
            hostname=name,
            network=self.name,
            labels=self.labels,
            ports={f"{port}/tcp": (self.gateway, 0)},
        )
        if tls:
            container.put_archive("/", self._archive())
        container.start()
        container.reload()
        await_(lambda: _listens(self.where(name)), lambda: name)

    def where(self, name: str) -> str:
        """`host:port` of a container that runs."""
        ports: dict[str, Any] = self.containers[name].ports
        ((published,),) = ports.values()
        return f"{self.gateway}:{published['HostPort']}"

    def _listed(self, names: Sequence[str]) -> str:
        return ",".join(map(self.where, names))

    def _archive(self) -> bytes:
        def readable(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mode |= 0o555
            return member

        with io.BytesIO() as buffer:
            with tarfile.open(fileobj=buffer, mode="w") as archive:
                archive.add(self.folder, "tls", filter=readable)
            return buffer.getvalue()

    def _certificates(self) -> None:
        """Make certificates. The server's only name is the gateway's address: a proxy in between has another."""
        if self.ca.exists():
            return

        def openssl(*words: str) -> None:
            run(["openssl", *words])

        def path(name: str) -> str:
            return str(self.folder / name)

        new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl(*new, "-x509", "-days", "2", "-subj", "/CN=staging", "-keyout", path("ca.key"), "-out", str(self.ca))
        (self.folder / "san").write_text(f"subjectAltName=IP:{self.gateway},IP:127.0.0.1\n")
        for who in ("server", "client"):
            openssl(*new, "-subj", f"/CN={who}", "-keyout", path(f"{who}.key"), "-out", path(f"{who}.csr"))
            sign = ("x509", "-req", "-days", "2", "-CA", str(self.ca), "-CAkey", path("ca.key"), "-CAcreateserial")
            openssl(*sign, "-in", path(f"{who}.csr"), "-out", path(f"{who}.pem"), "-extfile", path("san"))


@contextmanager
def staging(folder: Path) -> Iterator[Staging]:
    """Staging on a network of its own. The network and its containers are removed at the end, or by the reaper."""
    docker = client.connect()
    name = f"staging-{os.getpid()}-{secrets.token_hex(2)}"
    labels = {reaper.ENV: name, reaper.OWNER: owner.this_process()}
    with closing(subnets.free(docker)) as free:
        slot = next(iter(free))
        pool = IPAMPool(subnet=f"{topology.address(slot, 0)}/24", gateway=topology.address(slot, 1))
        docker.networks.create(name, labels=labels, ipam=IPAMConfig(pool_configs=[pool]))
    try:
        yield Staging(docker, name, topology.address(slot, 1), folder)
    finally:
        reaper.remove(docker, name)


def _listens(where: str) -> bool:
    with suppress(OSError), socket.create_connection(place(where), timeout=1):
        return True
    return False
