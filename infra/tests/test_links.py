"""Links as they are named, without a Toxiproxy."""

import pytest

from infra.links import Cut, Links
from infra.machine import Failed, Unknown
from infra.toxiproxy import Api


class TestWithoutToxiproxy:
    @pytest.fixture
    def unconnected(self) -> Links:
        return Links(Api("127.0.0.1", 9))

    def test_pairs(self, unconnected: Links) -> None:
        pairs = unconnected.pairs()
        assert len(pairs) == len(set(pairs)) == 3 * 14 + 6 + 6 + 2
        assert ("c3", "store") in pairs
        assert ("zk1", "zk2") in pairs
        assert ("etcd1", "etcd1") not in pairs
        assert not any("c0" in pair for pair in pairs)

    @pytest.mark.parametrize(
        ("a", "b", "said"),
        [("c9", "redis1", "there are c1, redis1"), ("etcd1", "redis1", "lead to c1, c2, c3, etcd2, etcd3")],
    )
    def test_unknown_links_are_told_with_what_there_is(self, unconnected: Links, a: str, b: str, said: str) -> None:
        with pytest.raises(Unknown, match=said):
            unconnected.cut(a, b, Cut.DROP)

    def test_one_direction_cannot_be_refused(self, unconnected: Links) -> None:
        with pytest.raises(ValueError, match="cut both"):
            unconnected.block("c1", "redis1", Cut.REFUSE)

    def test_no_answer_is_an_error(self, unconnected: Links) -> None:
        with pytest.raises(Failed, match="toxiproxy: get /proxies"):
            unconnected.heal_all()
