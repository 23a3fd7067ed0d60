"""PostgreSQL's data from one major version to another, by dump and restore: none starts on the files of another.

While the node is down, two containers of our own stand beside it, without a network, so that nobody can be told
anything that is not in the dump. In the one its former version dumps all (roles, databases, tables, sequences, grants),
in the other the new one loads that into a directory of its own, which then takes the place of the former. What was
there is kept until the new version serves; whatever refuses before changes nothing. Sessions do not survive, and with
them the advisory locks.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from docker import DockerClient
from docker.errors import APIError
from requests.exceptions import RequestException

from infra import reaper
from infra.lastwords import last_words
from infra.machine import Failed

HOW: Final = "by dump and restore"

WITHIN: Final = 180
"""Seconds for a dump or a restore; of what our locks keep they take two."""

_PLACES: Final = """\
set -eu
data=${PGDATA:-/data/postgres} work=/data/carry
as() { setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"; }
begin() {
    as pg_ctl -D "$1" -w -s -l /tmp/log -o "-c listen_addresses= -c unix_socket_directories=/tmp" start || {
        cat /tmp/log >&2
        exit 1
    }
}
end() { as pg_ctl -D "$1" -m fast -w -s stop; }
"""
_VERSIONS: Final = 'cat "$data/PG_VERSION" 2>/dev/null || echo none; postgres --version'
_DUMP: Final = """\
rm -rf "$work"
install -d -o postgres "$work"
begin "$data"
as pg_dumpall -h /tmp -U postgres --no-sync -f "$work/dump.sql"
end "$data"
"""
# Its superuser is there from the start: of all that a dump begins with only that cannot be made again.
_RESTORE: Final = """\
chown postgres "$work"
as initdb -D "$work/next" --username=postgres --encoding=UTF8 --locale=C.UTF-8 \
    --auth-local=trust --auth-host=scram-sha-256 --no-sync >/dev/null
cat "$data/pg_hba.conf" >"$work/next/pg_hba.conf"
begin "$work/next"
sed '0,/^CREATE ROLE postgres;$/{//d}' "$work/dump.sql" |
    as psql -X -q -v ON_ERROR_STOP=1 -v VERBOSITY=terse -h /tmp -U postgres -o /dev/null postgres
end "$work/next"
mv "$data" "$work/was"
mv "$work/next" "$data"
"""
_BACK: Final = """\
mv "$data" "$work/next"
mv "$work/was" "$data"
rm -rf "$work"
"""
_DONE: Final = 'rm -rf "$work"'


class Carry:
    """Of a node's data to another image. Every verb raises Failed with the last words of what refused."""

    def __init__(self, client: DockerClient, container: str, former: str, image: str) -> None:
        """container: the node's. former: the image that wrote its data."""
        self._client = client
        self._container = container
        self._former = former
        self._image = image

    def needed(self) -> bool:
        """Whether the data are of another major version than the image; not where there are none."""
        data, server = self._run(self._image, _VERSIONS).splitlines()[:2]
        return data not in ("none", server.removeprefix("postgres (PostgreSQL) ").partition(".")[0].partition(" ")[0])

    def over(self) -> None:
        """Put what it holds in the place of its data, as the image stores it. The node is down."""
        self._run(self._former, _DUMP)
        try:
            self._run(self._image, _RESTORE)
        except Failed:
            self.done()
            raise

    def back(self) -> None:
        """What `over` did is undone: its former data are in their place again. The node is down."""
        self._run(self._image, _BACK)

    def done(self) -> None:
        """Remove what was kept."""
        self._run(self._image, _DONE)

    def _run(self, image: str, script: str) -> str:
        """Run a script beside the node, on its disk. Returns what it wrote to its standard output."""
        api = self._client.api
        with self._beside(image, _PLACES + script) as beside:
            try:
                api.start(beside)
                status = api.wait(beside, timeout=WITHIN)["StatusCode"]
                said: bytes = api.logs(beside, stdout=status == 0, timestamps=status != 0)
            except (APIError, RequestException) as error:
                raise Failed(f"{self._container}: {HOW}: {getattr(error, 'explanation', error)}") from error
        if status != 0:
            raise Failed(f"{image}: {last_words(said)}")
        return said.decode(errors="replace")

    @contextlib.contextmanager
    def _beside(self, image: str, script: str) -> Iterator[str]:
        """A container with the node's disk, which is removed in the end, by the reaper if this process is gone."""
        api = self._client.api
        try:
            told = api.inspect_container(self._container)["Config"]
            settings = [pair for pair in told["Env"] or () if pair.startswith("PGDATA=")]
            labels = {name: told["Labels"][name] for name in (reaper.ENV, reaper.OWNER)}
            made: dict[str, Any] = api.create_container(
                image,
                [script],
                entrypoint=["sh", "-c"],
                user="root",
                environment=settings,
                labels=labels,
                host_config=api.create_host_config(network_mode="none", volumes_from=[self._container]),
            )
        except APIError as error:
            raise Failed(f"{self._container}: {HOW}: {error.explanation}") from error
        try:
            yield made["Id"]
        finally:
            with contextlib.suppress(APIError):  # the reaper removes it with the rest
                api.remove_container(made["Id"], force=True)
