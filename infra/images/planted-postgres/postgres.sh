#!/bin/sh
# PostgreSQL as it was packaged, with a bug; its arguments are the server's. It stands before the server in PATH.
#
# FENCEPOST_PLANT  a schema of planted.sql, where every session looks before it looks among the server's own functions;
#                  what it makes without a schema's name goes to public, as ever.
set -eu
PATH=${PATH#/usr/local/sbin:}
if [ "${1:-}" != -D ]; then
    exec postgres "$@" # --single or --version
fi
postgres --single -j -D "$2" postgres </usr/local/lib/fencepost/planted.sql >/dev/null
exec postgres "$@" -c "search_path=\"\$user\", public, \"$FENCEPOST_PLANT\", pg_catalog"
