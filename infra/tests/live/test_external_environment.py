"""Clusters of others: how they are named, whether they let us in, and what hooks do to their nodes."""

import random
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from checkers.tests.build import cases
from infra.access import Access
from infra.backends import BACKENDS
from infra.docker import images
from infra.errors import Failed
from infra.faults.link_probe import LinkAnswer, Prober
from infra.network.links import Cut
from infra.target import external_cluster, external_environment
from infra.target.external_environment import ExternalEnvironment
from infra.target.hooks import Hooks
from infra.tests.environments import COMES_WITHIN, await_unclean
from infra.tests.live.hurting import await_
from infra.tests.live.staging import PASSWORD, Staging, staging

REDIS = Prober(BACKENDS["redis"])


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staging]:
    with staging(tmp_path_factory.mktemp("staging")) as there:
        there.redis(1)
        there.plain_redis()
        yield there


def await_error(call: Callable[[], object], is_so: Callable[[str], object]) -> None:
    """Wait until a call raises Failed with an error of which this is so."""
    told: list[str] = []

    def so() -> bool:
        with pytest.raises(Failed) as caught:
            call()
        told.append(str(caught.value))
        return bool(is_so(told[-1]))

    await_(so, lambda: told[-1])


class TestAdmission:
    """An error is one line that names the node. For a node that stands still it says that the node does not answer."""

    def _await_said(self, addresses: str, access: Access, what: Callable[[str], bool]) -> None:
        given = external_cluster.parse([f"redis={addresses}"], {})["redis"]

        def so(error: str) -> bool:
            assert PASSWORD not in error
            assert len(error.splitlines()) == 1
            return what(error)

        await_error(lambda: external_cluster.check(replace(given, access=access)), so)

    @cases(
        "change, says",
        ({"password": "wrong"}, "WRONGPASS"),
        ({"user": "", "password": ""}, "it wants a password: FENCEPOST_REDIS_PASSWORD"),
        ({"ca": ""}, "its certificate is not accepted"),
        ({"cert": "", "key": ""}, "name one in FENCEPOST_REDIS_CERT"),
        ({"tls": False}, "does it speak TLS? then put tls:// before the first host"),
    )
    def test_the_error_names_the_wrong_credential(self, there: Staging, change: dict[str, object], says: str) -> None:
        where = there.where("redis1")
        access = replace(there.access("redis"), **change)  # type: ignore[arg-type]
        self._await_said(where, access, lambda told: told.startswith(f"redis1 ({where}): ") and says in told)

    def test_the_error_for_wrong_addresses_names_each_node(self, there: Staging) -> None:
        with socket.socket() as deaf:  # bound, so that no other process has the port
            deaf.bind((there.gateway, 0))
            where = f"{there.gateway}:{deaf.getsockname()[1]}"
            says = f"redis2 ({where}): connection refused; redis3 (nowhere.invalid:1): no such host"
            self._await_said(f"{there.where('plain')},{where},nowhere.invalid:1", Access(), lambda told: told == says)

    def test_the_error_for_tls_with_a_plain_server_says_so(self, there: Staging) -> None:
        says = ("no TLS with us", "does it speak TLS there?")
        self._await_said(there.where("plain"), Access(tls=True), lambda told: any(words in told for words in says))


def unused(address: str) -> int:
    """A free port at this address that the kernel does not assign to a process by itself."""
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = [port for port in range(2000, 65_536) if not first <= port <= last] or range(2000, 65_536)
    while True:
        port = random.choice(ports)
        with suppress(OSError), socket.create_server((address, port)):
            return port


@pytest.fixture
def beside(there: Staging, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ExternalEnvironment]]:
    monkeypatch.setattr(external_environment, "REACHED_WITHIN", COMES_WITHIN)
    monkeypatch.setattr(external_environment, "SHOWS_WITHIN", COMES_WITHIN)
    made: list[ExternalEnvironment] = []

    def make(*targets: str, **commands: tuple[str, ...]) -> ExternalEnvironment:
        made.append(ExternalEnvironment.beside(external_cluster.parse(targets, {}), Hooks(commands)))
        return made[-1]

    yield make
    for environment in made:
        environment.close()


class TestNodes:
    def test_hooks_are_proven_and_then_undone(self, there: Staging, beside: Callable[..., ExternalEnvironment]) -> None:
        where = there.where("plain")
        plain = f"{there.name}-plain"
        environment = beside(f"redis={where}", pause=("docker", "pause", plain), resume=("docker", "unpause", plain))
        await_(lambda: ensured(environment))
        (node,) = environment.cluster("redis").nodes
        (link, *_) = environment.endpoints("redis", 2)
        await_(lambda: REDIS.ask(link) is LinkAnswer.ANSWERED)
        await_unclean(environment)
        with pytest.raises(Failed, match="there is no --target etcd"):
            environment.ensure("etcd")
        node.pause("a")
        node.pause("b")
        assert REDIS.ask(link) is LinkAnswer.SILENT
        await_(lambda: "redis1 is paused" in environment.unclean())
        node.let_go("a")
        assert REDIS.ask(link) is LinkAnswer.SILENT, "the other still wants it"
        node.let_go("b")
        await_(lambda: REDIS.ask(link) is LinkAnswer.ANSWERED)
        environment.links.cut("c2", "redis1", Cut.REFUSE)
        await_(lambda: REDIS.ask(link) is LinkAnswer.CLOSED)
        await_(lambda: REDIS.ask(where) is LinkAnswer.ANSWERED)
        node.pause()
        environment.heal()
        await_unclean(environment)
        with pytest.raises(Failed, match=r"redis1: no control over the nodes of a target: --hook kill='\.\.\.' gives"):
            node.kill()
        environment.close()
        await_(lambda: REDIS.ask(where) is LinkAnswer.ANSWERED)

    def test_a_server_that_listens_only_on_loopback_is_reported_as_out_of_reach(
        self, beside: Callable[..., ExternalEnvironment], there: Staging, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(external_environment, "REACHED_WITHIN", 5.0)  # the test waits for all of it
        places = []
        for address in ("0.0.0.0", "127.0.0.1"):
            port = unused(address)
            places.append(f"127.0.0.1:{port}")
            there.docker.containers.run(
                images.resolve("redis").name,
                ["redis-server", "--bind", address, "--port", str(port), "--protected-mode", "no"],
                network_mode="host",
                labels=there.labels,
                detach=True,
            )
        await_(lambda: all(REDIS.ask(where) is LinkAnswer.ANSWERED for where in places))
        says = rf"^redis2 \({places[1]}\) answers here, but Toxiproxy's container cannot reach it as 10\.77\."
        environment = beside(f"redis={','.join(places)}")
        await_error(lambda: environment.ensure("redis"), partial(re.search, says))


def ensured(environment: ExternalEnvironment) -> bool:
    """Whether all nodes answered in time."""
    with suppress(Failed):
        environment.ensure("redis")
    return "redis" in environment.clusters
