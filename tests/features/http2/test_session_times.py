"""Slow clients: each stream has the time limits of a connection of HTTP/1.1, and its end is no other stream's."""

import pytest
from h2.errors import ErrorCodes
from harness.http2 import request
from harness.http2_frames import CONTINUATION, HEADERS, frame, section
from harness.replies import returning

BIG = bytes(1 << 20)


@pytest.fixture
def slow(connect, caplog):
    """Connect with short limits, and an app that answers /big with 1 MiB; the client gives no room by itself."""
    caplog.set_level("INFO")

    def app(environ, start_response):
        start_response("200 OK", [])
        return [BIG] if environ["PATH_INFO"] == "/big" else [environ["wsgi.input"].read()]

    client = connect(app, head_seconds=3, body_seconds=3, write_seconds=3, keep_alive_seconds=60)
    client.gives_room = False
    return client


def is_served(client):
    """Whether another stream of the connection is answered."""
    stream = client.ask(*request(b"HEAD"))
    client.pump()
    return stream in client.ended


@pytest.mark.parametrize("has_stream", [False, True])
def test_a_head_that_does_not_come(slow, has_stream):
    """A connection without a stream has --head-timeout; beside streams, it waits as long as they do."""
    if has_stream:
        slow.ask(*request(b"GET", b"/big"))
    slow.pump()
    slow.session.data_received(frame(HEADERS, 0, 9, section()[:5]))
    for _ in range(3):
        slow.session.data_received(frame(CONTINUATION, 0, 9, b""))
        slow.pass_seconds(1)
    assert not slow.is_closed
    slow.pass_seconds(10)
    slow.pump()
    slow.pass_seconds(62)
    slow.pump()
    assert slow.is_closed and slow.goaways


@pytest.mark.parametrize("octets", [b"", b"x"])
def test_a_body_that_does_not_come(slow, octets):
    """The request is answered with 408 after --body-timeout."""
    stream = slow.ask(*request(b"POST"), data=octets, ends=False)
    slow.pump()
    slow.pass_seconds(3)
    slow.pump()
    assert stream not in slow.heads
    slow.pass_seconds(1)
    slow.pump()
    assert slow.status(stream) == 408 and is_served(slow)
    slow.pass_seconds(3)
    slow.pump()
    assert slow.resets == {stream: ErrorCodes.NO_ERROR} and not slow.goaways


def test_a_body_that_drips(slow):
    """Octet after octet does not buy a body more time: --min-rate."""
    stream = slow.ask(*request(b"POST"), data=b"x", ends=False)
    for _ in range(10):
        slow.pump()
        if stream in slow.heads:
            break
        slow.h2.send_data(stream, b"x")
        slow.pass_seconds(1)
    assert slow.status(stream) == 408 and b"--min-rate" in slow.bodies[stream] and is_served(slow)


def test_a_body_that_moves(slow):
    stream = slow.ask(*request(b"POST"), data=b"x", ends=False)
    for _ in range(20):
        slow.pump()
        slow.h2.send_data(stream, b"x" * 1000)
        slow.pass_seconds(1)
    slow.h2.end_stream(stream)
    slow.pump()
    assert len(slow.bodies[stream]) == 20_001


@pytest.mark.parametrize("window", ["stream", "connection"])
def test_a_window_that_stays_full(slow, window, caplog):
    """The client has --write-timeout to give room."""
    if window == "stream":
        slow.h2.increment_flow_control_window(1 << 20)
    stream = slow.ask(*request(b"GET", b"/big"))
    slow.pump()
    slow.pass_seconds(3)
    slow.pump()
    assert not slow.resets
    slow.pass_seconds(2)
    slow.pump()
    assert slow.resets == {stream: ErrorCodes.INTERNAL_ERROR} and "--write-timeout" in caplog.text
    assert is_served(slow) and not slow.goaways


def test_a_window_that_drips(slow, caplog):
    """Nor does octet after octet keep a response for ever: --min-rate."""
    slow.h2.increment_flow_control_window(1 << 20)
    stream = slow.ask(*request(b"GET", b"/big"))
    for _ in range(10):
        slow.pump()
        if slow.resets:
            break
        slow.h2.increment_flow_control_window(1, stream)
        slow.pump()
        slow.pass_seconds(1)
    assert slow.resets == {stream: ErrorCodes.INTERNAL_ERROR} and "--min-rate" in caplog.text and is_served(slow)


def test_slow_streams_hold_no_thread(connect):
    """Neither late bodies nor unread responses keep a worker from other streams."""
    client = connect(returning([BIG]), max_streams=50)
    client.gives_room = False
    bodies = [client.ask(*request(b"POST"), ends=False) for _ in range(20)]
    readers = [client.ask() for _ in range(20)]
    client.pump()  # the only worker
    assert not client.harness.executor.jobs and is_served(client) and not client.ended & {*bodies, *readers}
