#!/bin/sh
# Make the virtual environment `.venv` be what requirements.lock says; no work when it already is.
#
# The stamp names the interpreter and the lock it was made from, and is written last: a run that was
# interrupted leaves none, and the next one starts afresh. PYTHON=... chooses the interpreter; --again installs even
# though nothing has changed.
# Exit status: 0 done, 1 failed, 3 not possible here.
set -eu
cd "$(dirname "$0")/.."
venv=.venv stamp=.venv/fencepost.stamp lock=requirements.lock

say() { echo "fencepost: $*" >&2; }
stop() { say "$2"; exit "$1"; }
version() { "$1" -c 'import sys; print(sys.implementation.name, ".".join(map(str, sys.version_info[:3])))' 2>/dev/null; }
supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; }
install() { # a Debian or Ubuntu package, where we may
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        stop 3 "$1 is missing; install it (Debian, Ubuntu: sudo apt-get install $1)"
    fi
    say "installing $1 with apt"
    # A source of the user's own that does not answer is not our trouble; a machine that has just booted may be
    # upgrading itself, and holds the lock.
    said=$(apt-get update -qq 2>&1
        DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$1" 2>&1) ||
        stop 1 "apt could not install $1: $said"
}
find_python() {
    for python in "${PYTHON:-$venv/bin/python}" ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        supported "$python" && return
    done
    [ -n "${PYTHON:-}" ] && stop 3 "PYTHON=$PYTHON is not a Python 3.11, 3.12 or 3.13"
    command -v python3 >/dev/null && stop 3 "Python 3.11, 3.12 or 3.13 is needed; this is $(python3 -V). PYTHON=/path/to/python3.x chooses another"
    install python3
    python=python3
    supported "$python" || stop 3 "Python 3.11, 3.12 or 3.13 is needed; this machine offers $(python3 -V)"
}

# Two at once (make test beside make certify) take turns.
if command -v flock >/dev/null; then exec 9>.venv.lock; flock 9; fi

find_python
made_by=$(version "$python")
made_from=$(cksum <"$lock")
if [ "${1:-}" != --again ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$made_by
$made_from" ]; then exit 0; fi

started=$(date +%s)
if [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" = "$made_by" ]; then
    say "updating $venv"
    rm "$stamp"
else
    case $python in "$venv"/*) python=$("$python" -c 'import sys; print(sys._base_executable)') ;; esac
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        install "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    say "making $venv with $made_by"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@" >&2 || stop 1 "pip failed; what it said stands above"; }
say "installing $(grep -c '^[a-z].*==' "$lock") locked packages"
# One package (etcd3) is source only: the setuptools that builds it comes from the lock too, so it goes in first.
awk '/^[a-z]/ { wanted = /^setuptools==/ } wanted' "$lock" >"$venv/setuptools.lock"
pip install --quiet --require-hashes --no-deps -r "$venv/setuptools.lock"
pip install --quiet --require-hashes --no-deps --no-build-isolation -r "$lock"
# What a wheel installs as a script; from here it runs the checkout, whatever the working directory is.
printf '#!/bin/sh\nPYTHONPATH="%s" exec "%s" -P -m suites.commands.fencepost "$@"\n' "$PWD" "$PWD/$venv/bin/python" \
    >"$venv/bin/fencepost"
chmod +x "$venv/bin/fencepost"
printf '%s\n%s\n' "$made_by" "$made_from" >"$stamp"
say "$venv is ready ($(($(date +%s) - started)) s)"
