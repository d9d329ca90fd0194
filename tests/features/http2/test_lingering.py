"""The end of a connection: its last octets reach a client that still sends."""

import pytest
from hyperframe.frame import PingFrame

from aserve.connections.progress import LINGER_BYTES


def test_the_last_octets(connect):
    """The connection reads on for a while: a client may send before it has the last octets, and a closed socket would answer with a reset."""
    client = connect(head_seconds=1)
    client.pass_seconds(2)
    assert client.transport.calls == ["write_eof", "resume_reading"]
    for _ in range(5):
        client.pass_seconds(2)
        client.session.data_received(PingFrame(0, b"12345678").serialize())
    assert not client.transport.is_closing()
    client.pass_seconds(3)
    assert client.transport.calls[-1] == "close" and not client.pump().pongs


def test_a_client_that_ends_after_the_last_octets(connect):
    """Nothing more can come."""
    client = connect(head_seconds=1)
    client.pass_seconds(2)
    assert client.session.eof_received() and client.transport.calls[-1] == "close"


@pytest.mark.parametrize("reads", [True, False])
def test_a_client_that_does_not_read_the_last_octets(connect, reads):
    """Each of the last octets has --write-timeout."""
    client = connect(head_seconds=1, write_seconds=5, min_rate_bytes=0)
    client.transport.is_stuck = True
    client.transport.held += bytes(100)
    for _ in range(20):
        client.pass_seconds(1)
        del client.transport.held[:reads]
    assert ("abort" in client.transport.calls) != reads


def test_a_flood_behind_the_last_octets(connect):
    """An endless sender is not heard to its end."""
    client = connect(head_seconds=1)
    client.pass_seconds(2)
    for _ in range(LINGER_BYTES >> 20):
        client.session.drop_octets(bytes(1 << 20))
    assert not client.transport.is_closing()
    client.session.drop_octets(b"x")
    assert client.transport.is_closing()
    client.session.abort()
    client.session.connection_lost(None)
    client.session.drop_octets(b"x")


def test_a_transport_that_cannot_half_close(connect):
    """The transport is closed, or a reset of the client has done so already."""
    client = connect(head_seconds=1)
    client.transport.can_half_close = False
    client.pass_seconds(2)
    assert client.transport.calls == ["close"]
    client = connect(head_seconds=1)
    client.transport.eof_error = ConnectionResetError()
    client.pass_seconds(2)
    assert client.transport.calls == ["write_eof", "resume_reading"]
