"""The beginning of a connection without TLS that may be of another protocol than HTTP/1.x."""

import types

import pytest
from harness.fakes import FakeTransport, Harness
from harness.replies import echo

from aserve.connections.accepting.preface import Beginning, begin
from aserve.connections.carrier import Carrier, Carriers
from aserve.connections.connection import Connection
from aserve.connections.loop.wire_loop import LoopWire

PREFACE = b"HI THERE\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
PROXY = "10.0.0.1"


class Other(Carrier):
    """Another protocol that keeps its octets."""

    def __init__(self, connection):
        self.connection, self.received = connection, []

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received.append(data)


@pytest.fixture
def listener():
    """Return a harness of a listener where one proxy may begin with another protocol."""
    harness = Harness(echo)
    carriers = {b"HI HO\r\n": pytest.fail, PREFACE: Other}
    harness.service.carriers = Carriers(
        by_preface=carriers, is_believed=lambda connection: connection.remote_addr == PROXY
    )
    yield harness
    harness.dispose()


def connect(listener, octets=b"", address=PROXY):
    """Connect a client, with some octets read already; return its transport and first protocol."""
    beginning, transport = listener.connect(begin(Connection(listener.service), octets), peername=(address, 5000))
    return transport, beginning


def test_most_listeners_need_no_preface():
    """With one protocol, nothing stands before the wire."""
    harness = Harness(echo)
    assert type(begin(Connection(harness.service))) is LoopWire
    harness.dispose()


@pytest.mark.parametrize("size", [1, 5, len(PREFACE), 100])
def test_a_preface_chooses_the_other_protocol(listener, size):
    """The other protocol gets all octets, however they come, and counts in the place of the beginning."""
    octets = PREFACE + b"more"
    transport, beginning = connect(listener)
    assert beginning in listener.service.connections
    for start in range(0, len(octets), size):
        transport.protocol.data_received(octets[start : start + size])
    other = transport.protocol
    assert type(other) is Other and b"".join(other.received) == octets and other.transport is transport
    assert beginning not in listener.service.connections


@pytest.mark.parametrize("octets", [GET, b"HI" + GET], ids=["at once", "after a part of a preface"])
@pytest.mark.parametrize("size", [1, 100])
def test_http_1_is_answered_as_anywhere(listener, octets, size):
    """A request is answered, or refused, as anywhere."""
    transport, _ = connect(listener)
    for start in range(0, len(octets), size):
        transport.protocol.data_received(octets[start : start + size])
    listener.executor.run()
    assert type(transport.protocol) is LoopWire and [*listener.service.connections] == [transport.protocol]
    assert transport.received().startswith(b"HTTP/1.1 200 " if octets == GET else b"HTTP/1.1 ")


@pytest.mark.parametrize("octets", [PREFACE, PREFACE[:5], GET])
def test_octets_that_the_lane_has_read(listener, octets):
    """Octets read by the lane are looked at as new ones."""
    transport, _ = connect(listener, octets)
    kind = {PREFACE: Other, PREFACE[:5]: Beginning, GET: LoopWire}[octets]
    assert type(transport.protocol) is kind
    transport.protocol.data_received(PREFACE[5:])
    if kind is not LoopWire:
        assert type(transport.protocol) is Other and transport.protocol.received[0].startswith(octets)


@pytest.mark.parametrize("octets", [b"", PREFACE])
def test_other_peers_may_send_no_preface(listener, octets):
    transport, _ = connect(listener, octets, "10.0.0.2")
    assert type(transport.protocol) is LoopWire
    if not octets:
        transport.protocol.data_received(PREFACE)
    assert transport.received().startswith(b"HTTP/1.1 400 ")


def test_not_after_a_request(listener):
    """A front server that passes unknown octets on opens no other protocol for its client."""
    transport, _ = connect(listener)
    transport.protocol.data_received(GET)
    listener.executor.run()
    transport.received()
    transport.protocol.data_received(PREFACE)
    assert transport.received().startswith(b"HTTP/1.1 400 ")


def test_a_client_that_has_left(listener):
    """A client that left is closed: its address is lost."""
    transport = FakeTransport(peername=None)
    transport.extra["socket"] = types.SimpleNamespace(family=None)
    listener.transports.append(transport)
    transport.connect(begin(Connection(listener.service), GET))
    assert transport.calls == ["close"] and listener.executor.jobs == []


def test_the_end_of_the_octets(listener):
    """The transport closes, and the connection does not count any more."""
    transport, beginning = connect(listener)
    transport.protocol.data_received(PREFACE[:3])
    assert not transport.protocol.eof_received()
    transport.protocol.connection_lost(None)
    assert beginning not in listener.service.connections


@pytest.mark.parametrize(("is_draining", "octets"), [(False, b""), (True, b""), (True, PREFACE[:3])])
def test_a_preface_has_the_time_of_a_head(listener, is_draining, octets):
    """A preface has the time of a request's head; in a drain, a silent client has the time of a request on its way."""
    transport, beginning = connect(listener)
    transport.protocol.data_received(octets)
    listener.service.is_draining = is_draining
    beginning.drain()
    for _ in range(2 if is_draining and not octets else int(listener.config.head_seconds)):
        beginning.on_second()
    assert transport.calls == [] and beginning.idle_seconds == 0
    beginning.on_second()
    assert transport.calls == ["close"]


def test_an_abort_cuts_the_beginning_off(listener):
    """A server that stops cuts a beginning off."""
    transport, beginning = connect(listener)
    beginning.abort()
    assert transport.calls == ["abort"]
