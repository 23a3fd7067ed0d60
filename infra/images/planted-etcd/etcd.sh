#!/bin/sh
# etcd as it was packaged, with a bug; its arguments are the server's. It stands before the server in PATH.
#
# FENCEPOST_PLANT  slow: every piece that a client sends comes late. Any other: see relay.c.
set -eu
PATH=${PATH#/usr/local/sbin:}
case $FENCEPOST_PLANT in
    slow) relay 2379 12379 10000 & ;;
    *) relay 2379 12379 0 "$FENCEPOST_PLANT" & ;;
esac
ETCD_LISTEN_CLIENT_URLS=http://127.0.0.1:12379 exec etcd "$@"
