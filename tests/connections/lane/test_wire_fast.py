"""The fast wire by itself, between a connection and a fake lane; test_wire_fast_served.py has it over sockets."""

import io
import socket
from types import SimpleNamespace

import pytest

from aserve._cparsers import ffi, lib
from aserve.connections.connection import Connection
from aserve.connections.lane import wire_fast
from aserve.connections.lane.wire_fast import FastWire
from aserve.core.errors import ClientDisconnected
from aserve.core.exchange import ANSWERED, CLIENT_GONE, Exchange
from aserve.wsgi import FileResponse


class FakeLoopWire:
    """The end of a handover; remembers its calls."""

    def __init__(self, error=None):
        self.calls, self.error = [], error

    def reply(self, exchange, reply):
        self.calls.append(("reply", reply))
        return True

    def send(self, exchange, octets):
        if self.error is not None:
            raise self.error
        self.calls.append(("send", octets))

    def __getattr__(self, name):
        return lambda exchange, argument: self.calls.append((name, argument))


class FakeHandovers:
    """Lets every connection go, and gives each a FakeLoopWire at once."""

    set, connections, pump = ffi.new("lane *"), {}, None

    def __init__(self, is_inline=False, wire=None):
        self.executor = SimpleNamespace(is_inline=is_inline)
        self.wire, self.rests = wire or FakeLoopWire(), []

    def begin(self, fd, connection, exchange, rest):
        self.rests.append(rest)
        return SimpleNamespace(wait=lambda: self.wire, call_when_ready=lambda then, reply=None: then(self.wire))


@pytest.fixture
def wired(monkeypatch):
    """wired(handovers) -> a connection on a fast wire, and its exchange; lane_release says yes, lane_reply a set answer."""
    lane = SimpleNamespace(
        lane_release=lambda *_: lane.is_open, is_open=1, lane_has_left=lambda *_: lane.has_left, has_left=0,
        lane_send=lib.lane_send,
    )  # fmt: skip
    monkeypatch.setattr(wire_fast, "lib", lane)

    def make(handovers, sent=2):
        monkeypatch.setattr(wire_fast, "_reply", lambda *_: sent)
        connection = Connection(
            SimpleNamespace(ends=None, base_environ={}, lost=set(), end_lost=lambda exchange: None, wrap=None)
        )
        connection.wire = FastWire(handovers, 99)
        exchange = connection.exchange = Exchange("", 0)
        exchange.connection = connection
        return connection, exchange, lane

    return make


def test_a_whole_response(wired):
    """A whole response is sent, and the connection stays; a late caller is told that the response has ended."""
    handovers = FakeHandovers()
    connection, exchange, _ = wired(handovers)
    assert connection.wire.reply(exchange, b"ok")
    assert handovers.rests == [] and connection.exchange is None
    for late in (lambda: connection.send(exchange, b"late"), lambda: connection.wire._send_early(exchange, b"late")):
        with pytest.raises(ClientDisconnected, match="has ended"):
            late()
    connection.take_over(exchange, "late")
    connection.abort_slow_reader(exchange, "late")
    assert handovers.wire.calls == []


@pytest.mark.parametrize("reply", [b"okbody", (b"ok", b"body")], ids=["piece", "large"])
@pytest.mark.parametrize("sent", [-1, 0, 1, 2, 5])
def test_a_response_that_is_sent_in_part(wired, reply, sent):
    """The event loop sends the rest, and ends the exchange."""
    handovers = FakeHandovers()
    connection, exchange, _ = wired(handovers, sent)
    assert not connection.wire.reply(exchange, reply)
    assert b"".join(handovers.rests[0]) == b"okbody"[max(sent, 0) :] and connection.exchange is exchange


class FakeMemory:
    """A budget for octets with room, or without."""

    def __init__(self, has_room=True):
        self.has_room, self.counted = has_room, 0

    def reserve_body(self, body):
        self.counted += len(body) * self.has_room
        return self.has_room

    def release_body(self, body):
        self.counted -= len(body)


@pytest.fixture
def stream(wired):
    """stream(result, has_room, meanwhile) -> a wire of a stream with its exchange, handovers, and budget; lane_keep calls `meanwhile`."""

    def make(result, has_room=True, meanwhile=lambda handovers: None):
        handovers = FakeHandovers()
        handovers.kept, handovers.is_over = {}, False
        connection, exchange, lane = wired(handovers, sent=0)
        memory = connection.service.budgets = SimpleNamespace(memory=FakeMemory(has_room))
        connection.wire = wire_fast.StreamWire(handovers, 99)

        def keep(set, number, head, head_size, body, size):
            assert (head, head_size, size, bytes(ffi.buffer(body))) == (b"ok\r\n\r\n", 6, 4, b"body")
            meanwhile(handovers)
            return result

        vars(lane).update(
            lane_keep=keep,
            lane_taken=lambda *_: -1,
            PUMP_SENT=lib.PUMP_SENT,
            PUMP_GONE=lib.PUMP_GONE,
            PUMP_LATE=lib.PUMP_LATE,
        )
        return connection.wire, exchange, handovers, memory.memory

    return make


REPLIES = pytest.mark.parametrize("reply", [b"ok\r\n\r\nbody", (b"ok\r\n\r\n", b"body")], ids=["piece", "large"])


@REPLIES
@pytest.mark.parametrize("result", [0, 1, lib.LANE_LOST])
def test_a_response_that_the_lane_keeps(stream, reply, result):
    """The exchange ends with the response, and the budget counts the body until then."""
    wire, exchange, handovers, memory = stream(result)
    lost = exchange.connection.service.lost
    lost.add(exchange)  # the server ends
    assert not wire.reply(exchange, reply)
    assert (exchange in lost) == (result == 0)  # otherwise the log would have two lines
    assert (exchange.connection.exchange is exchange) == (99 in handovers.kept) == (result == 0)
    assert memory.counted == 4 * (result == 0) and handovers.rests == []
    assert exchange.end == (CLIENT_GONE if result == lib.LANE_LOST else ANSWERED)


@REPLIES
@pytest.mark.parametrize(("result", "has_room"), [(lib.LANE_UNSENT, True), (0, False)])
def test_a_response_that_the_lane_does_not_keep(stream, reply, result, has_room):
    """The event loop sends all of the response, as the connection has left the lane, or there is no memory."""
    wire, exchange, handovers, memory = stream(result, has_room)
    assert not wire.reply(exchange, reply)
    assert b"".join(handovers.rests[0]) == b"ok\r\n\r\nbody"
    assert memory.counted == 0 and not handovers.kept


def test_a_head_alone_is_not_kept(stream):
    """The event loop sends what has no body."""
    wire, exchange, handovers, _ = stream(0)
    assert not wire.reply(exchange, b"ok\r\n\r\n")
    assert b"".join(handovers.rests[0]) == b"ok\r\n\r\n" and not handovers.kept


def test_a_response_that_ends_as_the_lane_takes_it(stream):
    """Whoever has ended the response has ended the exchange."""
    ended = []
    wire, exchange, handovers, _ = stream(0, meanwhile=lambda handovers: ended.append(handovers.kept.pop(99)))
    handovers.is_over = True
    assert not wire.reply(exchange, (b"ok\r\n\r\n", b"body"))
    assert ended[0].exchange is exchange and exchange.connection.exchange is exchange


def test_a_response_that_is_kept_as_the_lane_closes(stream):
    """Its client is gone, and nobody else ends the exchange."""
    wire, exchange, handovers, memory = stream(0)
    handovers.is_over = True
    assert not wire.reply(exchange, (b"ok\r\n\r\n", b"body"))
    assert exchange.end == CLIENT_GONE and memory.counted == 0 and not handovers.kept


def test_a_large_body_is_not_copied(wired):
    """The rest of a large body is a part of the app's own object."""
    body, handovers = bytes(100_000), FakeHandovers()
    connection, exchange, _ = wired(handovers, sent=30_000)
    connection.wire.reply(exchange, (b"ok", body))
    assert handovers.rests[0][-1].obj is body and len(handovers.rests[0][-1]) == 100_002 - 30_000


def test_pieces_go_to_the_other_wire(wired):
    """Pieces are the other wire's, as is all that comes after."""
    handovers = FakeHandovers()
    connection, exchange, _ = wired(handovers)
    connection.send(exchange, b"piece")
    assert connection.wire.reply(exchange, b"end")
    connection.abort_slow_reader(exchange, "slow")
    connection.take_over(exchange, "hangs")
    connection.wire.fail(exchange, "broken")
    assert handovers.rests == [()] and handovers.wire.calls == [
        ("send", b"piece"), ("reply", b"end"), ("abort_slow_reader", "slow"), ("take_over", "hangs"), ("fail", "broken"),
    ]  # fmt: skip


def test_a_connection_that_the_lane_has_closed(wired):
    connection, exchange, lane = wired(FakeHandovers(), sent=1)
    lane.is_open = 0
    exchange.response = object()
    assert not connection.wire.reply(exchange, b"ok")
    assert exchange.response is None and connection.exchange is None
    connection, exchange, lane = wired(FakeHandovers())
    reply = iter([b"never"])
    assert not connection.wire.reply(exchange, reply) and list(reply) == []
    connection.wire.fail(exchange, "broken")


def test_a_request_that_is_dropped(wired):
    """The exchange ends, also where the lane has closed the connection before."""
    connection, exchange, lane = wired(FakeHandovers())
    lane.is_open = 0
    exchange.response = object()
    connection.wire.drop(exchange)
    assert exchange.end == CLIENT_GONE and exchange.response is None and connection.exchange is None


@pytest.mark.parametrize("error", [None, ClientDisconnected("gone")])
def test_pieces_on_the_loops_own_thread(wired, error):
    """Octets refused by the socket before the app's return follow in order; if the client has gone, the response ends there."""
    handovers = FakeHandovers(is_inline=True, wire=FakeLoopWire(error))
    connection, exchange, _ = wired(handovers)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        connection.wire.fd = ours.fileno()
        connection.send(exchange, b"first")
        assert theirs.recv(99) == b"first"
        while True:
            try:
                ours.send(bytes(1 << 16))
            except BlockingIOError:
                break
        connection.send(exchange, b"second")
        connection.send(exchange, b"third")
        exchange.response = object()
        assert not connection.wire.reply(exchange, b"end")
    assert exchange.response is None
    expected = [("send", b"second"), ("send", b"third"), ("reply", b"end")] if error is None else [("fail", "gone")]
    assert handovers.wire.calls == expected


def test_large_pieces_on_the_loops_own_thread(wired):
    """The waiting rest is a part of the app's object."""
    piece = bytes(3_000_000)  # more than a socket takes
    connection, exchange, _ = wired(FakeHandovers(is_inline=True))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        connection.wire.fd = ours.fileno()
        connection.send(exchange, piece)
        (rest,) = connection.wire._early
        assert rest.obj is piece and 0 < len(rest) < len(piece)


class FakePump:
    """Takes as much as allowed, and notes it."""

    def __init__(self, has_room=True):
        self.taken, self.has_room = [], has_room

    def take(self, wire, exchange, reply):
        self.taken.append((wire, exchange, reply))
        return self.has_room


LARGE_BODY = bytes(wire_fast.REPLY_BYTES + 1)
FILE = FileResponse(b"ok", io.BytesIO(), 0, 5, lambda: None)


@pytest.mark.parametrize("reply", [(b"ok", LARGE_BODY), FILE], ids=["memory", "file"])
def test_what_the_pump_sends(wired, reply):
    """The connection stays; when all is sent, the exchange ends."""
    handovers = FakeHandovers()
    handovers.pump = FakePump()
    connection, exchange, lane = wired(handovers, sent=0)
    lane.has_left = reply[1] is LARGE_BODY
    assert not connection.wire.reply(exchange, reply)
    assert exchange.end == (CLIENT_GONE if lane.has_left else ANSWERED)
    assert handovers.pump.taken == [(connection.wire, exchange, reply)] and handovers.rests == []
    exchange.response = object()
    connection.wire.end_large(exchange)
    assert connection.exchange is None and exchange.response is None and handovers.rests == []


@pytest.mark.parametrize("reply", [(b"ok", LARGE_BODY), iter([b"piece"])], ids=["memory", "pieces"])
def test_what_the_pump_does_not_take(wired, reply):
    """The event loop sends a body refused by the pump."""
    handovers = FakeHandovers()
    handovers.pump = FakePump(has_room=False)
    connection, exchange, _ = wired(handovers)
    assert connection.wire.reply(exchange, reply)
    assert handovers.wire.calls == [("reply", reply)]


def test_no_pump_once_the_connection_leaves(wired):
    """The event loop has the body."""
    handovers = FakeHandovers()
    handovers.pump = FakePump()
    connection, exchange, _ = wired(handovers)
    connection.send(exchange, b"early hints")
    connection.wire.reply(exchange, FILE)
    assert handovers.pump.taken == [] and handovers.wire.calls[1:] == [("reply", FILE)]


def test_a_connection_that_may_not_close_at_once(wired):
    """The event loop closes the connection, behind the client's further octets."""
    handovers = FakeHandovers()
    connection, exchange, _ = wired(handovers, sent=-1)
    connection.wire.end_large(exchange)
    assert handovers.rests == [(b"",)] and connection.exchange is exchange


def test_a_client_that_is_late(wired):
    """The other wire gets the rest; if the connection is lost meanwhile, the rest is released."""
    handovers, closed = FakeHandovers(), []
    connection, exchange, _ = wired(handovers)
    large = SimpleNamespace(exchange=exchange, close=lambda: closed.append(1))
    connection.wire.go_on_large(large, FILE)
    assert handovers.wire.calls == [("go_on_large", FILE)] and closed == []
    connection, exchange, lane = wired(handovers)
    lane.is_open = 0
    exchange.response = object()
    large.exchange = exchange
    connection.wire.go_on_large(large, FILE)
    assert closed == [1] and exchange.response is None


@pytest.mark.parametrize(("size", "is_closed", "is_read"), [(3, False, True), (4, False, False), (3, True, False)])
def test_a_file_for_a_stream(tmp_path, size, is_closed, is_read):
    """The event loop meets the fault of a file that is closed, or has fewer octets than the head says."""
    path = tmp_path / "file"
    path.write_bytes(b"abcd")
    file = path.open("rb")
    if is_closed:
        file.close()
    reply = FileResponse(b"head", file, 1, size, file.close)
    found = wire_fast._octets_of(reply)
    assert found == (b"head", b"bcd") if is_read else found is reply
    assert file.closed == (is_read or is_closed)
    file.close()
