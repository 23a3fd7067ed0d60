"""Clusters of somebody else's: how they are named, whether they let us in, and what hooks do to their nodes."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from infra.access import Access
from infra.backends import BACKENDS
from infra.docker import images
from infra.errors import Failed
from infra.faults.link_question import LinkAnswer, Prober
from infra.network.links import Cut
from infra.target import external_cluster
from infra.target.external_cluster import External
from infra.target.external_environment import ExternalEnvironment
from infra.target.hooks import Hooks
from infra.tests.live.hurting import await_
from infra.tests.live.staging import PASSWORD, Staging, staging

REDIS = Prober(BACKENDS["redis"])


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staging]:
    with staging(tmp_path_factory.mktemp("staging")) as there:
        there.redis(1)
        there.plain_redis()
        yield there


class TestAdmission:
    """What is wrong is said in one line that names the node."""

    def _says(self, addresses: str, access: Access) -> str:
        given = external_cluster.parse([f"redis={addresses}"], {})["redis"]
        with pytest.raises(Failed) as caught:
            external_cluster.check(External("redis", given.addresses, access))
        assert PASSWORD not in str(caught.value)
        (line,) = str(caught.value).splitlines()
        return line

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"password": "wrong"}, "WRONGPASS"),
            ({"user": "", "password": ""}, "it wants a password: FENCEPOST_REDIS_PASSWORD"),
            ({"ca": ""}, "its certificate is not accepted"),
            ({"cert": "", "key": ""}, "name one in FENCEPOST_REDIS_CERT"),
            ({"tls": False}, "does it speak TLS? then put tls:// before the first host"),
        ],
    )
    def test_with_the_wrong_papers(self, there: Staging, change: dict[str, object], says: str) -> None:
        where = there.where("redis1")
        told = self._says(where, replace(there.access("redis"), **change))  # type: ignore[arg-type]
        assert told.startswith(f"redis1 ({where}): ")
        assert says in told

    def test_at_the_wrong_address(self, there: Staging) -> None:
        with socket.create_server((there.gateway, 0), backlog=1) as server:
            port = server.getsockname()[1]
        told = self._says(f"{there.where('plain')},{there.gateway}:{port},nowhere.invalid:1", Access())
        assert told == f"redis2 ({there.gateway}:{port}): connection refused; redis3 (nowhere.invalid:1): no such host"

    def test_with_tls_where_nobody_speaks_it(self, there: Staging) -> None:
        told = self._says(there.where("plain"), Access(tls=True))
        assert "no TLS with us" in told or "does it speak TLS there?" in told


@pytest.fixture
def beside(there: Staging) -> Iterator[Callable[..., ExternalEnvironment]]:
    made: list[ExternalEnvironment] = []

    def make(*targets: str, **commands: tuple[str, ...]) -> ExternalEnvironment:
        made.append(ExternalEnvironment.beside(external_cluster.parse(targets, {}), Hooks(commands)))
        return made[-1]

    yield make
    for environment in made:
        environment.close()


class TestNodes:
    def test_hooks_are_proven_from_outside_and_undone_at_the_end(
        self, there: Staging, beside: Callable[..., ExternalEnvironment]
    ) -> None:
        where = there.where("plain")
        plain = f"{there.name}-plain"
        environment = beside(f"redis={where}", pause=("docker", "pause", plain), resume=("docker", "unpause", plain))
        (node,) = environment.ensure("redis").nodes
        (link, *_) = environment.endpoints("redis", 2)
        assert REDIS.ask(link) is LinkAnswer.ANSWERED
        assert environment.unclean() == []
        with pytest.raises(Failed, match="there is no --target etcd"):
            environment.ensure("etcd")
        node.pause("a")
        node.pause("b")
        assert REDIS.ask(link) is LinkAnswer.SILENT
        assert "redis1 is paused" in environment.unclean()
        node.let_go("a")
        assert REDIS.ask(link) is LinkAnswer.SILENT, "the other still wants it"
        node.let_go("b")
        assert REDIS.ask(link) is LinkAnswer.ANSWERED
        environment.links.cut("c2", "redis1", Cut.REFUSE)
        assert REDIS.ask(link) is LinkAnswer.CLOSED
        assert REDIS.ask(where) is LinkAnswer.ANSWERED
        node.pause()
        environment.heal()
        assert environment.unclean() == []
        with pytest.raises(Failed, match=r"redis1: no control over the nodes of a target: --hook kill='\.\.\.' gives"):
            node.kill()
        environment.close()
        assert REDIS.ask(where) is LinkAnswer.ANSWERED

    def test_a_server_on_this_machines_loopback_is_reached_or_said_to_be_out_of_reach(
        self, beside: Callable[..., ExternalEnvironment], there: Staging
    ) -> None:
        places = []
        for address in ("0.0.0.0", "127.0.0.1"):
            with socket.create_server((address, 0)) as free:
                port = free.getsockname()[1]
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
        with pytest.raises(Failed, match=says):
            beside(f"redis={','.join(places)}").ensure("redis")
