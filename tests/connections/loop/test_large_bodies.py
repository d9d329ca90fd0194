"""Large bodies and files sent by the loop, past the transport or through it; and the freed resources behind them."""

import asyncio
import os
import threading

import pytest
from harness.replies import GET, body_of, returning
from harness.slow_clients import go_on, read_all

import aserve
from aserve.connections.loop import sender as sender_module
from aserve.connections.loop.pump import Large
from aserve.connections.loop.sendfile import HAS_SENDFILE
from aserve.connections.states import State
from aserve.core.errors import RequestRefused
from aserve.core.exchange import CLIENT_GONE, CUT
from aserve.wsgi import FileResponse, FileWrapper

LARGE = 3_000_000  # more than a socket takes


@pytest.fixture(
    params=["memory", pytest.param("file", marks=pytest.mark.skipif(not HAS_SENDFILE, reason="no sendfile"))]
)
def reply(request, tmp_path):
    """The app's result, and the meant body."""
    body = os.urandom(LARGE)
    if request.param == "memory":
        yield [body], body
        return
    (tmp_path / "file").write_bytes(body)
    with open(tmp_path / "file", "rb") as file:
        yield FileWrapper(file), body


def taken(harness):
    """Return the counted descriptors and memory."""
    budgets = harness.service.budgets
    return budgets.watched.count, budgets.files.count, budgets.memory.count


def test_what_is_free_again(new, reply):
    """Descriptors and memory are counted while a client reads, and not any more once it has the response."""
    harness, connection, transport = new(returning(reply[0]))
    connection.data_received(GET)
    harness.executor.run()
    assert taken(harness) in ((1, 0, LARGE), (0, 2, 0)) and len(harness.loop.writers) == 1
    assert body_of(read_all(harness, transport)) == reply[1]
    harness.executor.run()  # it closes the file
    assert taken(harness) == (0, 0, 0) and harness.loop.writers == {}


@pytest.mark.parametrize("has_read", [True, False])
def test_a_client_that_leaves_in_the_middle(new, reply, has_read):
    """A client's leave is no fault of the app or of ours: the access log has client_gone, though the sender sees the end before the transport."""
    harness, connection, transport = new(returning(reply[0]))
    connection.data_received(GET)
    harness.executor.run()
    exchange = connection.exchange
    if has_read:
        transport.peer.recv(100_000)
    transport.peer.close()
    harness.loop.turn()
    harness.executor.run()
    assert exchange.end == CLIENT_GONE and taken(harness) == (0, 0, 0) and harness.loop.writers == {}


def test_a_disk_that_fails_in_the_middle(new, tmp_path, monkeypatch):
    """A failing disk is our fault: the access log has cut."""
    (tmp_path / "file").write_bytes(bytes(LARGE))
    with open(tmp_path / "file", "rb") as file:
        harness, connection, transport = new(returning(FileWrapper(file)))
        connection.data_received(GET)
        harness.executor.run()
        exchange = connection.exchange
        os.truncate(tmp_path / "file", 1000)
        read_all(harness, transport)
        harness.executor.run()
    assert exchange.end == CUT and taken(harness) == (0, 0, 0)


def test_no_descriptor_for_a_body_in_memory(new, monkeypatch):
    """A body without a descriptor goes through the transport, behind the octets taken by the socket."""
    body = os.urandom(LARGE)
    harness, connection, transport = new(returning([body]))
    monkeypatch.setattr(sender_module.os, "dup", lambda fd: os.open("/nonexistent", os.O_RDONLY))
    connection.data_received(GET)
    harness.executor.run()
    assert transport.held and taken(harness) == (0, 0, LARGE)
    assert body_of(read_all(harness, transport)) == body
    assert taken(harness) == (0, 0, 0) and not transport.is_closing() and transport.high == transport.default_high


@pytest.mark.skipif(not HAS_SENDFILE, reason="no sendfile")
def test_no_descriptor_for_a_file(new, tmp_path, monkeypatch):
    """A file without a descriptor is cut: its app has taken descriptors that were counted for it."""
    (tmp_path / "file").write_bytes(bytes(LARGE))
    with open(tmp_path / "file", "rb") as file:
        harness, connection, _ = new(returning(FileWrapper(file)))
        monkeypatch.setattr(sender_module.os, "dup", lambda fd: os.open("/nonexistent", os.O_RDONLY))
        connection.data_received(GET)
        exchange = connection.exchange
        harness.executor.run()
        harness.executor.run()
    assert exchange.end == CUT and taken(harness) == (0, 0, 0)


def test_a_stream_whose_client_has_read_all(new):
    """A large piece is counted until the client has it, and not until the stream ends."""
    go = threading.Event()

    def body():
        yield bytes(LARGE)
        assert go.wait(30)
        yield b"end"

    harness, connection, transport = new(returning(body()))
    connection.data_received(GET)
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    octets = b""
    while len(octets) < LARGE:
        octets += read_all(harness, transport)
    assert taken(harness) == (0, 0, 0)
    go.set()
    go_on(harness, worker)
    read_all(harness, transport)
    assert taken(harness) == (0, 0, 0)


@pytest.mark.parametrize("state", [State.CLOSED, State.CLOSING])
def test_a_worker_that_is_written_off_when_its_client_has_gone(new, state):
    """No other part ends its exchange: its resources are free again, and the log has one line."""
    go = threading.Event()

    def body():
        yield bytes(LARGE)
        go.wait(30)
        yield b"end"

    harness, connection, transport = new(returning(body()))
    harness.service.ends = harness.log
    transport.is_stuck = True
    connection.data_received(GET)
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    exchange = connection.exchange
    go_on(harness, worker, lambda: harness.service.budgets.memory.count >= LARGE and transport.held)
    if state is State.CLOSED:
        transport.lose()
    else:
        connection.reset("as it does not read")
    assert connection.state is state
    connection.connection.take_over(exchange, RequestRefused(504, "the application took too long"))
    if state is State.CLOSING:
        transport.lose()
    assert taken(harness) == (0, 0, 0) and harness.service.lost == set() and len(harness.log.codes) == 1
    go.set()
    worker.join(30)
    harness.executor.flush()
    assert len(harness.log.codes) == 1 and taken(harness) == (0, 0, 0)


async def test_early_hints_before_a_large_body():
    """Octets sent before a body in memory give back nothing of its count."""
    size = 32 << 20

    def app(environ, start_response):
        environ["wsgi.early_hints"]([("Link", "</a.css>; rel=preload")])
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [bytes(size)]

    async with aserve.Server(app, bind="127.0.0.1:0", drain_seconds=0.1) as server:
        reader, writer = await asyncio.open_connection(*server.addresses[0], limit=1 << 16)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await reader.readuntil(b"Server: aserve\r\n\r\n")
        assert server.statistics().responses_memory_bytes == size
        writer.close()


def test_the_rest_of_what_the_pump_has_begun(new, reply):
    """The rest is sent behind the begun part, and counted until the client has it."""
    harness, connection, transport = new()
    connection.data_received(GET)
    harness.executor.jobs.clear()  # a worker has it
    exchange = connection.exchange
    budgets = harness.service.budgets
    if isinstance(reply[0], FileWrapper):
        whole = FileResponse(b"head", reply[0].filelike, 0, LARGE, reply[0].close)
        rest = whole._replace(head=b"ad")
    else:
        whole = b"head", reply[1]
        rest = b"ad", memoryview(reply[1])
    large = Large(None, exchange, whole, budgets, harness.executor)
    assert large.reserve()
    connection.go_on_large(large, rest)
    assert taken(harness) in ((1, 0, LARGE), (0, 2, 0))
    assert read_all(harness, transport) == b"ad" + reply[1]
    harness.executor.run()
    assert taken(harness) == (0, 0, 0)
