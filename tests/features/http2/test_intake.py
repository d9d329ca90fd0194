"""Octets that come at once are received a portion at a time, so that other connections have their turns."""

import pytest
from harness.http2 import request
from hyperframe.frame import DataFrame

from aserve.protocols.http2 import FRAMES

POST = request(b"POST")
ONE = DataFrame(1, b"x").serialize()


@pytest.fixture
def uploading(connect):
    """A client with a body under way."""
    client = connect()
    client.ask(*POST, ends=False)
    client.pump(runs=False)
    return client


def received_bytes(client):
    (stream,) = client.session._streams.values()
    return stream.request.body.length


def test_a_portion_at_each_turn(uploading):
    """Reading pauses meanwhile, and goes on."""
    session, transport = uploading.session, uploading.transport
    session.data_received(ONE * (2 * FRAMES + 10))
    assert received_bytes(uploading) == FRAMES and not transport.is_reading()
    session.data_received(ONE * 10)  # read by the transport already
    assert received_bytes(uploading) == FRAMES
    found = []
    while not transport.is_reading():
        uploading.harness.loop.turn()
        found.append(received_bytes(uploading))
    assert found == [2 * FRAMES, 2 * FRAMES + 10, 2 * FRAMES + 20]


def test_a_portion_exactly(uploading):
    """One more turn finds no more."""
    uploading.session.data_received(ONE * FRAMES)
    assert not uploading.transport.is_reading()
    uploading.harness.loop.turn()
    assert uploading.transport.is_reading() and received_bytes(uploading) == FRAMES


def test_the_end_comes_last(uploading):
    """The end of the client's octets is behind all earlier ones."""
    uploading.session.data_received(ONE * (FRAMES + 9) + DataFrame(1, b"!", flags=["END_STREAM"]).serialize())
    assert uploading.session.eof_received()
    uploading.pump()
    assert uploading.bodies[1] == b"/" + b"x" * (FRAMES + 9) + b"!" and uploading.is_closed


def test_an_end_meanwhile(uploading):
    """Nothing is received any more."""
    uploading.session.data_received(ONE * 1000)
    uploading.session.abort()
    uploading.session.data_received(ONE * 1000)
    uploading.harness.loop.turn()
    uploading.harness.loop.turn()
    assert not uploading.harness.loop.soon and received_bytes(uploading) == FRAMES
