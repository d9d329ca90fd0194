"""Bodies that the event loop sends without a worker: large ones in memory, and files.

Owns:     LargeBodies: past the transport, where that may be; else through it, in pieces; descriptors and files that are given back.
Thread:   event loop only.
Not here: the part that goes at once (sender.py, sendfile.py), which replies these are (sending.py), what waits in a temporary file (writing.py).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Callable, cast

from ..core.errors import ClientDisconnected, ResponseTruncated
from ..core.exchange import ANSWERED, CLIENT_GONE, Exchange
from ..wsgi import FileResponse
from .listeners import UNSENT_BYTES, limit_unsent
from .sender import GONE, PIECE_BYTES, MemorySender, Outcome, Sender, pieces_of
from .sendfile import FileSender, close_file, read_piece
from .states import State
from .writing import WritingHalf

if TYPE_CHECKING:
    from .pump import Large

# Measured: a member looked up in its enum class costs CPython 3.11 three times a global.
LOOP_ENDS = State.LOOP_ENDS


class LargeBodies(WritingHalf):
    """What the event loop's wire does with them."""

    __slots__ = ()

    def _on_large(self, exchange: Exchange, reply: tuple[bytes, bytes | memoryview]) -> None:
        """The whole response is here, and its body is large."""
        # A descriptor each, for the loop to watch.
        if self._can_bypass and self._service.budgets.watched.reserve(1):
            self._send_past(functools.partial(self._send_memory, exchange, reply))
            return
        self._take_completion()
        self._on_pieces(exchange, pieces_of(*reply))

    def _on_file(self, exchange: Exchange, reply: FileResponse) -> None:
        """A head is here, and the file that holds the body."""
        if self._can_bypass:
            self._send_past(functools.partial(self._send_file, exchange, reply))
            return
        self._transport.write(reply.head)
        self._feed_file(exchange, reply, 0)

    def go_on_large(self, large: Large, reply: tuple[bytes, bytes | memoryview] | FileResponse) -> None:
        """Send the rest of a body of which the pump has sent the beginning; from here on this counts it in the budgets."""
        exchange = large.exchange
        if type(reply) is FileResponse:
            self._on_file(exchange, reply)
            return
        exchange.counted_body = cast("tuple[bytes, bytes]", large.reply)[1]
        exchange.counted_bytes = len(exchange.counted_body)
        self._on_large(exchange, cast("tuple[bytes, bytes | memoryview]", reply))

    def _send_past(self, send: Callable[[], None]) -> None:
        """Send a body to the socket past the transport, as soon as that has nothing more."""
        if self._take_completion():
            self._transport.set_write_buffer_limits(high=0)
            if self._is_write_paused:
                self._on_writable = send
                return
        send()

    def _send_memory(self, exchange: Exchange, reply: tuple[bytes, bytes | memoryview]) -> None:
        on_end = functools.partial(self._end_memory, exchange)
        if self._state > LOOP_ENDS:
            on_end(ClientDisconnected(GONE))
            return
        sender = MemorySender(self._service.loop, self._fd, *reply, on_end)
        if not self._start_sender(sender):
            self._service.budgets.watched.release(1)
            self._on_pieces(exchange, pieces_of(*sender.rest))

    def _send_file(self, exchange: Exchange, reply: FileResponse) -> None:
        on_end = functools.partial(self._end_file, exchange, reply)
        if self._state > LOOP_ENDS:
            on_end(ClientDisconnected(GONE))
        elif not self._start_sender(FileSender(self._service.loop, self._fd, *reply[:-1], on_end)):
            on_end(ResponseTruncated("no descriptor is left to send the file by"))

    def _start_sender(self, sender: Sender) -> bool:
        """See Sender.start."""
        limit_unsent(self._transport.get_extra_info("socket"), sender.unsent_bytes)
        self._sender = sender
        is_started = sender.start()
        if not is_started:
            self._end_sender()
        return is_started

    def _end_sender(self) -> None:
        self._sender = None
        if not self._transport.is_closing():
            self._transport.set_write_buffer_limits()
            limit_unsent(self._transport.get_extra_info("socket"), UNSENT_BYTES)

    def _end_memory(self, exchange: Exchange, outcome: Outcome) -> None:
        self._service.budgets.watched.release(1)
        self._end_body(exchange, outcome)

    def _end_body(self, exchange: Exchange, outcome: Outcome) -> None:
        """What was sent past the transport is with the kernel, or lost."""
        self._end_sender()
        if outcome is None:
            self._end_exchange(exchange)
            return
        if isinstance(outcome, ClientDisconnected) and exchange.end == ANSWERED:
            exchange.end = CLIENT_GONE  # its transport does not know yet
        self._on_abort(exchange, str(outcome))

    def _feed_file(self, exchange: Exchange, reply: FileResponse, sent: int) -> None:
        """Read the next piece here, so that no worker waits for the client; then others have their turn."""
        if self._state > LOOP_ENDS or self._transport.is_closing():
            self._end_file(exchange, reply, ClientDisconnected(GONE))
        elif self._is_write_paused:
            self._on_writable = functools.partial(self._feed_file, exchange, reply, sent)
        elif sent == reply.size:
            self._end_file(exchange, reply, None)
        else:
            try:
                octets = read_piece(reply.file, reply.offset + sent, reply.size - sent, PIECE_BYTES)
            except ResponseTruncated as exc:
                self._end_file(exchange, reply, exc)
                return
            self._transport.write(octets)
            self._service.loop.call_soon(self._feed_file, exchange, reply, sent + len(octets))

    def _end_file(self, exchange: Exchange, reply: FileResponse, outcome: Outcome) -> None:
        self._executor.submit(functools.partial(close_file, files=self._service.budgets.files), reply.close)
        self._end_body(exchange, outcome)
