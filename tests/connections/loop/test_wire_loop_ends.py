"""The end of a connection: by the client, by its loss, by going elsewhere; nothing is left of it. (After the last response:
test_wire_loop_closing.py.)
"""

import socket
import sys
import threading
import weakref

import pytest
from harness.wires import BAD, GET, GET_CLOSE, POST, POST_HEAD, bodies, get, pass_seconds

from aserve.connections.connection import Connection
from aserve.connections.loop.wire_loop import LoopWire
from aserve.connections.states import State
from aserve.core.errors import RequestRefused
from aserve.core.exchange import ANSWERED, CLIENT_GONE

# The client sends no more


@pytest.mark.parametrize("raw", [b"", GET[:9], POST_HEAD + b"he"])
def test_eof_without_a_whole_request(new, raw):
    """A client that ends before its request is complete gets no answer."""
    harness, connection, transport = new()
    if raw:
        connection.data_received(raw)
    assert connection.eof_received() is True
    harness.executor.run()
    assert transport.calls == ["close"] and transport.received() == b""


@pytest.mark.parametrize(
    ("seconds", "keeps", "end"), [(60, False, CLIENT_GONE), (60, True, ANSWERED), (1, False, ANSWERED)]
)
def test_a_client_that_ends_long_behind_its_request(new, seconds, keeps, end):
    """Such a client has left, unless --keep-half-closed says that it may still read; it is answered all the same."""
    harness, connection, transport = new(keep_half_closed=keeps)
    harness.service.times_requests = True
    connection.data_received(POST)
    exchange = connection.exchange
    exchange.arrived_at -= seconds
    connection.eof_received()
    harness.executor.run()
    assert exchange.end == end and len(bodies(transport.received())) == 1


@pytest.mark.parametrize("count", [1, 2, 16, 17, 40])
@pytest.mark.parametrize("max_pipelined", [1, 16])
@pytest.mark.parametrize("rest", [b"", GET[:9]])
def test_a_half_closed_client_is_answered(new, count, max_pipelined, rest):
    """RFC 9112 9.6: a client may close its side behind its requests; all are answered."""
    harness, connection, transport = new(max_pipelined=max_pipelined)
    connection.data_received(b"".join(map(get, range(count))) + rest)
    connection.eof_received()
    harness.executor.run()
    assert bodies(transport.received()) == [b"/%d" % number for number in range(count)]
    assert transport.calls[-1] == "close" and "write_eof" not in transport.calls


def test_eof_within_a_live_body(new):
    """The app meets the end where it reads."""
    harness, connection, transport = new(body="stream")
    connection.data_received(POST_HEAD + b"he")
    connection.eof_received()
    harness.executor.run()
    assert transport.calls[-1] == "close" and transport.received() == b""


# connection_lost, at every stage, frees everything


@pytest.mark.parametrize(
    ("raw", "stage"),
    [
        (b"", "idle"),
        (GET[:9], "receiving"),
        (POST_HEAD + b"hel", "receiving"),
        (POST, "submitted"),
        (POST + POST, "submitted"),
        (GET + GET, "submitted"),
        (POST, "answered"),
        (POST + POST, "answered"),
        (GET_CLOSE, "lingering"),
        (BAD, "lingering"),
        (b"", "closing"),
    ],
)
def test_a_lost_connection_leaves_nothing(new, files, raw, stage):
    """Whatever the stage, a loss leaves no connection, file or waiting request, and raises nothing."""
    harness, connection, transport = new(body_memory_bytes=2)
    if raw:
        connection.data_received(raw)
    if stage == "answered":
        harness.executor.run_job()
    elif stage == "lingering":
        harness.executor.run()
    elif stage == "closing":
        connection.drain()
    transport.lose(ConnectionResetError() if stage == "answered" else None)
    harness.executor.run()
    assert harness.service.connections == set() and harness.executor.jobs == []
    assert all(file.closed for file in files)


class Fault(Exception):
    """The exception of a failing step."""


def raise_fault(*_):
    raise Fault


@pytest.mark.provokes("please report this as a bug")
@pytest.mark.parametrize("step", ["discard", "body", "protocol", "sending", "writing"])
def test_one_step_of_the_end_fails(new, files, monkeypatch, caplog, step):
    """Whatever step of a connection's end raises, the rest is freed, and a waiting worker is woken; the log has the fault."""
    harness, connection, transport = new(body_memory_bytes=2)
    connection.data_received(POST + POST)
    waiter = connection._outbox._waiter = threading.Lock()
    waiter.acquire()
    waiting = connection._inbox._waiting[0].body
    if step == "discard":
        harness.service.connections = type("ConnectionLimit", (set,), {"discard": raise_fault})()
    elif step == "body":
        monkeypatch.setattr(type(waiting), "close", raise_fault)
    elif step == "protocol":
        monkeypatch.setattr(type(connection._inbox.protocol), "receive_eof", raise_fault)
    elif step == "sending":
        connection.exchange.spool = type("Spool", (), {"close": raise_fault})()
    else:
        connection._outbox._on_writable = raise_fault
    transport.lose()
    assert connection._inbox._waiting == [] and not waiter.locked()
    assert step == "discard" or harness.service.connections == set()
    if step != "body":
        assert files[1].closed
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [Fault]
    monkeypatch.undo()
    connection.exchange.spool = None
    harness.executor.run()
    for file in files:
        file.close()


def test_lost_while_the_app_reads_a_live_body(new):
    """A waiting reader is woken; the log shows that there was no response."""

    def app(environ, start_response):
        return [environ["wsgi.input"].read()]

    harness, connection, transport = new(app, body="stream")
    harness.service.ends = harness.log
    connection.data_received(POST_HEAD + b"he")
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    transport.lose()
    worker.join(30)
    assert not worker.is_alive()
    harness.executor.run()
    assert harness.log.codes == [0]


def test_lost_with_a_live_body_waiting(new):
    """A reader whose turn never comes is woken, too."""
    harness, connection, transport = new(body="stream")
    connection.data_received(GET + POST_HEAD + b"he")
    transport.lose()
    harness.executor.run()
    assert harness.service.connections == set()


def test_lost_while_a_file_is_sent(new, tmp_path):
    """A file that is being sent is closed; until then its progress counts as the client's."""
    path = tmp_path / "file"
    path.write_bytes(bytes(2_000_000))
    file = open(path, "rb")

    def app(environ, start_response):
        start_response("200 OK", [])
        return environ["wsgi.file_wrapper"](file)

    harness, connection, transport = new(app, write_seconds=1)
    connection.data_received(GET)
    harness.executor.run()
    for _ in range(3):
        pass_seconds(connection, 1)
        transport.received()
        harness.loop.turn()
    assert not transport.is_closing()
    transport.lose()
    harness.executor.run()
    assert file.closed and harness.loop.writers == {}


@pytest.mark.skipif(sys.implementation.name == "pypy", reason="PyPy collects everything by tracing")
@pytest.mark.parametrize("is_running", [False, True])
def test_a_lost_connection_is_freed_at_once(new, no_collector, is_running):
    """Nothing of a connection waits for the garbage collector, whether the app was still running or not."""
    harness, wire, transport = new()
    if is_running:
        wire.data_received(GET)
    connection = weakref.ref(Canary.of(wire.connection))
    transport.lose()
    if is_running:
        harness.executor.run()
    transport.protocol = None  # as event loops do
    del wire
    assert connection() is None


class Canary:
    """Held by an object without weak references."""

    @classmethod
    def of(cls, connection):
        canary = cls()
        connection.base_environ = {"canary": canary}
        return canary


@pytest.mark.parametrize("is_logged", [True, False])
def test_a_body_is_refused_after_its_client_has_gone(new, is_logged):
    """The refusing part may hear of the loss later than the event loop: the log has its line, and nothing else is done."""
    harness, wire, transport = new()
    if is_logged:
        harness.service.ends = harness.log
    wire.data_received(POST_HEAD + b"hello")
    exchange = wire.exchange
    transport.lose()
    wire.refuse(exchange, RequestRefused(413, "too large"))
    assert harness.log.codes == ([413] if is_logged else [])
    assert transport.held == b"" and wire.state == State.CLOSED


# To another server


@pytest.mark.parametrize("is_used", [True, False])
def test_a_connection_that_waits_is_let_go(new, is_used):
    """The transport closes its own descriptor; another is the caller's, and the client sees no end."""
    harness, wire, transport = new()
    if is_used:
        wire.data_received(GET)
        harness.executor.run()
    with socket.socket(fileno=wire.detach()) as sock:
        assert wire.state == State.DETACHED and transport.calls == ["close"] and wire.detach() is None
        transport.received()
        wire.connection_lost(None)
        transport.socket.close()
        assert wire.state == State.CLOSED and not harness.service.connections
        sock.send(b"still here")
        assert transport.received() == b"still here"


@pytest.mark.parametrize("why", ["receives", "runs", "closes", "unsent", "tls", "announced"])
def test_a_connection_that_stays(new, why):
    """A connection with an act under way, or known to us alone, is not let go."""
    harness, wire, transport = new()
    if why == "tls":
        wire, transport = harness.connect(LoopWire(Connection(harness.service), can_bypass=False))
    elif why == "announced":
        wire, transport = harness.connect(LoopWire(Connection(harness.service), is_new=False))
    elif why == "unsent":
        transport.is_stuck = True
    wire.data_received({"receives": GET[:5], "announced": b""}.get(why, GET))
    if why not in ("runs", "receives", "announced"):
        harness.executor.run()
    if why == "unsent":
        transport.write(b"x")
    elif why == "closes":
        transport.close()
    state = wire.state
    assert wire.detach() is None and wire.state == state
    assert "abort" not in transport.calls and transport.calls.count("close") == (why == "closes")


def test_a_connection_that_comes_from_elsewhere(new):
    """Such a connection idles already, is never asked for its client, and is let go again like any other."""
    harness, *_ = new()
    wire, transport = harness.connect(LoopWire.kept(Connection(harness.service, "198.51.100.9", "1")))
    assert wire.state == State.IDLE and wire.connection.remote_addr == "198.51.100.9"
    wire.data_received(GET)
    harness.executor.run()
    assert transport.received().startswith(b"HTTP/1.1 200")
    with socket.socket(fileno=wire.detach()):
        pass


@pytest.mark.skipif(sys.implementation.name == "pypy", reason="PyPy collects everything by tracing")
def test_a_connection_that_is_let_go_is_freed_at_once(new, no_collector):
    harness, wire, transport = new()
    wire.data_received(GET)
    harness.executor.run()
    connection = weakref.ref(Canary.of(wire.connection))
    socket.socket(fileno=wire.detach()).close()
    wire.connection_lost(None)
    transport.protocol = None  # as event loops do
    del wire
    assert connection() is None
