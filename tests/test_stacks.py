"""What each thread is at: its request if it has one, and its stack from the app on."""

from __future__ import annotations

import re
import sys
import threading

import pytest
from harness import apps

import aserve.stacks
from aserve.stacks import describe_stacks
from aserve.wsgi.timing import TimingGateway


@pytest.mark.any_parser
@pytest.mark.also_inline
def test_a_thread_with_a_request(start_server, raw_client):
    """Its request is named, escaped, and its stack begins with the app."""
    gate = apps.Gate()
    client = raw_client(start_server(gate, threads=2))
    client.request('/slow?"x"')
    gate.wait_entered()
    text = describe_stacks()
    gate.open()
    assert client.recv_response().status == 200
    (found,) = re.findall(r"^(.+), at GET /slow\?\\x22x\\x22:\n((?:  .*\n)+)", text, re.M)
    frames = re.findall(r"in (\w+)\n", found[1])
    assert "__call__" in frames and "respond" not in frames


def test_for_how_long(start_server, raw_client):
    """Told where requests are timed."""
    gate = apps.Gate()
    server = start_server(gate, threads=2)
    server.server._services[0].gateway = TimingGateway(server.server._services[0].gateway)
    client = raw_client(server)
    client.request("/slow")
    gate.wait_entered()
    text = describe_stacks()
    gate.open()
    assert client.recv_response().status == 200
    if sys.implementation.name == "pypy" and "at GET" not in text:
        pytest.skip("PyPy could not tell this stack; see frames.py")
    assert re.search(r"at GET /slow for \d+\.\d s:\n", text)


def test_other_threads(monkeypatch):
    """A thread of the app has all of its stack, as far as it is not too long; one of ours without a request has none."""
    monkeypatch.setattr(aserve.stacks, "MAX_FRAMES", 5)
    is_told, go_on = threading.Event(), threading.Event()

    def wait_deep(depth):
        if depth:
            wait_deep(depth - 1)
        else:
            is_told.set()
            go_on.wait(20)

    threads = [threading.Thread(target=wait_deep, args=[20], name=name) for name in ("poller", "aserve-worker-7")]
    for thread in threads:
        is_told.clear()
        thread.start()
        assert is_told.wait(20)
    text = describe_stacks()
    go_on.set()
    for thread in threads:
        thread.join()
    assert re.search(r"^poller:\n  \(\d+ frames before these\)\n", text, re.M)
    assert re.search(r"^waiting for requests: .*aserve-worker-7", text, re.M)
    assert threading.current_thread().name in text.partition("waiting for requests: ")[2]


def test_a_thread_that_python_does_not_know(monkeypatch):
    """It has a number for its name."""
    monkeypatch.setattr(threading, "enumerate", list)
    assert "waiting for requests: thread " in describe_stacks()
