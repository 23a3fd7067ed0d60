#!/bin/sh
# ZooKeeper as it was packaged, with a bug; its arguments are Java's. It stands before Java in PATH.
#
# FENCEPOST_PLANT  see relay.c
set -eu
PATH=${PATH#/usr/local/sbin:}
relay 2181 12181 0 "$FENCEPOST_PLANT" &
# The address that clients come to is the relay's.
sed -i 's/^clientPort=2181$/clientPort=12181/' /run/zookeeper/zoo.cfg
exec java "$@"
