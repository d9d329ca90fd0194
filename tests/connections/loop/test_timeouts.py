"""The time-outs of the event loop's wire: a client too slow is answered, or let go; a merely slow one is served.

A second passes when a test says so.
"""

import pytest
from harness.replies import GET, echo, is_reset
from harness.slow_clients import through_transports
from harness.wires import EXPECT, GET_CLOSE, POST, POST_HEAD, bodies, pass_seconds

from aserve.connections.progress import RETURN_SECONDS
from aserve.connections.states import State


def test_an_idle_connection_closes(new):
    """--keep-alive: without a request the connection closes, in silence."""
    harness, connection, transport = new(keep_alive_seconds=5)
    pass_seconds(connection, 5)
    connection.data_received(GET)
    harness.executor.run()
    pass_seconds(connection, 5)
    assert not transport.is_closing()
    pass_seconds(connection, 1)
    assert transport.calls[-1] == "close" and len(bodies(transport.received())) == 1


def test_how_long_a_connection_has_idled(new):
    """Idleness counts from the last response; while busy, not at all."""
    harness, connection, _ = new()
    connection.data_received(GET)
    pass_seconds(connection, 2)
    assert connection.idle_seconds == 0
    harness.executor.run()
    pass_seconds(connection, 2)
    assert connection.idle_seconds == 2


class EndingMeanwhile:
    """A connection whose exchange a worker ends as soon as it has been looked at."""

    def __init__(self, connection):
        self._connection, self.exchange_seen = connection, []

    def __getattr__(self, name):
        return getattr(self._connection, name)

    @property
    def exchange(self):
        self.exchange_seen.append(self._connection.exchange)
        return self.exchange_seen[0] if len(self.exchange_seen) == 1 else None


@pytest.mark.parametrize("step", ["on_second", "abort"])
def test_a_worker_ends_the_exchange_meanwhile(new, step):
    """The loop goes on with its view: no other act due in this second, or at the end, is left out."""
    harness, wire, transport = new()
    wire.data_received(GET)
    connection, wire.connection = wire.connection, EndingMeanwhile(wire.connection)
    getattr(wire, step)()
    assert wire.connection.exchange_seen[0] is connection.exchange is not None
    assert ("abort" in transport.calls) == (step == "abort")
    wire.connection = connection
    harness.executor.run()


def test_a_head_must_be_complete_in_time(new):
    """--head-timeout counts from the first octet, however the rest drips; 408 (RFC 9110 15.5.9)."""
    harness, connection, transport = new(head_seconds=5)
    harness.service.ends = harness.log
    for position in range(6):
        connection.data_received(GET[position : position + 1])
        pass_seconds(connection, 1)
    assert transport.received().startswith(b"HTTP/1.1 408 ") and harness.log.codes == [408]
    assert transport.calls[0] == "write_eof"


def test_a_body_must_make_progress(new):
    """--body-timeout counts from the last progress."""
    _, connection, transport = new(body_seconds=5, min_rate_bytes=0)
    connection.data_received(POST_HEAD)
    for octet in (b"h", b"e"):
        pass_seconds(connection, 5)
        connection.data_received(octet)
    pass_seconds(connection, 5)
    assert transport.received() == b""
    pass_seconds(connection, 1)
    assert transport.received().startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("body", ["buffer", "stream"])
def test_a_body_must_come_at_the_minimum_rate(new, body):
    """--min-rate: the mean over each --body-timeout; an octet a second is progress, and yet 408."""
    harness, connection, transport = new(body=body, body_seconds=5, min_rate_bytes=2)
    connection.data_received(POST_HEAD.replace(b"5", b"50"))
    pass_seconds(connection, 1)
    for _ in range(2):
        connection.data_received(bytes(7))  # 14 in 6 seconds
        pass_seconds(connection, 3)
    for _ in range(6):
        assert transport.received() == b""
        connection.data_received(b"x")
        pass_seconds(connection, 1)
    harness.executor.run()
    assert b"--min-rate" in transport.received()


def test_the_head_timeout_ends_with_the_head(new):
    """A slow head leaves the body its own time."""
    _, connection, transport = new(head_seconds=5, body_seconds=5)
    connection.data_received(POST_HEAD[:-1])
    pass_seconds(connection, 4)
    connection.data_received(POST_HEAD[-1:])
    pass_seconds(connection, 5)
    assert transport.received() == b""


def test_an_app_may_take_its_time(new):
    """While a request is with the app, no time limit runs; the client's next wait starts afresh."""
    harness, connection, transport = new(keep_alive_seconds=5, head_seconds=5, body_seconds=5)
    connection.data_received(POST)
    pass_seconds(connection, 1000)
    harness.executor.run()
    pass_seconds(connection, 5)
    assert len(bodies(transport.received())) == 1 and not transport.is_closing()


def test_a_live_body_must_make_progress(new):
    """A stalled live body is the reader's error; its client is told, and the connection closes."""
    harness, connection, transport = new(body="stream", body_seconds=5)
    connection.data_received(POST_HEAD + b"he")
    pass_seconds(connection, 6)
    harness.executor.run()  # read() raises ClientDisconnected
    assert transport.received().startswith(b"HTTP/1.1 408 ") and "write_eof" in transport.calls


def test_a_paused_live_body_is_not_late(new):
    """A client that may not send is not late."""
    harness, connection, transport = new(body="stream", body_memory_bytes=2, body_seconds=5)
    connection.data_received(POST_HEAD)
    connection.data_received(b"he")
    assert not transport.is_reading()
    pass_seconds(connection, 100)
    connection.data_received(b"llo")
    harness.executor.run()
    assert bodies(transport.received()) == [b"/phello"]


def large(environ, start_response):
    start_response("200 OK", [])
    return [bytes(500_000)]


def test_a_client_that_does_not_read_is_cut_off(new):
    """--write-timeout: a client that reads nothing of a response loses the connection, by a reset."""
    harness, connection, transport = new(large, write_seconds=5)
    transport.is_stuck = True
    connection.data_received(GET)
    harness.executor.run()
    pass_seconds(connection, 5)
    assert not transport.is_closing()
    pass_seconds(connection, 1)
    assert is_reset(transport)
    transport.lose()
    harness.executor.run()
    assert harness.service.connections == set()


def test_sending_more_is_not_reading(new):
    """A client cannot put off its time limit by sending instead of reading."""
    harness, connection, transport = new(large, write_seconds=5)
    transport.is_stuck = True
    connection.data_received(GET)
    harness.executor.run()
    for octet in (b"G", b"E", b"T", b" ", b"/", b" "):
        connection.data_received(octet)
        pass_seconds(connection, 1)
    assert is_reset(transport)


@pytest.mark.parametrize(("settings", "count", "seconds"), [({}, 1000, 3), ({"min_rate_bytes": 0}, 1, 1)])
def test_a_client_that_reads_slowly_is_not_cut_off(new, settings, count, seconds):
    """--write-timeout: a reading client is served, however slow; with --min-rate 0 an octet a second."""
    harness, connection, transport = new(large, write_seconds=5, **settings)
    through_transports(harness)
    transport.is_stuck = True
    connection.data_received(GET)
    harness.executor.run()
    for _ in range(20):
        del transport.held[:count]
        pass_seconds(connection, seconds)
    assert not transport.is_closing()


def test_a_client_must_read_at_the_minimum_rate(new, caplog):
    """--min-rate: the mean over each --write-timeout; an octet a second is progress, and yet the end."""
    harness, connection, transport = new(large, write_seconds=5, min_rate_bytes=100)
    through_transports(harness)
    transport.is_stuck = True
    connection.data_received(GET)
    harness.executor.run()
    for _ in range(7):
        del transport.held[:120]
        pass_seconds(connection, 1)
    for _ in range(6):
        assert not transport.is_closing()
        del transport.held[:1]
        pass_seconds(connection, 1)
    assert is_reset(transport)


def test_an_app_that_writes_faster_than_its_client_reads(new):
    """The transport's octets may grow while the client reads: it is not cut off."""
    harness, connection, transport = new(write_seconds=5)
    transport.is_stuck = True
    connection.data_received(GET)
    exchange = connection.exchange
    connection._outbox.on_piece(exchange, bytes(100_000))
    for _ in range(20):
        connection._outbox.on_piece(exchange, bytes(2000))
        del transport.held[:1000]
        pass_seconds(connection, 1)
    assert not transport.is_closing()


def test_a_closing_connection_has_a_time_limit_too(new):
    """A client that does not read our last octets cannot keep the connection without end."""
    harness, connection, transport = new(write_seconds=5)
    transport.is_stuck = True
    connection.data_received(GET_CLOSE)
    harness.executor.run()
    connection.eof_received()
    assert transport.calls[-1] == "close"
    pass_seconds(connection, 6)
    assert is_reset(transport)


def test_a_client_that_does_not_read_gets_no_more(new):
    """A client that sends request after request and reads nothing has one response waiting, not all."""
    harness, connection, transport = new(large)
    through_transports(harness)
    transport.is_stuck = True
    connection.data_received(GET + GET)
    harness.executor.run()
    assert harness.executor.jobs == [] and len(transport.held) < 600_000
    transport.unstick()
    octets = transport.received()
    harness.executor.run()
    octets += transport.received()
    assert [len(body) for body in bodies(octets)] == [500_000, 500_000]


# The way back to the fast path


@pytest.fixture
def taken_back(new):
    """taken_back(app) -> a harness whose lane takes connections back, a wire, its transport; and the taken connections."""

    def make(app=echo):
        harness, wire, transport = new(app)
        taken = []
        harness.service.take_back = lambda connection, fd: taken.append(connection) or True
        return harness, wire, transport, taken

    return make


def test_a_connection_that_idles_goes_back(taken_back):
    """After a while without other needs the connection is the lane's, and its transport closes."""
    harness, wire, transport, taken = taken_back()
    wire.data_received(GET)
    harness.executor.run()
    pass_seconds(wire, int(RETURN_SECONDS))
    assert taken == [] and transport.calls == []
    pass_seconds(wire, 1)
    assert taken == [wire.connection] and wire.state == State.DETACHED and transport.calls == ["close"]
    transport.lose()
    assert wire.state == State.CLOSED


def test_a_connection_that_is_busy_goes_back(taken_back):
    """A connection never seen idle goes after its next exchange."""
    harness, wire, transport, taken = taken_back()
    for number in range(int(RETURN_SECONDS) + 2):
        wire.data_received(GET.replace(b"/ ", b"/%d " % number))
        pass_seconds(wire, 1)
        harness.executor.run()
    assert taken == [wire.connection] and wire.state == State.DETACHED
    assert bodies(transport.received()) == [b"/%d" % number for number in range(int(RETURN_SECONDS) + 2)]


def test_the_lane_does_not_take_it(taken_back):
    """A refused connection stays, and asks again after a while."""
    harness, wire, transport, _ = taken_back()
    asked = []
    harness.service.take_back = lambda connection, fd: asked.append(fd)
    wire.data_received(GET)
    harness.executor.run()
    pass_seconds(wire, 2 * int(RETURN_SECONDS) + 2)
    assert len(asked) == 2 and transport.calls == [] and wire.state == State.IDLE


@pytest.mark.parametrize("kind", ["pipelined", "split", "chunked", "expect", "hints", "pieces"])
def test_what_is_not_plain_stays(taken_back, kind):
    """A request beyond the fast path begins the time anew."""

    def app(environ, start_response):
        if kind == "hints":
            environ["wsgi.early_hints"]([("Link", "</a>")])
        start_response("200 OK", [])
        return iter([b"a", b"b"]) if kind == "pieces" else [b"hello"]

    harness, wire, transport, taken = taken_back(app)
    chunked = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    octets = {"pipelined": [GET * 9], "split": [GET[:5], GET[5:]], "chunked": [chunked], "expect": [EXPECT, b"hello"]}
    for _ in range(3 * int(RETURN_SECONDS)):
        for piece in octets.get(kind, [GET]):
            wire.data_received(piece)
        harness.executor.run()
        transport.received()
        pass_seconds(wire, 1)
    assert taken == [] and transport.calls == []


def test_a_stream_goes_on(new):
    """Once a second the wire notes that a response in pieces has grown, until it is whole; see note_stream."""
    seen = []

    def app(environ, start_response):
        start_response("200 OK", [])
        for _ in range(2):
            pass_seconds(connection, 1)
            seen.append((connection.connection.exchange.seen_bytes, bool(connection.connection.exchange.grew_at)))
            yield b"piece"

    harness, connection, _ = new(app)
    connection.data_received(GET)
    harness.executor.run()
    assert seen == [(0, False), (5, True)]
