"""What can happen to a host, and to the way there, while requests come: who is answered, how late, and what is lost."""

from __future__ import annotations

import pytest
from harness.cluster import MARKS, NO_AGENT, whole
from harness.steady import steady

pytestmark = [*MARKS, whole]
BUSY_SECONDS = 0.15  # of a request, so that a host has some in hand
# How long an answer may take at all: 60 s in the examples. Who waits for a host that has vanished waits so long.
TIME_OUT = {
    "HAProxy": {"timeout server 60s": "timeout server 8s"},
    "nginx": {"proxy_read_timeout 60s": "proxy_read_timeout 8s"},
    "nginx, uwsgi": {"uwsgi_read_timeout 60s": "uwsgi_read_timeout 8s"},
    "Caddy": {"response_header_timeout 60s": "response_header_timeout 8s"},
    "Envoy": {"timeout: 60s": "timeout: 8s"},
}
BALANCERS = list(TIME_OUT)
BY_HTTP = ["HAProxy", "nginx"]


def open_busy(cluster, balancer, server="aserve"):
    """Serve; return the host to which something will happen."""
    cluster.open(balancer, server, changes={**TIME_OUT[balancer], **(NO_AGENT if server == "gunicorn" else {})})
    for node in cluster.nodes:
        node.pause(BUSY_SECONDS)
    return cluster.nodes[0]


def check(cluster, load, row, gone):
    """What may be repeated was; of the rest, only what the host that is gone had in hand has failed. Nothing was done twice."""
    wrong = [(ask, hosts) for ask, hosts in cluster.failures(load) if ask.kind == "get" or hosts - {gone.name}]
    assert not wrong, (wrong[:5], cluster.log[-2000:])
    assert row["doubled"] == 0
    assert row["hosts_each"][0] == 3


def check_whole(cluster, load, row):
    """Every request was answered, and nothing was done twice."""
    assert not cluster.failures(load), (cluster.failures(load)[:5], cluster.log[-2000:])
    assert row["doubled"] == 0


@pytest.mark.parametrize(("balancer", "server"), [*((name, "aserve") for name in BALANCERS), ("HAProxy", "gunicorn")])
def test_a_host_is_killed(cluster, balancer, server):
    """Its processes are killed, with the requests that they had; it is started again after some seconds, and gets its share."""
    host = open_busy(cluster, balancer, server)
    with steady(cluster.address) as load:
        load.more(2)
        load.mark("killed")
        host.kill()
        load.more(7)
        load.mark("started")
        host.serve("new", server)
        load.wait_for_host("new one")
        load.more(2)
    check(cluster, load, cluster.keep("killed", load), host)


@pytest.mark.parametrize("balancer", [name for name in BALANCERS if "uwsgi" not in name])
def test_a_host_vanishes(cluster, balancer):
    """Its link is down: nobody says that it is gone; later the link is up again."""
    host = open_busy(cluster, balancer)
    with steady(cluster.address) as load:
        load.more(2)
        load.mark("link down")
        host.place.set_link("down")
        load.more(10)
        load.mark("link up")
        host.place.set_link("up")
        load.wait_for_host("old one")
        load.more(2)
    check(cluster, load, cluster.keep("vanished", load), host)


@pytest.mark.parametrize("balancer", BY_HTTP)
def test_a_way_that_loses_frames(cluster, balancer):
    """Each way to one host takes 50 ms more, and one frame in twenty is lost: TCP sends it again, and no request fails."""
    open_busy(cluster, balancer)
    with steady(cluster.address) as load:
        load.more(2)
        load.mark("50 ms, 5 % lost")
        cluster.wire.delay_seconds, cluster.wire.loss = 0.05, 0.05
        load.more(10)
        load.mark("as before")
        cluster.wire.delay_seconds = cluster.wire.loss = 0.0
        load.more(2)
    assert cluster.wire.lost_count > 0
    check_whole(cluster, load, cluster.keep("bad way", load))


def part_for(seconds, cluster, host, load):
    """Part the balancer and a host for so long, while the host itself is well, and wait until it gets its share again."""
    load.more(2)
    load.mark("parted")
    cluster.part(host)
    load.more(seconds)
    assert host.answers()
    load.mark("healed")
    cluster.heal(host)
    load.wait_for_host("old one")
    load.more(2)


@pytest.mark.parametrize("balancer", BY_HTTP)
def test_a_short_partition(cluster, balancer):
    """The balancer and a host do not find each other for three seconds: what was under way is late, and nothing is lost."""
    host = open_busy(cluster, balancer)
    with steady(cluster.address) as load:
        part_for(3, cluster, host, load)
    check_whole(cluster, load, cluster.keep("parted briefly", load))


@pytest.mark.parametrize("balancer", BY_HTTP)
def test_a_long_partition(cluster, balancer):
    """They do not for ten seconds."""
    host = open_busy(cluster, balancer)
    with steady(cluster.address) as load:
        part_for(10, cluster, host, load)
    check(cluster, load, cluster.keep("parted", load), host)
