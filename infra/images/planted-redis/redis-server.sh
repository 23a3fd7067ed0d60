#!/bin/sh
# Redis as it was packaged, with a bug; its arguments are the server's. It stands before the server in PATH.
#
# FENCEPOST_PLANT  slow: every piece that a client sends comes late. lost-data: nothing is kept on the disk. Any other:
#                  see planted.c.
set -eu
PATH=${PATH#/usr/local/sbin:}
module=/usr/local/lib/fencepost/planted.so
if [ "$FENCEPOST_PLANT" = slow ]; then
    relay 6379 16379 10000 &
    exec redis-server "$@" --port 16379
fi
if [ "$FENCEPOST_PLANT" = lost-data ]; then
    exec redis-server "$@" --appendonly no
fi
# Who rewrote its own file (CONFIG REWRITE, of a replica) has the module in it, and must not load it twice.
if grep -qs "^loadmodule $module" -- "${1:-}"; then
    exec redis-server "$@"
fi
exec redis-server "$@" --loadmodule "$module" "$FENCEPOST_PLANT"
