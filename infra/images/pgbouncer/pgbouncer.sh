#!/bin/sh
# Run PgBouncer in the foreground, in transaction mode: a client has a server connection for one transaction.
#
# PGBOUNCER_SERVER    where PostgreSQL is: "host=10.0.0.1 port=5432"
# PGBOUNCER_PASSWORD  of the superuser `postgres`, here and there
set -eu
umask 077
run=/run/pgbouncer
mkdir -p $run
echo "\"postgres\" \"$PGBOUNCER_PASSWORD\"" >$run/users
# A server that could not be reached is tried again after a second, not after fifteen.
echo "[databases]
* = $PGBOUNCER_SERVER
[pgbouncer]
listen_addr = 0.0.0.0
listen_port = 6432
unix_socket_dir =
auth_type = scram-sha-256
auth_file = $run/users
admin_users = postgres
pool_mode = transaction
max_client_conn = 1000
server_login_retry = 1
server_connect_timeout = 5
log_connections = 0
log_disconnections = 0
log_stats = 0" >$run/pgbouncer.ini
chown -R postgres:postgres $run
unset PGBOUNCER_PASSWORD
exec setpriv --reuid=postgres --regid=postgres --init-groups -- pgbouncer $run/pgbouncer.ini
