"""The star's links, and what several want of the same, on a Toxiproxy that tells whoever steps into its traps."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.backends import BACKENDS
from infra.backends.postgres import BOUNCER
from infra.backends.redis import REPLICA
from infra.errors import Failed, UnknownName
from infra.network import links as links_module
from infra.network import topology, toxics
from infra.network.links import Cut, Links
from infra.network.topology import Proxy
from infra.network.toxics import RESET, STREAMS, Impairment, Stream, bandwidth, delay, late_end, slices
from infra.network.toxiproxy_api import Api, ProxyState
from infra.tests.imagined import Toxiproxy


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "_DRAIN", 0.0)


@pytest.fixture
def api() -> Toxiproxy:
    return Toxiproxy()


@pytest.fixture
def links(api: Toxiproxy) -> Links:
    return Links(api)


KEYS = ("a", "b/1", "hand")
PAIRS = (("c1", "redis1"), ("zk1", "zk2"), ("zk2", "zk1"))
BY_OTHERS = Impairment("limit_data", {"bytes": 9})
KINDS = (delay(20, 5), delay(70), bandwidth(10), bandwidth(20), slices(5), late_end(100), RESET, BY_OTHERS)

steps = st.one_of(
    st.tuples(st.just("cut"), st.sampled_from(PAIRS), st.sampled_from(Cut)),
    st.tuples(st.just("block"), st.sampled_from(PAIRS), st.sampled_from((Cut.DROP, Cut.HOLD))),
    st.tuples(st.just("impair"), st.sampled_from(PAIRS), st.sampled_from(KINDS)),
    st.tuples(st.just("lift")),
    st.tuples(st.sampled_from(("bury", "revive")), st.sampled_from(("zk1", "redis1"))),
)


class Wishes:
    """What everybody wants of one direction of each proxy, kept in the plainest way."""

    def __init__(self) -> None:
        self.refused: set[tuple[str, str]] = set()  # (key, proxy)
        self.cuts: dict[tuple[str, str, str], Cut] = {}  # (key, proxy, stream) -> how
        self.others: dict[tuple[str, str, str, str], Any] = {}  # (key, proxy, stream, type) -> attributes
        self.dead: set[str] = set()

    def take(self, key: str, verb: str, *args: Any) -> None:
        if verb == "lift":
            self.refused = {wish for wish in self.refused if wish[0] != key}
            self.cuts = {wish: how for wish, how in self.cuts.items() if wish[0] != key}
            self.others = {wish: how for wish, how in self.others.items() if wish[0] != key}
        elif verb in ("bury", "revive"):
            (self.dead.add if verb == "bury" else self.dead.discard)(args[0])
        else:
            (a, b), what = args
            for proxy in topology.proxies():
                if {proxy.source, proxy.target} == {a, b}:
                    self._on(key, verb, proxy, "upstream" if proxy.source == a else "downstream", what)

    def _on(self, key: str, verb: str, proxy: Proxy, stream: Stream, what: Any) -> None:
        if verb == "impair":
            self.others[key, proxy.name, stream, what.type] = dict(what.attributes)
            return
        self.refused.discard((key, proxy.name))
        if what is Cut.REFUSE:
            self.refused.add((key, proxy.name))
            for each in STREAMS:
                self.cuts.pop((key, proxy.name, each), None)
        else:
            for each in STREAMS if verb == "cut" else (stream,):
                self.cuts[key, proxy.name, each] = what

    def check(self, proxy: Proxy, state: ProxyState) -> None:
        refused = any(of == proxy.name for _, of in self.refused)
        open_ = not refused and proxy.target not in self.dead
        assert state.enabled == open_
        if not open_:
            return
        for stream in STREAMS:
            now = [toxic for toxic in state.toxics.values() if toxic.stream == stream]
            wanted = {toxics.cut(how, stream).type for (_, *of), how in self.cuts.items() if of == [proxy.name, stream]}
            if wanted:
                assert toxics.is_cut(now[-1])
                assert now[-1].type in wanted
                assert not any(map(toxics.is_cut, now[:-1]))
            else:
                said = sorted((toxic.type, sorted(toxic.attributes.items())) for toxic in now)
                assert said == sorted(
                    (kind, sorted(of.items()))
                    for (_, name, direction, kind), of in self.others.items()
                    if (name, direction) == (proxy.name, stream)
                )


def do(links: Links, key: str, verb: str, *args: Any) -> None:
    if verb == "lift":
        links.lift(key)
    elif verb in ("cut", "block", "impair"):
        getattr(links, verb)(*args[0], args[1], key)
    else:
        getattr(links, verb)(*args)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(KEYS), steps), max_size=25))
def test_at_every_moment_it_is_what_all_together_want(taken: list[tuple[str, tuple[Any, ...]]]) -> None:
    api = Toxiproxy()
    links, wishes = Links(api), Wishes()
    seen = [proxy for proxy in topology.proxies() if proxy.source != "c0"]

    def check() -> None:
        for proxy in seen:
            wishes.check(proxy, api.proxies[proxy.name])

    for key, (verb, *args) in taken:
        wishes.take(key, verb, *args)
        do(links, key, verb, *args)
        check()
    for node in tuple(wishes.dead):
        wishes.take("", "revive", node)
        links.revive(node)
    for key in KEYS:
        wishes.take(key, "lift")
        links.lift(key)
        check()
    assert links.active() == []
    assert api.proxies == Toxiproxy().proxies


@settings(max_examples=80)
@given(st.lists(st.tuples(st.sampled_from(KEYS), steps), max_size=12))
def test_another_process_heals_all_of_it(taken: list[tuple[str, tuple[Any, ...]]]) -> None:
    api = Toxiproxy()
    links = Links(api)
    for key, (verb, *args) in taken:
        if verb in ("cut", "block", "impair"):
            do(links, key, verb, *args)
    Links(api).heal_all()
    assert api.proxies == Toxiproxy().proxies


def test_every_pair_is_there_once_and_has_a_listener_of_its_own(links: Links) -> None:
    pairs = links.pairs()
    assert len(pairs) == len(set(pairs)) == 3 * 14 + 6 + 6 + 2
    assert {("c3", "store"), ("zk1", "zk2")} <= set(pairs)
    assert not any("c0" in pair or pair[0] == pair[1] for pair in pairs)
    proxies = list(topology.proxies())
    assert len({proxy.name for proxy in proxies}) == len({proxy.listen for proxy in proxies}) == len(proxies)
    assert len(proxies) == 4 * 14 + 1 + 6 + 2 * 6 + 2


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda links: links.cut("c9", "redis1", Cut.DROP), UnknownName, "there are c1, redis1"),
        (lambda links: links.cut("etcd1", "redis1", Cut.DROP), UnknownName, "lead to c1, c2, c3, etcd2, etcd3"),
        (lambda links: links.block("c1", "redis1", Cut.REFUSE), ValueError, "cut both"),
        (lambda _: Links(Api("127.0.0.1", 9)).heal_all(), Failed, "toxiproxy: get /proxies"),
    ],
    ids=["no such link", "no link between these", "one direction cannot be refused", "no Toxiproxy answers"],
)
def test_what_cannot_be_done_says_why(links: Links, call: Callable[[Links], None], error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        call(links)


def slow(links: Links, node: str, latency_ms: int, jitter_ms: int = 0, *, by: str) -> None:
    with links.together():
        links.impair("c1", node, delay(latency_ms, jitter_ms), by)
        links.impair(node, "c1", delay(latency_ms, jitter_ms), by)


def test_delays_of_several_add_up(links: Links) -> None:
    slow(links, "redis1", 50, by="a")
    slow(links, "redis1", 20, 5, by="b")
    assert links.active() == ["c1 <-> redis1: slow by 20 ± 5 ms, slow by 50 ± 0 ms"]
    slow(links, "redis1", 10, by="a")
    assert links.active() == ["c1 <-> redis1: slow by 10 ± 0 ms, slow by 20 ± 5 ms"]
    links.lift("a")
    assert links.active() == ["c1 <-> redis1: slow by 20 ± 5 ms"]


def test_the_two_directions_are_cut_in_different_ways(links: Links) -> None:
    links.block("c1", "store", Cut.HOLD)
    links.block("store", "c1", Cut.DROP)
    assert sorted(links.active()) == ["c1 -> store: bytes held", "store -> c1: bytes dropped"]
    links.block("store", "c1", Cut.HOLD)
    assert links.active() == ["c1 <-> store: bytes held"]


def test_what_is_wanted_of_a_held_link_waits(links: Links) -> None:
    links.cut("c1", "redis1", Cut.HOLD, "a")
    links.cut("c1", "redis1", Cut.DROP, "b")
    slow(links, "redis1", 50, by="c")
    assert links.active() == ["c1 <-> redis1: bytes held"]
    links.lift("a")
    assert links.active() == ["c1 <-> redis1: bytes dropped, slow by 50 ± 0 ms"]
    links.lift("c")
    links.lift("b")
    assert links.active() == []


def test_what_another_process_did_stays_unless_it_is_asked_for(api: Toxiproxy, links: Links) -> None:
    by_hand = Links(api)
    slow(by_hand, "redis1", 30, by="hand")
    by_hand.cut("c1", "redis2", Cut.REFUSE)
    by_hand.cut("c1", "redis3", Cut.HOLD)
    for node in ("redis1", "redis2", "redis3"):
        slow(links, node, 50, by="a")
    links.lift("a")
    links.cut("c1", "redis3", Cut.DROP, "a")
    assert links.active() == [
        "c1 <-> redis1: slow by 30 ± 0 ms",
        "c1 <-> redis2: refused",
        "c1 <-> redis3: bytes dropped",
    ]
    links.heal_all()
    assert links.active() == []


def test_after_a_failover_a_link_lives_with_the_node_that_it_leads_to(api: Toxiproxy, links: Links) -> None:
    led = replace(api.proxies["c1-redis1"], upstream="redis1-replica-node:6379")
    api.proxies["c1-redis1"] = led
    links.bury("redis1")
    assert not api.proxies["c2-redis1"].enabled
    assert api.proxies["c1-redis1"] == led
    links.cut("c1", "redis1", Cut.DROP)
    links.bury("redis1-replica")
    assert not api.proxies["c1-redis1"].enabled
    links.revive("redis1-replica")
    links.lift("hand")
    assert api.proxies["c1-redis1"] == led


def test_what_is_done_together_is_done_at_once(api: Toxiproxy, links: Links) -> None:
    with links.together():
        links.cut("c1", "redis1", Cut.DROP)
        links.cut("c1", "redis2", Cut.DROP)
        assert links.active() == []
    assert len(links.active()) == 2


def test_a_failed_change_is_mended_by_the_next(api: Toxiproxy, links: Links, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(changes: object) -> None:
        raise ConnectionError

    links.cut("c1", "redis1", Cut.DROP, "a")
    with monkeypatch.context() as broken:
        broken.setattr(api, "apply", fails)
        with pytest.raises(ConnectionError):
            links.lift("a")
    assert links.active() == ["c1 <-> redis1: bytes dropped"]
    links.lift("a")
    links.lift("nobody")
    assert links.active() == []


@pytest.mark.parametrize(
    "wrong", [(bandwidth, 0), (delay, 10, 11), (delay, -1), (slices, 0), (slices, 5, 5), (late_end, -1)]
)
def test_what_cannot_be_is_refused(wrong: tuple[Any, ...]) -> None:
    kind, *values = wrong
    with pytest.raises(ValueError, match="not"):
        kind(*values)


def test_names_of_toxics_can_stand_in_a_url_and_are_told_apart() -> None:
    names = {toxics.impairment(RESET, "upstream", key).name for key in ("a/b", "a_2f_b", "a b", "ab", "a?b")}
    assert len(names) == 5
    assert not any(set(name) & set("/? %") for name in names)


def test_backends_and_nodes_have_names() -> None:
    assert topology.backend_of("zk2") == "zookeeper"
    assert topology.client_port("store") == topology.client_port("postgres") == 5432
    assert [topology.backend_of(node) for node in (REPLICA, BOUNCER)] == ["redis", "postgres"]
    assert REPLICA not in BACKENDS["redis"].members
    assert topology.own_image_variable(REPLICA) == "REDIS1_REPLICA_IMAGE"
    with pytest.raises(KeyError):
        topology.backend_of("store")
