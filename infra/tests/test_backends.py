"""How we read what servers say; messages of servers and clients, however they are cut; faults at every message."""

import contextlib
import socket
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.tests.build import cases, there
from infra.access import Access
from infra.backends import BACKENDS
from infra.backends.answers import Health, Write
from infra.backends.backend import Backend, Server
from infra.backends.messages import PUSHED, InTurns, Piece
from infra.backends.redis import RedisReplication
from infra.background_writes import BackgroundWrites
from infra.faults.all_faults import FAULTS
from infra.faults.fault import OURS
from infra.faults.gate_scripts import run_scripts
from infra.faults.target import Aim, Target, Verb, Victim
from infra.faults.workers.between_requests import BETWEEN_REQUESTS, TWO, WORKLOAD
from infra.faults.workers.walks import MOST, ROUNDS, TIMES, WALKS, Pair
from infra.tests.fakes import HANGS_AFTER
from infra.tests.simulated import World
from infra.waiting import comes_true

Saying = Callable[[str], Server]

REPLICATION = "role:master\r\nmaster_replid:abc\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, WINDOW = 4, 6, 8
Told = list[tuple[bytes, int | None]]


@pytest.fixture
def saying(monkeypatch: pytest.MonkeyPatch) -> Iterator[Saying]:
    """A function that starts a server with one answer and returns it. A client waits as long as it takes."""
    servers: list[socket.socket] = []
    connect = Access.connect
    monkeypatch.setattr(Access, "connect", lambda access, endpoint, _: connect(access, endpoint, HANGS_AFTER))

    def answer(server: socket.socket, text: str) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(text.encode())

    def say(text: str) -> Server:
        servers.append(server := socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=answer, args=(server, text), daemon=True).start()
        return Server("redis1", f"127.0.0.1:{server.getsockname()[1]}")

    yield say
    for server in servers:
        server.close()


@cases(
    "server, version",
    ("redis_version:7.0.15\r\n", "7.0.15"),
    ("redis_version:8.0.2\r\nserver_name:redis\r\n", "8.0.2"),
    ("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n", "valkey 8.1.1"),
    ("redis_version:7.2.4\r\nserver_name:other\r\n", "7.2.4"),
)
def test_valkey_is_reported_with_its_own_name_and_version(saying: Saying, server: str, version: str) -> None:
    health = there(BACKENDS["redis"].probe(saying(f"+PONG\r\n$9\r\n{server}\r\n$9\r\n{REPLICATION}\r\n+OK\r\n")))
    assert (health.version, health.me, health.leader) == (version, "master", "abc")


@cases(
    "says, leader",
    ("role:master\r\nmaster_replid:abc\r\n", "abc"),
    ("role:slave\r\nmaster_replid:abc\r\nmaster_link_status:up\r\naof_rewrite_in_progress:0\r\n", "abc"),
    ("role:slave\r\nmaster_replid:abc\r\nmaster_link_status:down\r\n", ""),
    ("role:slave\r\nmaster_replid:abc\r\nmaster_link_status:up\r\naof_rewrite_in_progress:1\r\n", ""),
    ("role:slave\r\nmaster_replid:abc\r\nmaster_link_status:up\r\naof_rewrite_scheduled:1\r\n", ""),
    ("role:master\r\nmaster_replid:abc\r\naof_rewrite_in_progress:1\r\n", ""),
)
def test_a_redis_has_a_history_only_if_connected_with_its_copy_on_disk(saying: Saying, says: str, leader: str) -> None:
    assert there(BACKENDS["redis"].probe(saying(f"+PONG\r\nredis_version:8.0.2\r\n{says}+OK\r\n"))).leader == leader


def test_an_etcd_member_that_lacks_changes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.backends.etcd._ask", lambda *_: {"header": {"revision": "5"}})
    assert BACKENDS["etcd"].held(Server("etcd1", ""), bool, 6).whole == "nothing beyond change 5"


def test_a_lease_that_ends_while_a_redis_is_read_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    types = {"over": "string", "none": "hash", "empty": "string"}
    read: dict[str, Any] = {"over": None, "none": {}, "empty": ""}
    said: dict[str, Callable[[str], Any]] = {"INFO": lambda _: {"master_repl_offset": 7}, "KEYS": lambda _: [*types]}
    said |= {"TYPE": types.__getitem__, "GET": read.__getitem__, "HGETALL": read.__getitem__}
    client = SimpleNamespace(execute_command=lambda command, name: said[command](name))
    monkeypatch.setattr("infra.backends.redis.connect", lambda _: contextlib.nullcontext(client))
    assert [entry[0] for entry in BACKENDS["redis"].held(Server("redis1", ""), lambda _: True).entries] == ["empty"]


def test_a_busy_postgres_gets_the_time_to_end_its_sessions() -> None:
    with patch("psycopg.connect") as connect:
        BACKENDS["postgres"].end_sessions(Server("postgres", "127.0.0.1:1"), 20.0)
    login = connect.call_args.kwargs
    assert (login["connect_timeout"], login["options"]) == (20, "-c statement_timeout=20000")


def test_a_replica_follows_only_a_primary_with_the_same_known_history() -> None:
    replica, primary = (Health("8.0.2", me=role, leader="abc") for role in ("slave", "master"))
    unknown = (replace(each, leader="") for each in (replica, primary))
    pairs = [(replica, primary), unknown, (replica, replica), (None, primary)]
    assert [RedisReplication().follows(*pair) for pair in pairs] == [True, False, False, False]


def test_an_etcd_that_is_a_learner_does_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.backends.etcd._ask", lambda *_: {"leader": "7", "isLearner": True})
    monkeypatch.setattr("infra.backends.etcd.converse", lambda *_, **__: 'HTTP/1.1 200 OK\r\n\r\n{"isLearner":true}')
    assert BACKENDS["etcd"].probe(Server("etcd1", "")) is None
    assert BACKENDS["etcd"].refusal(Server("etcd1", "")).startswith("it is a learner")


class TestLeader:
    def test_the_zookeeper_leader_of_the_later_epoch_counts(self) -> None:
        old, new = Health("3.9.3", term=4, leader="leader"), Health("3.9.3", term=5, leader="leader")
        follower = Health("3.9.3", term=5, leader="follower")
        assert BACKENDS["zookeeper"].leader([old, new, follower]) == 1
        assert BACKENDS["zookeeper"].leader([new, old, follower]) == 0
        assert BACKENDS["zookeeper"].leader([None, None, follower]) is None

    def test_the_etcd_leader_is_named_by_a_majority(self) -> None:
        def member(me: str, leader: str, term: int) -> Health:
            return Health("3.5.16", term=term, me=me, leader=leader)

        assert BACKENDS["etcd"].leader([member("a", "a", 2), member("b", "a", 2), member("c", "a", 2)]) == 0
        assert BACKENDS["etcd"].leader([member("a", "a", 2), member("b", "b", 3), member("c", "b", 3)]) == 1
        assert BACKENDS["etcd"].leader([member("a", "a", 2), None, None]) is None
        assert BACKENDS["etcd"].leader([member("a", "a", 2), member("b", "b", 3), None]) is None

    def test_a_cluster_is_whole_when_all_members_follow_one_leader(self) -> None:
        leader, follower, observer = (Health("3.9.3", leader=role) for role in ("leader", "follower", "observer"))
        assert BACKENDS["zookeeper"].whole([follower, leader, follower])
        assert not BACKENDS["zookeeper"].whole([leader, leader, follower])
        assert not BACKENDS["zookeeper"].whole([follower, leader, None])
        assert BACKENDS["zookeeper"].whole([follower, leader, observer])
        assert not BACKENDS["zookeeper"].whole([follower, observer])
        assert BACKENDS["redis"].whole([Health("8.0.2")] * 5)


def zookeeper(number: int, rest: bytes = b"rest") -> bytes:
    body = struct.pack(">i", number) + rest
    return struct.pack(">i", len(body)) + body


def http2(kind: int, stream: int, body: bytes = b"body", flags: int = 0) -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


ZK_ASKED = [(b"\0\0\0\x03new", 0), (zookeeper(1), 1), (zookeeper(-2, b""), None), (zookeeper(2), 2)]
ZK_ANSWERED = [(b"\0\0\0\x03yes", 0), (zookeeper(-2), None), (zookeeper(1), 1), (zookeeper(-1), PUSHED)]
ETCD_ASKED = [
    *((PREFACE, None), (http2(SETTINGS, 0), None), (http2(1, 1), 1), (http2(0, 1), None), (http2(1, 3), 3)),
    *((http2(PING, 0), None), (http2(WINDOW, 3), None)),
]
ETCD_ANSWERED = [
    *((http2(SETTINGS, 0), None), (http2(1, 1), None), (http2(0, 1), 1), (http2(1, 1, flags=1), None)),
    *((http2(1, 3, flags=1), 3), (http2(PING, 0), None), (http2(0, 5), 5), (http2(0, 5), 5)),
]


@cases("backend, asked, answered", ("zookeeper", ZK_ASKED, ZK_ANSWERED), ("etcd", ETCD_ASKED, ETCD_ANSWERED))
@given(data=st.data())
def test_messages_are_separated_wherever_cut(backend: str, asked: Told, answered: Told, data: st.DataObject) -> None:
    one = BACKENDS[backend].messages()
    for side, expected in ((one.asked, asked), (one.answered, answered)):
        whole = b"".join(text for text, _ in expected)
        cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1))))
        pieces = [piece for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) for piece in side(whole[a:b])]
        assert [(piece.data, piece.exchange) for piece in pieces] == expected


def test_a_message_begins_when_the_other_side_speaks_in_turns_and_at_etcds_gateway() -> None:
    assert [BACKENDS[name].messages for name in ("redis", "postgres")] == [InTurns, InTurns]
    one = InTurns()
    assert one.asked(b"GET") == [Piece(b"GET", 0)]
    assert one.asked(b" a") == [Piece(b" a", None)]
    assert [one.answered(b"1"), one.answered(b"2")] == [[Piece(b"1", 0)], [Piece(b"2", None)]]
    assert one.asked(b"GET") == [Piece(b"GET", 0)]
    gateway = BACKENDS["etcd"].messages()
    assert gateway.asked(b"POST /v3/lock/lock HTTP/1.1\r\n") == [Piece(b"POST /v3/lock/lock HTTP/1.1\r\n", 0)]
    assert gateway.answered(b"HTTP/1.1 200 OK\r\n") == [Piece(b"HTTP/1.1 200 OK\r\n", 0)]


LANE = "redis/pairs/unfenced"
PAIRS = [(2 * n, 2 * n + 1) for n in range(len(WALKS))]
MESSAGES = {"acquire": 3, "release": 2, "renew": 1}
ROUND = int(0.1e9)  # ns that a round of these workers takes
AT_ONCE, WAITING, RELEASE, RENEW = "acquire at once", "acquire after waiting", "release", "renew"


class Workers(World):
    """Workers in pairs. A verb has as many messages as `MESSAGES` says. An armed worker is caught a round later."""

    def __init__(self) -> None:
        super().__init__([])
        self.aims: dict[tuple[int, ...], tuple[Aim, int]] = {}
        self.story: list[tuple[str, str, int, str]] = []
        """(gate, action, message, verb) of each caught worker, in order; also workers that are thawed or replaced."""
        self.noted: dict[str, tuple[int, list[int]]] = {}
        self.told: set[tuple[tuple[int, ...], int]] = set()

    def lanes(self) -> Sequence[str]:
        return [LANE]

    def pairs(self, lane: str) -> Sequence[tuple[int, ...]]:
        assert lane == LANE
        return PAIRS

    def arm(self, lane: str, aim: Aim) -> None:
        self.aims[aim.among] = (aim, self.time)

    def caught(self, lane: str, among: tuple[int, ...] = ()) -> Sequence[Victim]:
        aim, at = self.aims[among]
        if self.time < at + ROUND or (aim.gate.startswith("at-") and aim.message > MESSAGES[aim.verb]):
            return ()
        if (among, at) not in self.told:
            self.told.add((among, at))
            self.story.append((aim.gate, aim.action, aim.message, aim.verb))
        return [Victim(lane, among[-1], 0, at, f"worker {among[-1]}", among[0] // 2)]

    def disarm(self, lane: str, among: tuple[int, ...] = ()) -> None:
        """Keeps the aim, since `caught` is still asked about it."""

    def thaw(self, victim: Victim) -> None:
        self.story.append(("thawed", "", 0, victim.target))

    def settled(self, victim: Victim) -> bool:
        return True

    def rounds(self, lane: str, among: tuple[int, ...], verb: Verb) -> int:
        return self.time // ROUND * len(among)

    def messages(self, lane: str, among: tuple[int, ...], verb: Verb) -> Sequence[int]:
        """Each message of the verb came 100 times, and one message more came once."""
        return [100] * MESSAGES[verb] + [1] + [0] * MOST

    def revive(self, lane: str) -> None:
        self.story.append(("revived", "", 0, lane))

    def note(self, lane: str, verb: str, messages: int, hit: Sequence[int]) -> None:
        self.noted[verb] = (messages, list(hit))

    def walked(self) -> Target:
        return replace(self.target(), actors=self, clock=self)


@pytest.fixture
def workers() -> Workers:
    return Workers()


@pytest.mark.parametrize("name", [f.name for f in BETWEEN_REQUESTS if f.name != TWO and not f.name.endswith("crash")])
def test_every_message_of_every_verb_is_hit_once(workers: Workers, name: str) -> None:
    hits = FAULTS[name].make("redis", {}).apply(workers.walked())
    every = {AT_ONCE: [1, 2, 3], WAITING: [1, 2, 3], RELEASE: [1, 2], RENEW: [1]}
    side, what = ("request" if name.endswith("late") else "answer"), name.rpartition("-")[2]
    if what == "cancel":  # only a waiting worker can give up
        del every[RELEASE], every[RENEW]
    assert workers.noted == {verb: (len(numbers), numbers) for verb, numbers in every.items()}
    verbs = defaultdict(list)
    for gate, action, message, verb in [entry for entry in workers.story if entry[0].startswith("at-")]:
        verbs[verb].append(message)
        assert gate == (f"at-renewal-{side}" if verb == "renew" else f"at-{side}")
        assert action == ("freeze" if what == "pass" else what)
    expected = {"acquire": [1, 1, 2, 2, 3, 3], "release": every.get(RELEASE), "renew": every.get(RENEW)}
    assert {verb: sorted(numbers) for verb, numbers in verbs.items()} == {v: n for v, n in expected.items() if n}
    assert len(hits) >= sum(map(len, verbs.values()))
    assert all(hit.healed for hit in hits if hit.kind != "kill")
    revived = sum(entry[0] == "revived" for entry in workers.story)
    assert revived == (9 if what == "kill" else 0), "somebody takes the place of each who was killed"


@pytest.mark.parametrize("size", [2, 3])
def test_all_others_hold_before_one_thaws(workers: Workers, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(Workers, "pairs", lambda *_: [range(size * n, size * (n + 1)) for n in range(len(WALKS))])
    FAULTS["at-every-request-freeze"].make("redis", {}).apply(workers.walked())
    assert workers.noted[RENEW] == (1, [1])
    after = [gate for gate, *_ in workers.story[workers.story.index(("at-renewal-answer", "freeze", 1, "renew")) :]]
    assert after.count("after-acquire") >= size - 1
    assert after.index("after-acquire") < after.index("thawed")
    last = f"worker {size * len(WALKS) - 1}"
    assert [entry[0] for entry in workers.story if entry[3] in (last, "renew")][1:] == ["thawed"] * size


def test_one_server_crashes_per_message_with_workers_frozen(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    crashes: list[int] = []

    def crash(_: Target) -> Any:
        crashes.append(sum(entry[1] == "freeze" for entry in workers.story))
        return SimpleNamespace(kind="kill", healed=1)

    monkeypatch.setattr("infra.faults.workers.between_requests.crash_one", crash)
    FAULTS["at-every-request-crash"].make("redis", {}).apply(workers.walked())
    assert (workers.noted[AT_ONCE], workers.noted[WAITING]) == ((3, [1, 2, 3]), (3, [1, 2, 3]))
    assert crashes == [4, 7, 9]  # frozen so far: four at message 1, three more at message 2, two more at message 3


def test_each_worker_of_a_pair_is_frozen_at_every_message_while_the_other_is_frozen(workers: Workers) -> None:
    hits = FAULTS[TWO].make("redis", {}).apply(workers.walked())
    others = MESSAGES["acquire"] + MESSAGES["release"]
    tries = sum(MESSAGES[verb] for verb in ("acquire", "acquire", "release")) * others
    tries += MESSAGES["renew"] * (others + MESSAGES["renew"])
    assert workers.noted["two at once"] == (tries, list(range(1, tries + 1)))
    assert workers.noted[RELEASE] == (2, [1, 2])
    assert sum(hit.kind == "freeze" for hit in hits) == 2 * tries
    assert all(hit.healed for hit in hits)
    (pair,) = [n for n, walk in enumerate(WALKS) if walk.what == RENEW]
    what = [entry for entry in workers.story if entry[3] in ("renew", *(f"worker {n}" for n in PAIRS[pair]))]
    # A renewal of either worker is caught. The second worker stays frozen while the first ends its operation.
    frozen = ("at-renewal-answer", "freeze", 1, "renew")
    assert what[-4:] == [frozen, frozen, *(("thawed", "", 0, f"worker {n}") for n in reversed(PAIRS[pair]))]


@pytest.mark.parametrize(("had", "rounds"), [(12, 0), (11, ROUNDS)])
def test_rounds_of_before_count_for_a_message_that_never_came(workers: Workers, had: int, rounds: int) -> None:
    target, begun = workers.walked(), workers.time
    pair = Pair(target, LANE, WALKS[0], PAIRS[0])  # 100 have begun
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workers, "messages", lambda *_: [100 + had] * 3 + [0] * MOST)
        run_scripts(target, [pair.catch(5, "answer", "freeze")], 60.0)
    assert (workers.time - begun) // ROUND == rounds


def test_a_waiter_that_took_no_part_in_a_stay_is_waited_for(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    target, begun = workers.walked(), workers.time
    monkeypatch.setattr(Workers, "rounds", lambda *_: (workers.time - begun) // 10**9)
    run_scripts(target, [Pair(target, LANE, WALKS[2], PAIRS[2]).catch(5, "answer", "freeze")], 60.0)
    assert (workers.time - begun) // 10**9 == TIMES


def test_a_worker_that_is_never_caught_is_given_up(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workers, "caught", lambda *_: ())
    assert FAULTS["at-every-request-freeze"].make("redis", {}).apply(workers.walked()) == []
    assert workers.noted[RELEASE] == (2, [])


def test_faults_between_requests_are_possible_only_with_a_tap() -> None:
    untapped = OURS.without("tap", "no tap")
    for fault in BETWEEN_REQUESTS:
        assert all(fault.applies(name) is None and fault.applies(name, untapped) == "no tap" for name in BACKENDS)
        assert fault.workload == WORKLOAD


class Forgetful:
    """A service that loses its third key. It keeps its fifth key, but does not answer when that key is written."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.there: set[str] = set()
        self.removed: set[str] = set()
        self.one_at_a_time = threading.Lock()

    @contextlib.contextmanager
    def writing(self, _: Server, __: float) -> Iterator[Write]:
        yield self.write

    def write(self, verb: str, name: str) -> bool:
        with self.one_at_a_time:
            if verb == "remove":
                self.removed.add(name)
                there = name in self.there
                self.there.discard(name)
                return there
            self.keys.append(name)
            if len(self.keys) != 3:
                self.there.add(name)
            if len(self.keys) == 5:
                raise TimeoutError
            return True


def test_a_written_key_that_got_lost_before_its_removal_is_still_expected() -> None:
    service = Forgetful()
    writes = BackgroundWrites(cast(Backend, service), [Server("one", "here:1")])
    with writes.going_on(1e6):
        assert comes_true(lambda: len(service.removed.intersection(service.keys[:5])) == 5, 60.0)
    _, _, lost, _, unsure = service.keys[:5]
    assert (writes.known[lost], writes.known[unsure]) == (True, False), "the latter had been kept without an answer"
    assert {name for name, there in writes.known.items() if there} == service.there | {lost}
