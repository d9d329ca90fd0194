"""One transport's life: what is read is answered, in order, in time, and let go of in the end.

The transport is a fake over a real socket pair; the loop and the worker go on only when told
to (fakes.Bench), so that every stage can be looked at.
"""

from __future__ import annotations

import errno
import gc
import socket
import sys
import tempfile
import threading
import weakref

import pytest
from harness.fakes import FakeTransport
from harness.replies import echo, is_reset

from aserve.connections.connection import Connection
from aserve.connections.states import State
from aserve.connections.wire_loop import RETURN_SECONDS, LoopWire
from aserve.errors import ClientDisconnected, RequestRefused
from aserve.exchange import Exchange

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
GET_CLOSE = GET[:-2] + b"Connection: close\r\n\r\n"
POST_HEAD = b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"
POST = POST_HEAD + b"hello"
EXPECT = POST_HEAD[:-2] + b"Expect: 100-continue\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
BAD = b"GET /\r\n\r\n"


def get(number):
    return GET.replace(b"/ ", b"/%d " % number)


def bodies(octets):
    """Return the bodies of the responses in these octets, all with a Content-Length."""
    found = []
    while octets:
        head, _, rest = octets.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 100"):
            found.append(b"100")
            octets = rest
            continue
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        found.append(rest[:length])
        octets = rest[length:]
    return found


def seconds(connection, count):
    for _ in range(count):
        connection.on_second()


# Requests


def test_a_request_is_answered(new):
    """One request, one response; the connection stays open for the next."""
    bench, connection, transport = new()
    for number in range(3):
        connection.data_received(get(number))
        bench.executor.run()
        assert bodies(transport.received()) == [b"/%d" % number]
    assert not transport.is_closing() and transport.is_reading()


@pytest.mark.parametrize("raw", [GET, POST, GET + POST])
def test_octet_by_octet(new, raw):
    """However the octets come, the responses are the same."""
    bench, connection, transport = new()
    for position in range(len(raw)):
        connection.data_received(raw[position : position + 1])
        bench.executor.run()
    assert len(bodies(transport.received())) == raw.count(b"HTTP/1.1")


@pytest.mark.parametrize(
    ("peername", "client"),
    [
        (("203.0.113.7", 4711), ("203.0.113.7", "4711")),
        (("2001:db8::1", 4711, 0, 0), ("2001:db8::1", "4711")),
        ("", ("", "")),
        (None, ("", "")),
    ],
)
def test_the_client(new, peername, client):
    """The client's address is the transport's; a unix socket has none."""
    bench, _, _ = new()
    wire, _ = bench.connect(peername=peername)
    assert (wire.connection.remote_addr, wire.connection.remote_port) == client
    assert wire in bench.service.connections


@pytest.mark.parametrize(
    "raw", [GET_CLOSE, GET.replace(b"1.1", b"1.0"), POST.replace(b"Host", b"Connection: close\r\nHost")]
)
def test_the_last_response(new, raw):
    """RFC 9112 9.6: after the last response our side is closed, and the client's is read on."""
    bench, connection, transport = new()
    connection.data_received(raw)
    bench.executor.run()
    octets = transport.received()
    assert len(bodies(octets)) == 1 and b"\r\nConnection: close\r\n" in octets
    assert transport.calls[0] == "write_eof" and not transport.is_closing()
    assert transport.is_reading()


def test_http_1_0_keep_alive(new):
    """RFC 9112 C.2.2: an HTTP/1.0 client that asks for it keeps its connection."""
    bench, connection, transport = new()
    for _ in range(2):
        connection.data_received(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        bench.executor.run()
        assert b"\r\nConnection: keep-alive\r\n" in transport.received()
    assert "write_eof" not in transport.calls


# Pipelining: RFC 9112 9.3.2


@pytest.mark.parametrize("count", [2, 3, 16, 17, 40])
@pytest.mark.parametrize("max_pipelined", [1, 2, 16])
def test_pipelined_requests_are_answered_in_order(new, count, max_pipelined):
    """Requests of one segment go to the app one at a time, and all of them are answered."""
    running = []

    def app(environ, start_response):
        running.append(1)
        assert len(running) == 1
        reply = echo(environ, start_response)
        running.pop()
        return reply

    bench, connection, transport = new(app, max_pipelined=max_pipelined)
    connection.data_received(b"".join(map(get, range(count))))
    assert len(bench.executor.jobs) == 1
    bench.executor.run()
    assert bodies(transport.received()) == [b"/%d" % number for number in range(count)]
    connection.data_received(get(99))
    bench.executor.run()
    assert bodies(transport.received()) == [b"/99"]


def test_requests_that_come_while_one_runs(new):
    """They wait for their turn, whole or in part."""
    bench, connection, transport = new()
    connection.data_received(get(0))
    bench.executor.run_job()  # answered past the loop, or posted: not of interest here
    connection.data_received(get(1) + get(2)[:9])
    connection.data_received(get(2)[9:])
    assert len(bench.executor.jobs) <= 1
    bench.executor.run()
    assert bodies(transport.received()) == [b"/0", b"/1", b"/2"]


def test_reading_pauses_while_too_many_wait(new):
    """With as many waiting as allowed, the client is read no more until they are answered."""
    bench, connection, transport = new(max_pipelined=2)
    connection.data_received(get(0))
    connection.data_received(get(1))
    assert transport.is_reading()
    connection.data_received(get(2))
    assert not transport.is_reading()
    bench.executor.run()
    assert transport.is_reading() and len(bodies(transport.received())) == 3


def test_nothing_behind_the_last_request_is_answered(new):
    """RFC 9112 9.6: what follows a request that closes is not for us."""
    bench, connection, transport = new()
    connection.data_received(GET_CLOSE + get(1))
    bench.executor.run()
    assert bodies(transport.received()) == [b"/"] and "write_eof" in transport.calls


# The client's faults


@pytest.mark.parametrize("before", [b"", GET, POST + GET])
@pytest.mark.parametrize("is_apart", [False, True])
def test_a_refusal_comes_in_its_turn(new, before, is_apart):
    """A fault is answered behind the good requests before it; then the connection closes."""
    bench, connection, transport = new()
    bench.service.access_log = bench.log
    if is_apart and before:
        connection.data_received(before)
        connection.data_received(BAD + GET)
    else:
        connection.data_received(before + BAD + GET)
    bench.executor.run()
    octets = transport.received()
    assert len(bodies(octets)) == before.count(b"HTTP") + 1
    assert b"HTTP/1.1 400 Bad Request\r\n" in octets and "write_eof" in transport.calls
    assert bench.log.codes == [200] * before.count(b"HTTP") + [400]
    connection.data_received(GET)
    bench.executor.run()
    assert transport.received() == b""


def test_a_refused_head_request(new):
    """RFC 9110 9.3.2: the refusal of a HEAD request has no body."""
    _, connection, transport = new(max_body_bytes=4)
    connection.data_received(POST.replace(b"POST", b"HEAD"))
    octets = transport.received()
    assert octets.startswith(b"HTTP/1.1 413 ") and octets.endswith(b"\r\n\r\n")


# 100-continue: RFC 9110 10.1.1


def test_continue(new):
    """A client that waits is told to go on; one that does not is not."""
    bench, connection, transport = new()
    connection.data_received(EXPECT)
    assert transport.received() == CONTINUE and bench.executor.jobs == []
    connection.data_received(b"hel")
    connection.data_received(b"lo")
    bench.executor.run()
    assert bodies(transport.received()) == [b"/phello"]
    connection.data_received(EXPECT + b"hel")
    assert transport.received() == b""


def test_continue_waits_for_earlier_responses(new):
    """An interim response, too, comes in its turn."""
    bench, connection, transport = new()
    connection.data_received(get(0) + EXPECT)
    assert transport.received() == b""
    bench.executor.run()
    assert bodies(transport.received()) == [b"/0", b"100"]
    connection.data_received(b"hello")
    bench.executor.run()
    assert bodies(transport.received()) == [b"/phello"]


# Live bodies


def test_a_live_body_is_read_while_it_comes(new):
    """--body stream: the app runs before the body is there."""
    seen = []

    def app(environ, start_response):
        seen.append(environ["wsgi.input"].read(2))
        start_response("200 OK", [])
        return [environ["wsgi.input"].read()]

    bench, connection, transport = new(app, body="stream")
    connection.data_received(POST_HEAD + b"he")
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    connection.data_received(b"ll")
    connection.data_received(b"o" + GET)
    worker.join(10)
    assert seen == [b"he"]
    bench.executor.flush()
    assert bodies(transport.received()) == [b"llo"]
    assert len(bench.executor.jobs) == 1  # and the next request has its turn


def ignore_body(environ, start_response):
    start_response("200 OK", [])
    return [environ["PATH_INFO"].encode("latin-1")]


def test_a_live_body_that_nobody_reads(new):
    """The rest of a body that the app has left is not taken for a request: the connection closes."""
    bench, connection, transport = new(ignore_body, body="stream")
    connection.data_received(POST_HEAD + b"he")
    bench.executor.run()
    assert bodies(transport.received()) == [b"/p"] and "write_eof" in transport.calls
    connection.data_received(b"llo" + GET)
    bench.executor.run()
    assert transport.received() == b""


def test_a_full_live_body_that_nobody_reads(new):
    """The room that comes with the end of the exchange is not taken for the app's wish to read on."""
    bench, connection, transport = new(ignore_body, body="stream", body_memory_bytes=2)
    connection.data_received(POST_HEAD)
    connection.data_received(b"he")
    assert not transport.is_reading()
    bench.executor.run()
    assert bodies(transport.received()) == [b"/p"] and "write_eof" in transport.calls
    assert transport.calls.count("resume_reading") == 1  # to linger


def test_a_live_body_that_came_whole_may_be_left(new):
    """A body that has come is no reason to close."""
    bench, connection, transport = new(ignore_body, body="stream")
    connection.data_received(POST + GET)
    bench.executor.run()
    assert bodies(transport.received()) == [b"/p", b"/"] and "write_eof" not in transport.calls


def test_a_live_body_behind_another_request(new):
    """A body still under way belongs to the request that waits, not to the one that ends."""
    bench, connection, transport = new(body="stream")
    connection.data_received(get(0) + POST_HEAD + b"he")
    bench.executor.run_job()
    bench.executor.flush()
    assert bodies(transport.received()) == [b"/0"] and "write_eof" not in transport.calls
    connection.data_received(b"llo")
    bench.executor.run()
    assert bodies(transport.received()) == [b"/phello"]


@pytest.mark.parametrize("max_pipelined", [1, 2])
def test_a_live_body_in_one_segment_with_its_head(new, max_pipelined):
    """The body is there for the app, whatever the limit of the pipeline."""
    bench, connection, transport = new(body="stream", max_pipelined=max_pipelined)
    connection.data_received(POST + get(1) + POST)
    bench.executor.run()
    assert bodies(transport.received()) == [b"/phello", b"/1", b"/phello"]


def test_a_full_live_body_pauses_the_client(new):
    """A client that is faster than the app is paused, and goes on when the app has read."""
    bench, connection, transport = new(body="stream", body_memory_bytes=4)
    connection.data_received(POST_HEAD)
    connection.data_received(b"hell")
    assert not transport.is_reading()
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    while transport.is_reading() is False:
        bench.executor.flush()  # the reader has asked for more than there is room for
    connection.data_received(b"o")
    worker.join(10)
    bench.executor.flush()
    assert bodies(transport.received()) == [b"/phello"]


def test_continue_for_a_live_body(new):
    """The client is told to go on when the app first reads, not before."""
    bench, connection, transport = new(body="stream")
    connection.data_received(EXPECT)
    assert transport.received() == b""
    seconds(connection, 120)  # as long as nobody has asked for the body, it cannot be late
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    while not bench.executor.posts:
        pass
    bench.executor.flush()
    assert transport.received() == CONTINUE
    connection.data_received(b"hello")
    worker.join(10)
    bench.executor.flush()
    assert bodies(transport.received()) == [b"/phello"]


def test_no_continue_behind_the_head(new):
    """Once the response has begun, an interim response would be part of its body."""

    def app(environ, start_response):
        write = start_response("200 OK", [("Content-Length", "6")])
        write(b"x")
        with pytest.raises(ClientDisconnected):
            environ["wsgi.input"].read()
        return [b"yyyyy"]

    bench, connection, transport = new(app, body="stream")
    connection.data_received(EXPECT)
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    while len(bench.executor.posts) < 2:
        pass
    bench.executor.flush()
    connection.eof_received()
    worker.join(10)
    bench.executor.flush()
    assert bodies(transport.received()) == [b"xyyyyy"]


def test_a_late_wish_for_a_body_that_has_come(new):
    """A client that did not wait is not told to go on."""
    bench, connection, transport = new(body="stream")
    connection.data_received(EXPECT)
    connection.data_received(b"hello")
    bench.executor.run()
    assert bodies(transport.received()) == [b"/phello"]


def test_a_wish_for_a_body_whose_client_has_gone(new):
    """Nobody is told to go on: the transport is closed, and its descriptor may be another's."""
    bench, connection, transport = new(body="stream")
    connection.data_received(EXPECT)
    transport.protocol.connection_lost(None)
    bench.executor.run()
    assert transport.received() == b""


def test_a_fault_within_a_live_body(new):
    """The app meets it where it reads; what follows is not parsed, and the connection closes."""
    faults = []

    def app(environ, start_response):
        try:
            environ["wsgi.input"].read()
        except ClientDisconnected as exc:
            faults.append(str(exc))
        start_response("400 Bad", [])
        return [b"bad"]

    bench, connection, transport = new(app, body="stream")
    chunked = POST_HEAD.replace(b"Content-Length: 5", b"Transfer-Encoding: chunked")
    connection.data_received(chunked)
    connection.data_received(b"zz\r\n" + GET)
    connection.data_received(GET)
    bench.executor.run()
    assert len(faults) == 1 and bodies(transport.received()) == [b"bad"]
    assert "write_eof" in transport.calls


# Time limits


def test_an_idle_connection_closes(new):
    """--keep-alive: without a request the connection closes, in silence."""
    bench, connection, transport = new(keep_alive_seconds=5)
    seconds(connection, 5)
    connection.data_received(GET)
    bench.executor.run()
    seconds(connection, 5)
    assert not transport.is_closing()
    seconds(connection, 1)
    assert transport.calls[-1] == "close" and len(bodies(transport.received())) == 1


def test_a_head_must_be_complete_in_time(new):
    """--head-timeout counts from the first octet, however the rest drips; 408 (RFC 9110 15.5.9)."""
    bench, connection, transport = new(head_seconds=5)
    bench.service.access_log = bench.log
    for position in range(6):
        connection.data_received(GET[position : position + 1])
        seconds(connection, 1)
    assert transport.received().startswith(b"HTTP/1.1 408 ") and bench.log.codes == [408]
    assert transport.calls[0] == "write_eof"


def test_a_body_must_make_progress(new):
    """--body-timeout counts from the last progress."""
    _, connection, transport = new(body_seconds=5, min_rate_bytes=0)
    connection.data_received(POST_HEAD)
    for octet in (b"h", b"e"):
        seconds(connection, 5)
        connection.data_received(octet)
    seconds(connection, 5)
    assert transport.received() == b""
    seconds(connection, 1)
    assert transport.received().startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("body", ["buffer", "stream"])
def test_a_body_must_come_at_the_minimum_rate(new, body):
    """--min-rate: the mean over each --body-timeout; an octet a second is progress, and yet 408."""
    bench, connection, transport = new(body=body, body_seconds=5, min_rate_bytes=2)
    connection.data_received(POST_HEAD.replace(b"5", b"50"))
    seconds(connection, 1)
    for _ in range(2):
        connection.data_received(bytes(7))  # 14 in 6 seconds
        seconds(connection, 3)
    for _ in range(6):
        assert transport.received() == b""
        connection.data_received(b"x")
        seconds(connection, 1)
    bench.executor.run()
    assert b"--min-rate" in transport.received()


def test_the_head_timeout_ends_with_the_head(new):
    """A slow head leaves the body its own time."""
    _, connection, transport = new(head_seconds=5, body_seconds=5)
    connection.data_received(POST_HEAD[:-1])
    seconds(connection, 4)
    connection.data_received(POST_HEAD[-1:])
    seconds(connection, 5)
    assert transport.received() == b""


def test_an_app_may_take_its_time(new):
    """While a request is with the app, no time limit runs; the client's next wait starts afresh."""
    bench, connection, transport = new(keep_alive_seconds=5, head_seconds=5, body_seconds=5)
    connection.data_received(POST)
    seconds(connection, 1000)
    bench.executor.run()
    seconds(connection, 5)
    assert len(bodies(transport.received())) == 1 and not transport.is_closing()


def test_a_live_body_must_make_progress(new):
    """A live body that stops coming is the reader's error; its client is told, and the connection closes."""
    bench, connection, transport = new(body="stream", body_seconds=5)
    connection.data_received(POST_HEAD + b"he")
    seconds(connection, 6)
    bench.executor.run()  # read() raises ClientDisconnected
    assert transport.received().startswith(b"HTTP/1.1 408 ") and "write_eof" in transport.calls


def test_a_paused_live_body_is_not_late(new):
    """A client that may not send is not late."""
    bench, connection, transport = new(body="stream", body_memory_bytes=2, body_seconds=5)
    connection.data_received(POST_HEAD)
    connection.data_received(b"he")
    assert not transport.is_reading()
    seconds(connection, 100)
    connection.data_received(b"llo")
    bench.executor.run()
    assert bodies(transport.received()) == [b"/phello"]


def large(environ, start_response):
    start_response("200 OK", [])
    return [bytes(500_000)]


def test_a_client_that_does_not_read_is_cut_off(new):
    """--write-timeout: who reads nothing of a response loses the connection, by a reset."""
    bench, connection, transport = new(large, write_seconds=5)
    transport.is_stuck = True
    connection.data_received(GET)
    bench.executor.run()
    seconds(connection, 5)
    assert not transport.is_closing()
    seconds(connection, 1)
    assert is_reset(transport)
    transport.lose()
    bench.executor.run()
    assert bench.service.connections == set()


def test_sending_more_is_not_reading(new):
    """A client cannot put off its time limit by sending instead of reading."""
    bench, connection, transport = new(large, write_seconds=5)
    transport.is_stuck = True
    connection.data_received(GET)
    bench.executor.run()
    for octet in (b"G", b"E", b"T", b" ", b"/", b" "):
        connection.data_received(octet)
        seconds(connection, 1)
    assert is_reset(transport)


def test_a_client_that_reads_slowly_is_not_cut_off(new):
    """--write-timeout: whoever reads something is served, however little it is at a time."""
    bench, connection, transport = new(large, write_seconds=5)
    transport.is_stuck = True
    connection.data_received(GET)
    bench.executor.run()
    for _ in range(20):
        del transport.held[:1000]
        seconds(connection, 3)
    assert not transport.is_closing()


def test_a_client_must_read_at_the_minimum_rate(new, caplog):
    """--min-rate: the mean over each --write-timeout; an octet a second is progress, and yet the end."""
    bench, connection, transport = new(large, write_seconds=5, min_rate_bytes=100)
    transport.is_stuck = True
    connection.data_received(GET)
    bench.executor.run()
    for _ in range(7):
        del transport.held[:120]
        seconds(connection, 1)
    for _ in range(6):
        assert not transport.is_closing()
        del transport.held[:1]
        seconds(connection, 1)
    assert is_reset(transport)


def test_an_app_that_writes_faster_than_its_client_reads(new):
    """What the transport holds may grow while the client reads: it is not cut off."""
    bench, connection, transport = new(write_seconds=5)
    transport.is_stuck = True
    connection.data_received(GET)
    exchange = connection.exchange
    connection._on_piece(exchange, bytes(100_000))
    for _ in range(20):
        connection._on_piece(exchange, bytes(2000))
        del transport.held[:1000]
        seconds(connection, 1)
    assert not transport.is_closing()


def test_a_closing_connection_has_a_time_limit_too(new):
    """A client that does not read our last octets cannot keep the connection for ever."""
    bench, connection, transport = new(write_seconds=5)
    transport.is_stuck = True
    connection.data_received(GET_CLOSE)
    bench.executor.run()
    connection.eof_received()
    assert transport.calls[-1] == "close"
    seconds(connection, 6)
    assert is_reset(transport)


def test_a_client_that_does_not_read_gets_no_more(new):
    """Who sends request after request and reads nothing has one response waiting, not all of them."""
    bench, connection, transport = new(large)
    transport.is_stuck = True
    connection.data_received(GET + GET)
    bench.executor.run()
    assert bench.executor.jobs == [] and len(transport.held) < 600_000
    transport.unstick()
    octets = transport.received()
    bench.executor.run()
    octets += transport.received()
    assert [len(body) for body in bodies(octets)] == [500_000, 500_000]


# Lingering: RFC 9112 9.6


def test_lingering_ends(new):
    """After the last response the client is read on for a moment, and no longer."""
    bench, connection, transport = new()
    connection.data_received(GET_CLOSE)
    bench.executor.run()
    seconds(connection, 2)
    connection.data_received(b"x" * 1000)
    seconds(connection, 2)
    assert not transport.is_closing()
    seconds(connection, 1)
    assert transport.calls[-1] == "close"


def test_lingering_ends_with_the_client(new):
    """A client that closes, too, is waited for no longer."""
    bench, connection, transport = new()
    connection.data_received(GET_CLOSE)
    bench.executor.run()
    assert connection.eof_received() is True
    assert transport.calls[-1] == "close"


def test_lingering_has_its_limit(new):
    """Who sends on and on is not read for ever: neither a lot at once, nor a little for long."""
    bench, connection, transport = new()
    connection.data_received(BAD)
    data = bytes(1 << 20)
    for _ in range(64):
        connection.data_received(data)
    assert not transport.is_closing()
    connection.data_received(b"x")
    assert transport.calls[-1] == "close"
    connection.data_received(b"x")
    connection.eof_received()
    for is_draining, limit in ((False, 30), (True, 2)):
        connection, transport = bench.connect()
        connection.data_received(BAD)
        bench.service.is_draining = is_draining
        for _ in range(limit):
            connection.data_received(b"x")
            seconds(connection, 1)
        assert not transport.is_closing()
        connection.data_received(b"x")
        seconds(connection, 1)
        assert transport.calls[-1] == "close"


def test_a_transport_without_half_close(new):
    """Where one side cannot be closed alone, both are."""
    bench, connection, transport = new()
    transport.can_half_close = False
    connection.data_received(GET_CLOSE)
    bench.executor.run()
    assert transport.calls == ["close"]


def test_a_reset_before_our_fin(new):
    """A client that has reset the connection makes write_eof fail: that is no fault of ours."""
    bench, connection, transport = new()
    transport.eof_error = OSError(errno.ENOTCONN, "Transport endpoint is not connected")
    connection.data_received(GET_CLOSE)
    bench.executor.run()
    transport.lose(ConnectionResetError())
    assert bench.service.connections == set()


# The client sends no more


@pytest.mark.parametrize("raw", [b"", GET[:9], POST_HEAD + b"he"])
def test_eof_without_a_whole_request(new, raw):
    """A client that ends before its request is complete gets no answer."""
    bench, connection, transport = new()
    if raw:
        connection.data_received(raw)
    assert connection.eof_received() is True
    bench.executor.run()
    assert transport.calls == ["close"] and transport.received() == b""


@pytest.mark.parametrize("count", [1, 2, 16, 17, 40])
@pytest.mark.parametrize("max_pipelined", [1, 16])
@pytest.mark.parametrize("rest", [b"", GET[:9]])
def test_a_half_closed_client_is_answered(new, count, max_pipelined, rest):
    """RFC 9112 9.6: a client may close its side behind its requests; all of them are answered."""
    bench, connection, transport = new(max_pipelined=max_pipelined)
    connection.data_received(b"".join(map(get, range(count))) + rest)
    connection.eof_received()
    bench.executor.run()
    assert bodies(transport.received()) == [b"/%d" % number for number in range(count)]
    assert transport.calls[-1] == "close" and "write_eof" not in transport.calls


def test_eof_within_a_live_body(new):
    """The app meets the end where it reads."""
    bench, connection, transport = new(body="stream")
    connection.data_received(POST_HEAD + b"he")
    connection.eof_received()
    bench.executor.run()
    assert transport.calls[-1] == "close" and transport.received() == b""


# Draining


def test_drain_idle(new):
    """An idle connection closes at once; one that has not asked yet may do so for a while."""
    bench, connection, transport = new()
    drain(bench, connection)
    assert transport.calls == []
    for _ in range(3):
        connection.on_second()
    assert transport.calls == ["close"]
    connection.drain()
    bench, connection, transport = new()
    connection.data_received(GET)
    bench.executor.run()
    drain(bench, connection)
    assert transport.calls == ["close"]


def drain(bench, connection):
    """As Server.drain does."""
    bench.service.is_draining = True
    connection.drain()


def test_drain_running(new):
    """A request that runs is answered, and the client told that it was the last."""
    bench, connection, transport = new()
    connection.data_received(get(0) + get(1))
    drain(bench, connection)
    bench.executor.run()
    octets = transport.received()
    assert bodies(octets) == [b"/0"] and b"\r\nConnection: close\r\n" in octets
    assert "write_eof" in transport.calls


def test_drain_between_response_and_answer(new):
    """A response that is made already goes out as it is; then the connection closes."""
    bench, connection, transport = new()
    connection.data_received(POST)
    bench.executor.run_job()
    drain(bench, connection)
    bench.executor.run()
    assert bodies(transport.received()) == [b"/phello"] and "write_eof" in transport.calls


def test_drain_receiving(new):
    """A request that has begun may still come, and is answered as the last one."""
    bench, connection, transport = new()
    connection.data_received(GET[:9])
    drain(bench, connection)
    assert not transport.is_closing()
    connection.data_received(GET[9:])
    bench.executor.run()
    octets = transport.received()
    assert bodies(octets) == [b"/"] and b"\r\nConnection: close\r\n" in octets


def test_drain_lingering(new):
    """A connection that has had its last response ends by itself."""
    bench, connection, transport = new()
    connection.data_received(GET_CLOSE)
    bench.executor.run()
    drain(bench, connection)
    assert not transport.is_closing()
    seconds(connection, 3)
    assert transport.is_closing()


def test_a_connection_accepted_while_draining(new):
    """Who was in the queue when the drain began is answered, and told that it was the last."""
    bench, _, _ = new()
    bench.service.is_draining = True
    connection, transport = bench.connect()
    connection.data_received(GET)
    bench.executor.run()
    assert b"Connection: close" in transport.received()


PACKET = b"\x00\x16\x00\x00\x0e\x00REQUEST_METHOD\x04\x00POST"
PING = b"\x64\x00\x00\x00"


def test_a_front_server_is_waited_for(new):
    """A front server's request is on its way when a drain begins: it is served, and a ping answered."""
    for octets, reply in ((PACKET, b"HTTP/1.1 200 OK\r\n"), (PING, b"\x64\x08\x00\x01draining")):
        bench, connection, transport = new(protocol="uwsgi")
        drain(bench, connection)
        late, late_transport = bench.connect()  # the kernel had queued it
        for client, wire in ((connection, transport), (late, late_transport)):
            assert not wire.is_closing()
            client.data_received(octets)
            bench.executor.run()
            assert wire.received().startswith(reply) and wire.is_closing()


def test_a_front_server_is_not_waited_for_long(new):
    """A connection without a request does not keep up the end; without a drain it may be idle."""
    bench, connection, transport = new(protocol="uwsgi")
    seconds(connection, 10)
    assert not transport.is_closing()
    drain(bench, connection)
    seconds(connection, 3)
    assert transport.calls == ["close"]


def test_a_front_server_that_sends_on(new):
    """A front server may send all of its body before it reads our refusal: it is taken, for a while."""
    bench, connection, transport = new(protocol="scgi", max_body_bytes=1)
    connection.data_received(b"42:CONTENT_LENGTH\x0099999999\0SCGI\x001\0PATH_INFO\0\0,")
    assert transport.received().startswith(b"Status: 413 ")
    for _ in range(3):
        connection.data_received(b"x" * (1 << 20))
    assert not transport.is_closing()
    seconds(connection, 3)
    assert transport.is_closing()


def test_a_drain_while_a_worker_writes(new):
    """A drain that meets a worker's last write leaves no idle connection behind."""
    bench, connection, transport = new()
    writing, drained = threading.Event(), threading.Event()
    size = transport.get_write_buffer_size

    def slow():  # asked by the worker, right before it writes
        writing.set()
        drained.wait(0.01)  # the drain gets as far as the worker lets it
        return size()

    transport.get_write_buffer_size = slow
    connection.data_received(GET)
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    assert writing.wait(10)
    drain(bench, connection)
    drained.set()
    worker.join(10)
    bench.executor.run()
    assert len(bodies(transport.received())) == 1
    assert transport.is_closing() or "write_eof" in transport.calls


def test_abort(new):
    """From outside, a connection can be ended at once."""
    bench, connection, transport = new()
    connection.data_received(GET)
    connection.abort()
    assert transport.calls == ["abort"]
    transport.lose()
    bench.executor.run()
    assert bench.service.connections == set()


# connection_lost, at every stage, frees everything


@pytest.fixture
def spools(monkeypatch):
    """The temporary files of request bodies."""
    files, temporary_file = [], tempfile.TemporaryFile

    def remember(**kwargs):
        files.append(temporary_file(**kwargs))
        return files[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", remember)
    return files


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
def test_lost(new, spools, raw, stage):
    """Whatever the stage: no connection, no file, no waiting request is left, and nothing raises."""
    bench, connection, transport = new(body_memory_bytes=2)
    if raw:
        connection.data_received(raw)
    if stage == "answered":
        bench.executor.run_job()
    elif stage == "lingering":
        bench.executor.run()
    elif stage == "closing":
        connection.drain()
    transport.lose(ConnectionResetError() if stage == "answered" else None)
    bench.executor.run()
    assert bench.service.connections == set() and bench.executor.jobs == []
    assert all(file.closed for file in spools)


class Fault(Exception):
    """What a step of the end raises here."""


def raise_fault(*_):
    raise Fault


@pytest.mark.provokes("please report this as a bug")
@pytest.mark.parametrize("step", ["discard", "body", "protocol", "sending", "writing"])
def test_one_step_of_the_end_fails(new, spools, monkeypatch, caplog, step):
    """Whatever raises at the end of a connection, all else is freed, and a worker that waits is woken; the log has it."""
    bench, connection, transport = new(body_memory_bytes=2)
    connection.data_received(POST + POST)
    room = connection._room = threading.Lock()
    room.acquire()
    waiting = connection._waiting[0].body
    if step == "discard":
        bench.service.connections = type("ConnectionLimit", (set,), {"discard": raise_fault})()
    elif step == "body":
        monkeypatch.setattr(type(waiting), "close", raise_fault)
    elif step == "protocol":
        monkeypatch.setattr(type(connection._protocol), "receive_eof", raise_fault)
    elif step == "sending":
        connection.exchange.spool = type("Spool", (), {"close": raise_fault})()
    else:
        connection._on_writable = raise_fault
    transport.lose()
    assert connection._waiting == [] and not room.locked()
    assert step == "discard" or bench.service.connections == set()
    if step != "body":
        assert spools[1].closed
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [Fault]
    monkeypatch.undo()
    connection.exchange.spool = None
    bench.executor.run()
    for file in spools:
        file.close()


def test_lost_while_the_app_reads_a_live_body(new):
    """A reader that waits is woken; the log shows that there was no response."""

    def app(environ, start_response):
        return [environ["wsgi.input"].read()]

    bench, connection, transport = new(app, body="stream")
    bench.service.access_log = bench.log
    connection.data_received(POST_HEAD + b"he")
    worker = threading.Thread(target=bench.executor.run_job, daemon=True)
    worker.start()
    transport.lose()
    worker.join(10)
    assert not worker.is_alive()
    bench.executor.run()
    assert bench.log.codes == [0]


def test_lost_with_a_live_body_waiting(new):
    """So is one whose turn never comes."""
    bench, connection, transport = new(body="stream")
    connection.data_received(GET + POST_HEAD + b"he")
    transport.lose()
    bench.executor.run()
    assert bench.service.connections == set()


def test_lost_while_a_file_is_sent(new, tmp_path):
    """A file that is being sent is closed; until then its progress counts as the client's."""
    path = tmp_path / "file"
    path.write_bytes(bytes(2_000_000))
    file = open(path, "rb")

    def app(environ, start_response):
        start_response("200 OK", [])
        return environ["wsgi.file_wrapper"](file)

    bench, connection, transport = new(app, write_seconds=1)
    connection.data_received(GET)
    bench.executor.run()
    for _ in range(3):
        seconds(connection, 1)
        transport.received()
        bench.loop.turn()
    assert not transport.is_closing()
    transport.lose()
    bench.executor.run()
    assert file.closed and bench.loop.writers == {}


# Replies without the app, and from a front server


class OneExchange:
    """A wire protocol that takes everything for one exchange."""

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
    """Connect a client whose octets are this exchange; return bench, connection, transport."""
    pairs = {"REQUEST_METHOD": "GET", "REQUEST_URI": "/x", "PATH_INFO": "/x", "QUERY_STRING": ""}
    exchange = Exchange("\0".join(text for pair in pairs.items() for text in pair), len(pairs))
    for name, value in attributes.items():
        setattr(exchange, name, value)
    bench, _, _ = new(app)
    bench.service.new_protocol = lambda: OneExchange(exchange)
    return (bench, *bench.connect())


def test_a_ping(new):
    """A health check is answered by the loop itself, which says what there is to say."""
    replies = []

    def ping(warning):
        replies.append(warning)
        return b"pong"

    bench, connection, transport = connect_one(new, ping=ping, is_for_loop=True)
    connection.data_received(b"x")
    assert transport.received() == b"pong" and transport.calls == ["close"] and replies == [""]
    assert bench.executor.jobs == []


def test_a_silent_refusal(new, caplog):
    """A client that speaks no HTTP is not answered in it: the log says why."""
    refusal = RequestRefused(400, "not a packet")
    bench, connection, transport = connect_one(new, refusal=refusal, is_silent=True, is_for_loop=True)
    connection.data_received(b"x")
    assert transport.received() == b"" and transport.calls == ["close"]
    assert "not a packet" in caplog.text and bench.service.name in caplog.text


def test_a_request_from_a_front_server(new):
    """A front server sends nothing behind its request: the connection closes at once."""
    bench, connection, transport = connect_one(new, is_from_front=True, keep_alive=False)
    connection.data_received(b"x")
    bench.executor.run()
    assert bodies(transport.received()) == [b"/x"] and transport.calls == ["close"]


# The access log


def test_the_access_log(new):
    """Each exchange is logged once, by whichever way it ends."""
    bench, connection, transport = new()
    bench.service.access_log = bench.log
    connection.data_received(GET)  # past the loop
    bench.executor.run()
    connection.data_received(POST + POST)  # by the loop
    bench.executor.run()
    connection.data_received(GET_CLOSE)
    bench.executor.run()
    assert bench.log.codes == [200] * 4 and len(bodies(transport.received())) == 4


# Written off


@pytest.mark.parametrize("is_out", [False, True])
def test_an_exchange_is_taken_over(new, is_out):
    """The loop answers in place of a worker that hangs, or cuts what it has begun."""
    seen = []

    def app(environ, start_response):
        seen.append(exchange := connection.exchange)
        write = start_response("200 OK", [])
        if is_out:
            write(b"begun")
        connection.take_over(exchange, why)
        connection.take_over(exchange, why)  # it is the connection's no longer
        with pytest.raises(ClientDisconnected):
            write(b"late")
        return []

    why = RequestRefused(504, "too long")
    bench, connection, transport = new(app)
    bench.service.access_log = bench.log
    connection.data_received(GET)
    bench.executor.run_job()
    octets = transport.received()
    assert transport.calls == ["write_eof", "resume_reading"]
    assert octets.startswith(b"HTTP/1.1 200" if is_out else b"HTTP/1.1 504")
    assert b"late" not in octets
    if not is_out:
        assert b"\r\nConnection: close\r\n" in octets and bench.log.codes == [504]


def test_a_client_without_an_address(new):
    """A TCP client whose address the transport has not learned is cut off: it is no unix socket's peer."""
    bench, *_ = new()
    connection, transport = LoopWire(Connection(bench.service)), FakeTransport(peername=None)
    bench.transports.append(transport)
    with socket.socket() as sock:
        transport.extra["socket"] = sock
        transport.connect(connection)
        connection.data_received(GET)
    assert transport.calls == ["close"] and not bench.executor.jobs


@pytest.mark.skipif(sys.implementation.name == "pypy", reason="PyPy collects everything by tracing")
@pytest.mark.parametrize("is_running", [False, True])
def test_a_lost_connection_is_freed_at_once(new, is_running):
    """Nothing of a connection waits for the garbage collector, whether the app was still running or not."""
    bench, wire, transport = new()
    if is_running:
        wire.data_received(GET)
    connection = weakref.ref(Canary.of(wire.connection))
    transport.lose()
    if is_running:
        bench.executor.run()
    transport.protocol = None  # as event loops do
    gc.disable()
    try:
        del wire
        assert connection() is None
    finally:
        gc.enable()


class Canary:
    """Held by what can have no weak reference."""

    @classmethod
    def of(cls, connection):
        canary = cls()
        connection.base_environ = {"canary": canary}
        return canary


@pytest.mark.parametrize("is_logged", [True, False])
def test_a_body_is_refused_after_its_client_has_gone(new, is_logged):
    """Who refuses it may hear of that later than the event loop: the log has its line, and nothing else is done."""
    bench, wire, transport = new()
    if is_logged:
        bench.service.access_log = bench.log
    wire.data_received(POST_HEAD + b"hello")
    exchange = wire.exchange
    transport.lose()
    wire.refuse(exchange, RequestRefused(413, "too large"))
    assert bench.log.codes == ([413] if is_logged else [])
    assert transport.held == b"" and wire.state == State.CLOSED


# The way back to the fast path


@pytest.fixture
def taken_back(new):
    """taken_back(app) -> a bench whose lane takes connections back, a wire, its transport; and those that it has taken."""

    def make(app=echo):
        bench, wire, transport = new(app)
        taken = []
        bench.service.take_back = lambda connection, fd: taken.append(connection) or True
        return bench, wire, transport, taken

    return make


def test_a_connection_that_idles_goes_back(taken_back):
    """When it has needed nothing else for a while it is the lane's, and its transport closes."""
    bench, wire, transport, taken = taken_back()
    wire.data_received(GET)
    bench.executor.run()
    seconds(wire, int(RETURN_SECONDS))
    assert taken == [] and transport.calls == []
    seconds(wire, 1)
    assert taken == [wire.connection] and wire.state == State.RETURNED and transport.calls == ["close"]
    transport.lose()
    assert wire.state == State.CLOSED


def test_a_connection_that_is_busy_goes_back(taken_back):
    """One that never idles when it is looked at goes after its next exchange."""
    bench, wire, transport, taken = taken_back()
    for number in range(int(RETURN_SECONDS) + 2):
        wire.data_received(get(number))
        seconds(wire, 1)
        bench.executor.run()
    assert taken == [wire.connection] and wire.state == State.RETURNED
    assert bodies(transport.received()) == [b"/%d" % number for number in range(int(RETURN_SECONDS) + 2)]


def test_the_lane_does_not_take_it(taken_back):
    """It stays, and asks again after a while."""
    bench, wire, transport, _ = taken_back()
    asked = []
    bench.service.take_back = lambda connection, fd: asked.append(fd)
    wire.data_received(GET)
    bench.executor.run()
    seconds(wire, 2 * int(RETURN_SECONDS) + 2)
    assert len(asked) == 2 and transport.calls == [] and wire.state == State.IDLE


@pytest.mark.parametrize("kind", ["pipelined", "split", "chunked", "expect", "hints", "pieces"])
def test_what_is_not_plain_stays(taken_back, kind):
    """What the fast path could not have served begins the time anew."""

    def app(environ, start_response):
        if kind == "hints":
            environ["wsgi.early_hints"]([("Link", "</a>")])
        start_response("200 OK", [])
        return iter([b"a", b"b"]) if kind == "pieces" else [b"hello"]

    bench, wire, transport, taken = taken_back(app)
    chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    octets = {"pipelined": [GET * 9], "split": [GET[:5], GET[5:]], "chunked": [chunked], "expect": [EXPECT, b"hello"]}
    for _ in range(3 * int(RETURN_SECONDS)):
        for piece in octets.get(kind, [GET]):
            wire.data_received(piece)
        bench.executor.run()
        transport.received()
        seconds(wire, 1)
    assert taken == [] and transport.calls == []
