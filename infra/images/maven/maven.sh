#!/bin/sh
# Install Maven in a container of the base image, as root.
#
# MAVEN_SETTINGS  wherever Maven runs then: the user's settings.xml, which names mirrors and proxies; empty: Maven's own
#
# Java trusts the certificates of the base image, which are this machine's: installing Java replaces that file.
set -eu
mkdir -p /usr/share/man/man1 ~/.m2
own=/etc/ssl/certs/ca-certificates.crt
[ ! -s $own ] || cp $own /trusted.crt
apt-get update -q
apt-get install -qy --no-install-recommends maven openssl default-jre-headless ca-certificates xz-utils
[ -s /trusted.crt ] || cp $own /trusted.crt
openssl pkcs12 -export -nokeys -jdktrust anyExtendedKeyUsage -in /trusted.crt -out /trusted -passout pass:fencepost
cat >/etc/mavenrc <<'END'
MAVEN_OPTS="-Djavax.net.ssl.trustStore=/trusted -Djavax.net.ssl.trustStorePassword=fencepost"
[ -z "${MAVEN_SETTINGS:-}" ] || printf %s "$MAVEN_SETTINGS" >~/.m2/settings.xml
END
