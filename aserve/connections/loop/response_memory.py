"""Counting the responses of the event loop's wire in --response-memory.

Owns:     the counted octets of an exchange, under the connection's lock.
Thread:   both.
Not here: the limit (core/budgets.py), handling a lack of room (sending.py).
"""

from __future__ import annotations

from ...core.exchange import Exchange
from ..connection import Connection

# A client may have a hundred streams, and their octets do not wait in a kernel's buffer: octets of a stream beyond this count. Guess: half of a frame.
STREAM_BYTES = 1 << 13


def room_bytes(connection: Connection) -> int:
    """Return how many octets of pieces may wait: --write-buffer; of a stream no more than are counted."""
    exchange, most_bytes = connection.exchange, connection.service.config.write_buffer_bytes
    if not connection.is_stream:
        return most_bytes
    return min(most_bytes, max(exchange.counted_bytes if exchange is not None else 0, STREAM_BYTES))


def reserve_memory(connection: Connection, exchange: Exchange, count: int, is_forced: bool) -> bool:
    """Count so many octets of a response, one piece at a time; False: no room."""
    more = count - exchange.counted_bytes
    if more > 0:
        if not connection.service.budgets.memory.reserve(more, is_forced=is_forced):
            return False
        with connection.lock:  # a second thread of the app may write(), too: then both are counted
            exchange.counted_bytes += more
    if exchange is not connection.exchange:
        release_memory(connection, exchange)  # ended meanwhile
    return True


def reserve_body(connection: Connection, exchange: Exchange, body: bytes, is_patient: bool, is_forced: bool) -> bool:
    """Count a whole body; False: there is no room now, nor soon (`is_patient`)."""
    if not connection.service.budgets.memory.reserve_body(body, is_patient and not is_forced, is_forced):
        return False
    with connection.lock:
        exchange.counted_bytes += len(body)
        exchange.counted_body = body
    if exchange is not connection.exchange:
        release_memory(connection, exchange)  # ended meanwhile
    return True


def release_memory(connection: Connection, exchange: Exchange) -> None:
    """Stop counting the octets of this exchange, now gone from memory."""
    memory = connection.service.budgets.memory
    with connection.lock:
        counted_bytes, exchange.counted_bytes = exchange.counted_bytes, 0
        body, exchange.counted_body = exchange.counted_body, None
    if body is not None:
        memory.release_body(body)
        counted_bytes -= len(body)
    if counted_bytes:
        memory.release(counted_bytes)
