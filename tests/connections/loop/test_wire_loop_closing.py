"""The end of a connection after its last response: it is read on for a while, then it closes (RFC 9112 9.6)."""

import errno

from harness.wires import BAD, GET, GET_CLOSE, pass_seconds


def test_lingering_ends_after_a_moment(new):
    harness, connection, transport = new()
    connection.data_received(GET_CLOSE)
    harness.executor.run()
    pass_seconds(connection, 2)
    connection.data_received(b"x" * 1000)
    pass_seconds(connection, 2)
    assert not transport.is_closing()
    pass_seconds(connection, 1)
    assert transport.calls[-1] == "close"


def test_lingering_ends_with_the_client(new):
    """A client that closes, too, is waited for no longer."""
    harness, connection, transport = new()
    connection.data_received(GET_CLOSE)
    harness.executor.run()
    assert connection.eof_received() is True
    assert transport.calls[-1] == "close"


def test_lingering_has_its_limit(new):
    """An endless sender is not read for ever: neither a lot at once, nor a little for long."""
    harness, connection, transport = new()
    connection.data_received(BAD)
    data = bytes(1 << 20)
    for _ in range(64):
        connection.data_received(data)
    assert not transport.is_closing()
    connection.data_received(b"x")
    assert transport.calls[-1] == "close"
    connection.data_received(b"x")
    connection.eof_received()
    for is_draining, limit in ((False, 30), (True, 2)):
        connection, transport = harness.connect()
        connection.data_received(BAD)
        harness.service.is_draining = is_draining
        for _ in range(limit):
            connection.data_received(b"x")
            pass_seconds(connection, 1)
        assert not transport.is_closing()
        connection.data_received(b"x")
        pass_seconds(connection, 1)
        assert transport.calls[-1] == "close"


def test_a_transport_without_half_close(new):
    """Where one side cannot be closed alone, both are."""
    harness, connection, transport = new()
    transport.can_half_close = False
    connection.data_received(GET_CLOSE)
    harness.executor.run()
    assert transport.calls == ["close"]


def test_a_reset_before_our_fin(new):
    """A client's reset makes write_eof fail: no fault of ours."""
    harness, connection, transport = new()
    transport.eof_error = OSError(errno.ENOTCONN, "Transport endpoint is not connected")
    connection.data_received(GET_CLOSE)
    harness.executor.run()
    transport.lose(ConnectionResetError())
    assert harness.service.connections == set()


def test_an_abort_ends_a_connection_at_once(new):
    harness, connection, transport = new()
    connection.data_received(GET)
    connection.abort()
    assert transport.calls == ["abort"]
    transport.lose()
    harness.executor.run()
    assert harness.service.connections == set()
