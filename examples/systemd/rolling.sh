#!/bin/sh
# Usage: rolling.sh HOST...
# New code on hosts behind a balancer, one after another, by ssh. Each is taken out, restarted, and put back; no request is lost.
# It ends at the first host with which something is wrong, and says how that is left; those behind it go on as they are.
#
# From the environment:
#   INSTALL   a command that brings the new code to a host, run there before its server ends
#   RESTART   a command that begins it
#   ASERVE    aserve there, as the user that the server runs as
#   CONTROL   its --control
#   QUIET     seconds without a request after which the balancer sends none any more; more than its checks take to see a
#             drain: for HAProxy `inter` times `fall`. So long it also gets to see that the host is back
#   PATIENCE  for how many times QUIET to wait for that, and for the new code to serve
set -eu

INSTALL=${INSTALL:-sudo -u shop /srv/shop/install}
RESTART=${RESTART:-sudo systemctl restart shop.service}
ASERVE=${ASERVE:-sudo -u shop /srv/shop/venv/bin/aserve}
CONTROL=${CONTROL:-/run/aserve/shop/control}
QUIET=${QUIET:-5}
PATIENCE=${PATIENCE:-24}

give_up() {
    echo "rolling.sh: $*" >&2
    exit 1
}

on() {
    where=$1
    shift
    # A host that vanishes must not hold this up for ever; without /dev/null ssh would read what is meant for this script.
    ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=10 "$where" "$*" </dev/null
}

tell() {
    on "$1" "$ASERVE" balancers "$2" --control "$CONTROL" >/dev/null
}

# Status 1: requests are not served that should be.
status() {
    on "$1" "$ASERVE" status --json --control "$CONTROL"
}

# How many requests its workers have had.
requests() {
    answer=$(status "$1") || [ -n "$answer" ] || give_up "$1: it does not answer any more, and is out"
    echo "$answer" | awk '$1 == "\"requests\":" { count += $2 } END { print count + 0 }'
}

[ $# -gt 0 ] || give_up "usage: rolling.sh HOST..."

# Where one does not serve, the others have its load already.
for host; do
    status "$host" >/dev/null || give_up "$host: nothing was begun: it is not well, or does not answer"
done

for host; do
    echo "$host: the new code"
    on "$host" "$INSTALL" || give_up "$host: INSTALL has failed; its server goes on"

    echo "$host: drain"
    tell "$host" drain || give_up "$host: it does not answer"
    left=$PATIENCE
    after=$(requests "$host")
    before=
    while [ "$before" != "$after" ]; do
        if [ "$left" -eq 0 ]; then
            tell "$host" ready || :
            give_up "$host: the balancer still sends requests; the host is back, with the code of before"
        fi
        left=$((left - 1))
        before=$after
        sleep "$QUIET"
        after=$(requests "$host")
    done

    echo "$host: restart"
    # What still runs is finished first: systemd waits for it. Whoever comes meanwhile waits in shop.socket's queue.
    on "$host" "$RESTART" || give_up "$host: RESTART has failed, and the host is out"
    left=$PATIENCE
    until status "$host" >/dev/null; do # its first worker is ready, and the others come
        [ "$left" -gt 0 ] || give_up "$host: the new code does not serve, and the host may be out"
        left=$((left - 1))
        sleep "$QUIET"
    done
    # A restart has forgotten the drain, a reload has not.
    tell "$host" ready || give_up "$host: the new code serves, but was not told so: after a reload the host is out"
    sleep "$QUIET"
    echo "$host: done"
done
