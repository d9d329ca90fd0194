"""Bodies sent by the event loop without a worker: large ones in memory, and files.

Owns:     MemoryBody, FileBody: past the transport if possible, or through the transport in pieces; releasing descriptors and files.
Thread:   event loop only; workers post `send_memory` and `send_file`.
Not here: the part sent at once (sender.py, sendfile.py), the choice of replies (sending.py), responses in a temporary file (spooled.py).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

from ...core.errors import ClientDisconnected, ResponseTruncated
from ...core.exchange import ANSWERED, CLIENT_GONE, Exchange
from ...wsgi import FileResponse
from .outbox import Outbox
from .sender import GONE, PIECE_BYTES, MemorySender, Outcome, pieces_of
from .sendfile import READ_BYTES, FileSender, close_file, read_piece
from .stepping import Steps

if TYPE_CHECKING:
    from .pump import Large


class LargeBody:
    """A body past the transport; the way, and the resources, are up to the subclass."""

    __slots__ = ("_exchange", "_outbox")

    def __init__(self, outbox: Outbox, exchange: Exchange) -> None:
        self._outbox, self._exchange = outbox, exchange

    def _end(self, outcome: Outcome) -> None:
        """End the sending: the octets are with the kernel, or lost."""
        exchange = self._exchange
        self._outbox.end_sender()
        if outcome is None:
            self._outbox.end(exchange)
            return
        if isinstance(outcome, ClientDisconnected) and exchange.end == ANSWERED:
            exchange.end = CLIENT_GONE  # the transport does not know yet
        self._outbox.cut(exchange, str(outcome))


class MemoryBody(LargeBody):
    """A body in memory. Sending takes a descriptor, for the loop to watch."""

    __slots__ = ("_reply",)

    def __init__(self, outbox: Outbox, exchange: Exchange, reply: tuple[bytes, bytes | memoryview]) -> None:
        super().__init__(outbox, exchange)
        self._reply = reply

    def send(self) -> None:
        """Send the body after the last octet of the transport."""
        outbox = self._outbox
        if outbox.is_over:
            self._end(ClientDisconnected(GONE))
            return
        sender = MemorySender(outbox.service.loop, outbox.fd, *self._reply, self._end)
        if not outbox.start_sender(sender):
            outbox.service.budgets.watched.release(1)
            Steps(outbox, self._exchange, pieces_of(*sender.rest)).go_on()

    def _end(self, outcome: Outcome) -> None:
        self._outbox.service.budgets.watched.release(1)
        super()._end(outcome)


class FileBody(LargeBody):
    """A body in a file."""

    __slots__ = ("_reply",)

    def __init__(self, outbox: Outbox, exchange: Exchange, reply: FileResponse) -> None:
        super().__init__(outbox, exchange)
        self._reply = reply

    def send(self) -> None:
        """Send the body after the last octet of the transport."""
        outbox = self._outbox
        if outbox.is_over:
            self._end(ClientDisconnected(GONE))
        elif not outbox.start_sender(FileSender(outbox.service.loop, outbox.fd, *self._reply[:-1], self._end)):
            self._end(ResponseTruncated("no descriptor is left to send the file by"))

    def feed(self, sent: int) -> None:
        """Read the next piece here, as no worker waits for the client; then other connections have a turn."""
        outbox, reply = self._outbox, self._reply
        if outbox.is_lost:
            self._end(ClientDisconnected(GONE))
        elif outbox.is_write_paused:
            outbox.when_writable(functools.partial(self.feed, sent))
        elif sent == reply.size:
            self._end(None)
        else:
            try:
                most_bytes = READ_BYTES if self._exchange.connection.is_stream else PIECE_BYTES
                octets = read_piece(reply.file, reply.offset + sent, reply.size - sent, most_bytes)
            except ResponseTruncated as exc:
                self._end(exc)
                return
            outbox.transport.write(octets)
            outbox.service.loop.call_soon(self.feed, sent + len(octets))

    def _end(self, outcome: Outcome) -> None:
        service = self._outbox.service
        service.executor.submit(functools.partial(close_file, files=service.budgets.files), self._reply.close)
        super()._end(outcome)


def send_memory(outbox: Outbox, exchange: Exchange, reply: tuple[bytes, bytes | memoryview]) -> None:
    """Send a whole response with a large body."""
    if outbox.can_bypass and outbox.service.budgets.watched.reserve(1):
        outbox.when_empty(MemoryBody(outbox, exchange, reply).send)
        return
    outbox.take_completion()
    Steps(outbox, exchange, pieces_of(*reply)).go_on()


def send_file(outbox: Outbox, exchange: Exchange, reply: FileResponse) -> None:
    """Send a head, and the body from a file."""
    body = FileBody(outbox, exchange, reply)
    if outbox.can_bypass:
        outbox.when_empty(body.send)
        return
    outbox.transport.write(reply.head)
    body.feed(0)


def send_rest(outbox: Outbox, large: Large, reply: tuple[bytes, bytes | memoryview] | FileResponse) -> None:
    """Send the rest of a body after the pump's part; from here on the rest counts in the budgets here."""
    exchange = large.exchange
    if type(reply) is FileResponse:
        send_file(outbox, exchange, reply)
        return
    exchange.counted_body = cast("tuple[bytes, bytes]", large.reply)[1]
    exchange.counted_bytes = len(exchange.counted_body)
    send_memory(outbox, exchange, cast("tuple[bytes, bytes | memoryview]", reply))
