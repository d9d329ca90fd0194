"""New code on all hosts, in turn, while clients ask: only the answers show the change."""

import pytest
from harness.cluster import MARKS, NO_AGENT, PATIENCE_SECONDS, short, versions, whole
from harness.steady import LONG, steady
from harness.waiting import wait_until

pytestmark = [*MARKS, pytest.mark.long_on_pypy]
DRAINED, ALONE = "drained, then SIGTERM", "SIGTERM alone"


def deploy(cluster, how):
    """Let each host in turn end, and serve new code, while quick requests, uploads and slow readers come; return the ended load."""
    server = cluster.names[1]
    with steady(cluster.address, rate=20, kinds=LONG) as load:
        load.more(2)
        for node in cluster.nodes:
            load.mark(f"{node.name} ends")
            if how == DRAINED:
                if server == "aserve":
                    node.tell("drain")
                else:  # without such a word: HAProxy's own
                    cluster.command(f"set server app/{node.name} state drain")
                old = f"old {node.name}".encode()
                wait_until(lambda old=old: old not in cluster.answering(), PATIENCE_SECONDS, lambda: cluster.log)
            node.end_server()
            node.serve("new", server)
            if how == DRAINED and server != "aserve":
                cluster.command(f"set server app/{node.name} state ready")
            load.wait_for_host(f"new {node.name}")
        load.more(2)
    wait_until(lambda: cluster.answering() == versions("new"), PATIENCE_SECONDS, lambda: cluster.log)
    return load


@pytest.mark.parametrize(
    ("balancer", "how"),
    [
        pytest.param("HAProxy", DRAINED, marks=[short, pytest.mark.long]),
        pytest.param("HAProxy", ALONE, marks=whole),
        pytest.param("nginx", ALONE, marks=whole),
        pytest.param("nginx, uwsgi", ALONE, marks=whole),
        pytest.param("Caddy", ALONE, marks=whole),
        pytest.param("Envoy", ALONE, marks=whole),
    ],
)
def test_a_rolling_deploy(cluster, balancer, how):
    """No request is lost: no quick request, no running upload, and no slowly read response."""
    cluster.open(balancer)
    load = deploy(cluster, how)
    row = cluster.keep("rolling deploy", load, how)
    assert not cluster.failures(load), (cluster.failures(load)[:5], cluster.log[-2000:])
    assert row["doubled"] == 0
    assert {ask.host.split()[0] for ask in load.asks} == {b"old", b"new"}
    assert {ask.kind for ask in load.asks} == set(LONG)


@whole
@pytest.mark.parametrize("how", [DRAINED, ALONE])
def test_gunicorn_beside_it(cluster, how):
    """The fate of requests behind the same HAProxy when the hosts have gunicorn: a row without a promise."""
    cluster.open("HAProxy", "gunicorn", changes=NO_AGENT)
    assert cluster.keep("rolling deploy", deploy(cluster, how), how)["answered"]
