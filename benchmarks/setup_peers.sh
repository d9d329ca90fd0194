#!/bin/sh
# Makes the environments of the servers to compare with: PEERS and, where pypy3 is, PEERS-pypy.
#
#   PEERS=.venv-peers          in the repository's root; the benchmarks read the same variable
#   PYTHON=/usr/bin/python3    Debian's own: it is built with PGO and LTO.  An interpreter without
#                              them (pyenv's, by default) makes servers in Python look slower beside
#                              those in C.  Install aserve on the same interpreter.
#   PYPY=pypy3                 likewise for PyPy
#
# Debian's packages: wrk nginx-light apache2 apache2-dev apache2-utils strace linux-perf openssl gcc libc6-dev libev-dev libpcre2-dev libuv1
# python3-dev python3-venv, and pypy3-venv for PyPy.  As root it installs what is missing, otherwise it names it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
python=${PYTHON:-/usr/bin/python3}
pypy=${PYPY:-pypy3}
peers=${PEERS:-$root/.venv-peers}
PATH=$PATH:/usr/sbin # where Debian keeps nginx

need_packages() {
    packages=
    command -v wrk >/dev/null || packages="$packages wrk"
    command -v nginx >/dev/null || packages="$packages nginx-light"
    command -v cc >/dev/null || packages="$packages gcc libc6-dev"
    [ -e /usr/include/ev.h ] || packages="$packages libev-dev"          # bjoern
    command -v ab >/dev/null || packages="$packages apache2-utils"
    command -v apache2 >/dev/null || packages="$packages apache2"
    command -v apxs >/dev/null || packages="$packages apache2-dev"      # mod_wsgi
    command -v strace >/dev/null || packages="$packages strace"
    command -v perf >/dev/null || packages="$packages linux-perf"
    command -v openssl >/dev/null || packages="$packages openssl"
    ldconfig -p | grep -q libuv.so.1 || packages="$packages libuv1"     # socketify
    [ -e /usr/include/pcre2.h ] || packages="$packages libpcre2-dev"    # uWSGI's routes
    if [ "$python" = /usr/bin/python3 ]; then
        "$python" -c 'import ensurepip, venv' 2>/dev/null || packages="$packages python3-venv"
        "$python" -c 'import os, sysconfig
os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null || packages="$packages python3-dev"
    fi
    if command -v "$pypy" >/dev/null; then
        "$pypy" -c 'import ensurepip, venv' 2>/dev/null || packages="$packages pypy3-venv"
    fi
    # shellcheck disable=SC2086  # a list of packages
    [ -z "$packages" ] || "$root/.ci/need" packages $packages
}

# make_venv PYTHON VENV: once for each interpreter and list of peers.
make_venv() {
    stamp="$2/.made"
    wanted=$("$1" -c 'import sys; print(sys.version)' && cat "$here/requirements-peers.txt")
    [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ] || return 0
    echo "making $2"
    "$1" -m venv --clear "$2"
    grep -v '^#' "$here/requirements-peers.txt" | while read -r line; do
        # No cache: it may hold a uWSGI built before PCRE was there, which knows no routes.
        if ! "$2/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check "$line" </dev/null 2>"$2/.pip"; then
            echo "left out, it does not install here: $line" >&2
            # The report says so, with the first error.
            echo "${line%%=*}	$(grep -i -m 1 error "$2/.pip")" >>"$2/.left-out"
        fi
    done
    echo "$wanted" >"$stamp"
}

need_packages
make_venv "$python" "$peers"
if command -v "$pypy" >/dev/null; then
    make_venv "$pypy" "$peers-pypy"
else
    echo "there is no $pypy here: nothing is measured on PyPy" >&2
fi
