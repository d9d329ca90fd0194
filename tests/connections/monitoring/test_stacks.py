"""Each thread's present work: its request if any, and its stack from the app on."""

import math
import re
import sys
import threading

import pytest
from harness import apps

import aserve.connections.monitoring.stacks
from aserve.connections.monitoring.stacks import _Found, describe_busy, describe_stacks, look_at_threads
from aserve.core.exchange import Exchange
from aserve.workers.threads import Watcher


@pytest.mark.any_parser
@pytest.mark.also_inline
def test_a_thread_with_a_request(start_server, raw_client):
    """The request is named, escaped, and the stack begins with the app."""
    gate = apps.Gate()
    client = raw_client(start_server(gate, threads=2, show_queries=True))
    client.request('/slow?"x"')
    gate.wait_entered()
    text = describe_stacks()
    gate.open()
    assert client.recv_response().status == 200
    (found,) = re.findall(r"^(.+), at GET /slow\?\\x22x\\x22:\n((?:  .*\n)+)", text, re.M)
    frames = re.findall(r"in (\w+)\n", found[1])
    assert "__call__" in frames and "respond" not in frames


@pytest.mark.one_way
def test_a_plain_request(start_server, raw_client):
    """A request in C is named as well, and only while it runs; its stack is the app's own."""
    pytest.importorskip("aserve._native", reason="aserve._native is not built here")
    gate = apps.Gate()
    server = start_server(gate, is_checked=False, threads=2, native="auto", drain_seconds=20)
    engine = server.server._listening.lane.native.engine
    client = raw_client(server)
    client.request("/slow")
    gate.wait_entered()
    assert engine.running(-math.inf) == {} and engine.promoted_count == 0
    text = describe_stacks()
    [(ident, exchange)] = engine.running(-math.inf).items()
    gate.open()
    gate.open()
    assert client.recv_response().status == 200 and client.fetch("/").status == 200
    assert exchange.summary == "GET /slow" and ident != threading.get_ident()
    (stack,) = re.findall(r"^aserve-worker-\d, at GET /slow:\n((?:  .*\n)+)", text, re.M)
    assert "in __call__\n" in stack and "executor.py" not in stack and "threading.py" not in stack.splitlines()[-2]
    assert "at GET" not in describe_stacks()


def test_a_thread_that_goes_on_meanwhile(monkeypatch):
    """A former request is not named, if the thread may have had another as its stack was seen."""
    own, exchange = threading.get_ident(), Exchange("", 0)
    monkeypatch.setattr(
        aserve.connections.monitoring.stacks, "WORKING", (test_a_thread_that_goes_on_meanwhile.__code__,)
    )
    for still, seen in (({own: exchange}, exchange), ({}, None), ({own: Exchange("", 0)}, None)):
        monkeypatch.setattr(
            aserve.connections.monitoring.stacks,
            "running",
            lambda before, still=still: {own: exchange} if before == math.inf else still,
        )
        [(found, frames)] = [found[1:] for found in look_at_threads() if found[0] == own]
        assert found is seen and frames[-1].f_code is not sys._getframe().f_code


def test_for_how_long(start_server, raw_client):
    """Told where requests are timed."""
    gate = apps.Gate()
    client = raw_client(start_server(gate, threads=2, slow_request_seconds=60))
    client.request("/slow")
    gate.wait_entered()
    text = describe_stacks()
    gate.open()
    assert client.recv_response().status == 200
    if sys.implementation.name == "pypy" and "at GET" not in text:
        pytest.skip("PyPy could not tell this stack; see core/frames.py")
    assert re.search(r"at GET /slow for \d+\.\d s:\n", text)


def test_other_threads_have_stacks_if_the_apps():
    """A thread of the app has a stack; one of ours without a request has none. A thread asked for by name is shown in any case."""
    is_told, go_on = threading.Event(), threading.Event()

    def wait_here():
        is_told.set()
        go_on.wait(20)

    threads = [threading.Thread(target=wait_here, name=name) for name in ("poller", "aserve-worker-7")]
    for thread in threads:
        is_told.clear()
        thread.start()
        assert is_told.wait(20)
    text, named, busy = describe_stacks(), describe_stacks(["aserve-worker-7"]), describe_busy()
    go_on.set()
    for thread in threads:
        thread.join()
    assert re.search(r"^poller:\n(  .*\n)*?  File .*, in wait_here\n", text, re.M)
    assert re.search(r"^waiting for requests: .*aserve-worker-7", text, re.M)
    assert threading.current_thread().name in text.partition("waiting for requests: ")[2]
    assert named.startswith("aserve-worker-7:\n  ") and "wait_here" in named and "poller" not in named
    assert "poller" not in busy and "waiting for requests" not in busy


def found(name, stack, target=None, began_at=0.0):
    """Return a thread as found."""
    exchange = None
    if target is not None:
        exchange = Exchange(f"REQUEST_METHOD\0GET\0REQUEST_URI\0{target}", 2)
        exchange.began_at = began_at
    return _Found(name, 1, exchange, f"  {stack}\n")


def test_threads_that_only_look():
    """Sleeping threads of the server are left out, unless asked for by name."""
    is_over = threading.Event()
    watcher = Watcher(is_over.wait, "a-watcher")
    watcher.start()
    assert "a-watcher" not in describe_stacks() and "a-watcher" in describe_stacks(["a-watcher"])
    is_over.set()
    watcher.join()


def test_threads_at_the_same_place(monkeypatch):
    """Threads at one place are one stack, with their names above; the oldest request comes first, and the app's own threads last."""
    monkeypatch.setattr(aserve.connections.monitoring.stacks.time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(aserve.connections.monitoring.stacks, "MAX_HEADS", 3)
    workers = [found(f"w{number}", "lock", f"/{number}", 90.0 + number) for number in range(1, 7)]
    monkeypatch.setattr(
        aserve.connections.monitoring.stacks,
        "_find",
        lambda: [found("poller", "sleep"), *workers, found("w0", "read", "/0", 90.0)],
    )
    assert describe_stacks() == (
        "w0, at GET /0 for 10.0 s:\n  read\n\n"
        "w1, at GET /1 for 9.0 s\nw2, at GET /2 for 8.0 s\nw3, at GET /3 for 7.0 s\nand 3 more threads:\n  lock\n\n"
        "poller:\n  sleep\n"
    )


def test_a_thread_that_was_written_off(monkeypatch):
    """A stuck thread is told to have no waiting client."""
    late = found("w1", "lock", "/1")
    late.exchange.end = "timed_out"
    monkeypatch.setattr(aserve.connections.monitoring.stacks, "_find", lambda: [late])
    assert describe_stacks() == "w1, at GET /1, timed out: no client waits for it:\n  lock\n"


def test_a_thread_that_python_does_not_know(monkeypatch):
    monkeypatch.setattr(threading, "enumerate", list)
    assert "waiting for requests: thread " in describe_stacks()
