"""New code on all hosts, one after another, while clients ask: nobody notices, but by the answers."""

from __future__ import annotations

import os

import pytest
from harness.cluster import NAMES, cluster, why_not
from harness.load import load
from harness.waiting import wait_until

WHY_NOT = why_not() if os.environ.get("CLUSTER") else "`make cluster` runs it, as root"
pytestmark = [
    pytest.mark.checkout,
    pytest.mark.slow,
    pytest.mark.timeout(600),  # seconds; seven starts of a server, on a machine that may be busy
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT),
]
PATIENCE_SECONDS = 60.0

__all__ = ["cluster"]  # a fixture


def hosts_of(version, names=NAMES):
    return {f"{version} {name}".encode() for name in names}


def test_a_rolling_deploy(cluster):
    """A host is drained, ended, started with new code, and gets requests again; then the next. No request is lost."""
    cluster.open("old")
    wait_until(lambda: cluster.answering() == hosts_of("old"), PATIENCE_SECONDS, lambda: cluster.log)
    with load(cluster.connect) as clients:
        for node in cluster.nodes:
            node.tell("drain")
            old = f"old {node.name}".encode()
            wait_until(lambda old=old: old not in cluster.answering(), PATIENCE_SECONDS, lambda: cluster.log)
            node.process.signal()
            assert node.process.wait(PATIENCE_SECONDS) == 0
            node.serve("new")
            new = f"new {node.name}".encode()
            wait_until(lambda new=new: new in cluster.answering(), PATIENCE_SECONDS, lambda: cluster.log)
        before = clients.count
        wait_until(lambda: clients.count > before + 50, PATIENCE_SECONDS)
    assert clients.first_words == {b"old", b"new"}
    wait_until(lambda: cluster.answering() == hosts_of("new"), PATIENCE_SECONDS, lambda: cluster.log)


def test_a_host_that_is_gone(cluster):
    """Its processes are killed: HAProxy takes it out, and the others answer; back again, it gets its share."""
    cluster.open("old")
    gone, *_ = cluster.nodes
    for pid in (gone.process.pid, *gone.process.workers):
        os.kill(pid, 9)
    wait_until(lambda: "Server app/one is DOWN" in cluster.log, PATIENCE_SECONDS, lambda: cluster.log)
    with load(cluster.connect) as clients:
        wait_until(lambda: cluster.answering() == hosts_of("old", NAMES[1:]), PATIENCE_SECONDS, lambda: cluster.log)
        gone.serve("new")
        wait_until(lambda: b"new one" in cluster.answering(), PATIENCE_SECONDS, lambda: cluster.log)
    assert clients.first_words == {b"old", b"new"}
