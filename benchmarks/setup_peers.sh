#!/bin/sh
# Makes the environments of the servers to compare with: .venv-peers and, where pypy3 is,
# .venv-peers-pypy, in the repository's root.
#
#   PYTHON=/usr/bin/python3    Debian's own: it is built with PGO and LTO.  An interpreter without
#                              them (pyenv's, by default) makes servers in Python look slower beside
#                              those in C.  Install aserve on the same interpreter.
#   PYPY=pypy3                 likewise for PyPy
#
# Debian's packages: wrk gcc libc6-dev libev-dev python3-dev python3-venv, and pypy3-venv for PyPy.
# As root it installs what is missing, otherwise it names it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
python=${PYTHON:-/usr/bin/python3}
pypy=${PYPY:-pypy3}

need_packages() {
    packages=
    command -v wrk >/dev/null || packages="$packages wrk"
    command -v cc >/dev/null || packages="$packages gcc libc6-dev"
    [ -e /usr/include/ev.h ] || packages="$packages libev-dev"
    if [ "$python" = /usr/bin/python3 ]; then
        "$python" -c 'import ensurepip, venv' 2>/dev/null || packages="$packages python3-venv"
        "$python" -c 'import os, sysconfig
os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || packages="$packages python3-dev"
    fi
    [ -n "$packages" ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "missing, by the names of Debian's packages:$packages" >&2
        exit 1
    fi
    apt-get -qq -o DPkg::Lock::Timeout=300 update
    # shellcheck disable=SC2086  # a list of packages
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
        install --no-install-recommends $packages >/dev/null
}

# make_venv PYTHON VENV: once for each interpreter and list of peers.
make_venv() {
    stamp="$2/.made"
    wanted=$("$1" -c 'import sys; print(sys.version)' && cat "$here/requirements-peers.txt")
    [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
    echo "making $2"
    "$1" -m venv --clear "$2"
    grep -v '^#' "$here/requirements-peers.txt" | while read -r line; do
        "$2/bin/python" -m pip install --quiet --disable-pip-version-check "$line" </dev/null ||
            echo "left out, it does not install here: $line" >&2
    done
    echo "$wanted" >"$stamp"
}

need_packages
make_venv "$python" "$root/.venv-peers"
if command -v "$pypy" >/dev/null; then
    make_venv "$pypy" "$root/.venv-peers-pypy"
else
    echo "there is no $pypy here: nothing is measured on PyPy" >&2
fi
