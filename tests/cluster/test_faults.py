"""Faults of a host, and of the way there, while requests come: the answered clients, the delay, and the loss."""

import pytest
from harness.cluster import MARKS, NO_AGENT, whole
from harness.steady import steady

pytestmark = [*MARKS, whole]
BUSY_SECONDS = 0.15  # of a request, so a host has some in hand
# The longest time of an answer: 60 s in the examples. A client of a vanished host waits so long.
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
    """Serve; return the host of the coming fault."""
    cluster.open(balancer, server, changes={**TIME_OUT[balancer], **(NO_AGENT if server == "gunicorn" else {})})
    for node in cluster.nodes:
        node.pause(BUSY_SECONDS)
    return cluster.nodes[0]


def check(cluster, load, row, gone):
    """Each repeatable request was repeated; of the rest, only the requests in hand of the vanished host have failed. No request was done twice."""
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
    """The host's processes are killed, with their requests; the host is started again after some seconds, and gets a full share."""
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
    """The host's link is down without a word to anybody; later the link is up again."""
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
    """Each way to a host takes 50 ms more, and every twentieth frame is lost: TCP sends the frame again, and no request fails."""
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
    """Part the balancer and a sound host for so long, and wait until the host gets a full share again."""
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
    """The balancer and a host do not find each other for three seconds: running requests are late, and none is lost."""
    host = open_busy(cluster, balancer)
    with steady(cluster.address) as load:
        part_for(3, cluster, host, load)
    check_whole(cluster, load, cluster.keep("parted briefly", load))


@pytest.mark.parametrize("balancer", BY_HTTP)
def test_a_long_partition(cluster, balancer):
    """The balancer and a host do not find each other for ten seconds."""
    host = open_busy(cluster, balancer)
    with steady(cluster.address) as load:
        part_for(10, cluster, host, load)
    check(cluster, load, cluster.keep("parted", load), host)
