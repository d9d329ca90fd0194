"""Streams that are over take room while their clients send."""

from __future__ import annotations

from aserve.connections.progress import LINGER_SECONDS
from aserve.features.http2.leftovers import Leftovers


def test_clients_that_send():
    """They have a while to end by themselves."""
    left = Leftovers()
    for stream_id in (1, 3):
        left.add_sending(stream_id)
    assert left.count == 2 and left.forget_sending(1) and not left.forget_sending(1)
    found = [left.on_second() for _ in range(int(LINGER_SECONDS) + 1)]
    assert found == [[]] * int(LINGER_SECONDS) + [[3]] and not left.count
    left.add_sending(5)
    left.end_sending()
    assert not left.count
