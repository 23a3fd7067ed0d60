"""The star's links, also when several keys change one, on a Toxiproxy with pitfalls; how long servers are silent."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, call

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.tests.build import cases
from infra.backends import BACKENDS
from infra.backends.postgres import BOUNCER
from infra.backends.redis import REPLICA
from infra.errors import Failed, UnknownName
from infra.faults.link_probe import LinkAnswer, Watch
from infra.network import topology, toxics
from infra.network.links import Cut, Links
from infra.network.toxics import RESET, STREAMS, Impairment, Stream, bandwidth, delay, late_end, slices
from infra.network.toxiproxy_api import Api, ProxyState
from infra.tests.imagined import Toxiproxy
from infra.waiting import comes_true

A, S, C = LinkAnswer.ANSWERED, LinkAnswer.SILENT, LinkAnswer.CLOSED
KEYS = ("a", "b/1", "hand")
PAIRS = (("c1", "redis1"), ("zk1", "zk2"), ("zk2", "zk1"))
BY_OTHERS = Impairment("limit_data", {"bytes": 9})
KINDS = (delay(20, 5), delay(70), bandwidth(10), bandwidth(20), slices(5, 0), late_end(100), RESET, BY_OTHERS)

steps = st.one_of(
    st.tuples(st.just("cut"), st.sampled_from(PAIRS), st.sampled_from(Cut)),
    st.tuples(st.just("block"), st.sampled_from(PAIRS), st.sampled_from((Cut.DROP, Cut.HOLD))),
    st.tuples(st.just("impair"), st.sampled_from(PAIRS), st.sampled_from(KINDS)),
    st.tuples(st.just("lift")),
    st.tuples(st.sampled_from(("bury", "revive")), st.sampled_from(("zk1", "redis1"))),
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.network.links._DRAIN", 0.0)


@pytest.fixture
def api() -> Toxiproxy:
    return Toxiproxy()


@pytest.fixture
def links(api: Toxiproxy) -> Links:
    return Links(api)


class Wishes:
    """What each key wants of each direction of each proxy, kept in the plainest way."""

    def __init__(self) -> None:
        self.wanted: dict[tuple[str, str, str, str], Any] = {}
        """(key, proxy, stream, what) -> how. what: "refuse" (stream ""), "cut" or the type of a toxic."""
        self.dead: set[str] = set()

    def take(self, key: str, verb: str, *args: Any) -> None:
        if verb == "lift":
            self.wanted = {wish: how for wish, how in self.wanted.items() if wish[0] != key}
        elif verb in ("bury", "revive"):
            (self.dead.add if verb == "bury" else self.dead.discard)(args[0])
        else:
            (a, b), what = args
            for proxy in topology.proxies():
                if {proxy.source, proxy.target} == {a, b}:
                    self._on(key, verb, proxy.name, "upstream" if proxy.source == a else "downstream", what)

    def _on(self, key: str, verb: str, proxy: str, stream: Stream, what: Any) -> None:
        if verb == "impair":
            self.wanted[key, proxy, stream, what.type] = sorted(what.attributes.items())
            return
        self.wanted.pop((key, proxy, "", "refuse"), None)
        if what is Cut.REFUSE:
            self.wanted[key, proxy, "", "refuse"] = what
            for each in STREAMS:
                self.wanted.pop((key, proxy, each, "cut"), None)
        else:
            for each in STREAMS if verb == "cut" else (stream,):
                self.wanted[key, proxy, each, "cut"] = what

    def check(self, proxy: topology.Proxy, state: ProxyState) -> None:
        wanted = [(stream, what, how) for (_, of, stream, what), how in self.wanted.items() if of == proxy.name]
        open_ = not any(what == "refuse" for _, what, _ in wanted) and proxy.target not in self.dead
        assert state.enabled == open_
        if not open_:
            return
        for stream in STREAMS:
            now = [toxic for toxic in state.toxics.values() if toxic.stream == stream]
            here = [(what, how) for of, what, how in wanted if of == stream]
            if cuts := {toxics.cut(how, stream).type for what, how in here if what == "cut"}:
                assert toxics.is_cut(now[-1])
                assert now[-1].type in cuts
                assert not any(map(toxics.is_cut, now[:-1]))
            else:
                assert sorted((toxic.type, sorted(toxic.attributes.items())) for toxic in now) == sorted(here)


def do(links: Links, key: str, verb: str, *args: Any) -> None:
    if verb == "lift":
        links.lift(key)
    elif verb in ("cut", "block", "impair"):
        getattr(links, verb)(*args[0], args[1], key)
    else:
        getattr(links, verb)(*args)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(KEYS), steps), max_size=25))
def test_links_are_always_what_all_keys_together_want(taken: list[tuple[str, tuple[Any, ...]]]) -> None:
    api = Toxiproxy()
    links, wishes = Links(api), Wishes()

    def check() -> None:
        for proxy in topology.proxies():
            if proxy.source != "c0":
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
    assert (links.active(), api.proxies) == ([], Toxiproxy().proxies)


@settings(max_examples=80)
@given(st.lists(st.tuples(st.sampled_from(KEYS), steps), max_size=12))
def test_another_process_heals_all_links(taken: list[tuple[str, tuple[Any, ...]]]) -> None:
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


@cases(
    "call, error, said",
    ("no such node", lambda links: links.cut("c9", "redis1", Cut.DROP), UnknownName, "there are c1, redis1"),
    ("no link", lambda links: links.cut("etcd1", "redis1", Cut.DROP), UnknownName, "lead to c1, c2, c3, etcd2, etcd3"),
    ("one direction cannot be refused", lambda links: links.block("c1", "redis1", Cut.REFUSE), ValueError, "cut both"),
    ("no Toxiproxy answers", lambda _: Links(Api("127.0.0.1:9")).heal_all(), Failed, "toxiproxy: get /proxies"),
)
def test_an_impossible_link_change_says_why(links: Links, call: Callable[[Links], None], error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        call(links)


def slow(links: Links, node: str, latency_ms: int, jitter_ms: int = 0, *, by: str) -> None:
    with links.together():
        links.impair("c1", node, delay(latency_ms, jitter_ms), by)
        links.impair(node, "c1", delay(latency_ms, jitter_ms), by)


def test_the_two_directions_are_cut_in_different_ways(links: Links) -> None:
    links.block("c1", "store", Cut.HOLD)
    links.block("store", "c1", Cut.DROP)
    assert sorted(links.active()) == ["c1 -> store: bytes held", "store -> c1: bytes dropped"]
    links.block("store", "c1", Cut.HOLD)
    assert links.active() == ["c1 <-> store: bytes held"]


def test_changes_of_a_link_wait_while_its_bytes_are_held_and_delays_under_several_keys_add_up(links: Links) -> None:
    links.cut("c1", "redis1", Cut.HOLD, "a")
    links.cut("c1", "redis1", Cut.DROP, "b")
    slow(links, "redis1", 50, by="c")
    slow(links, "redis1", 20, 5, by="d")
    assert links.active() == ["c1 <-> redis1: bytes held"]
    links.lift("a")
    assert links.active() == ["c1 <-> redis1: bytes dropped, slow by 20 ± 5 ms, slow by 50 ± 0 ms"]
    links.lift("b")
    slow(links, "redis1", 10, by="c")
    assert links.active() == ["c1 <-> redis1: slow by 10 ± 0 ms, slow by 20 ± 5 ms"]
    links.lift("c")
    assert links.active() == ["c1 <-> redis1: slow by 20 ± 5 ms"]
    links.lift("d")
    assert links.active() == []


def test_changes_by_another_process_stay_until_replaced_or_healed(api: Toxiproxy, links: Links) -> None:
    by_hand = Links(api)
    slow(by_hand, "redis1", 30, by="hand")
    by_hand.cut("c1", "redis2", Cut.REFUSE)
    by_hand.cut("c1", "redis3", Cut.HOLD)
    for node in ("redis1", "redis2", "redis3"):
        slow(links, node, 50, by="a")
    links.lift("a")
    links.cut("c1", "redis3", Cut.DROP, "a")
    expected = "redis1: slow by 30 ± 0 ms", "redis2: refused", "redis3: bytes dropped"
    assert links.active() == [f"c1 <-> {line}" for line in expected]
    links.heal_all()
    assert links.active() == []


def test_a_link_is_closed_with_the_node_that_it_leads_to_after_a_failover(api: Toxiproxy, links: Links) -> None:
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


def test_changes_made_together_take_effect_at_once(api: Toxiproxy, links: Links) -> None:
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
    "wrong", [(bandwidth, 0), (delay, 10, 11), (delay, -1), (slices, 0, 1), (slices, 5, -1), (late_end, -1)]
)
def test_an_impossible_impairment_is_refused(wrong: tuple[Any, ...]) -> None:
    kind, *values = wrong
    with pytest.raises(ValueError, match="not"):
        kind(*values)


def test_names_of_toxics_can_stand_in_a_url_and_are_told_apart() -> None:
    names = {toxics.impairment(RESET, "upstream", key).name for key in ("a/b", "a_2f_b", "a b", "ab", "a?b")}
    assert len(names) == 5
    assert not any(set(name) & set("/? %") for name in names)


def test_backends_and_nodes_have_names() -> None:
    assert topology.client_port("store") == topology.client_port("postgres") == 5432
    there = {"zk2": "zookeeper", REPLICA: "redis", BOUNCER: "postgres", "store": "postgres"}
    assert {node: topology.kind_of(node).name for node in there} == there
    assert REPLICA not in BACKENDS["redis"].members
    assert topology.own_image_variable(REPLICA) == "REDIS1_REPLICA_IMAGE"
    with pytest.raises(KeyError):
        topology.kind_of("zk9")


class Script:
    """A server and its clock: it gives these answers, each after so many seconds. Then the watch ends."""

    def __init__(self, *answers: tuple[LinkAnswer, float]) -> None:
        self.answers = list(answers)
        self.clock = 0.0

    def wait(self, seconds: float) -> bool:
        if self.answers:
            self.clock += seconds
        return not self.answers

    def ask(self, _: str) -> LinkAnswer:
        answer, took = self.answers.pop(0)
        self.clock += took
        return answer


@cases(
    "script, silences",
    ("it answers", [(A, 0.002)] * 5, []),
    ("it is silent", [(A, 0), (S, 0.25), (S, 0.25), (A, 0), (A, 0)], [(0.2, 1.3)]),
    ("it is slow", [(A, 0), (A, 1.3), (A, 0)], [(0.2, 1.7)]),
    ("it refuses", [(A, 0), (C, 0), (C, 0), (A, 0)], [(0.2, 0.8)]),
    ("it refuses once", [(A, 0), (C, 0), (A, 0)], []),
    ("it is silent to the end", [(A, 0), (S, 0.25), (S, 0.25)], [(0.2, 1.1)]),
)
def test_a_silence_lasts_from_one_answer_to_the_next(
    script: Sequence[tuple[LinkAnswer, float]], silences: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Any = Script(*script)
    monkeypatch.setattr("infra.faults.link_probe.time", SimpleNamespace(monotonic_ns=lambda: int(server.clock * 1e9)))
    watch = Watch(server, ["a:1"])
    watch._over = server
    watch._watch()
    assert [(begin / 1e9, end / 1e9) for begin, end in watch.silences] == [pytest.approx(span) for span in silences]


def test_a_watch_asks_all_endpoints_until_it_ends_and_can_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.faults.link_probe.EVERY", 0.001)
    servers, ends = Mock(), ("a:1", "b:1")
    servers.ask.return_value = A
    watch = Watch(servers, ends)
    watch.end()
    for _ in range(2):
        servers.reset_mock()
        watch.begin()
        assert comes_true(lambda: all(call(end) in servers.ask.call_args_list for end in ends), 30.0)
        watch.end()
        watch.end()
        assert not [thread for thread in threading.enumerate() if thread.name.endswith("(_watch)")]
