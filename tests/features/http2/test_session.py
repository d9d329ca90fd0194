"""One connection of HTTP/2: requests on streams, and their responses.

Beside this file: floods and the end of the connection (test_session_ends.py).
"""

import threading

import h2.settings
import pytest
from h2.errors import ErrorCodes
from harness.http2 import request
from harness.http2_frames import PRIORITY_UPDATE, frame
from harness.replies import Chunks, returning
from harness.slow_clients import go_on
from hyperframe.frame import RstStreamFrame

from aserve._cparsers import lib
from aserve.connections.loop.response_memory import STREAM_BYTES
from aserve.core.exchange import CLIENT_GONE
from aserve.protocols.http2 import INTERNAL_ERROR, STREAM_WINDOW

WITHOUT_AUTHORITY = [field for field in request() if field[0] != b":authority"]
BIG = bytes(range(256)) * 2048  # octets: more than a window, and than the transport holds


def test_a_request_gets_its_response_on_its_stream(connect):
    """A stream has a request and a response, in the fields of HTTP/2."""
    client = connect()
    first, second = client.ask(*request(b"GET", b"/one")), client.ask(*request(b"GET", b"/two"))
    client.pump()
    assert client.bodies == {first: b"/one", second: b"/two"} and client.ended == {first, second}
    head = client.heads[first]
    assert head[b":status"] == b"200" and head[b"content-length"] == b"4" and head[b"server"] == b"s"
    assert b"connection" not in head and b"transfer-encoding" not in head and not client.resets
    assert not client.session.has_streams and not client.harness.service.connections - {client.session}


def test_streams_do_not_wait_for_one_another(connect):
    """Each stream is a separate job, in any order."""
    client = connect()
    streams = [client.ask(*request(b"GET", b"/%d" % number)) for number in range(3)]
    client.pump(runs=False)
    jobs = client.harness.executor.jobs
    assert len(jobs) == 3 and client.session.has_streams
    jobs.reverse()
    client.harness.executor.run_job()
    client.harness.executor.flush()
    client.pump(runs=False)
    assert client.ended == {streams[2]}
    client.pump()
    assert client.ended == set(streams)


def test_the_environ_has_client_and_protocol(connect):
    seen = {}

    def app(environ, start_response):
        seen.update(environ)
        start_response("200 OK", [])
        return [b""]

    client = connect(app)
    client.ask(*request(b"GET", b"/", (b"cookie", b"a"), (b"cookie", b"b")))
    client.pump()
    assert (seen["SERVER_PROTOCOL"], seen["REMOTE_ADDR"], seen["REMOTE_PORT"]) == ("HTTP/2.0", "203.0.113.7", "4711")
    assert seen["HTTP_COOKIE"] == "a; b"


@pytest.mark.parametrize(
    ("method", "status"), [(b"HEAD", "200 OK"), (b"GET", "304 Not Modified"), (b"GET", "204 No Content")]
)
def test_without_a_body(connect, method, status):
    """The stream ends with the head."""
    client = connect(
        lambda environ, start: start(status, [("Content-Length", "5")] if method == b"HEAD" else []) and [b""]
    )
    stream = client.ask(*request(method))
    client.pump()
    assert client.status(stream) == int(status[:3]) and client.ended == {stream} and not client.bodies


def test_early_hints_come_before_the_head(connect):
    def app(environ, start_response):
        environ["wsgi.early_hints"]([("Link", "</a>")])
        start_response("200 OK", [])
        return [b"x"]

    client = connect(app)
    stream = client.ask()
    client.pump()
    assert client.hints == [{b":status": b"103", b"link": b"</a>"}] and client.bodies[stream] == b"x"


def test_continue_goes_to_a_waiting_client(connect):
    client = connect()
    stream = client.ask(*request(b"POST", b"/", (b"expect", b"100-continue")), ends=False)
    client.pump()
    assert client.hints == [{b":status": b"100"}]
    client.h2.send_data(stream, b"hello", end_stream=True)
    client.pump()
    assert client.bodies[stream] == b"/hello"


# Bodies


def upload(client, stream, octets):
    """Send a body as the windows allow."""
    while octets:
        room = min(client.h2.local_flow_control_window(stream), client.h2.max_outbound_frame_size)
        assert room, "the server gives no room"
        client.h2.send_data(stream, octets[:room], end_stream=len(octets) <= room)
        octets = octets[room:]
        if client.h2.local_flow_control_window(stream) < 1 << 14:
            client.pump()


def test_large_bodies_refill_the_windows(connect):
    """Windows are filled again during a body, in both directions."""
    client = connect(body_memory_bytes=1000)
    stream = client.ask(*request(b"POST", b"/", (b"content-length", b"%d" % (4 * len(BIG)))), ends=False)
    client.pump()
    assert client.h2.local_flow_control_window(stream) == STREAM_WINDOW
    upload(client, stream, 4 * BIG)
    client.pump()
    assert client.bodies[stream] == b"/" + 4 * BIG and client.ended == {stream}


def test_trailers_end_the_body(connect):
    client = connect()
    stream = client.ask(*request(b"POST"), data=b"hello", ends=False)
    client.h2.send_headers(stream, [(b"x-sum", b"1")], end_stream=True)
    client.pump()
    assert client.bodies[stream] == b"/hello"


@pytest.mark.parametrize("is_answered", [False, True])
def test_trailers_that_are_none(connect, is_answered):
    """The stream is reset, unless the response is sent: then the fields end the body as trailers do."""
    client = connect(max_body_bytes=1 if is_answered else 10)
    stream = client.ask(*request(b"POST"), data=b"hello", ends=False)
    client.pump()
    client.h2.send_headers(stream, [(b"connection", b"1")], end_stream=True)
    client.pump()
    assert client.resets == ({} if is_answered else {stream: ErrorCodes.PROTOCOL_ERROR})
    assert not client.session._frames.open_count


def test_a_slow_reader(connect):
    """Octets without room wait, and the next streams go on."""
    client = connect(
        lambda environ, start: start("200 OK", []) and [BIG[: 1 << 17] if environ["PATH_INFO"] == "/big" else b"x"]
    )
    client.gives_room = False
    client.h2.increment_flow_control_window(1 << 20)
    client.pump()
    big, small = client.ask(*request(b"GET", b"/big")), client.ask()
    client.pump()
    assert client.ended == {small} and len(client.bodies[big]) == (1 << 16) - 1
    client.h2.increment_flow_control_window(1 << 20, big)
    client.pump()
    assert client.bodies[big] == BIG[: 1 << 17] and big in client.ended


def test_a_slow_reader_of_all(connect):
    """The window of the connection is one for all streams; a larger window lets all go on."""
    client = connect(returning([b"x" * 60_000]))
    client.gives_room = False
    streams = {client.ask() for _ in range(3)}
    client.pump()
    assert sum(map(len, client.bodies.values())) == (1 << 16) - 1 and not client.ended
    client.h2.increment_flow_control_window(1 << 20)
    client.pump()
    assert client.ended == streams and {len(body) for body in client.bodies.values()} == {60_000}


def test_a_larger_window_by_settings(connect):
    """RFC 9113 6.9.2: the new window is for open streams, too."""
    client = connect(returning([BIG[: 1 << 17]]))
    client.gives_room = False
    client.h2.increment_flow_control_window(1 << 20)
    stream = client.ask()
    client.pump()
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
    client.pump()
    assert client.bodies[stream] == BIG[: 1 << 17]


@pytest.mark.parametrize("count", [1, 20])
def test_a_transport_that_is_full(connect, count):
    """No more frames are made than the transport takes."""
    client = connect(returning([BIG]))
    client.gives_room = False
    client.h2.increment_flow_control_window(1 << 27)
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 22})
    client.pump()
    client.transport.is_stuck = True
    streams = [client.ask() for _ in range(count)]
    client.pump()
    assert not client.bodies and client.transport.get_write_buffer_size() < 1 << 18
    client.transport.unstick()
    client.pump()
    assert client.bodies == dict.fromkeys(streams, BIG)


def test_a_stream_that_is_cut_while_the_transport_is_full(connect):
    """The stream ends at once, and the thread is free; the client learns of the cut on the next read."""
    client = connect(returning([BIG]))
    client.h2.increment_flow_control_window(1 << 27)
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 22})
    client.pump()
    client.transport.is_stuck = True
    stream = client.ask()
    client.pump()
    client.session._streams[stream].abort()
    client.pump()
    assert not client.session.has_streams and not client.resets
    client.transport.unstick()
    client.pump()
    assert client.resets == {stream: ErrorCodes.INTERNAL_ERROR}


def test_a_live_body_that_is_not_read(connect):
    """The client has room for a window, and for more once the app reads."""
    client = connect(body="stream", body_memory_bytes=1 << 16)
    stream = client.ask(*request(b"POST"), ends=False)
    client.pump(runs=False)
    while client.h2.local_flow_control_window(stream):
        room = min(client.h2.local_flow_control_window(stream), client.h2.max_outbound_frame_size)
        client.h2.send_data(stream, bytes(room))
        client.pump(runs=False)
    ((_, exchange),) = client.harness.executor.jobs
    assert len(exchange.body.read(STREAM_WINDOW - 10)) == STREAM_WINDOW - 10
    client.harness.executor.flush()
    client.pump(runs=False)
    assert client.h2.local_flow_control_window(stream) == STREAM_WINDOW
    client.h2.end_stream(stream)
    client.pump()
    assert client.bodies[stream] == b"/" + bytes(10)


def test_many_uploads_refill_the_connections_window(connect):
    """The window of the connection fills again, whatever streams do."""
    client = connect()
    for _ in range(8):
        stream = client.ask(*request(b"POST"), ends=False)
        upload(client, stream, bytes(STREAM_WINDOW - 100))
        client.pump()
    assert client.h2.outbound_flow_control_window > lib.H2_CONNECTION_WINDOW // 2


def test_an_answer_before_the_body(connect):
    """RFC 9113 8.1: the rest of the body is not wanted; the next streams go on."""
    client = connect(max_body_bytes=10)
    stream = client.ask(*request(b"POST", b"/", (b"content-length", b"100")), ends=False)
    client.pump()
    assert client.status(stream) == 413 and client.ended == {stream} and not client.resets
    client.pass_seconds(3)
    client.pump()
    assert client.resets == {stream: ErrorCodes.NO_ERROR}
    other = client.ask()
    client.pump()
    assert client.bodies[other] == b"/"


# Refusals


def test_a_malformed_request_resets_its_stream(connect, caplog):
    caplog.set_level("INFO")
    client = connect()
    client.harness.service.ends = client.harness.log
    bad, good = client.ask(*request(b"GET", b"/", (b"connection", b"close"))), client.ask()
    client.pump()
    assert client.resets == {bad: ErrorCodes.PROTOCOL_ERROR} and client.bodies[good] == b"/"
    assert "203.0.113.7: stream reset: the field connection" in caplog.text
    assert client.harness.log.codes == [400, 200]


def test_malformed_without_a_log(connect):
    """There may be no reader of ends."""
    client = connect()
    bad = client.ask(*request(b"GET", b"/", (b"A", b"b")))
    client.pump()
    assert client.resets == {bad: ErrorCodes.PROTOCOL_ERROR}


@pytest.mark.parametrize(
    ("fields", "status"), [(request(b"GET", b"/%"), 400), (WITHOUT_AUTHORITY, 400), (request(b"CONNECT"), 501)]
)
def test_a_refused_request_is_answered(connect, fields, status):
    """A request against the rules of HTTP is answered, as over HTTP/1.1; the connection stays."""
    client = connect()
    bad, good = client.ask(*fields), client.ask()
    client.pump()
    assert client.status(bad) == status and client.ended == {bad, good}
    assert b"connection" not in client.heads[bad] and client.status(good) == 200


def test_too_many_connections(connect):
    """A stream counts as one; the client may ask again."""
    client = connect()
    client.harness.service.connections.max_count = 2
    streams = [client.ask() for _ in range(2)]
    client.pump()
    assert client.ended == {streams[0]} and client.resets == {streams[1]: ErrorCodes.REFUSED_STREAM}


def test_frames_behind_a_request_that_is_refused(connect):
    """The frames may have come with the request, and change nothing."""
    client = connect()
    client.harness.service.connections.max_count = 1
    client.ask(*request(b"POST"), ends=False)  # has the place of the connection
    client.ask(*request(b"POST"), data=b"x", ends=False)
    client.h2.increment_flow_control_window(1, 3)
    client.session.data_received(client.h2.data_to_send() + frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\3u=1"))
    client.pump()
    assert (
        client.resets == {3: ErrorCodes.REFUSED_STREAM} and not client.goaways and list(client.session._streams) == [1]
    )


# The ends of a response


def test_a_client_that_leaves(connect):
    """The app learns of the leave on the next write; the access log, too."""
    chunks = Chunks(b"x" * 100_000, b"y" * 100_000)
    client = connect(returning(chunks))
    stream = client.ask()
    client.pump(runs=False)
    ((_, exchange),) = client.harness.executor.jobs
    client.h2.reset_stream(stream)
    client.pump(runs=False)
    assert not client.session.has_streams
    client.pump()
    assert exchange.end == CLIENT_GONE and chunks.closed == 1 and not client.harness.service.lost
    other = client.ask()
    client.pump()
    assert other in client.ended


def test_a_reset_of_an_unknown_stream(connect):
    """A finished response has no stream any more."""
    client = connect(max_body_bytes=10)
    stream = client.ask(*request(b"POST", b"/", (b"content-length", b"100")), ends=False)
    client.session.data_received(client.h2.data_to_send())
    client.harness.loop.turn()
    client.h2.reset_stream(stream)
    client.pump()
    assert not client.session.has_streams and not client.goaways


@pytest.mark.provokes("raised")
@pytest.mark.parametrize("headers", [[], [("Content-Length", "10")]])
def test_a_cut_response(connect, headers):
    """A cut response is reset, so as never to look whole; the next streams go on."""
    client = connect(returning(Chunks(b"abc", error=ZeroDivisionError()), headers))
    stream = client.ask()
    client.pump()
    assert client.resets == {stream: ErrorCodes.INTERNAL_ERROR} and stream not in client.ended
    assert not client.goaways


@pytest.mark.parametrize("status", ["100 Continue", "101 Switching Protocols"])
def test_a_response_that_is_none(connect, status):
    """An app with an interim status as answer gives no response: the client gets a 500, and is not kept waiting."""
    client = connect(lambda environ, start: start(status, []) and [b"HTTP/1.1 200 OK\r\n\r\n"])
    stream = client.ask()
    client.pump()
    assert client.ended == {stream} and client.status(stream) == 500 and not client.goaways


@pytest.mark.parametrize("end", ["data", "trailers", "reset"])
def test_the_rest_of_a_body_that_is_answered(connect, end):
    """The rest is dropped, and the end is the stream's; so a drain need not wait longer."""
    client = connect(max_body_bytes=10)
    stream = client.ask(*request(b"POST", b"/", (b"content-length", b"100")), ends=False)
    client.pump()
    client.session.drain()
    client.pump()
    assert client.goaways and not client.is_closed
    client.h2.increment_flow_control_window(100, stream)
    client.h2.send_data(stream, bytes(100 if end != "reset" else 1), end_stream=end == "data")
    if end == "trailers":
        client.h2.send_headers(stream, [(b"a", b"b")], end_stream=True)
    elif end == "reset":
        client.h2.reset_stream(stream)
    client.pump()
    assert client.is_closed and not client.resets


def test_a_stream_that_is_left(connect):
    """The stream's wire may still call the stream."""
    client = connect()
    client.h2.reset_stream(client.ask())
    client.session.data_received(client.h2.data_to_send()[:-13])
    (stream,) = client.session._streams.values()
    client.session.data_received(RstStreamFrame(stream.stream_id).serialize())
    stream.pause_reading()
    stream.resume_reading()
    client.pump()
    assert not client.session.has_streams and not client.heads


def test_a_frame_that_cannot_be_sent(connect):
    """A stream closed for bad frames is left."""
    client = connect()
    client.ask()
    client.pump(runs=False)
    (stream,) = client.session._streams.values()
    client.session._frames.reset(stream.stream_id, INTERNAL_ERROR)
    client.pump()
    assert not client.session.has_streams and not client.goaways


def test_a_stream_is_trusted_like_its_connection(connect):
    client = connect()
    client.harness.service.identify = lambda connection, transport: None
    client.session.connection.is_believed = True
    client.ask()
    client.pump(runs=False)
    (stream,) = client.session._streams.values()
    assert stream.wire.connection.is_believed


@pytest.mark.parametrize("pieces", [1, 30])
@pytest.mark.parametrize("room", [60_000, 0])
def test_what_a_client_does_not_take(connect, pieces, room):
    """An unread response counts in --response-memory, whole or in pieces; without room there, all but some kilobytes waits in a file, and comes
    whole.
    """
    body = bytes(range(200)) * 300
    size = len(body) // pieces
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    client = connect(returning(chunks if pieces == 1 else iter(chunks), []), response_memory_bytes=room + 200)
    memory, executor = client.harness.service.budgets.memory, client.harness.executor
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    stream_id = client.ask()
    client.pump(runs=False)
    (wire,) = client.harness.service.connections - {client.session}
    exchange = wire.exchange
    worker = threading.Thread(target=executor.run_job, daemon=True)
    worker.start()
    go_on(client.harness, worker)
    client.pump()
    assert not client.bodies[stream_id]
    assert memory.count > 50_000 if room else memory.count <= 200
    assert (exchange.spool is None) == bool(room)
    assert wire.unsent_bytes <= max(room, 3 * STREAM_BYTES) + 200
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 1 << 20})
    client.pump()
    assert client.bodies[stream_id] == body and client.ended == {stream_id} and memory.count == 0
