# Takes the data of PostgreSQL to another major version by dump and restore, beside a node that is down (postgres.py).
# infra/cluster/migration.py runs this file with one of the last five functions behind it, as root, on the node's disk.
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

versions() {
    cat "$data/PG_VERSION" 2>/dev/null || echo none
    postgres --version
}

dump() {
    rm -rf "$work"
    install -d -o postgres "$work"
    begin "$data"
    as pg_dumpall -h /tmp -U postgres --no-sync -f "$work/dump.sql"
    # A pg_dumpall that is newer than the server also writes what neither this one knows nor an older one takes.
    read -r major <"$data/PG_VERSION"
    [ "${major%.*}" -ge 17 ] || sed -i '/^SET transaction_timeout = 0;$/d' "$work/dump.sql"
    [ "${major%.*}" -ge 15 ] || sed -i '/^CREATE DATABASE /s/ LOCALE_PROVIDER = libc//' "$work/dump.sql"
    end "$data"
}

restore() {
    chown postgres "$work"
    as initdb -D "$work/next" --username=postgres --encoding=UTF8 --locale=C.UTF-8 \
        --auth-local=trust --auth-host=scram-sha-256 --no-sync >/dev/null
    cat "$data/pg_hba.conf" >"$work/next/pg_hba.conf"
    begin "$work/next"
    # The superuser exists from the start: of all that a dump begins with, only it cannot be created again.
    sed '0,/^CREATE ROLE postgres;$/{//d}' "$work/dump.sql" |
        as psql -X -q -v ON_ERROR_STOP=1 -v VERBOSITY=terse -h /tmp -U postgres -o /dev/null postgres
    end "$work/next"
    mv "$data" "$work/was"
    mv "$work/next" "$data"
}

back() {
    mv "$data" "$work/next"
    mv "$work/was" "$data"
    rm -rf "$work"
}

forget() { rm -rf "$work"; }
