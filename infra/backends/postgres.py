"""PostgreSQL: a single server, with a process for each session, and PgBouncer in front of it. The store is one too.

No major version starts on the files of another, so dump and restore carry the data (infra/README.md). The new version
loads the dump into a new directory, which then replaces the former one. Sessions do not survive, and neither do their
advisory locks.
"""

import os
import platform
import socket
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from infra.backends.answers import Health, ServerRefused
from infra.backends.backend import Auxiliary, Backend, Migration, Package, Server, Trait
from infra.backends.conversation import EXPLAINS_WITHIN, PATIENCE, with_clock
from infra.errors import Failed
from infra.waiting import after, comes_true

if TYPE_CHECKING:
    from psycopg import Connection

BOUNCER: Final = "pgbouncer"  # pools connections to PostgreSQL
_BOUNCER_PACKAGE: Final = Package(BOUNCER, BOUNCER, {"trixie": "1.24", "bookworm": "1.18"})

LOGS_IN_WITHIN: Final = 2  # seconds for a login; libpq takes no less

_PROCESSOR: Final = {"x86_64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}.get(platform.machine())
"""What builds in Maven's registry call this machine's processor; None: there are none for it."""
_BUILDS: Final = {"maven": f"io.zonky.test.postgres:embedded-postgres-binaries-linux-{_PROCESSOR}"}

_ROW: Final = 1000  # bytes; too few for PostgreSQL to compress
_TABLE: Final = "fencepost-disk"

_TERMINATE: Final = (
    "WITH theirs AS MATERIALIZED (SELECT pid, backend_start FROM pg_stat_activity"
    " WHERE datname = current_database() AND backend_type = 'client backend'"
    " AND pid <> pg_backend_pid()) SELECT * FROM theirs WHERE pg_terminate_backend(pid)"
)

_TABLES: Final = (
    "SELECT oid::regclass::text, relfilenode FROM pg_class"
    " WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
)
"""The tables of the locks, each with the number of its file."""
_CHECKPOINT: Final = "SELECT checkpoint_lsn FROM pg_control_checkpoint()"

_CLOCK_AND_MODE: Final = (
    "SELECT extract(epoch FROM clock_timestamp()), current_setting('default_transaction_read_only')"
)
_READ_ONLY: Final = "ALTER SYSTEM SET default_transaction_read_only = on"
_READ_WRITE: Final = "ALTER SYSTEM RESET default_transaction_read_only"


def _other_major(data: str, server: str) -> bool:
    """data: what PG_VERSION holds. server: "postgres (PostgreSQL) 17.11 (Debian ...)"."""
    return data not in ("none", server.removeprefix("postgres (PostgreSQL) ").partition(".")[0].partition(" ")[0])


class Postgres(Backend):
    name = "postgres"
    prefix = "postgres"
    hosts = (24,)
    port = 5432
    auxiliaries = (Auxiliary(BOUNCER, 26, 6432, ("postgres", "server", 5433), package=_BOUNCER_PACKAGE),)
    packages = (
        Package(
            "postgres", "postgresql", {"trixie": "17", "bookworm": "15"}, versioned=True, needs=("clock",),
            elsewhere=_BUILDS if _PROCESSOR else {}, rebuilt=True,
            since="12",  # older servers know no MATERIALIZED, and no tcp_user_timeout
        ),
    )  # fmt: skip
    plants: ClassVar[Mapping[str, str]] = {
        "void-grant": "every fifth pg_advisory_lock returns at once, and has locked nothing",
        "lost-release": "every fifth pg_advisory_unlock is answered with true, and the session keeps the lock",
        "early-expiry": "a time and an interval make a time after a third of the interval",
    }
    traits = frozenset({Trait.WALL_CLOCK, Trait.SESSION_PROCESSES, Trait.REFUSES_WRITES, Trait.MAINTAINED})
    lacks: ClassVar[Mapping[Trait, str]] = {
        Trait.LEADER: "a single server has no leader",
        Trait.PEERS: "a single server has no peers",
        Trait.PARTS: "a single server is lost as a whole or not at all",
        Trait.SPLITS: "a single server cannot fall apart",
        Trait.REPLICA: "a single server has no replica",
        Trait.WAITING_LEASES: "who waits has no lease",
    }
    pace = 0.075
    call = 5.0
    user = "postgres"
    login_note = "user postgres, password {password}, database postgres"
    password_alone = True
    fatal = rb".*FATAL: (.*)"
    question = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"  # SSLRequest, answered by one letter
    asked_in_clear = True
    migration = Migration(
        "by dump and restore", ("PGDATA",), Path(__file__).with_name("carry_postgres.sh").read_text(), _other_major
    )

    def probe(self, server: Server) -> Health | None:
        """Probes by a login, so it needs the password; PgBouncer by its console, whatever PostgreSQL behind it does."""
        from psycopg import Error, conninfo

        from infra.store import libpq

        database = {"dbname": BOUNCER} if server.name == BOUNCER else {}
        try:
            dsn = conninfo.make_conninfo(**libpq.login(server.endpoint, server.access) | database)
            with closing(libpq.Connection(dsn, LOGS_IN_WITHIN, settings={})) as connection:
                version = connection.parameter(b"server_version")
                health = Health(version.partition(" ")[0].partition("/")[0])  # PgBouncer says 1.24.1/bouncer
                if server.name == BOUNCER:
                    return health  # its console knows no SELECT
                sent = time.time()
                ((now, mode),) = connection.query(_CLOCK_AND_MODE, [], within=PATIENCE)
                return with_clock(replace(health, refuses=mode == "on"), float(now), sent, time.time())
        except (libpq.NoAnswer, Error, OSError):
            return None

    def long_question(self, size: int) -> bytes:
        startup = struct.pack(">i", 3 << 16) + b"user\0postgres\0application_name\0" + b"x" * size + b"\0\0"
        return struct.pack(">i", 4 + len(startup)) + startup

    def keep(self, server: Server, size: int, patience: float) -> None:
        """Makes a temporary table."""
        import psycopg

        rows = -(-size // _ROW)
        made = f"CREATE TEMPORARY TABLE \"{_TABLE}\" AS SELECT repeat('x', {_ROW}) FROM generate_series(1, {rows})"
        late, within = threading.Event(), max(LOGS_IN_WITHIN, round(patience))
        try:
            with _connect(server, within, autocommit=True) as session, _cut_short(session, patience, late):
                session.execute(made.encode())
        except psycopg.Error as error:
            if late.is_set() or isinstance(error, psycopg.errors.ConnectionTimeout):
                raise TimeoutError(str(error)) from error
            raise ServerRefused(str(error)) from error

    def end_sessions(self, server: Server, patience: float) -> list[int]:
        """Ends the sessions on the database of the locks."""
        import psycopg

        options = f"-c statement_timeout={round(patience * 1000)}"
        try:
            with _connect(server, round(patience), options=options, autocommit=True) as connection:
                ended = connection.execute(_TERMINATE).fetchall()

                def gone() -> bool:
                    left = connection.execute("SELECT pid, backend_start FROM pg_stat_activity").fetchall()
                    return not set(left) & set(ended)

                if not comes_true(gone, patience):
                    raise Failed("PostgreSQL was told to terminate sessions, but still has them")
        except psycopg.OperationalError as error:
            raise ServerRefused(str(error)) from error
        return sorted(pid for pid, _ in ended)

    def refuse_writes(self, server: Server, *, refuse: bool) -> None:
        """Uses a setting for all transactions. Statements that write nothing, as for advisory locks, still work."""
        import psycopg

        try:
            with _connect(server, LOGS_IN_WITHIN, autocommit=True) as connection:
                connection.execute(_READ_ONLY if refuse else _READ_WRITE)
                connection.execute("SELECT pg_reload_conf()")
        except psycopg.Error as error:
            raise Failed(f"{server.name}: {error}") from error

    def maintain(self, server: Server) -> str:
        """Makes a checkpoint and rewrites every table of the locks' database. A table that is locked for longer
        than 0.2 s is left as it is, since other requests for the table wait behind ours.
        """
        import psycopg

        options = "-c lock_timeout=200 -c statement_timeout=20000"
        try:
            with _connect(server, LOGS_IN_WITHIN, options=options, autocommit=True) as connection:
                before, tables = (connection.execute(what).fetchall() for what in (_CHECKPOINT, _TABLES))
                connection.execute("CHECKPOINT")
                for name, _ in tables:
                    with suppress(psycopg.errors.LockNotAvailable):
                        connection.execute(f"VACUUM (FULL, ANALYZE) {name}".encode())
                anew = len(set(connection.execute(_TABLES).fetchall()) - set(tables))
                if connection.execute(_CHECKPOINT).fetchall() == before:
                    raise Failed(f"{server.name} was told to make a checkpoint, and did not")
        except psycopg.Error as error:
            raise ServerRefused(str(error)) from error
        return f"checkpoint, {anew} of {len(tables)} tables written anew"

    def refusal(self, server: Server) -> str:
        import psycopg

        try:
            _connect(server, int(EXPLAINS_WITHIN)).close()
        except psycopg.OperationalError as error:
            return str(error).strip().splitlines()[-1]
        return "it does not tell its version"


def _connect(server: Server, patience: int, **more: Any) -> "Connection[tuple[Any, ...]]":
    """Raises psycopg.OperationalError, or OSError for a host that does not exist. more: in place of `libpq.login`'s."""
    import psycopg

    from infra.store import libpq

    return psycopg.connect(**{**libpq.login(server.endpoint, server.access), "connect_timeout": patience, **more})


def _cut_short(connection: "Connection[Any]", patience: float, late: threading.Event) -> AbstractContextManager[None]:
    """End the session after so many seconds and set `late`: its timeouts cannot end a commit that waits for a disk."""

    def hang_up() -> None:
        late.set()
        with socket.socket(fileno=os.dup(connection.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)

    return after(patience, hang_up)
