"""A WebSocket in moments beyond sockets: over fakes, whose loop and transport take every step when told to."""

import contextlib
import types

import pytest
from harness.fakes import FakeAccessLog, FakeTransport, StepExecutor, StepLoop
from harness.websockets import SWITCHING

from aserve import Config
from aserve.connections.connection import LOST, Connection
from aserve.connections.loop.websocket import WebSocket
from aserve.connections.loop.websockets import WebSockets
from aserve.core.errors import WrittenOff
from aserve.core.exchange import CLIENT_GONE, TIMED_OUT, Client, Exchange
from aserve.wsgi.response import CommonFields, Response

MB = 1 << 20
LARGE = bytes(range(256)) * (4 * MB // 256)  # more than a pair of sockets holds


class Loop(StepLoop):
    """A loop whose readers are called by the test."""

    def __init__(self):
        super().__init__()
        self.readers = {}

    def add_reader(self, fd, callback):
        self.readers[fd] = callback

    def remove_reader(self, fd):
        self.readers.pop(fd, None)

    def remove_writer(self, fd):
        self.writers.pop(fd, None)

    def call_later(self, seconds, callback):
        self.call_soon(callback)


class Executor(StepExecutor):
    """An executor that remembers its set-aside threads."""

    def __init__(self):
        super().__init__()
        self.aside = []

    def set_aside(self, thread_id):
        self.aside.append(thread_id)


class InFlight:
    """The table, as far as asked."""

    def __init__(self):
        self.ended = []

    def end(self, exchange):
        self.ended.append(exchange)


class Called(Connection):
    """A connection whose `run` is the test's."""


class Fake:
    """A WebSocket begun by the test's app, over a transport of the test."""

    def __init__(self, octets=b"", is_write_paused=False, is_at_eof=False, is_gone=False, is_ending=False):
        self.loop, self.executor, self.in_flight, self.calls = Loop(), Executor(), InFlight(), []
        self.transport = FakeTransport()
        self.transport.loop = self.loop
        self.log = FakeAccessLog()
        config = Config(write_seconds=3)
        self.service = types.SimpleNamespace(
            config=config, loop=self.loop, executor=self.executor, websockets=WebSockets(config, self.loop),
            connections=set(), in_flight=self.in_flight, tells_wire=True, is_draining=False, lost=set(),
            ends=self.log, base_environ={},
        )  # fmt: skip
        self.left = None if is_gone else (self.transport, octets, is_write_paused, is_at_eof)
        self.service.websockets.is_ending = is_ending
        ours, self.app = self.service.websockets.open_pair()
        self.app.settimeout(30)
        self.connection = Called(self.service)
        self.socket = self.connection.wire = WebSocket(self.connection, self, ours, self.app)
        self.exchange = self.connection.exchange = Exchange("")
        self.exchange.connection, self.exchange.client = self.connection, Client("", "", {})
        self.exchange.response = Response(self.exchange, CommonFields(""))
        self.transport.set_protocol(self.socket)

    def write(self, octets):
        """Let the app write, and the loop see it."""
        self.app.sendall(octets)
        self.look()

    def look(self):
        for callback in list(self.loop.readers.values()):
            callback()

    # The wire of before

    def leave_transport(self, protocol):
        return self.left

    def stay(self):
        self.calls.append("stay")

    def fail(self, exchange, why):
        self.calls.append("fail")

    def take_over(self, exchange, why):
        self.calls.append("take_over")

    def abort_slow_reader(self, exchange, why):
        self.calls.append("abort_slow_reader")


@pytest.fixture
def fake():
    made = []

    def make(**options):
        made.append(Fake(**options))
        return made[-1]

    yield make
    for each in made:
        each.app.close()
        each.transport.dispose()


def test_what_it_takes_over(fake):
    """It takes over octets of the request, a client that is behind or sends no more, and its count as a request."""
    each = fake(octets=b"early", is_write_paused=True, is_at_eof=True)
    each.write(SWITCHING)
    assert each.app.recv(99) == b"early" and each.app.recv(99) == b""
    assert each.in_flight.ended == [each.exchange] and each.service.connections == {each.socket}
    assert each.transport.received() == b"" and not each.loop.readers
    each.socket.resume_writing()
    each.look()
    assert each.transport.received() == SWITCHING
    assert each.executor.aside == []  # the app has returned already
    each.socket.reply(each.exchange, b"late")
    each.executor.flush()
    each.loop.turn()
    assert "close" in each.transport.calls and each.log.codes == [101] and each.connection.exchange is None


def test_while_it_drains(fake):
    """In a drain a WebSocket ends in its turn."""
    each = fake(is_ending=True)
    each.write(SWITCHING)
    each.loop.turn()
    assert each.app.recv(1) == b""
    each.socket.end_input()  # once more does nothing


def test_within_the_drain_delay(fake):
    """A WebSocket begun then lives on, as earlier ones do."""
    each = fake()
    each.service.is_draining = True
    each.write(SWITCHING)
    each.loop.turn()
    each.app.setblocking(False)
    with pytest.raises(BlockingIOError):
        each.app.recv(1)


@pytest.mark.parametrize("name", ["take_over", "abort_slow_reader", "fail"])
def test_before_it_begins(fake, name):
    """Until then deadlines, and faults of ours, are HTTP's business; from then on nobody's."""
    each = fake()
    getattr(each.socket, name)(each.exchange, None)
    each.executor.flush()
    assert each.calls == [name, "stay"] and each.connection.wire is each
    begun = fake()
    begun.write(SWITCHING)
    getattr(begun.socket, name)(begun.exchange, None)
    begun.executor.flush()
    assert begun.calls == [] and ("write_eof" in begun.transport.calls) == (name == "fail")


def test_the_client_is_gone(fake):
    """The app that begins it finds the end; HTTP ends the exchange."""
    each = fake(is_gone=True)
    each.write(SWITCHING)
    with contextlib.suppress(ConnectionResetError):  # Linux: its octets were not read
        assert each.app.recv(1) == b""
    each.socket.on_second()
    each.socket.abort()
    each.socket.reply(each.exchange, iter([b"late"]))
    each.executor.flush()
    assert each.calls == ["fail"] and each.connection.wire is each
    assert each.socket.unsent_bytes == 0


def test_the_app_closes_with_octets_unread(fake):
    """The client's later octets are dropped; the connection ends."""
    each = fake()
    each.write(SWITCHING)
    each.socket.data_received(b"unread")
    each.app.close()
    each.socket.data_received(b"more")
    each.socket.data_received(b"and more")
    each.look()
    assert each.transport.calls[-2:] == ["write_eof", "resume_reading"]
    each.socket.data_received(b"dropped")
    each.socket.drop_octets(b"dropped")
    each.socket.resume_writing()
    each.socket.eof_received()
    assert each.transport.calls[-1] == "close"


def test_no_room_for_the_app(fake):
    """Reading is paused; earlier octets go on, then the end of the client's octets."""
    each = fake()
    each.write(SWITCHING)
    each.socket.data_received(LARGE)
    each.socket.data_received(b"!")
    each.socket.eof_received()
    assert each.transport.calls == ["pause_reading"]
    got = b""
    while len(got) <= len(LARGE):
        got += each.app.recv(MB)
        each.loop.turn()
    assert got == LARGE + b"!" and each.app.recv(1) == b""
    assert each.transport.calls == ["pause_reading", "resume_reading"] and not each.loop.writers


def test_the_app_returns_while_the_client_is_behind(fake):
    """All written octets are sent, as the client reads."""
    each = fake()
    each.write(SWITCHING)
    assert each.transport.received() == SWITCHING
    each.transport.high, each.transport.is_stuck = 0, True
    each.write(b"abc")
    each.app.sendall(b"def")
    each.socket.reply(each.exchange, (b"late", b"late"))
    each.executor.flush()
    assert each.log.codes == [] and each.socket.unsent_bytes == 3
    each.transport.unstick()
    assert each.transport.received() == b"abcdef" and each.log.codes == [101]
    each.socket.connection_lost(None)
    assert each.connection.wire is LOST and not each.service.connections


@pytest.mark.parametrize("has_returned", [False, True])
def test_the_transport_is_lost(fake, has_returned):
    """Its end is the client's, and logged at the app's return; or at the server's end, for a hanging app."""
    each = fake()
    each.write(SWITCHING)
    if has_returned:
        each.transport.high, each.transport.is_stuck = 0, True
        each.write(b"abc")
        each.socket.reply(each.exchange, b"late")
        each.executor.flush()
    each.socket.connection_lost(ConnectionResetError())
    assert each.exchange.end == CLIENT_GONE and each.exchange.response is None if has_returned else True
    if not has_returned:
        assert each.service.lost == {each.exchange} and each.exchange.response.code == 101
        each.socket.abort()
        each.socket.reply(each.exchange, b"late")
        each.executor.flush()
    assert each.log.codes == [101] and each.log.cuts == [True] and each.service.lost == set()


def test_a_fin_that_cannot_be_sent(fake):
    """The client was quicker; reading on finds the end. Where no FIN can be sent, the transport closes."""
    each = fake()
    each.write(SWITCHING)
    each.transport.eof_error = OSError()
    each.app.close()
    each.look()
    assert each.transport.calls == ["write_eof", "resume_reading"]
    other = fake()
    other.write(SWITCHING)
    other.transport.can_half_close = False
    other.app.close()
    other.look()
    assert other.transport.calls == ["close"]


def test_progress_of_a_slow_reader(fake):
    """Whoever reads a little within --write-timeout is not cut off."""
    each = fake()
    each.write(SWITCHING)
    each.transport.is_stuck = True
    each.write(LARGE[:60000])
    for _ in range(5):
        for _ in range(3):
            each.socket.on_second()
        del each.transport.held[:1000]
    assert "abort" not in each.transport.calls
    for _ in range(5):
        each.socket.on_second()
    assert each.transport.calls == ["abort"] and each.exchange.end == TIMED_OUT


def test_a_client_that_had_nothing_to_read(fake):
    """The time of --write-timeout begins with octets for the client, however long the quiet before, and however many they are."""
    each = fake()
    each.write(SWITCHING)
    assert each.transport.received() == SWITCHING
    for _ in range(2):
        for _ in range(9):
            each.socket.on_second()
        each.transport.is_stuck = True
        each.write(b"abc")
        for _ in range(4):
            each.socket.on_second()
        assert "abort" not in each.transport.calls
        each.transport.unstick()
        assert each.transport.received().endswith(b"abc")


def test_the_end_of_its_worker(fake):
    """The app's end closes then, though the app keeps it."""
    each = fake()
    each.connection.run = lambda exchange: each.app.sendall(SWITCHING)
    each.socket.run(each.exchange)
    assert each.app.fileno() == -1


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_worker_that_was_written_off(fake, has_begun):
    """A begun one ends as it comes back; the other was answered for."""
    each = fake()

    def run(exchange):
        if has_begun:
            each.app.sendall(SWITCHING)
        each.socket.take_over(exchange, None)
        raise WrittenOff

    each.connection.run = run
    with pytest.raises(WrittenOff):
        each.socket.run(each.exchange)
    each.executor.flush()
    each.loop.turn()
    assert each.service.websockets._all == set()
    assert each.calls == ([] if has_begun else ["take_over", "stay"])
