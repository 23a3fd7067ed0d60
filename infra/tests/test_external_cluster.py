"""Clusters of somebody else's: how they are named, and which faults can be done to them."""

from collections.abc import Sequence

import pytest

from infra.access import OPEN
from infra.faults.all_faults import FAULTS
from infra.faults.fault import PUBLISHED
from infra.target import external_cluster, hooks
from infra.target.external_cluster import BadTarget, External
from infra.target.hooks import Hooks

WITH_NODES = ("pause-server", "kill-server", "wipe-server", "restart-leader")


def of(backend: str, nodes: int) -> External:
    return External(backend, tuple((f"h{number}", 1) for number in range(nodes)), OPEN)


class TestNaming:
    def test_nodes_are_called_as_ours_are_however_many(self) -> None:
        told = external_cluster.parse(["redis=" + ",".join(f"h{n}:1" for n in range(7)), "zookeeper=[::1]:2181"], {})
        assert told["redis"].names == ("redis1", "redis2", "redis3", "redis4", "redis5", "redis6", "redis7")
        assert told["zookeeper"].names == ("zk1",)
        assert told["zookeeper"].addresses == (("::1", 2181),)
        assert told["zookeeper"].where(0) == "zk1 ([::1]:2181)"

    @pytest.mark.parametrize("text", ["redis=tls://a:1,b:2", "redis=tls://a:1,tls://b:2"])
    def test_tls_is_for_all_nodes(self, text: str) -> None:
        told = external_cluster.parse([text], {})["redis"]
        assert (told.addresses, told.access.tls) == ((("a", 1), ("b", 2)), True)

    @pytest.mark.parametrize(
        ("pairs", "says"),
        [
            (["mysql=a:1"], "one of redis, zookeeper, etcd, postgres"),
            (["redis"], "'' is not HOST:PORT"),
            (["redis=a"], "'a' is not HOST:PORT"),
            (["redis=a:0"], "is not HOST:PORT"),
            (["redis=a:1,"], "'' is not HOST:PORT"),
            (["redis=http://a:1"], "is not HOST:PORT"),
            (["redis=a:1,tls://b:1"], "is not HOST:PORT"),
            (["redis=a:1,a:1"], "names a node twice"),
            (["redis=a:1", "redis=b:1"], "there is one of redis already"),
            (["postgres=a:1,b:1"], "one server"),
        ],
    )
    def test_what_cannot_be_understood_is_said_in_a_line(self, pairs: Sequence[str], says: str) -> None:
        with pytest.raises(BadTarget, match=says):
            external_cluster.parse(pairs, {})

    @pytest.mark.parametrize("text", ["redis=redis://u:hidden@h:1", "redis://:hidden@h:1", "redis=tls://u:hidden@h:1"])
    def test_a_password_on_the_command_line_is_refused_and_not_repeated(self, text: str) -> None:
        with pytest.raises(BadTarget, match="_PASSWORD, never from the command line") as caught:
            external_cluster.parse([text], {})
        assert "hidden" not in str(caught.value)


class TestWorld:
    def test_without_hooks_nothing_is_done_to_nodes_nor_between_them(self) -> None:
        world = external_cluster.world(of("etcd", 3), Hooks())
        for name in WITH_NODES:
            assert "no control over the nodes of a target: --hook" in (FAULTS[name].applies("etcd", world) or "")
        for name in ("isolate-leader-drop", "clock-jump-forward", "replace-version", "change-leader"):
            assert any(FAULTS[name].applies(backend, world) for backend in ("redis", "etcd")), name
        for name in ("cut-client-refuse", "slow-links", "freeze-holder", "delayed-write"):
            assert FAULTS[name].applies("redis", world) is None, name
        published = world.without("refusal", PUBLISHED)
        assert FAULTS["cut-client-refuse"].applies("redis", published), "what listens there cannot refuse"

    def test_hooks_give_what_can_be_undone_with_them(self) -> None:
        world = external_cluster.world(of("redis", 5), hooks.parse(["pause=a", "resume=a", "kill=a"]))
        assert FAULTS["pause-server"].applies("redis", world) is None
        why = "no control over the nodes of a target: --hook start='...' gives it"
        assert FAULTS["kill-server"].applies("redis", world) == why

    def test_messages_that_are_encrypted_cannot_be_counted(self) -> None:
        (secured,) = external_cluster.parse(["redis=tls://h:1"], {}).values()
        lose = FAULTS["at-every-request-lose"]
        assert "encrypted" in (lose.applies("redis", external_cluster.world(secured, Hooks())) or "")
        assert lose.applies("redis", external_cluster.world(of("redis", 1), Hooks())) is None

    def test_two_nodes_have_no_minority(self) -> None:
        world = external_cluster.world(of("redis", 2), Hooks())
        assert FAULTS["cut-minority-drop"].applies("redis", world) == "it takes 3 nodes, and here are 2"
        assert FAULTS["cut-client-drop"].applies("redis", world) is None
