#!/bin/sh
# Delay every synchronisation of the disk by each process that is here, and by all that they start.
#
# $1  microseconds for each call
#
# It stands in the processes' own pid namespace: with their first it ends as well.
set -eu
calls=fsync,fdatasync,msync,sync_file_range,syncfs,sync
for process in /proc/[0-9]*; do
    [ "${process#/proc/}" = $$ ] || set -- "$@" -p "${process#/proc/}"
done
delay=$1
shift
exec strace -f -o /dev/null -e "trace=$calls" -e "inject=$calls:delay_enter=$delay" "$@"
