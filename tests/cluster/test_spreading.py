"""The shares of requests: of a host merely slow, and of new hosts."""

import pytest
from harness.cluster import FLAGS, MARKS, NO_AGENT, whole
from harness.steady import steady

pytestmark = [*MARKS, whole]
QUICK_SECONDS = 0.2  # of a request: 8 threads serve 40 a second, and five times slower 8
LIMITED = ("--max-connection-requests", "30")


@pytest.mark.parametrize(
    ("balancer", "changes", "note", "most"),
    [
        ("HAProxy", {}, "in turn by weight, agent check", 25),
        ("HAProxy", NO_AGENT, "in turn", 40),
        ("HAProxy", {**NO_AGENT, "balance roundrobin": "balance leastconn"}, "least connections", 25),
        ("nginx", {}, "least connections", 25),
    ],
)
def test_a_host_that_is_only_slow(cluster, balancer, changes, note, most):
    """A slow host gets less than a full share by an agent check or a count of connections; in turn the host gets a third, and the queue grows."""
    cluster.open(balancer, changes=changes)
    for node in cluster.nodes:
        node.pause(QUICK_SECONDS)
    with steady(cluster.address, rate=36) as load:
        load.more(2)
        load.mark("slow")
        cluster.nodes[0].pause(5 * QUICK_SECONDS)
        load.more(15)
    row = cluster.keep("slow host", load, note)
    assert not cluster.failures(load)
    assert row["doubled"] == 0 and row["shares"][0] <= most


@pytest.mark.parametrize(
    ("balancer", "flags", "note", "least"),
    [
        ("HAProxy, tcp", LIMITED, "--max-connection-requests 30", 10),
        ("HAProxy, tcp", ("--max-connection-requests", "0"), "no limit", 0),
        ("HAProxy", LIMITED, "--max-connection-requests 30", 10),
        ("nginx", LIMITED, "--max-connection-requests 30", 10),
    ],
)
def test_a_scale_up(cluster, balancer, flags, note, least):
    """By the limit, kept connections are spread over the new hosts, also by a balancer blind to requests; without the limit, connections stay."""
    at = FLAGS.index("--max-connection-requests")
    flags = (*FLAGS[:at], *flags, *FLAGS[at + 2 :])
    cluster.open(balancer, serving=1, flags=flags)
    cluster.nodes[0].pause(QUICK_SECONDS / 4)
    with steady(cluster.address, rate=40, is_kept=True) as load:
        load.more(2)
        for node in cluster.nodes[1:]:
            node.serve("old", flags=flags)
            node.pause(QUICK_SECONDS / 4)
        load.mark("two more hosts")
        load.more(8)
    row = cluster.keep("scale-up", load, note)
    assert not cluster.failures(load)
    assert row["doubled"] == 0 and min(row["shares"]) >= least
