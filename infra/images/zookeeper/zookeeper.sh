#!/bin/sh
# Run one ZooKeeper server in the foreground.
#
# ZK_ID       this server's number (1)
# ZK_SERVERS  the ensemble as its peers see it: "server.1=zk1:2881:3881 server.2=zk2:2882:3882 ..."; none: a server alone
# JVMFLAGS    more for Java
# CLASSPATH   the server and its libraries (those of the Debian package)
#
# Its own line becomes 0.0.0.0 whatever it was: a server sends its election address to its peers, and 3.8 sends the
# resolved one, which they cannot reach across the bridges of the star; a wildcard they ignore.
set -eu
: "${ZK_ID:=1}" "${ZK_SERVERS:=}" "${JVMFLAGS:=}"
mkdir -p /data/zookeeper /run/zookeeper
echo "$ZK_ID" >/data/zookeeper/myid
{
    # Half-second ticks allow sessions from 1 s, and by themselves up to 10 s; a follower is lost after syncLimit ticks.
    echo "tickTime=500
maxSessionTimeout=600000
initLimit=4
syncLimit=5
dataDir=/data/zookeeper
clientPort=2181
maxClientCnxns=0
4lw.commands.whitelist=*
admin.enableServer=false"
    for server in $ZK_SERVERS; do
        case $server in
            "server.$ZK_ID="*) rest=${server#*=}; echo "server.$ZK_ID=0.0.0.0:${rest#*:}" ;;
            *) echo "$server" ;;
        esac
    done
} >/run/zookeeper/zoo.cfg

jars=/usr/share/java
# An election that is lost in the dark is asked for again within a second, not within a minute; nor is a peer's address
# that was not there yet, or is no longer, believed for long. A proxy hangs up on a follower that meets its new leader
# too early, and it votes again: then the leader does too, and does not wait for it for a whole initLimit.
# shellcheck disable=SC2086
exec java -Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
    -Dzookeeper.fastleader.minNotificationInterval=200 \
    -Dzookeeper.fastleader.maxNotificationInterval=1000 \
    -Dzookeeper.leader.maxTimeToWaitForEpoch=200 \
    -Dsun.net.inetaddr.ttl=1 -Dsun.net.inetaddr.negative.ttl=0 \
    -Dorg.slf4j.simpleLogger.showDateTime=true -Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS \
    $JVMFLAGS -cp "${CLASSPATH:-$jars/zookeeper.jar:$jars/slf4j-simple.jar}" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain /run/zookeeper/zoo.cfg
