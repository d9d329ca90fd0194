"""One transport's life: read requests are answered, in order.

The transport is a fake over a real socket pair; the loop and the worker go on only when told to (fakes.Harness), so that every stage can be looked
at.
"""

import mmap
import socket
import threading
import time

import pytest
from harness.fakes import FakeTransport
from harness.replies import echo
from harness.slow_clients import go_on
from harness.wires import BAD, CONTINUE, EXPECT, GET, GET_CLOSE, POST, POST_HEAD, bodies, get, pass_seconds

from aserve.connections.connection import Connection
from aserve.connections.in_flight import TABLE_BYTES, InFlight, read_in_flight
from aserve.connections.loop.wire_loop import LoopWire
from aserve.connections.states import State
from aserve.core.errors import ClientDisconnected, RequestRefused
from aserve.core.exchange import Exchange
from aserve.wsgi.response import Response

# Requests


def test_a_request_is_answered(new):
    """One request, one response; the connection stays open for the next."""
    harness, connection, transport = new()
    for number in range(3):
        connection.data_received(get(number))
        harness.executor.run()
        assert bodies(transport.received()) == [b"/%d" % number]
    assert not transport.is_closing() and transport.is_reading()


@pytest.mark.parametrize("end", ["answered", "lost", "taken over"])
def test_what_other_processes_are_told(new, end):
    """A whole request is in flight until the exchange ends, and is counted once."""
    harness, connection, transport = new()
    table = mmap.mmap(-1, TABLE_BYTES)
    harness.service.in_flight = InFlight(None, table)
    connection.data_received(POST_HEAD)
    assert read_in_flight(table) == [] and harness.service.request_count == 0
    connection.data_received(b"hello")
    assert [text for _, text in read_in_flight(table)] == ["POST /p"] and harness.service.request_count == 1
    if end == "lost":
        transport.lose()
        assert len(read_in_flight(table)) == 1
    elif end == "taken over":
        exchange = connection.exchange
        exchange.response = Response(exchange, harness.service.common_fields)
        connection.take_over(exchange, RequestRefused(504, "late"))
        assert read_in_flight(table) == []
    harness.executor.run()
    assert read_in_flight(table) == [] and harness.service.request_count == 1


def test_who_comes_with_an_exchange(new):
    """A moved request is in flight here, too, but counted at the origin."""
    harness, _, _ = new()
    table = mmap.mmap(-1, TABLE_BYTES)
    harness.service.in_flight = InFlight(None, table)
    connection, exchange = Connection(harness.service), Exchange("REQUEST_METHOD\0GET\0", 1)
    connection.exchange, exchange.connection = exchange, connection
    wire, _ = harness.connect(LoopWire(connection, is_new=False))
    assert [text for _, text in read_in_flight(table)] == ["GET -"] and harness.service.request_count == 0
    wire.refuse(exchange, RequestRefused(408, "late"))
    assert read_in_flight(table) == []


@pytest.mark.parametrize("raw", [GET, POST, GET + POST])
def test_octet_by_octet(new, raw):
    """However the octets come, the responses are the same."""
    harness, connection, transport = new()
    for position in range(len(raw)):
        connection.data_received(raw[position : position + 1])
        harness.executor.run()
    assert len(bodies(transport.received())) == raw.count(b"HTTP/1.1")


@pytest.mark.parametrize(
    ("peername", "client"),
    [
        (("203.0.113.7", 4711), ("203.0.113.7", "4711")),
        (("2001:db8::1", 4711, 0, 0), ("2001:db8::1", "4711")),
        (("::ffff:203.0.113.7", 4711, 0, 0), ("203.0.113.7", "4711")),
        ("", ("", "")),
        (None, ("", "")),
    ],
)
def test_the_client_has_the_transports_address(new, peername, client):
    """The client's address is the transport's; a unix socket has none."""
    harness, _, _ = new()
    wire, _ = harness.connect(peername=peername)
    assert (wire.connection.remote_addr, wire.connection.remote_port) == client
    assert wire in harness.service.connections


@pytest.mark.parametrize(
    "raw", [GET_CLOSE, GET.replace(b"1.1", b"1.0"), POST.replace(b"Host", b"Connection: close\r\nHost")]
)
def test_the_last_response(new, raw):
    """RFC 9112 9.6: after the last response our side is closed, and the client's is read on."""
    harness, connection, transport = new()
    connection.data_received(raw)
    harness.executor.run()
    octets = transport.received()
    assert len(bodies(octets)) == 1 and b"\r\nConnection: close\r\n" in octets
    assert transport.calls[0] == "write_eof" and not transport.is_closing()
    assert transport.is_reading()


def test_http_1_0_keep_alive(new):
    """RFC 9112 C.2.2: an HTTP/1.0 client keeps the connection if asked for."""
    harness, connection, transport = new()
    for _ in range(2):
        connection.data_received(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        harness.executor.run()
        assert b"\r\nConnection: keep-alive\r\n" in transport.received()
    assert "write_eof" not in transport.calls


# Pipelining: RFC 9112 9.3.2


@pytest.mark.parametrize("count", [2, 3, 16, 17, 40])
@pytest.mark.parametrize("max_pipelined", [1, 2, 16])
def test_pipelined_requests_are_answered_in_order(new, count, max_pipelined):
    """Requests of one segment go to the app one at a time, and all are answered."""
    running = []

    def app(environ, start_response):
        running.append(1)
        assert len(running) == 1
        reply = echo(environ, start_response)
        running.pop()
        return reply

    harness, connection, transport = new(app, max_pipelined=max_pipelined)
    connection.data_received(b"".join(map(get, range(count))))
    assert len(harness.executor.jobs) == 1
    harness.executor.run()
    assert bodies(transport.received()) == [b"/%d" % number for number in range(count)]
    connection.data_received(get(99))
    harness.executor.run()
    assert bodies(transport.received()) == [b"/99"]


def test_requests_that_come_while_one_runs(new):
    """Later requests wait for their turn, whole or in part."""
    harness, connection, transport = new()
    connection.data_received(get(0))
    harness.executor.run_job()  # answered past the loop, or posted: not of interest here
    connection.data_received(get(1) + get(2)[:9])
    connection.data_received(get(2)[9:])
    assert len(harness.executor.jobs) <= 1
    harness.executor.run()
    assert bodies(transport.received()) == [b"/0", b"/1", b"/2"]


def test_reading_pauses_while_too_many_wait(new):
    """With as many waiting as allowed, the client is read no more until all are answered."""
    harness, connection, transport = new(max_pipelined=2)
    connection.data_received(get(0))
    connection.data_received(get(1))
    assert transport.is_reading()
    connection.data_received(get(2))
    assert not transport.is_reading()
    harness.executor.run()
    assert transport.is_reading() and len(bodies(transport.received())) == 3


def test_nothing_behind_the_last_request_is_answered(new):
    """RFC 9112 9.6: octets behind a closing request are not for us."""
    harness, connection, transport = new()
    connection.data_received(GET_CLOSE + get(1))
    harness.executor.run()
    assert bodies(transport.received()) == [b"/"] and "write_eof" in transport.calls


# The client's faults


@pytest.mark.parametrize("before", [b"", GET, POST + GET])
@pytest.mark.parametrize("is_apart", [False, True])
def test_a_refusal_comes_in_its_turn(new, before, is_apart):
    """A fault is answered behind the good requests before; then the connection closes."""
    harness, connection, transport = new()
    harness.service.ends = harness.log
    if is_apart and before:
        connection.data_received(before)
        connection.data_received(BAD + GET)
    else:
        connection.data_received(before + BAD + GET)
    harness.executor.run()
    octets = transport.received()
    assert len(bodies(octets)) == before.count(b"HTTP") + 1
    assert b"HTTP/1.1 400 Bad Request\r\n" in octets and "write_eof" in transport.calls
    assert harness.log.codes == [200] * before.count(b"HTTP") + [400]
    connection.data_received(GET)
    harness.executor.run()
    assert transport.received() == b""


def test_a_refused_head_request(new):
    """RFC 9110 9.3.2: the refusal of a HEAD request has no body."""
    _, connection, transport = new(max_body_bytes=4)
    connection.data_received(POST.replace(b"POST", b"HEAD"))
    octets = transport.received()
    assert octets.startswith(b"HTTP/1.1 413 ") and octets.endswith(b"\r\n\r\n")


# 100-continue: RFC 9110 10.1.1


def test_continue_goes_to_waiting_clients_alone(new):
    """A waiting client is told to go on; another is not."""
    harness, connection, transport = new()
    connection.data_received(EXPECT)
    assert transport.received() == CONTINUE and harness.executor.jobs == []
    connection.data_received(b"hel")
    connection.data_received(b"lo")
    harness.executor.run()
    assert bodies(transport.received()) == [b"/phello"]
    connection.data_received(EXPECT + b"hel")
    assert transport.received() == b""


def test_continue_waits_for_earlier_responses(new):
    """An interim response, too, comes in turn."""
    harness, connection, transport = new()
    connection.data_received(get(0) + EXPECT)
    assert transport.received() == b""
    harness.executor.run()
    assert bodies(transport.received()) == [b"/0", b"100"]
    connection.data_received(b"hello")
    harness.executor.run()
    assert bodies(transport.received()) == [b"/phello"]


# Replies without the app, and from a front server


class OneExchange:
    """A wire protocol taking everything for one exchange."""

    is_continue_due = is_mid_message = is_mid_body = has_unparsed = False
    body = live_body = None
    unparsed = b""

    def __init__(self, exchange):
        self.exchange = exchange

    def receive(self, data):
        return [self.exchange]

    def receive_eof(self):
        pass


def connect_one(new, app=echo, **attributes):
    """Connect a client whose octets are this exchange; return harness, connection, transport."""
    pairs = {"REQUEST_METHOD": "GET", "REQUEST_URI": "/x", "PATH_INFO": "/x", "QUERY_STRING": ""}
    exchange = Exchange("\0".join(text for pair in pairs.items() for text in pair), len(pairs))
    for name, value in attributes.items():
        setattr(exchange, name, value)
    harness, _, _ = new(app)
    harness.service.new_protocol = lambda: OneExchange(exchange)
    return (harness, *harness.connect())


def test_a_ping_is_answered_by_the_loop(new):
    """A health check is answered by the loop itself, with the warning."""
    replies = []

    def ping(warning):
        replies.append(warning)
        return b"pong"

    harness, connection, transport = connect_one(new, ping=ping, is_for_loop=True)
    connection.data_received(b"x")
    assert transport.received() == b"pong" and transport.calls == ["close"] and replies == [""]
    assert harness.executor.jobs == []


def test_a_silent_refusal(new, caplog):
    """A client without HTTP is not answered in HTTP: the log says why."""
    refusal = RequestRefused(400, "not a packet")
    harness, connection, transport = connect_one(new, refusal=refusal, is_silent=True, is_for_loop=True)
    connection.data_received(b"x")
    assert transport.received() == b"" and transport.calls == ["close"]
    assert "not a packet" in caplog.text and harness.service.name in caplog.text


def test_a_request_from_a_front_server(new):
    """A front server sends nothing behind the request: the connection closes at once."""
    harness, connection, transport = connect_one(new, is_from_front=True, keep_alive=False)
    connection.data_received(b"x")
    harness.executor.run()
    assert bodies(transport.received()) == [b"/x"] and transport.calls == ["close"]


# The access log


def test_the_access_log(new):
    """Each exchange is logged once, whichever the end."""
    harness, connection, transport = new()
    harness.service.ends = harness.log
    connection.data_received(GET)  # past the loop
    harness.executor.run()
    connection.data_received(POST + POST)  # by the loop
    harness.executor.run()
    connection.data_received(GET_CLOSE)
    harness.executor.run()
    assert harness.log.codes == [200] * 4 and len(bodies(transport.received())) == 4


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_when_a_request_came(new, is_asked_for):
    """The time is of a whole request, if wanted."""
    harness, connection, transport = new()
    harness.service.times_requests = is_asked_for
    connection.data_received(POST_HEAD)
    before = time.monotonic()
    connection.data_received(b"hello")
    arrived_at = connection.exchange.arrived_at
    assert before <= arrived_at <= time.monotonic() if is_asked_for else arrived_at == 0.0


# Written off


@pytest.mark.parametrize("is_out", [False, True])
def test_an_exchange_is_taken_over(new, is_out):
    """The loop answers in place of a hanging worker, or cuts the begun response."""
    seen = []

    def app(environ, start_response):
        seen.append(exchange := connection.exchange)
        write = start_response("200 OK", [])
        if is_out:
            write(b"begun")
        connection.take_over(exchange, why)
        connection.take_over(exchange, why)  # no longer the connection's
        with pytest.raises(ClientDisconnected):
            write(b"late")
        return []

    why = RequestRefused(504, "too long")
    harness, connection, transport = new(app)
    harness.service.ends = harness.log
    connection.data_received(GET)
    harness.executor.run_job()
    octets = transport.received()
    assert transport.calls == ["write_eof", "resume_reading"]
    assert octets.startswith(b"HTTP/1.1 200" if is_out else b"HTTP/1.1 504")
    assert b"late" not in octets
    if not is_out:
        assert b"\r\nConnection: close\r\n" in octets and harness.log.codes == [504]


def test_a_client_without_an_address(new):
    """A TCP client with an address unknown to the transport is cut off, and is no unix socket's peer."""
    harness, *_ = new()
    connection, transport = LoopWire(Connection(harness.service)), FakeTransport(peername=None)
    harness.transports.append(transport)
    with socket.socket() as sock:
        transport.extra["socket"] = sock
        transport.connect(connection)
        connection.data_received(GET)
    assert transport.calls == ["close"] and not harness.executor.jobs


def test_an_empty_line_while_idle(new):
    """RFC 9112 2.2: some clients send an empty line behind a body; the line begins no request, and no head is awaited."""
    harness, connection, transport = new()
    connection.data_received(POST)
    harness.executor.run()
    transport.received()
    connection.data_received(b"\r\n")
    pass_seconds(connection, 40)
    assert transport.received() == b"" and not transport.is_closing() and connection.state is State.IDLE
    connection.data_received(POST)
    harness.executor.run()
    assert transport.received().startswith(b"HTTP/1.1 200 OK")


def test_a_continue_for_the_request_behind(new):
    """The 100 is for the later request: the earlier does not get the 100, nor is the 100 lost."""
    harness, connection, transport = new(body="stream")
    connection.data_received(POST + EXPECT)
    harness.executor.run_job()
    harness.executor.flush()
    assert CONTINUE not in transport.received()
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    octets = b""
    while CONTINUE not in octets:
        assert worker.is_alive()
        harness.executor.flush()
        octets += transport.received()
    connection.data_received(b"hello")
    go_on(harness, worker)
    assert transport.received().startswith(b"HTTP/1.1 200 OK")
