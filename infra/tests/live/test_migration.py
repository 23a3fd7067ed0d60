"""PostgreSQL goes to another major version with all that it was told, or stays what it is, and says why."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from infra.backends.postgres import BOUNCER, Postgres
from infra.cluster.node_repair import DoesNotStart, remake
from infra.docker import images
from infra.own_environment import OwnEnvironment
from infra.tests.environments import target_of
from infra.tests.live.hurting import await_, place
from infra.tests.live.keeping import asked, session
from infra.tests.live.test_versions import applied, injection_of
from infra.waiting import MonotonicClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from infra.cluster.nodes import Node


MADE = """
DROP SCHEMA IF EXISTS fencepost CASCADE;
DROP ROLE IF EXISTS guest;
CREATE ROLE guest LOGIN PASSWORD 'guest';
CREATE SCHEMA fencepost;
CREATE TABLE fencepost.leases (name text PRIMARY KEY, owner bigint, token bigint NOT NULL);
CREATE SEQUENCE fencepost.tokens;
GRANT USAGE ON SCHEMA fencepost TO guest;
GRANT SELECT ON fencepost.leases TO guest;
INSERT INTO fencepost.leases VALUES ('k', 1, 41);
SELECT nextval('fencepost.tokens') FROM generate_series(1, 41);
"""


@pytest.fixture(scope="module")
def old() -> Iterator[OwnEnvironment]:
    environment = OwnEnvironment.start()
    environment.boot({"postgres": "15"})
    yield environment
    environment.close()


def answer(environment: OwnEnvironment, question: str, user: str = "postgres") -> object:
    with session(environment, user=user) as connection:
        return asked(connection, question)


def bounced(environment: OwnEnvironment) -> bool:
    """Whether one gets an answer through PgBouncer."""
    try:
        with session(environment, place(environment.endpoints_of(BOUNCER, 1))) as connection:
            return asked(connection, "SELECT 1") == 1
    except psycopg.OperationalError:
        return False


class Hammer:
    """Somebody who writes through the links all the time, and remembers what was acknowledged."""

    def __init__(self, environment: OwnEnvironment) -> None:
        self.acknowledged: list[int] = []
        self._environment = environment
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Hammer:
        self._thread.start()
        await_(lambda: len(self.acknowledged) > 20)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        at = place(self._environment.endpoints("postgres", 1)[0])
        while not self._ended.is_set():
            try:
                with session(self._environment, at) as connection:
                    while not self._ended.is_set():
                        number = asked(connection, "INSERT INTO written VALUES (DEFAULT) RETURNING number")
                        self.acknowledged.append(int(str(number)))
            except psycopg.OperationalError:
                self._ended.wait(0.05)


def test_what_the_new_version_does_not_take_leaves_the_old_one_as_it_was(
    old: OwnEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = target_of(old, "postgres")
    with session(old) as connection:
        connection.execute(MADE)
        connection.execute("CREATE EXTENSION adminpack")  # which there is no more
    injection = injection_of("postgres", "postgres", "17")
    with pytest.raises(DoesNotStart, match='extension "adminpack" is not available'):
        injection.apply(target)
    assert old.node("postgres").version().startswith("15.")
    await_(lambda: old.unclean() == [])
    assert answer(old, "SELECT nextval('fencepost.tokens')") == 42
    assert left(old) == []

    # One that takes them all, and then does not start.
    with session(old) as connection:
        connection.execute("DROP EXTENSION adminpack")
    monkeypatch.setattr(Postgres, "migration", replace(Postgres.migration, restore=RUINED))
    image = images.resolve("postgres", "17")
    node: Node = old.node("postgres")
    with pytest.raises(
        DoesNotStart, match=r"does not start as fencepost/postgres:trixie on its data: .*contains errors"
    ):
        remake(node, image.name, old.links, MonotonicClock())
    remake(node, "fencepost/postgres:bookworm", old.links, MonotonicClock())
    assert answer(old, "SELECT nextval('fencepost.tokens')") == 43
    assert left(old) == []


RUINED = """
set +e
install -d -o postgres -m 700 "$work/next"
as initdb -D "$work/next" --username=postgres >/dev/null
echo "nonsense = 1" >>"$work/next/postgresql.conf"
mv "$data" "$work/was"
mv "$work/next" "$data"
"""


def test_up_with_everything_but_sessions_and_not_back(old: OwnEnvironment) -> None:
    target, node = target_of(old, "postgres"), old.node("postgres")
    with session(old) as connection:
        connection.execute(MADE)
        connection.execute("CREATE TABLE written (number bigserial)")
    holder = session(old, place(old.endpoints("postgres", 2)[0]))
    holder.execute("SELECT pg_advisory_lock(1)")
    assert bounced(old)

    up = injection_of("postgres", "postgres", "17")
    with Hammer(old) as hammer:
        hit = applied(target, up)
        before = len(hammer.acknowledged)
        await_(lambda: len(hammer.acknowledged) > before + 20)
    told = hit.target.split()
    assert told[:2] == ["postgres", "from"]
    assert (told[2][:3], told[3], told[4][:3], " ".join(told[5:])) == ("15.", "to", "17.", Postgres.migration.how)
    assert answer(old, "SELECT token FROM fencepost.leases WHERE name = 'k'", "guest") == 41
    assert answer(old, "SELECT nextval('fencepost.tokens')") == 42
    assert answer(old, "SELECT count(*) FROM fencepost.leases", "guest") == 1
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        answer(old, "DELETE FROM fencepost.leases RETURNING 1", "guest")
    assert len(set(hammer.acknowledged)) == len(hammer.acknowledged), "the sequence did not go back"
    with session(old) as connection:
        written = {int(str(row[0])) for row in connection.execute("SELECT number FROM written")}
    assert set(hammer.acknowledged) <= written, "nothing that was acknowledged is lost"
    assert answer(old, "SELECT pg_try_advisory_lock(1)") is True
    with pytest.raises(psycopg.OperationalError):
        holder.execute("SELECT 1")
    await_(lambda: bounced(old))
    assert left(old) == []

    back = injection_of("postgres", "postgres", "15")
    with pytest.raises(DoesNotStart, match='unrecognized configuration parameter "transaction_timeout"') as refused:
        back.apply(target)
    assert str(refused.value).startswith(
        f"postgres does not go over {Postgres.migration.how}: fencepost/postgres:bookworm: "
    )
    back.heal(target)
    up.heal(target)
    assert node.version().startswith("17.")
    assert answer(old, "SELECT nextval('fencepost.tokens')") == 43
    assert old.unclean() == ["postgres runs fencepost/postgres:trixie, not fencepost/postgres:bookworm"]
    assert left(old) == []
    await_(lambda: bounced(old))


def left(environment: OwnEnvironment) -> list[str]:
    """Of dumps and former data on the disk."""
    return [path for path in environment.disks.files("postgres") if path.startswith("carry")]
