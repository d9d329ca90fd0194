"""Streams send in turn, and urgent ones first.

What they send, and when they may not, is in test_session.py.
"""

from __future__ import annotations

import pytest
from harness.http2 import request
from harness.replies import returning

from aserve.features.http2.stream import StreamTransport
from aserve.features.http2.turns import urgency_of


@pytest.mark.parametrize(
    ("value", "urgency"),
    [(b"u=0", 0), (b"i, u=5", 5), (b"u=7;a", 7), (b"u=8", 3), (b"i", 3), (b"au=1", 3), (b"u=12", 3)],
)
def test_urgency(value, urgency):
    """RFC 9218 4.1: 0 is the most urgent, 3 the default."""
    assert urgency_of(request(b"GET", b"/", (b"priority", value))) == urgency


def test_order(connect, monkeypatch):
    """Urgent streams are sent first, others in turn."""
    client = connect(returning([b"x" * 40_000]))
    late = client.ask(*request(b"GET", b"/", (b"priority", b"u=7")))
    streams = [client.ask() for _ in range(2)]
    order = []
    take = StreamTransport.take
    monkeypatch.setattr(
        StreamTransport, "take", lambda stream, count: order.append(stream.stream_id) or take(stream, count)
    )
    client.pump()
    first, second = streams
    frames = [stream for stream in order if stream != late]
    assert frames[:4] == [first, second, first, second]
    assert order.index(late) > max(order.index(each) for each in streams) and client.ended == {late, *streams}
