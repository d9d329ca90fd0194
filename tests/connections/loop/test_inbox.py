"""Incoming octets: live bodies (--body stream), read by the app while the client sends; requests not begun. (Pipelining: test_wire_loop.py.)"""

import threading

import pytest
from harness.fakes import FakeAccessLog
from harness.wires import CONTINUE, EXPECT, GET, POST, POST_HEAD, bodies, get, pass_seconds

from aserve.connections.loop.inbox import log_unanswered
from aserve.core.errors import ClientDisconnected, RequestRefused
from aserve.core.exchange import CLIENT_GONE, Exchange


def test_a_live_body_is_read_while_it_comes(new):
    """--body stream: the app runs before the body is there."""
    seen = []

    def app(environ, start_response):
        seen.append(environ["wsgi.input"].read(2))
        start_response("200 OK", [])
        return [environ["wsgi.input"].read()]

    harness, connection, transport = new(app, body="stream")
    connection.data_received(POST_HEAD + b"he")
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    connection.data_received(b"ll")
    connection.data_received(b"o" + GET)
    worker.join(30)
    assert seen == [b"he"]
    harness.executor.flush()
    assert bodies(transport.received()) == [b"llo"]
    assert len(harness.executor.jobs) == 1  # and the next request has its turn


def ignore_body(environ, start_response):
    start_response("200 OK", [])
    return [environ["PATH_INFO"].encode("latin-1")]


def test_a_live_body_that_nobody_reads(new):
    """The rest of a body left by the app is not taken for a request: the connection closes."""
    harness, connection, transport = new(ignore_body, body="stream")
    connection.data_received(POST_HEAD + b"he")
    harness.executor.run()
    assert bodies(transport.received()) == [b"/p"] and "write_eof" in transport.calls
    connection.data_received(b"llo" + GET)
    harness.executor.run()
    assert transport.received() == b""


def test_a_full_live_body_that_nobody_reads(new):
    """Room from the end of the exchange is not taken for the app's wish to read on."""
    harness, connection, transport = new(ignore_body, body="stream", body_memory_bytes=2)
    connection.data_received(POST_HEAD)
    connection.data_received(b"he")
    assert not transport.is_reading()
    harness.executor.run()
    assert bodies(transport.received()) == [b"/p"] and "write_eof" in transport.calls
    assert transport.calls.count("resume_reading") == 1  # to linger


def test_a_live_body_that_came_whole_may_be_left(new):
    """A whole body is no reason to close."""
    harness, connection, transport = new(ignore_body, body="stream")
    connection.data_received(POST + GET)
    harness.executor.run()
    assert bodies(transport.received()) == [b"/p", b"/"] and "write_eof" not in transport.calls


def test_a_live_body_behind_another_request(new):
    """A body still under way belongs to the waiting request, not to the ending one."""
    harness, connection, transport = new(body="stream")
    connection.data_received(get(0) + POST_HEAD + b"he")
    harness.executor.run_job()
    harness.executor.flush()
    assert bodies(transport.received()) == [b"/0"] and "write_eof" not in transport.calls
    connection.data_received(b"llo")
    harness.executor.run()
    assert bodies(transport.received()) == [b"/phello"]


@pytest.mark.parametrize("max_pipelined", [1, 2])
def test_a_live_body_in_one_segment_with_its_head(new, max_pipelined):
    """The body is there for the app, whatever the limit of the pipeline."""
    harness, connection, transport = new(body="stream", max_pipelined=max_pipelined)
    connection.data_received(POST + get(1) + POST)
    harness.executor.run()
    assert bodies(transport.received()) == [b"/phello", b"/1", b"/phello"]


def test_a_full_live_body_pauses_the_client(new):
    """A client faster than the app is paused, and goes on when the app has read."""
    harness, connection, transport = new(body="stream", body_memory_bytes=4)
    connection.data_received(POST_HEAD)
    connection.data_received(b"hell")
    assert not transport.is_reading()
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    while transport.is_reading() is False:
        harness.executor.flush()  # the reader has asked for more than there is room for
    connection.data_received(b"o")
    worker.join(30)
    harness.executor.flush()
    assert bodies(transport.received()) == [b"/phello"]


def test_continue_for_a_live_body(new):
    """The client is told to go on when the app first reads, not before."""
    harness, connection, transport = new(body="stream")
    connection.data_received(EXPECT)
    assert transport.received() == b""
    pass_seconds(connection, 120)  # an unwanted body cannot be late
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    while not harness.executor.posts:
        pass
    harness.executor.flush()
    assert transport.received() == CONTINUE
    connection.data_received(b"hello")
    worker.join(30)
    harness.executor.flush()
    assert bodies(transport.received()) == [b"/phello"]


def test_no_continue_behind_the_head(new):
    """Once the response has begun, an interim response would be part of its body."""

    def app(environ, start_response):
        write = start_response("200 OK", [("Content-Length", "6")])
        write(b"x")
        with pytest.raises(ClientDisconnected):
            environ["wsgi.input"].read()
        return [b"yyyyy"]

    harness, connection, transport = new(app, body="stream")
    connection.data_received(EXPECT)
    worker = threading.Thread(target=harness.executor.run_job, daemon=True)
    worker.start()
    while len(harness.executor.posts) < 2:
        pass
    harness.executor.flush()
    connection.eof_received()
    worker.join(30)
    harness.executor.flush()
    assert bodies(transport.received()) == [b"xyyyyy"]


def test_a_late_wish_for_a_body_that_has_come(new):
    """A client that did not wait gets no 100."""
    harness, connection, transport = new(body="stream")
    connection.data_received(EXPECT)
    connection.data_received(b"hello")
    harness.executor.run()
    assert bodies(transport.received()) == [b"/phello"]


def test_a_wish_for_a_body_whose_client_has_gone(new):
    """No client gets the 100: the transport is closed, and its descriptor may be another's."""
    harness, connection, transport = new(body="stream")
    connection.data_received(EXPECT)
    transport.protocol.connection_lost(None)
    harness.executor.run()
    assert transport.received() == b""


def test_a_fault_within_a_live_body(new):
    """The app meets the fault where it reads; later octets are not parsed, and the connection closes."""
    faults = []

    def app(environ, start_response):
        try:
            environ["wsgi.input"].read()
        except ClientDisconnected as exc:
            faults.append(str(exc))
        start_response("400 Bad", [])
        return [b"bad"]

    harness, connection, transport = new(app, body="stream")
    chunked = POST_HEAD.replace(b"Content-Length: 5", b"Transfer-Encoding: chunked")
    connection.data_received(chunked)
    connection.data_received(b"zz\r\n" + GET)
    connection.data_received(GET)
    harness.executor.run()
    assert len(faults) == 1 and bodies(transport.received()) == [b"bad"]
    assert "write_eof" in transport.calls


def test_what_nobody_has_begun(new):
    """A request of a gone client has a line in the access log; a refusal has its line already, and a ping none."""
    harness, connection, _ = new()
    log = harness.service.ends = FakeAccessLog()
    plain, refused, ping = (Exchange("", 0) for _ in range(3))
    refused.refusal, ping.ping = RequestRefused(400, "no"), lambda warning: b""
    for exchange in (plain, refused, ping):
        log_unanswered(connection.connection, exchange)
    assert (plain.end, log.codes) == (CLIENT_GONE, [0])


@pytest.mark.parametrize(
    ("octets", "seconds", "codes"), [(POST_HEAD, 0, [0]), (GET + POST_HEAD, 0, [0, 200]), (POST_HEAD, 60, [408])]
)
def test_a_client_that_ends_within_a_body_has_a_line(new, octets, seconds, codes):
    """The client sends its FIN alone, or behind a whole request, or after the answer to too slow a body: one line for each request."""
    harness, connection, _ = new(body_seconds=5, min_rate_bytes=0)
    log = harness.service.ends = FakeAccessLog()
    connection.data_received(octets)
    pass_seconds(connection, seconds)
    connection.eof_received()
    harness.executor.run()
    connection.connection_lost(None)
    assert log.codes == codes
