"""A stream is a transport: heads and octets wait until taken, and pause the wire above.

Beside this file: streams that are WebSockets (test_stream_websockets.py).
"""

import types

import pytest

from aserve.connections.listeners import limit_unsent
from aserve.connections.loop.outbox import queued_bytes
from aserve.features.http2.states import State
from aserve.features.http2.stream import HIGH_BYTES, StreamTransport

HEAD = b"HTTP/1.1 200 OK\r\nX: y\r\n\r\n"
LENGTH = HEAD[:-2] + b"Content-Length: 5\r\n\r\n"


class FakeWire:
    """Remembers its calls."""

    def __init__(self):
        self.calls, self.changes = [], []

    def data_received(self, data):
        self.calls.append(data)

    def pause_writing(self):
        self.calls.append("pause")

    def resume_writing(self):
        self.calls.append("resume")

    def connection_lost(self, exc):
        self.calls.append("lost")


@pytest.fixture
def stream():
    """A stream whose wire also remembers its reported changes."""
    wire = FakeWire()
    return StreamTransport(
        1, wire, types.SimpleNamespace(is_ended=False, asks_websocket=False), lambda name, default: (name, default), wire.changes.append
    )  # fmt: skip


def test_head_and_body(stream):
    """A head is taken whole, whatever comes with it; interim heads come first."""
    stream.write(b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n")
    stream.write(memoryview(HEAD + b"ab"))
    stream.write(b"cd")
    assert stream.heads == [(False, b"HTTP/1.1 103 Early Hints\r\nLink: a"), (True, HEAD[:-4])]
    assert stream.take(3) == b"abc" and stream.take(3) == b"d" and len(stream.wire.changes) == 3


def test_a_head_in_parts(stream):
    """A head is complete with its empty line."""
    for octet in HEAD:
        assert stream.heads == []
        stream.write(bytes([octet]))
    stream.write(HEAD)  # this is a body
    assert stream.heads == [(True, HEAD[:-4])] and stream.take(100) == HEAD


def test_back_pressure_pauses_the_wire(stream):
    """The wire is paused over the limit, and goes on when all is taken."""
    stream.write(HEAD + b"x" * (HIGH_BYTES + 1))
    assert stream.wire.calls == ["pause"] and stream.get_write_buffer_size() == HIGH_BYTES + 1
    stream.take(10)
    stream.on_sent()
    assert stream.wire.calls == ["pause"]
    stream.take(HIGH_BYTES - 10)
    stream.on_sent()
    assert stream.wire.calls == ["pause"]
    stream.take(1)
    stream.on_sent()
    assert stream.wire.calls == ["pause", "resume"]


def test_a_large_object_is_not_copied(stream):
    """The caller has counted the object, and no copy; later octets keep the order."""
    stream.write(HEAD)
    body = bytes(range(256)) * 256
    stream.write(body)
    assert stream.pending.obj is body
    assert stream.take(1000) == body[:1000] and stream.pending.obj is body
    stream.write(b"end")
    assert stream.take(len(body)) == body[1000:] + b"end"
    stream.write(body)
    assert stream.take(len(body)) == body and type(stream.pending) is bytearray  # and nothing keeps the object


def test_limits_take_effect_at_once(stream):
    """A lower limit pauses at once; the default comes back."""
    stream.write(HEAD + b"x")
    stream.set_write_buffer_limits(high=0)
    assert stream.wire.calls == ["pause"]
    stream.set_write_buffer_limits()
    stream.take(1)
    stream.on_sent()
    stream.write(b"x" * 10)
    assert stream.wire.calls == ["pause", "resume"]
    stream.set_write_buffer_limits(high=10, low=2)
    assert stream.wire.calls == ["pause", "resume"]


def test_reading_goes_on_while_paused(stream):
    """Octets are passed on, also while paused: the client has no room for more than its window."""
    assert stream.is_reading()
    stream.pause_reading()
    stream.receive(b"a", is_last=False)
    assert not stream.is_reading() and not stream.request.is_ended and not stream.wire.changes
    stream.resume_reading()
    stream.resume_reading()
    assert stream.is_reading() and stream.wire.changes == [stream]
    stream.receive(b"b", is_last=True)
    assert stream.wire.calls == [b"a", b"b"] and stream.request.is_ended


@pytest.mark.parametrize(
    ("octets", "has_no_body", "is_cut"),
    [
        (HEAD + b"x", False, False),
        (LENGTH + b"12345", False, False),
        (LENGTH + b"1234", False, True),
        (b"HTTP/1.1 100 Continue\r\n\r\n", False, True),
        (LENGTH, True, False),
        (LENGTH.replace(b"200", b"304"), False, False),
    ],
)
def test_a_close_sends_the_rest(stream, octets, has_no_body, is_cut):
    """The rest is still sent; but the end of a short response may not look like its end."""
    stream.has_no_body = has_no_body
    stream.write(octets)
    assert stream.state < State.ENDED and not stream.is_closing()
    stream.close()
    stream.close()
    stream.write(b"late")
    assert (stream.state is State.CUT) == is_cut and stream.is_closing() and stream.is_sendable
    assert octets.endswith(stream.take(100)) and len(stream.wire.changes) == 2


def test_an_abort_drops_pending_octets(stream):
    stream.write(HEAD + b"x")
    stream.abort()
    assert stream.state is State.CUT and not stream.pending and stream.is_closing()
    stream.lose()
    stream.lose()
    stream.abort()
    assert stream.wire.calls == ["lost"] and len(stream.wire.changes) == 2


def test_extra_info_is_the_connections(stream):
    """The client's address is the connection's; options of its socket are not one stream's to set."""
    assert stream.get_extra_info("peername") == ("peername", None)
    limit_unsent(stream.get_extra_info("socket"), 1000)
    stream.get_extra_info("socket").setsockopt(1, 2, 3)
    assert queued_bytes(stream.get_extra_info("socket").fileno()) == 0
    assert not stream.can_write_eof()
