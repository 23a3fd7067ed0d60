"""The fenced store against a real server: the modes, their atomicity under contention, and lost answers."""

import itertools
import secrets
import select
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import psycopg
import pytest

from checkers.tests.build import there
from infra.network.links import Cut
from infra.own_environment import OwnEnvironment
from infra.store import libpq, store
from infra.store.store import MAX_ELEMENTS, Mode, Read, Store
from infra.tests.fakes import HANGS_AFTER
from infra.tests.live.hurting import PATIENCE, await_

THREADS = 12
ROUNDS = 20

_OPENED = ExitStack()  # closes the clients of a test when it has ended


@pytest.fixture
def dsn(environment: OwnEnvironment) -> Iterator[str]:
    store.prepare(environment.store_dsn(None), PATIENCE)
    with _OPENED:
        yield environment.store_dsn(None)


def opened(dsn: str, mode: str = "unfenced") -> Store:
    return _OPENED.enter_context(closing(Store.open(dsn, mode, PATIENCE)))


def value(dsn: str, key: str) -> int:
    return store.final(dsn, key, timeout=PATIENCE)[0].value


@pytest.fixture
def key() -> str:
    return secrets.token_hex(4)


def test_many_clients_can_prepare_the_store_at_once(environment: OwnEnvironment) -> None:
    dsn = environment.store_dsn(None)
    with psycopg.connect(dsn) as connection:
        connection.execute("DROP SCHEMA IF EXISTS fencepost CASCADE")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda dsn: store.prepare(dsn, PATIENCE), [dsn] * 8))
    assert store.final(dsn, "nobody's", timeout=PATIENCE)[0] == Read(-1)


# Step: operation, token, owner, answer. A write writes the number of its step; its base is what its owner read last.
SCRIPTS = {
    Mode.UNFENCED: "r 2 1 -1, w 2 1 True, w 1 9 True, r 1 9 2",
    # A read raises no token, so a lower one may write after it. A holder may write twice. Reads are never fenced.
    Mode.FENCE_WRITES: "w 5 1 True, r 9 2 0, w 5 1 True, w 6 2 True, w 5 1 False, r 1 3 3",
    Mode.FENCE_WRITES_STRICT: "w 5 1 True, w 5 1 False, r 9 2 0, w 6 2 True, r 1 3 3",
    # A read raises the token.
    Mode.FENCE_READS_AND_WRITES: "r 5 1 -1, w 5 1 True, r 6 2 1, w 5 1 False, r 5 1 None, w 6 2 True, r 6 2 5",
    # 12 takes over by its read, 13 by its write. A later read of 11 is not its first access, so it takes nothing back.
    Mode.COMPARE_OWNER: (
        "r 0 11 -1, w 0 11 True, r 0 12 1, w 0 11 False, r 0 11 1, w 0 12 True, w 0 13 True, w 0 12 False, r 0 13 6"
    ),
    # 9 writes from a value that nobody wrote. Then 12 and 11 write from the initial value, which is gone by then.
    Mode.COMPARE_AND_SET: (
        "w 0 9 False, r 0 11 -1, r 0 12 -1, w 0 11 True, w 0 12 False, w 0 11 False, r 0 12 3, w 0 12 True, r 0 11 7"
    ),
    Mode.IDEMPOTENCY_KEY: "r 2 1 -1, w 2 1 True, w 1 9 True, r 1 9 2",
}


@pytest.mark.parametrize("mode", Mode)
def test_each_mode_accepts_and_refuses_as_its_script_says(dsn: str, key: str, mode: Mode) -> None:
    client = opened(dsn, mode)
    seen: dict[int, int] = {}
    for step, line in enumerate(SCRIPTS[mode].split(", ")):
        operation, *numbers, expected = line.split()
        token, owner = map(int, numbers)
        if operation == "w":
            answer: object = client.write(key, step, token, owner, base=seen.get(owner, 99))
        elif read := client.read(key, token, owner):
            answer = seen[owner] = read.value
        else:
            answer = None
        assert str(answer) == expected, step


def test_a_job_is_claimed_once(dsn: str, key: str) -> None:
    client = opened(dsn, Mode.IDEMPOTENCY_KEY)
    assert [client.claim(key, job) for job in (0, 0, 1, 0)] == [True, False, True, False]
    assert client.claim(key + "'", 0), "of another key"


def test_elements_are_kept_and_bounded(dsn: str, key: str) -> None:
    client = opened(dsn)
    full = tuple(range(MAX_ELEMENTS))
    assert client.write(key, full[-1], None, 1, full)
    assert client.read(key, None, 1) == Read(full[-1], full) == store.final(dsn, key, timeout=PATIENCE)[0]
    with pytest.raises(ValueError, match="more than"):
        client.write(key, 0, None, 1, [*full, 0])
    assert client.write(key, 7, None, 1)
    assert client.read(key, None, 1) == Read(7)


def test_bad_use_is_refused_before_anything_is_sent(dsn: str, key: str) -> None:
    with pytest.raises(ValueError, match="fenced"):
        Store.open(dsn, "fenced")
    client = opened(dsn, "fence-writes")
    with pytest.raises(ValueError, match="needs a token"):
        client.write(key, 1, None, 1)
    with pytest.raises(ValueError, match="no jobs"):
        client.claim(key, 1)
    client = opened(dsn, "compare-and-set")
    with pytest.raises(ValueError, match="made from"):
        client.write(key, 1, None, 1)
    assert store.final(dsn, key, timeout=PATIENCE)[0] == Read(-1)


def _hammer(dsn: str, mode: Mode, work: Callable[[Store, int], int | None]) -> list[int]:
    """Run work(store, n) for n = 1, 2, ... in many threads, each with a connection. The answers that are not None."""
    numbers, guard = itertools.count(1), threading.Lock()

    def loop(_: int) -> list[int]:
        client, kept = opened(dsn, mode), []
        for _ in range(ROUNDS):
            with guard:
                number = next(numbers)
            if (answer := work(client, number)) is not None:
                kept.append(answer)
        return kept

    with ThreadPoolExecutor(THREADS) as pool:
        return [answer for kept in pool.map(loop, range(THREADS)) for answer in kept]


def _increments(dsn: str, key: str, mode: Mode) -> list[int]:
    """The accepted increments, each with a token and owner of its own. All threads read before any thread writes."""
    all_have_read = threading.Barrier(THREADS)

    def increment(client: Store, number: int) -> int | None:
        seen = client.read(key, number, number)
        all_have_read.wait()
        if seen is not None and client.write(key, seen.value + 1, number, number, base=seen.value):
            return seen.value + 1
        return None

    return _hammer(dsn, mode, increment)


@pytest.mark.parametrize("mode", [Mode.FENCE_READS_AND_WRITES, Mode.COMPARE_OWNER, Mode.COMPARE_AND_SET])
def test_no_increment_is_lost_behind_a_full_fence(dsn: str, key: str, mode: Mode) -> None:
    accepted = _increments(dsn, key, mode)
    assert sorted(accepted) == list(range(len(accepted)))  # every value once: the initial one is -1
    assert value(dsn, key) == len(accepted) - 1
    assert len(accepted) <= 2 * ROUNDS


def test_increments_are_lost_without_a_fence(dsn: str, key: str) -> None:
    written = _increments(dsn, key, Mode.UNFENCED)
    assert len(written) == THREADS * ROUNDS
    assert len(set(written)) < len(written)


def test_a_lower_token_never_overwrites_a_higher_one(dsn: str, key: str) -> None:
    def write(client: Store, number: int) -> int | None:
        token = number ^ 0b10101
        before = there(client.read(key, token, number))
        accepted = client.write(key, token, token, number)
        after = there(client.read(key, token, number))
        assert after.value >= max(before.value, token if accepted else 0)
        assert accepted or after.value > token  # refused only if a higher token has written
        return token if accepted else None

    accepted = _hammer(dsn, Mode.FENCE_WRITES, write)
    assert value(dsn, key) == max(accepted)


def test_only_one_of_all_claims_of_a_job_succeeds(dsn: str, key: str) -> None:
    def claim(client: Store, number: int) -> int | None:
        job = number // THREADS
        return job if client.claim(key, job) else None

    done = _hammer(dsn, Mode.IDEMPOTENCY_KEY, claim)
    assert sorted(done) == list(range(len(done)))


@contextmanager
def impatient(client: Store) -> Iterator[None]:
    """While no answer can come, let the client wait for an answer only for a moment."""
    assert client._connection
    client._timeout = client._connection._timeout = 0.3
    yield
    client._timeout = PATIENCE


def test_a_held_write_is_unknown_and_lands_late(environment: OwnEnvironment, dsn: str, key: str) -> None:
    client = opened(environment.store_dsn(1))
    assert client.write(key, 1, None, 1)
    environment.links.cut("c1", "store", Cut.HOLD)
    with impatient(client):
        with pytest.raises(store.Unknown):
            client.write(key, 2, None, 1)
        with pytest.raises(store.Unavailable):  # the new connection gets no answer either
            client.write(key, 3, None, 1)
    assert value(dsn, key) == 1
    environment.links.heal_all()
    await_(lambda: value(dsn, key) == 2)
    await_(lambda: _outcome(client, key) is None)


def test_a_refused_connection_writes_nothing_and_recovers(environment: OwnEnvironment, dsn: str, key: str) -> None:
    client = opened(environment.store_dsn(1))
    assert client.write(key, 1, None, 1)
    environment.links.cut("c1", "store", Cut.REFUSE)
    await_(lambda: _outcome(client, key) is store.Unavailable)
    assert value(dsn, key) == 1
    environment.links.heal_all()
    await_(lambda: _outcome(client, key) is None)
    assert value(dsn, key) == 2


def test_an_idle_connection_that_the_server_closed_is_replaced(dsn: str, key: str) -> None:
    client = opened(dsn)
    connection = there(client._connection)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    await_(lambda: not connection.usable())  # the server's farewell has come
    assert client.write(key, 1, None, 1)


def test_a_server_that_stops_during_a_write_leaves_it_unknown(dsn: str, key: str) -> None:
    client = opened(dsn)
    assert client.write(key, 1, None, 1)
    with psycopg.connect(dsn) as holder, ThreadPoolExecutor(1) as pool:
        holder.execute("SELECT FROM fencepost.cells WHERE key = %s FOR UPDATE", [key])
        write = pool.submit(client.write, key, 2, None, 1)
        with psycopg.connect(dsn, autocommit=True) as admin:
            await_(lambda: bool(admin.execute(_WAITING).fetchall()))
            admin.execute(f"SELECT pg_terminate_backend(pid) FROM ({_WAITING}) AS waiting")
        with pytest.raises(store.Unknown):
            write.result(HANGS_AFTER)
    assert client.read(key, None, 1) == Read(1)


class Frozen:
    """A `time` that freezes one thread of this process when the thread looks how long it may wait for an answer."""

    def __init__(self) -> None:
        self.thread = 0
        self.looks = 0
        self.thawed = threading.Event()

    def monotonic(self) -> float:
        if threading.get_ident() != self.thread:
            return time.monotonic()
        self.looks += 1
        if self.looks == 1:
            return 0.0  # the thread sends its request
        assert self.thawed.wait(HANGS_AFTER)
        return 2 * PATIENCE


def test_an_answer_that_came_during_a_freeze_counts(dsn: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client, frozen = opened(dsn), Frozen()
    assert client.write(key, 1, None, 1)
    connection = there(client._connection)

    def write() -> bool:
        frozen.thread = threading.get_ident()
        return client.write(key, 2, None, 1)

    with ThreadPoolExecutor(1) as pool, psycopg.connect(dsn, autocommit=True) as admin:
        try:
            with psycopg.connect(dsn) as holder:
                holder.execute("SELECT FROM fencepost.cells WHERE key = %s FOR UPDATE", [key])
                monkeypatch.setattr(libpq, "time", frozen)
                written = pool.submit(write)
                await_(lambda: bool(admin.execute(_WAITING).fetchall()))
                await_(lambda: frozen.looks == 2)
            await_(lambda: bool(select.select([connection._pg.socket], [], [], 0.0)[0]))  # bytes of an answer
        finally:
            frozen.thawed.set()
        assert written.result(HANGS_AFTER) is True
    assert value(dsn, key) == 2


_WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%fencepost.cells%'"


def _outcome(client: Store, key: str) -> type[store.StoreError] | None:
    try:
        client.write(key, 2, None, 1)
    except store.StoreError as error:
        return type(error)
    return None
