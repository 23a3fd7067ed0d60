import psycopg
import pytest

from infra.backends import BACKENDS
from infra.errors import Failed, UnknownName
from infra.faults.target import Target
from infra.network.links import Cut
from infra.network.topology import GROUPS
from infra.own_environment import OwnEnvironment
from infra.tests.environments import await_unclean, on
from infra.tests.live.hurting import ELECTING, await_, versions

pytestmark = pytest.mark.needs(*BACKENDS)

SERIES = {"redis": "8.", "zookeeper": "3.9.", "etcd": "3.5.", "postgres": "17."}  # of the default versions


class TestEnvironment:
    def test_all_is_ready(self, environment: OwnEnvironment) -> None:
        await_unclean(environment)
        sizes = {backend: len(cluster.nodes) for backend, cluster in environment.clusters.items()}
        assert sizes == {"redis": 5, "zookeeper": 3, "etcd": 3, "postgres": 1}
        for backend, cluster in environment.clusters.items():
            await_(cluster.ready)
            assert all(version.startswith(SERIES[backend]) for version in versions(cluster).values())
            if backend in ELECTING:
                await_(lambda cluster=cluster: cluster.leader() is not None)  # type: ignore[misc]
            else:
                assert cluster.leader() is None

    def test_a_running_cluster_is_reused_and_refuses_a_second_version(self, environment: OwnEnvironment) -> None:
        assert environment.ensure("redis") is environment.cluster("redis")
        with pytest.raises(Failed, match="cannot have fencepost/redis:bookworm as well"):
            environment.ensure("redis", "7.0")

    def test_errors_for_unknown_names_list_the_known_names(self, environment: OwnEnvironment) -> None:
        with pytest.raises(UnknownName, match="there are redis, zookeeper"):
            environment.ensure("mysql")
        with pytest.raises(UnknownName, match=r"there are .*redis1"):
            environment.node("redis9")
        with pytest.raises(UnknownName, match=r"etcd1.*toxiproxy"):
            environment.logs("nobody")
        with pytest.raises(KeyError):
            environment.cluster("mysql")

    def test_the_store_answers_every_group(self, environment: OwnEnvironment) -> None:
        for group in (None, *GROUPS):
            with psycopg.connect(environment.store_dsn(group)) as connection:
                assert connection.execute("SHOW fsync").fetchone() == ("off",)

    def test_everything_unclean_is_listed(self, environment: OwnEnvironment) -> None:
        environment.links.block("c1", "redis1", Cut.HOLD)  # between members, a cut might lead to an election
        environment.node("redis2").pause()
        environment.node("redis4").kill()
        silent = [f"{name} does not serve" for name in ("redis2", "redis4")]
        await_unclean(environment, "c1 -> redis1: bytes held", "redis2 is paused", "redis4 is stopped", *silent)
        environment.heal()

    def test_logs_of_nodes_and_of_the_store_can_be_read(self, environment: OwnEnvironment) -> None:
        assert b"Ready to accept connections" in environment.node("redis1").process.logs()
        assert b"database system is ready" in environment.logs("store")


@on("zookeeper", "zookeeper=observer", "etcd=five")
def test_a_majority_has_a_leader_and_without_one_nobody_leads(target: Target) -> None:
    assert OwnEnvironment.attach(target.environment.name).members(target.backend) == target.members
    observers = [name in target.kind.observers for name in target.members]
    await_(lambda: [bool(it and it.leader == "observer") for it in target.cluster.healths()] == observers)
    *few, last = victims = target.cluster.voters[: (len(target.cluster.voters) + 1) // 2]
    for victim in few:
        victim.kill()
    await_(lambda: target.cluster.leader() not in (None, *few))
    last.kill()
    await_(lambda: target.cluster.leader() is None)
    for victim in victims:
        victim.let_go()
    target.cluster.await_ready()


@on("etcd")
def test_the_cpu_time_of_each_service_is_counted(target: Target) -> None:
    environment = target.environment
    before = environment.cpu_seconds()
    assert set(before) >= {"toxiproxy", "store", *(node.name for node in target.cluster.nodes)}

    def worked() -> bool:
        target.cluster.healths()
        used = environment.cpu_seconds()
        return all(used[node.name] > before[node.name] for node in target.cluster.nodes)

    await_(worked)
