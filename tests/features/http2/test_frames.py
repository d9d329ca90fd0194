"""What a client has just closed may still be answered: h2 knows of a reset before the session does."""

from __future__ import annotations

import pytest
from harness.http2 import request

from aserve.features.http2.frames import STREAM_WINDOW


@pytest.mark.parametrize("fields", [request(), request(b"GET", b"/", (b"connection", b"x"))])
def test_a_reset_with_the_request(connect, fields):
    """A stream that would be refused, or reset, is closed already."""
    client = connect(max_streams=1)
    for _ in range(3):  # the first runs on, so there is no room for the others
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
