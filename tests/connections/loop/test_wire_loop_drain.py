"""Draining: begun requests are answered, idle connections close, front servers are waited for."""

import threading

from harness.replies import returning
from harness.slow_clients import through_transports
from harness.wires import GET, GET_CLOSE, POST, bodies, get, pass_seconds


def test_a_drain_closes_idle_connections(new):
    """An idle connection closes at once; a new one may ask for a while."""
    harness, connection, transport = new()
    drain(harness, connection)
    assert transport.calls == []
    for _ in range(3):
        connection.on_second()
    assert transport.calls == ["close"]
    connection.drain()
    harness, connection, transport = new()
    connection.data_received(GET)
    harness.executor.run()
    drain(harness, connection)
    assert transport.calls == ["close"]


def drain(harness, connection):
    """As Server.drain does."""
    harness.service.is_draining = True
    connection.drain()


def test_drain_with_a_successor(new):
    """An idle connection is closed two seconds later, unless its next request was on its way."""
    harness, connection, transport = new()
    harness.service.is_replaced = True
    connection.data_received(GET)
    harness.executor.run()
    pass_seconds(connection, 10)
    drain(harness, connection)
    pass_seconds(connection, 2)
    assert transport.calls == []
    connection.data_received(GET)
    harness.executor.run()
    assert b"\r\nConnection: close\r\n" in transport.received()


def test_drain_with_a_successor_while_a_response_is_sent(new):
    """A response without a word of an end is followed by none, at once: the next one says so."""
    harness, connection, transport = new()
    harness.service.is_replaced = True
    connection.data_received(POST)
    harness.executor.run_job()
    drain(harness, connection)
    harness.executor.run()
    octets = transport.received()
    assert bodies(octets) == [b"/phello"] and b"\r\nConnection: close\r\n" not in octets and transport.calls == []
    connection.data_received(GET)
    harness.executor.run()
    assert b"\r\nConnection: close\r\n" in transport.received()


def test_a_drain_answers_running_requests(new):
    harness, connection, transport = new()
    connection.data_received(get(0) + get(1))
    drain(harness, connection)
    harness.executor.run()
    octets = transport.received()
    assert bodies(octets) == [b"/0"] and b"\r\nConnection: close\r\n" in octets
    assert "write_eof" in transport.calls


def test_drain_between_response_and_answer(new):
    """A response made already goes out unchanged; then the connection closes."""
    harness, connection, transport = new()
    connection.data_received(POST)
    harness.executor.run_job()
    drain(harness, connection)
    harness.executor.run()
    assert bodies(transport.received()) == [b"/phello"] and "write_eof" in transport.calls


def test_a_drain_waits_for_a_begun_request(new):
    """A begun request may still come, and is answered as the last one."""
    harness, connection, transport = new()
    connection.data_received(GET[:9])
    drain(harness, connection)
    assert not transport.is_closing()
    connection.data_received(GET[9:])
    harness.executor.run()
    octets = transport.received()
    assert bodies(octets) == [b"/"] and b"\r\nConnection: close\r\n" in octets


def test_a_drain_leaves_lingering_connections(new):
    """A connection past its last response ends by itself."""
    harness, connection, transport = new()
    connection.data_received(GET_CLOSE)
    harness.executor.run()
    drain(harness, connection)
    assert not transport.is_closing()
    pass_seconds(connection, 3)
    assert transport.is_closing()


def test_a_connection_accepted_while_draining(new):
    """A client queued at the drain's begin is answered, and told of the last response."""
    harness, _, _ = new()
    harness.service.is_draining = True
    connection, transport = harness.connect()
    connection.data_received(GET)
    harness.executor.run()
    assert b"Connection: close" in transport.received()


PACKET = b"\x00\x16\x00\x00\x0e\x00REQUEST_METHOD\x04\x00POST"
PING = b"\x64\x00\x00\x00"


def test_a_front_server_is_waited_for(new):
    """A front server's request is on its way when a drain begins: it is served, and a ping answered."""
    for octets, reply in ((PACKET, b"HTTP/1.1 200 OK\r\n"), (PING, b"\x64\x08\x00\x01draining")):
        harness, connection, transport = new(protocol="uwsgi")
        drain(harness, connection)
        late, late_transport = harness.connect()  # queued by the kernel
        for client, wire in ((connection, transport), (late, late_transport)):
            assert not wire.is_closing()
            client.data_received(octets)
            harness.executor.run()
            assert wire.received().startswith(reply) and wire.is_closing()


def test_within_the_drain_delay(new):
    """A client not told of the close may send on; a client that connects within the delay is told."""
    harness, connection, transport = new(returning([bytes(1 << 20)]))  # the loop itself ends so large a response
    through_transports(harness)
    harness.service.is_draining = True
    late, late_transport = harness.connect()
    for client, wire, is_kept in ((connection, transport, True), (late, late_transport, False)):
        client.data_received(GET)
        harness.executor.run()
        assert (b"Connection: close" not in wire.received()) is is_kept
        assert (wire.calls == []) is is_kept


def test_a_front_server_is_not_waited_for_long(new):
    """A connection without a request does not keep up the end; without a drain it may be idle."""
    harness, connection, transport = new(protocol="uwsgi")
    pass_seconds(connection, 10)
    assert not transport.is_closing()
    drain(harness, connection)
    pass_seconds(connection, 3)
    assert transport.calls == ["close"]


def test_a_front_server_that_sends_on(new):
    """A front server may send its whole body before reading our refusal: the body is taken, for a while."""
    harness, connection, transport = new(protocol="scgi", max_body_bytes=1)
    connection.data_received(b"42:CONTENT_LENGTH\x0099999999\0SCGI\x001\0PATH_INFO\0\0,")
    assert transport.received().startswith(b"Status: 413 ")
    for _ in range(3):
        connection.data_received(b"x" * (1 << 20))
    assert not transport.is_closing()
    pass_seconds(connection, 3)
    assert transport.is_closing()


def test_a_drain_while_a_worker_writes(new):
    """A drain during a worker's last write leaves no idle connection behind."""
    harness, connection, transport = new()
    writing, drained = threading.Event(), threading.Event()
    size = transport.get_write_buffer_size

    def slow():  # asked by the worker, right before it writes
        writing.set()
        drained.wait(0.01)  # the drain gets as far as the worker lets it
        return size()

    transport.get_write_buffer_size = slow
    connection.data_received(GET)
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    assert writing.wait(30)
    drain(harness, connection)
    drained.set()
    worker.join(30)
    harness.executor.run()
    assert len(bodies(transport.received())) == 1
    assert transport.is_closing() or "write_eof" in transport.calls
