"""The end of a connection of HTTP/2: idleness, a drain, floods, and rule-breaking clients."""

import pytest
from h2.errors import ErrorCodes
from harness.http2 import Client, request
from harness.replies import returning
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from aserve._cparsers import lib
from aserve.connections.connection import Connection
from aserve.features.http2.session import MAX_UNREAD_BYTES, Session
from aserve.protocols.http2 import LAST_STREAM, STREAM_WINDOW

BURST = lib.H2_BURST
DEFAULT_WINDOW = (1 << 16) - 1  # RFC 9113 6.9.2


def frames(frame, count=BURST + 1):
    return frame.serialize() * count


# Idleness


@pytest.mark.parametrize(("asks", "seconds"), [(True, 5), (False, 3)])
def test_an_idle_connection_is_closed(connect, asks, seconds):
    """A long idle connection is closed, and names the last served request."""
    client = connect(keep_alive_seconds=5, head_seconds=3)
    stream = client.ask() if asks else 0
    client.pump()
    client.pass_seconds(seconds)
    assert not client.is_closed and client.session.idle_seconds == (seconds if asks else 0)
    client.pass_seconds(1)
    client.pump()
    assert client.goaways == [(stream, ErrorCodes.NO_ERROR)] and client.is_closed
    assert client.session.idle_seconds == 0  # at the limit of connections, a connection able to make room is closed


def test_a_running_request_is_not_idle(connect):
    """While a request runs, the client need not send anything."""
    client = connect(keep_alive_seconds=5)
    client.ask()
    client.pump(runs=False)
    client.pass_seconds(20)
    assert not client.is_closed and client.session.idle_seconds == 0


def test_a_connection_without_memory_for_its_frames(connect):
    """The client waits for an answer, and sends nothing: a second later the client sees the end."""
    client = connect()
    client.ask()
    client.pump(runs=False)
    client.session.state.state, client.session.state.is_failure_due = lib.H2_OVER, 1
    client.pass_seconds(1)
    assert client.is_closed and not client.session.has_streams


# A drain


def test_a_drain_finishes_streams_in_flight(connect):
    """Streams in flight finish, and a late stream too; then the connection ends."""
    client = connect()
    first = client.ask()
    client.pump(runs=False)
    client.session.drain()
    client.session.drain()
    client.pump(runs=False)
    assert client.goaways == [(LAST_STREAM, ErrorCodes.NO_ERROR)]
    client.pass_seconds(1)  # an instant is over
    second = client.ask()  # on the way when the GOAWAY came
    client.pump(runs=False)
    client.pass_seconds(1)
    client.pump(runs=False)
    assert client.goaways[1:] == [(second, ErrorCodes.NO_ERROR)] and not client.is_closed
    third = client.ask()
    client.pump()
    assert client.ended == {first, second} and third not in client.heads
    assert client.is_closed and len(client.goaways) == 2


def test_a_client_that_comes_while_the_server_drains(connect):
    """The client has a moment for first requests, and learns of the end."""
    client = connect(is_draining=True)
    stream = client.ask()
    client.pump()
    assert client.status(stream) == 200
    assert client.goaways == [(LAST_STREAM, ErrorCodes.NO_ERROR)]
    client.pass_seconds(2)
    client.pump()
    assert client.goaways[1:] == [(stream, ErrorCodes.NO_ERROR)] and client.is_closed


@pytest.mark.parametrize("is_replaced", [True, False])
def test_drain_of_an_idle_connection(connect, is_replaced):
    """An idle connection ends at once; a moment later if another process goes on, as a request may be on its way."""
    client = connect()
    client.harness.service.is_replaced = is_replaced
    client.session.drain()
    assert client.is_closed != is_replaced
    client.pass_seconds(2)
    client.pump()
    assert client.is_closed and len(client.goaways) == 1 + is_replaced


# A limit of the connection


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_connection_that_is_spent(connect, is_answered):
    """Behind the last response the client is asked for no more; requests on their way are served, and running ones finish."""
    client = connect()
    client.ask()
    client.pump(runs=False)
    client.session.connection.is_spent = True  # as features/turnover.py does in a worker
    last = client.ask(*request(b"POST"), ends=False)
    client.pump(runs=is_answered)
    if not is_answered:
        client.pass_seconds(1)
        client.pump(runs=False)
    assert client.goaways == [(LAST_STREAM, ErrorCodes.NO_ERROR)]
    client.pass_seconds(2)
    client.h2.end_stream(last)
    client.pump()
    assert client.goaways[1:] == [(last, ErrorCodes.NO_ERROR)] and len(client.ended) == 2
    assert client.is_closed


# The client's end


def test_a_client_that_will_ask_no_more(connect):
    """The client's GOAWAY ends no stream."""
    client = connect()
    stream = client.ask()
    client.pump(runs=False)
    client.session.data_received(GoAwayFrame(0).serialize())
    client.pump()
    assert client.ended == {stream} and client.is_closed


def test_frames_behind_the_end_change_nothing(connect):
    """A client behind the GOAWAY has no stream: the connection ends, whatever came with the GOAWAY."""
    client = connect()
    client.session.data_received(GoAwayFrame(0).serialize() + SettingsFrame(0).serialize())
    client.pump()
    assert client.is_closed and len(client.goaways) == 1


def test_frames_behind_a_goaway(connect):
    """Such frames count as before, in whatever pieces, and nothing still to be sent is lost."""
    client = connect()
    stream = client.ask(*request(b"POST"), ends=False)
    client.pump()
    behind = PingFrame(0, b"12345678").serialize() + DataFrame(stream, b"abc", flags=["END_STREAM"]).serialize()
    client.session.data_received(PingFrame(0, b"abcdefgh").serialize() + GoAwayFrame(0).serialize() + behind)
    client.pump()
    assert (
        client.ended == {stream}
        and client.bodies[stream].endswith(b"abc")
        and client.pongs == [b"abcdefgh", b"12345678"]
    )
    assert client.goaways == [(stream, ErrorCodes.NO_ERROR)]


def test_end_of_input(connect):
    """Whole requests are answered, partial ones are lost."""
    client = connect()
    whole, half = client.ask(), client.ask(*request(b"POST"), ends=False)
    client.pump(runs=False)
    assert client.session.eof_received()
    client.pump()
    assert client.ended == {whole} and half not in client.heads and client.is_closed


@pytest.mark.parametrize("is_early", [True, False])
def test_end_of_input_of_a_slow_reader(connect, is_early):
    """A response waiting for a window is lost, since no update can come: no connection stays open."""
    client = connect(returning([bytes(1_000_000)]))
    client.gives_room = False
    stream = client.ask()
    client.pump(runs=not is_early)
    assert client.session.eof_received()
    client.pump()
    assert len(client.bodies[stream]) == DEFAULT_WINDOW and stream not in client.ended
    assert not client.session.has_streams and client.is_closed


def test_end_of_input_behind_an_early_response(connect):
    """No more of the request can come: the connection need not wait."""
    client = connect(max_body_bytes=1)
    client.ask(*request(b"POST"), data=b"too large", ends=False)
    client.pump()
    assert client.session.eof_received() and client.is_closed


def test_a_lost_connection(connect):
    """All requests lose their client."""
    client = connect()
    client.ask()
    client.pump(runs=False)
    client.session.connection_lost(None)
    assert not client.session.has_streams and client.session not in client.harness.service.connections
    client.session.resume_writing()
    client.harness.executor.run()
    assert not client.harness.service.connections and not client.harness.service.lost


def test_a_client_that_has_left_before(connect, monkeypatch):
    """There is nobody to serve."""
    client = connect()
    monkeypatch.setattr(Connection, "identify", lambda connection, transport: False)
    _, transport = client.harness.connect(Session(Connection(client.harness.service), 100))
    assert transport.calls == ["abort"] and transport.received() == b""


def test_an_abort_ends_at_once(connect):
    client = connect()
    client.session.abort()
    assert client.transport.calls == ["abort"]


# Faults and floods


def test_broken_rules_get_a_goaway(connect, caplog):
    """A rule-breaking client gets a GOAWAY; all further requests are lost."""
    caplog.set_level("INFO")
    client = connect()
    client.ask()
    client.pump(runs=False)
    client.session.data_received(DataFrame(99, b"x").serialize())
    client.pump()
    assert client.goaways[0][1] == ErrorCodes.PROTOCOL_ERROR and not client.session.has_streams
    assert "203.0.113.7: connection closed: the client broke HTTP/2" in caplog.text


@pytest.mark.parametrize(
    "flood",
    [
        frames(PingFrame(0, b"12345678")), frames(SettingsFrame(0)), frames(PriorityFrame(1, depends_on=3, stream_weight=1)),
        frames(WindowUpdateFrame(0, 1)), b"\0\0\0\x20\0\0\0\0\x01" * (BURST + 1),
    ],
    ids=["ping", "settings", "priority", "window", "unknown"],
)  # fmt: skip
def test_floods_of_useless_frames_are_counted(connect, flood):
    client = connect()
    client.session.data_received(flood)
    client.pump()
    assert client.is_closed and client.goaways == [(0, ErrorCodes.ENHANCE_YOUR_CALM)]


@pytest.mark.parametrize("count", range(BURST - 4, BURST + 1))
def test_a_flood_that_ends_with_a_fault(connect, count):
    """The client gets one GOAWAY, whichever fault is seen: nothing is written behind the FIN."""
    client = connect()
    malformed = b"\0\0\0\x10\0\0\0\0\0"  # a PRIORITY_UPDATE of nothing
    client.session.data_received(frames(PingFrame(0, b"12345678"), count) + malformed)
    client.pump()
    assert client.is_closed and len(client.goaways) == 1


def test_a_drain_behind_the_end(connect):
    """A client with broken rules just before a reload does not keep further connections from the end: nothing is written to the client any more."""
    client = connect()
    client.session.data_received(DataFrame(99, b"x").serialize())
    client.harness.service.is_replaced = True
    client.session.drain()
    client.pump()
    assert client.is_closed and len(client.goaways) == 1


def test_updates_for_what_is_sent_are_no_flood(connect):
    """A client may give room in small portions."""
    client = connect(returning([b"x" * 60_000]))
    client.gives_room = False
    client.h2.increment_flow_control_window(1 << 26)
    for _ in range(100):
        client.ask()
        client.pump()
        client.session.data_received(frames(WindowUpdateFrame(0, 1000), 60))
    assert len(client.ended) == 100 and not client.goaways


def test_a_flood_of_empty_data(connect):
    client = connect()
    stream = client.ask(*request(b"POST"), ends=False)
    client.pump()
    client.session.data_received(frames(DataFrame(stream)))
    client.pump()
    assert client.goaways == [(stream, ErrorCodes.ENHANCE_YOUR_CALM)] and not client.session.has_streams


def test_a_flood_of_resets(connect: Client):
    """A client asking without a wait is stopped, however the requests end."""
    client = connect(returning([b"x"]))
    for _ in range(BURST + 1):
        client.h2.reset_stream(client.ask())
        client.session.data_received(client.h2.data_to_send())
        client.harness.executor.run()
    client.pump()
    assert client.goaways[-1][1] == ErrorCodes.ENHANCE_YOUR_CALM and client.is_closed


def test_few_frames_are_no_flood(connect):
    """Pings and resets are allowed."""
    client = connect()
    client.session.data_received(frames(PingFrame(0, b"12345678"), 100))
    client.h2.reset_stream(client.ask())
    client.pump()
    client.session.data_received(RstStreamFrame(1).serialize())
    stream = client.ask()
    client.pump()
    assert client.ended == {stream}


def test_a_flood_of_continuations(connect):
    """A head without an end is none."""
    client = connect()
    client.session.data_received(b"\0\0\0\x01\0\0\0\0\x01" + b"\0\0\0\x09\0\0\0\0\x01" * 100)
    client.pump()
    assert client.is_closed and client.goaways


@pytest.mark.parametrize(("count", "status"), [(60, 200), (90, 431), (200, None)])
def test_a_head_that_grows(connect, count, status):
    """Fields count by the size behind a few octets: too many are answered, and far too many end the connection."""
    client = connect()
    stream = client.ask(*request(b"GET", b"/", *[(b"a", b"b" * 1000)] * count))
    client.pump()
    assert client.is_closed == (status is None)
    assert status is None or client.status(stream) == status


def test_a_client_that_does_not_read(connect):
    """Acknowledgements are not kept for ever."""
    client = connect()
    client.transport.is_stuck = True
    client.session.pause_writing()
    client.transport.held += bytes(MAX_UNREAD_BYTES)
    client.session.data_received(PingFrame(0, b"12345678").serialize())
    assert "abort" in client.transport.calls


# Streams just closed by a client may still be answered


@pytest.mark.parametrize("fields", [request(), request(b"GET", b"/", (b"connection", b"x"))])
def test_a_reset_with_the_request(connect, fields):
    """A stream to be refused, or reset, is closed already."""
    client = connect(max_streams=1)
    for _ in range(3):
        client.h2.reset_stream(client.ask(*fields))
    client.pump(runs=False)
    assert not client.session.has_streams and not client.goaways and not client.resets


def test_a_reset_with_the_body(connect):
    """Nobody needs more room."""
    client = connect()
    stream = client.ask(*request(b"POST"), ends=False)
    client.pump()
    for _ in range(STREAM_WINDOW // 2 // 16384 + 1):
        client.h2.send_data(stream, bytes(16384 - 100))
    client.h2.reset_stream(stream)
    client.pump()
    assert not client.session.has_streams and not client.goaways
