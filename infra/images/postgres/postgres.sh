#!/bin/sh
# Run PostgreSQL in the foreground; its arguments are the server's ("-c", "fsync=off").
#
# POSTGRES_PASSWORD  of the superuser `postgres`, needed when PGDATA is empty
# POSTGRES_DB        a database to make then (postgres)
# PGDATA             /data/postgres
set -eu
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$PGDATA"
    chown postgres:postgres "$PGDATA"
    chmod 700 "$PGDATA"
    exec setpriv --reuid=postgres --regid=postgres --init-groups -- "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    [ -n "${POSTGRES_PASSWORD:-}" ] || { echo "POSTGRES_PASSWORD is needed to make a new cluster" >&2; exit 1; }
    cp -a /usr/share/fencepost/cluster/. "$PGDATA"
    {
        # The password is long and random: hashing it 4,096 times for each connection protects nothing (16 and later).
        [ "$(postgres --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')" -lt 16 ] || echo "SET scram_iterations = 1"
        echo "ALTER ROLE postgres PASSWORD '$(printf %s "$POSTGRES_PASSWORD" | sed "s/'/''/g")'"
        [ "${POSTGRES_DB:-postgres}" = postgres ] || echo "CREATE DATABASE \"$POSTGRES_DB\""
    } | postgres --single -D "$PGDATA" postgres >/dev/null
fi
unset POSTGRES_PASSWORD
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/run/postgresql "$@"
