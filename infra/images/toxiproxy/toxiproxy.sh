#!/bin/sh
# Run Toxiproxy in the foreground; its arguments are the server's.
#
# The address of a node that has ended by itself is gone. Linux would believe in it for half a minute and then ask for
# it for 3 s, and Toxiproxy, which dials while it accepts, would not answer its API meanwhile. With these times (ms) it
# knows after half a second or so that nobody is there. They need NET_ADMIN; without it all works, but slower.
set -eu
for interface in /sys/class/net/eth*; do
    ip ntable change name arp_cache dev "${interface##*/}" \
        base_reachable 500 delay_probe 100 ucast_probes 1 retrans 100 mcast_probes 1 || break
done
exec toxiproxy -host 0.0.0.0 "$@"
