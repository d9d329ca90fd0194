"""An app's thread waits while its client reads more slowly than the app writes, and no memory is filled."""

import os
import threading

import pytest
from harness.replies import GET, POST, Chunks, body_of, returning
from harness.slow_clients import go_on, read_all, start_stuck, through_transports

from aserve.connections.loop.response_memory import reserve_memory
from aserve.connections.loop.sender import PIECE_BYTES
from aserve.core.errors import ClientDisconnected
from aserve.core.exchange import Exchange
from aserve.workers.inline import InlineExecutor
from aserve.wsgi import FileWrapper


def test_a_large_body_waits_in_pieces(new):
    """The transport holds a piece of a large body at a time; the next request is answered after it."""
    body = os.urandom(3_000_000)
    harness, connection, transport = new(returning([body]))
    through_transports(harness)
    transport.is_stuck = True
    connection.data_received(GET)
    harness.executor.run()
    assert len(transport.held) < 2 * PIECE_BYTES
    connection.data_received(GET)
    assert harness.executor.jobs == []
    transport.unstick()
    octets = transport.received()
    assert body_of(octets) == body
    harness.executor.run()
    assert body_of(transport.received()) == body


def test_a_client_that_leaves_a_large_body(new):
    """The rest of a large body is let go of when the client has gone."""
    harness, connection, transport = new(returning([bytes(3_000_000)]))
    harness.service.ends = harness.log
    transport.is_stuck = True
    connection.data_received(GET)
    harness.executor.run()
    assert harness.service.budgets.memory.count == 3_000_000
    transport.lose()
    harness.executor.run()
    assert harness.log.codes == [200] and harness.log.cuts == [True] and harness.service.connections == set()
    assert harness.service.budgets.memory.count == 0


@pytest.mark.parametrize("reply", [[bytes(100_000)], [b"small"], "pieces", "file"])
def test_a_client_that_has_left_already(new, reply, tmp_path):
    """Any response to a gone client is dropped, closed and logged."""
    file = open(tmp_path / "x", "w+b")
    file.write(b"abc")
    file.seek(0)
    closing = Chunks(b"a", b"b")
    value = closing if reply == "pieces" else FileWrapper(file) if reply == "file" else reply
    harness, connection, transport = new(returning(value))
    harness.service.ends = harness.log
    connection.data_received(POST)
    transport.lose()
    harness.executor.run()
    assert len(harness.log.codes) == 1 and harness.log.cuts == [True]
    assert closing.closed == (reply == "pieces") and file.closed == (reply == "file")
    file.close()


def start_blocked(harness, connection, chunks, raw=POST):
    """Start a worker on a request whose client does not read; return the worker when it must be waiting."""
    connection.data_received(raw)
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    for _ in range(2):
        assert chunks.is_made.acquire(timeout=30)
    while len(harness.executor.posts) < 2:
        pass
    return worker


def test_an_app_waits_for_its_client(new):
    """Over --write-buffer, and without a spool, the app's thread waits until the client has read."""
    chunks = Chunks(*[b"x" * 1000] * 10)
    harness, connection, transport = new(returning(chunks), write_buffer_bytes=2048, response_spool_bytes=0)
    transport.high, transport.is_stuck = 500, True
    worker = start_blocked(harness, connection, chunks)
    harness.executor.flush()  # the transport is full now
    assert worker.is_alive() and chunks.made == 2
    transport.unstick()
    while worker.is_alive():
        harness.executor.flush()
    harness.executor.run()
    octets = transport.received()
    assert body_of(octets).count(b"x") == 10_000 and octets.endswith(b"0\r\n\r\n")
    assert chunks.closed == 1 and not transport.is_closing()


def test_an_app_that_waits_goes_on_when_the_loop_has_caught_up(new):
    """A worker may wait for the loop alone: a reading client holds up nothing."""
    chunks = Chunks(*[b"x" * 1000] * 10)
    harness, connection, transport = new(returning(chunks), write_buffer_bytes=2048)
    worker = start_blocked(harness, connection, chunks)
    while worker.is_alive():
        harness.executor.flush()
    harness.executor.run()
    assert body_of(transport.received()).count(b"x") == 10_000


@pytest.mark.parametrize("is_flushed", [False, True])
def test_a_waiting_app_is_told_that_its_client_has_left(new, is_flushed):
    """A worker that waits for a leaving client is woken, and its iterable closed."""
    chunks = Chunks(*[b"x" * 1000] * 10)
    harness, connection, transport = new(returning(chunks), write_buffer_bytes=2048, response_spool_bytes=0)
    transport.high, transport.is_stuck = 500, True
    worker = start_blocked(harness, connection, chunks)
    if is_flushed:
        harness.executor.flush()
    transport.lose()
    worker.join(30)
    assert not worker.is_alive() and chunks.closed == 1 and chunks.made == 2
    harness.executor.run()


def test_write_waits_for_the_client_too(new):
    """write() is back-pressure as the iterable is; a leaving client is an exception of the app's."""
    faults = []
    written = Chunks()

    def app(environ, start_response):
        write = start_response("200 OK", [])
        try:
            for _ in range(10):
                written.is_made.release()
                write(b"x" * 1000)
        except ClientDisconnected as exc:
            faults.append(exc)
            raise
        return []

    harness, connection, transport = new(app, write_buffer_bytes=2048, response_spool_bytes=0)
    transport.high, transport.is_stuck = 500, True
    worker = start_blocked(harness, connection, written)
    transport.lose()
    worker.join(30)
    assert not worker.is_alive() and len(faults) == 1


def test_a_slow_client_gets_one_response_at_a_time(new):
    """A client that sends on without reading has no more responses made for it."""
    harness, connection, transport = new(returning([b"x" * 100_000]))
    transport.is_stuck = True
    connection.data_received(GET * 3)
    harness.executor.run()
    assert harness.executor.jobs == [] and len(transport.held) < 200_000
    transport.unstick()
    octets = transport.received()
    while harness.executor.jobs:
        harness.executor.run()
        octets += transport.received()
    assert octets.count(b"HTTP/1.1 200 OK") == 3


def test_the_end_of_a_large_body(new):
    """The rest in the transport does not keep the whole body."""
    harness, connection, transport = new(returning([bytes(3_000_000)]))
    through_transports(harness)
    kinds = []
    write = transport.write
    transport.write = lambda octets: kinds.append(type(octets)) or write(octets)
    connection.data_received(GET)
    harness.executor.run()
    assert len(body_of(transport.received())) == 3_000_000
    assert kinds[0] is bytes  # the head
    assert kinds[1:] == [memoryview] * 10 + [bytes] * 2


@pytest.mark.parametrize("raw", [GET, b"GET / HTTP/1.0\r\n\r\n"])
def test_a_large_piece_at_the_end(new, raw):
    """A large piece is counted until the transport has room again, also where the connection closes behind it."""
    harness, connection, transport = new(returning(iter([bytes(3_000_000)]), [("Content-Length", "3000000")]))
    transport.is_stuck = True
    connection.data_received(raw)
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    go_on(harness, worker)
    assert harness.service.budgets.memory.count > 3_000_000
    assert len(body_of(read_all(harness, transport))) == 3_000_000 and harness.service.budgets.memory.count == 0


@pytest.mark.parametrize("spool_bytes", [0, 2_999_999])
def test_large_bodies_without_a_spool_for_them(new, spool_bytes):
    """Where the disk may not take a body, it waits in memory, since no worker should wait instead."""
    app = returning([bytes(3_000_000)])
    harness, _, transport, worker = start_stuck(
        new, app, GET, response_spool_bytes=spool_bytes, response_memory_bytes=0
    )
    assert not worker.is_alive() and harness.service.budgets.memory.count == 3_000_000
    assert len(body_of(read_all(harness, transport))) == 3_000_000 and harness.service.budgets.memory.count == 0


def test_what_comes_behind_the_end_is_not_counted(new):
    """A second thread of the app's may write when the exchange has ended."""
    harness, connection, _ = new(returning([b""]))
    assert (
        reserve_memory(connection.connection, Exchange("", 0), 3_000_000, False)
        and harness.service.budgets.memory.count == 0
    )


def test_large_bodies_with_threads_0(new):
    """No thread could take a body to the disk: it waits in memory, however many do."""
    body = os.urandom(3_000_000)
    harness, connection, transport = new(
        returning([body]), executor=InlineExecutor(), threads=0, response_memory_bytes=0
    )
    through_transports(harness)
    transport.is_stuck = True
    connection.data_received(GET)
    assert harness.service.budgets.memory.count == len(body)
    transport.unstick()
    assert body_of(transport.received()) == body and harness.service.budgets.memory.count == 0
