"""Requests that take too long: each is told once, with the stack of its thread, and then its end."""

import threading
import time
from types import SimpleNamespace

import pytest
from harness import apps
from harness.extensions import extension_of
from harness.websockets import ASKING, Switching

from aserve.core import ends
from aserve.core.errors import RequestRefused
from aserve.core.exchange import Exchange
from aserve.core.frames import Call
from aserve.features.slow_requests import Slow
from aserve.features.slow_requests import watch as slow_requests
from aserve.features.slow_requests.watch import SlowRequests

VARS = "REQUEST_METHOD\0GET\0REQUEST_URI\0/a\0PATH_INFO\0/a\0QUERY_STRING\0\0SERVER_PROTOCOL\0HTTP/1.1"


def slow_lines(caplog):
    """Return the log's lines about slow requests."""
    return [record.getMessage() for record in caplog.records if record.name == "aserve.slow"]


@pytest.mark.also_inline
def test_one_that_runs(start_server, raw_client, wait_until, caplog):
    """The stack begins with the app; then the end is told. A quick request is not told."""
    gate = apps.Gate()
    server = start_server(gate, slow_request_seconds=0.05)
    client = raw_client(server)
    client.request("/slow?a=1", "X-Request-ID: abc")
    gate.wait_entered()
    if server.server.config.threads:
        server.pass_seconds_until(lambda: server.server.slow_requests())
    else:
        wait_until(lambda: server.server.slow_requests())
    (found,) = server.server.slow_requests()
    assert (found["request"], found["end"], found["status"], found["worker"]) == ("GET /slow?...", None, None, None)
    assert found["seconds"] >= 0.05 and found["request_id"] == "abc" and found["number"] == 1
    assert "in __call__" in found["stack"] and "in respond" not in found["stack"]
    (line,) = wait_until(lambda: slow_lines(caplog))  # kept first, then told
    assert (
        line.startswith("GET /slow?... has taken ")
        and f"; request id abc; {found['thread']} is at (the last call first):\n  File" in line
    )
    assert found["where"].endswith(", in __call__")
    gate.open()
    assert client.recv_response().status == 200
    wait_until(lambda: server.server.slow_requests()[0]["end"] == "answered")
    server.stop()
    assert len(slow_lines(caplog)) == 2 and " has ended after " in slow_lines(caplog)[1]


@pytest.mark.one_way
def test_plain_requests_are_told_too(start_server, raw_client, monkeypatch):
    """A request in C is told once it has taken so long, and only then does Python know of it."""
    pytest.importorskip("aserve._native", reason="aserve._native is not built here")
    gate = apps.Gate()
    server = start_server(gate, is_checked=False, slow_request_seconds=3600.0, native="auto")
    log = extension_of(server.server, Slow).requests
    client = raw_client(server)
    client.request("/slow?a=1")
    gate.wait_entered()
    log.look()
    assert server.server._listening.lane.native.engine.promoted_count == 0 and not log.last()
    for module in (slow_requests, ends):
        monkeypatch.setattr(module, "_monotonic", lambda: time.monotonic() + 3601.0)
    for _ in range(2):
        log.look()
    (found,) = log.last()
    assert (found["request"], found["end"], server.server._listening.lane.native.engine.promoted_count) == (
        "GET /slow?...",
        None,
        1,
    )
    assert "in __call__" in found["stack"] and "executor.py" not in found["stack"] and found["seconds"] >= 3601.0
    assert found["queue_seconds"] is not None
    gate.open()
    assert client.recv_response().status == 200
    server.stop()
    (found,) = log.last()
    assert (found["end"], found["status"]) == ("answered", 200)


@pytest.mark.parametrize("native", ["off", "auto"])
def test_two_servers_in_one_process(start_server, raw_client, monkeypatch, native):
    """Each server tells its own requests alone, though both see all threads."""
    gate = apps.Gate()
    server, other = (start_server(gate, is_checked=False, slow_request_seconds=3600.0, native=native) for _ in range(2))
    log, others = (extension_of(each.server, Slow).requests for each in (server, other))
    client = raw_client(server)
    client.request("/slow")
    gate.wait_entered()
    for module in (slow_requests, ends):
        monkeypatch.setattr(module, "_monotonic", lambda: time.monotonic() + 3601.0)
    for each in (others, log, others):
        each.look()
    assert [found["request"] for found in log.last()] == ["GET /slow"] and others.last() == []
    gate.open()
    assert client.recv_response().status == 200


@pytest.fixture
def slow(monkeypatch):
    """A server's slow requests, at a time moved by the test."""
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(slow_requests, "_monotonic", lambda: clock.now)
    made = SlowRequests(2.0, lambda exchange: True, worker=3)
    made.clock = clock
    return made


@pytest.fixture
def run(monkeypatch, slow):
    """run(exchange): from now on a thread has it."""
    running = []
    calls = []
    monkeypatch.setattr(
        slow_requests, "look_at_threads", lambda _: [(number, each, calls) for number, each in enumerate(running)]
    )

    def run(seconds, vars=VARS):
        exchange = Exchange(vars, 5)
        exchange.arrived_at = exchange.began_at = slow.clock.now - seconds
        exchange.response = SimpleNamespace(code=200, head_is_out=False, is_full=False)
        running.append(exchange)
        return exchange

    run.running, run.calls = running, calls
    return run


def test_what_is_looked_at(slow, run, caplog):
    """Timed and too old ones are looked at; each once, and as long as it runs."""
    run.running.append(None)
    run(0.0).arrived_at = 0.0
    run(1.9)
    late = run(5.0)
    late.began_at = slow.clock.now - 1.0
    slow.look()
    slow.look()
    (line,) = slow_lines(caplog)
    assert line.startswith(
        "GET /a has taken 5.0 s (waited 4.0 s in the queue, ran 1.0 s) so far, longer than --slow-request (2 s); thread 3 is"
    )
    late.response = None  # ended just as it was found
    run.running.clear()
    slow.on_second()
    assert not slow._running
    (found,) = slow.last()
    assert (found["worker"], found["queue_seconds"], found["stack"]) == (3, 4.0, "")


def test_texts_of_clients_and_apps(slow, run, monkeypatch, caplog):
    """Targets, names of functions and threads are of any length: they are shortened."""
    call = Call("/srv/app.py", 1, "f" * 100_000)
    run.calls.append(call)
    monkeypatch.setattr(slow_requests, "calls_of", list)
    monkeypatch.setattr(slow_requests.threading, "enumerate", lambda: [SimpleNamespace(ident=0, name="t" * 100_000)])
    run(5.0, VARS.replace("/a", "/" + "\xff" * 100_000, 1))
    slow.look()
    (found,) = slow.last()
    assert found["request"].startswith("GET /\\xff") and found["request"].endswith("...")
    assert sum(len(value) for value in found.values() if isinstance(value, str)) < 10_000
    (line,) = slow_lines(caplog)
    assert len(line) < 10_000


def test_ends_of_slow_requests_are_told(slow, run, caplog):
    """Ends are told, whoever ends; a partial request was none, nor is a health check."""
    one, two = run(2.0), run(3.0)
    slow.look()
    slow.clock.now += 1.0
    one.end, one.response = "client_gone", None
    slow.write(one)
    slow.write_refused(None, two, RequestRefused(504, "late"))
    slow.write_refused(None, Exchange("", 0), RequestRefused(400, "no"))
    slow.write_refused(None, None, RequestRefused(400, "no"))
    assert [(each["end"], each["status"], each["seconds"]) for each in slow.last()] == [
        ("client_gone", 0, 3.0), ("refused", 504, 4.0),
    ]  # fmt: skip
    quick, probe = run(1.0), run(9.0)
    probe.is_probe = True
    for each in (quick, probe, Exchange("", 0)):
        slow.write(each)
    assert len(slow.last()) == 2 and not slow._running
    assert slow_lines(caplog)[-1] == "GET /a has ended after 4.0 s: refused 504"


def test_streams_that_go_on_are_not_slow(slow, run, caplog):
    """A stream that goes on is not slow, neither while it runs nor at its end; one silent for so long is."""
    stream, new, stuck = run(500.0), run(5.0), run(500.0)
    stream.grew_at, stuck.grew_at = slow.clock.now - 1.0, slow.clock.now - 2.0
    new.response.head_is_out = True  # the event loop looks at it once a second
    slow.look()
    assert [found["seconds"] for found in slow.last()] == [500.0] and stuck in slow._running
    slow.write(stream)
    slow.write(stuck)
    assert [found["end"] for found in slow.last()] == ["answered"] and len(slow_lines(caplog)) == 2
    new.grew_at = slow.clock.now - 3.0
    slow.look()
    assert len(slow.last()) == 2


def test_streams_on_the_event_loop(slow, run):
    """With --threads 0 the loop cannot see progress while the app holds it: the app is told."""
    slow._is_inline = True
    run(5.0).response.head_is_out = True
    slow.look()
    assert len(slow.last()) == 1


def test_a_thread_that_was_written_off(slow, run, caplog):
    """The client was answered, as told by the access log: the thread's later end is no news of the request."""
    seen, unseen, cut = run(3.0), run(1.0), run(3.0)
    slow.look()
    seen.end = unseen.end = cut.end = "timed_out"
    for each in (seen, unseen):
        slow.write_refused(None, each, RequestRefused(504, "late"))
    slow.write(cut)
    slow.clock.now += 3.0
    slow.look()
    assert [line.partition(" s")[2] for line in slow_lines(caplog)[2:]] == [": timed_out 504", ": timed_out 200"]
    run.running.clear()
    slow.look()
    assert not slow._over


def test_a_client_that_did_not_read(slow, run, caplog):
    """The connection was closed, but the request goes on, and is told."""
    run(3.0).end = "timed_out"
    slow.look()
    (line,) = slow_lines(caplog)
    assert line.startswith("GET /a has taken 3.0 s so far")


def test_an_end_without_a_response(slow, run, caplog):
    late = run(3.0)
    slow.look()
    late.end, late.response = "cut", None
    slow.write(late)
    assert slow_lines(caplog)[1] == "GET /a has ended after 3.0 s: cut, without a response"


def test_one_that_was_not_seen(slow, run, caplog):
    """Such a request came and went between two looks, or was with no thread: its line says so, and whether it was the queue."""
    slow.write(run(2.5))
    queued = run(9.0)
    queued.began_at = slow.clock.now - 0.1
    slow.write(queued)
    assert slow_lines(caplog) == [
        "GET /a has taken 2.5 s, longer than --slow-request (2 s): answered 200; its stack was not seen",
        "GET /a has taken 9.0 s (waited 8.9 s in the queue, ran 0.1 s), longer than --slow-request (2 s): answered 200; "
        "its stack was not seen",
    ]


def test_an_end_that_was_the_queues(slow, run, caplog):
    """The line of its end tells the wait for a thread."""
    late = run(5.0)
    late.began_at = slow.clock.now - 1.0
    slow.look()
    slow.clock.now += 0.5
    slow.write(late)
    assert slow_lines(caplog)[1] == "GET /a has ended after 5.5 s (waited 4.0 s in the queue, ran 1.5 s): answered 200"


def test_a_stall_of_everything(slow, run, monkeypatch, caplog):
    """Some stacks show the stall; further ones are counted, and their ends are not told."""
    monkeypatch.setattr(slow_requests, "MAX_PER_MINUTE", 3)
    exchanges = [run(2.0 + number) for number in range(10)]
    for _ in range(3):
        slow.look()
    for exchange in exchanges:
        slow.write(exchange)
    run.running.clear()
    assert len(slow_lines(caplog)) == 6 and len(slow.last()) == 3 and not slow._running
    slow.clock.now += 60.0
    slow.look()
    assert slow_lines(caplog)[6:] == ["7 more slow requests not logged in the last minute"]
    slow.write(run(2.0))
    assert len(slow.last()) == 4


def test_the_thread_that_looks_ends(slow):
    """With the server."""
    inline = SlowRequests(100.0, lambda exchange: True, is_inline=True)
    inline.on_second()
    assert "aserve-slow-requests" in {thread.name for thread in threading.enumerate()}
    inline.close()
    slow.close()
    assert "aserve-slow-requests" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.one_way
def test_one_that_becomes_a_websocket(start_server, raw_client, caplog):
    """The request ends there; however long the WebSocket lives, it is not told again."""
    is_in, may_begin, switching = threading.Event(), threading.Event(), Switching()

    def app(environ, start_response):
        is_in.set()
        may_begin.wait(30)
        return switching(environ, start_response)

    server = start_server(app, is_checked=False, slow_request_seconds=0.05)
    client = raw_client(server)
    client.request("/", *ASKING)
    assert is_in.wait(30)
    server.pass_seconds_until(lambda: server.server.slow_requests())
    may_begin.set()
    assert client.recv_head().status == 101
    (found,) = server.server.slow_requests()
    assert (found["end"], found["status"]) == ("answered", 101) and found["seconds"] >= 0.05
    client.close()
    server.wait_until_idle()
    server.stop()
    assert len(slow_lines(caplog)) == 2
