#!/bin/sh
# Leave no room on the disk that is mounted at $1, and none again whenever some is given back. Says "full" when it is.
#
# The ballast has no name, so it is gone with this process, however that ends. It is only done where a disk is memory of
# a limited size: any other is the engine's own.
set -u
[ "$(stat --file-system --format %T "$1")" = tmpfs ] || { echo "$1 is not a disk of limited size" >&2; exit 1; }
exec 3>>"$1/.ballast"
rm "$1/.ballast"
# What there is at once, without writing it; then what is left.
fallocate --length "$(($(stat --file-system --format "%a * %S" "$1")))" "/proc/$$/fd/3"
while :; do
    dd if=/dev/zero bs=64k status=none >&3 2>/dev/null
    [ -n "${full:-}" ] || echo full
    full=yes
    sleep 0.1
done
