"""Sending by workers over the event loop's wire: from the app's reply to the octets for the event loop.

Owns:     Sending: back-pressure on the app: memory first, then the response's spool, then waiting; large pieces in parts; writing to the socket in
          the worker itself when nothing else is queued.
Thread:   a worker (with --threads 0: the event loop).
Spec:     PEP 3333 "Buffering and Streaming".
Not here: the transport, and octets waiting there (outbox.py); receiving (wire_loop.py); making the octets (wsgi/response.py).
"""

from __future__ import annotations

import functools
import select
import sys
import time
from collections.abc import Iterator
from typing import Any, cast

from ...core.body import LiveBody
from ...core.budgets import SENT_FILE_COUNT
from ...core.errors import ClientDisconnected, ResponseTruncated
from ...core.exchange import ANSWERED, CLIENT_GONE, LEAVING_SECONDS, Exchange
from ...core.spool import ResponseSpool
from ...workers.executor import Executor
from ...wsgi import FileResponse, Reply
from ..connection import Connection
from ..progress import Progress
from .large_bodies import send_file, send_memory
from .outbox import Outbox
from .response_memory import STREAM_BYTES, reserve_body, reserve_memory
from .sendfile import read_pieces
from .spooled import end_spooled, send_spooled
from .stepping import Steps

# Once --response-memory is full, larger pieces are sent in parts: of a client that is behind only the first part is in memory.
PART_BYTES = 1 << 18
# POLLRDHUP, nameless in PyPy. Systems other than Linux report a close only once both sides are closed.
HALF_CLOSED = 0x2000 if sys.platform == "linux" else 0


class Sending:
    """Sends replies of workers by one outbox."""

    __slots__ = ("_connection", "_executor", "_free_bytes", "_outbox", "_progress", "_service")

    def __init__(self, connection: Connection, outbox: Outbox, progress: Progress) -> None:
        self._connection, self._outbox, self._progress = connection, outbox, progress
        self._service = connection.service
        self._executor = connection.service.executor
        # Pieces up to this size are not counted; larger ones without room are sent in parts of this size.
        self._free_bytes = STREAM_BYTES if connection.is_stream else PART_BYTES

    def reply(self, exchange: Exchange, reply: Reply) -> bool:
        """See Wire.reply."""
        if self._executor.is_inline and has_left(exchange) and self._is_half_closed():  # the loop could not look
            exchange.end = CLIENT_GONE
        if type(reply) is bytes:
            if len(reply) <= self._free_bytes or self._reserve(exchange, len(reply)):
                return self._complete_response(exchange, reply)
            return self._run_pieces(exchange, (octets for octets in (reply,)))
        if self._executor.is_inline or type(reply) not in (tuple, FileResponse):
            self._progress.stay_on_loop()  # otherwise the fast path has a pump for the body
        if type(reply) is tuple:
            return self._send_large(exchange, cast("tuple[bytes, bytes]", reply))
        if type(reply) is not FileResponse:
            return self._send_pieces(exchange, cast("Iterator[bytes]", reply))
        if self._service.budgets.files.reserve(SENT_FILE_COUNT):
            self._executor.post(functools.partial(send_file, self._outbox), exchange, reply)
            return False
        # The budget of files sent by the loop is used up: the worker reads the file.
        return self._send_pieces(exchange, read_pieces(reply.head, reply.file, reply.offset, reply.size, reply.close))

    def _is_half_closed(self) -> bool:
        poll = select.poll()
        if self._outbox.fd >= 0:  # not a stream
            poll.register(self._outbox.fd, HALF_CLOSED)
        return bool(poll.poll(0))

    def fail(self, exchange: Exchange, why: str) -> None:
        """See Wire.fail."""
        self._executor.post(self._outbox.cut, exchange, why)

    def _send_large(self, exchange: Exchange, reply: tuple[bytes, bytes]) -> bool:
        """Hand over a head and a large body; if too many octets wait in memory, as pieces."""
        body = reply[1]
        has_client = self._outbox.is_current(exchange) and not self._outbox.is_over
        is_patient = has_client and len(body) > self._free_bytes
        if reserve_body(self._connection, exchange, body, is_patient, self._must_hold(len(body))):
            self._executor.post(functools.partial(send_memory, self._outbox), exchange, reply)
            return False
        return self._run_pieces(exchange, (octets for octets in reply))

    def _send_pieces(self, exchange: Exchange, pieces: Iterator[bytes]) -> bool:
        if not self._executor.is_inline:
            return self._run_pieces(exchange, pieces)
        Steps(self._outbox, exchange, pieces).go_on()
        return False

    def _run_pieces(self, exchange: Exchange, pieces: Iterator[bytes]) -> bool:
        why: str | None = None  # the response was cut short
        try:
            for octets in pieces:
                self.send(exchange, octets)
        except (ClientDisconnected, ResponseTruncated) as exc:
            cast(Any, pieces).close()
            why = str(exc)
        if exchange.spool is not None:
            exchange.spool.seal()
            self._executor.post(functools.partial(end_spooled, self._outbox), exchange, why)
        elif why is not None:
            self.fail(exchange, why)
        else:
            return self._complete_response(exchange, b"")
        return False

    def send(self, exchange: Exchange, octets: bytes | memoryview) -> None:
        """See Wire.send."""
        spool = exchange.spool
        if spool is not None:  # with --threads 0 there is none
            executor = cast(Executor, self._executor)
            if spool.is_begun:
                executor.yield_slot()
            else:
                executor.end_slice()  # sent from memory, as any other response
        is_for_disk, count, part_bytes = spool is not None and spool.is_begun, len(octets), self._free_bytes
        held_bytes = count + self._outbox.backlog_bytes if self._connection.is_stream else count
        if held_bytes <= part_bytes or (not is_for_disk and self._reserve(exchange, held_bytes)):
            self._send_part(exchange, octets)
            return
        parts = memoryview(octets)
        for at in range(0, count, part_bytes):
            self._send_part(exchange, parts[at : at + part_bytes])

    def _reserve(self, exchange: Exchange, count: int) -> bool:
        """Count so many octets in --response-memory; False: no room, and they can wait elsewhere."""
        return reserve_memory(self._connection, exchange, count, self._must_hold(count))

    def _must_hold(self, count: int) -> bool:
        """Return whether a piece of this size waits in memory in any case."""
        is_large = not self._connection.is_stream and count > self._service.config.response_spool_bytes
        return self._executor.is_inline or is_large

    def _send_part(self, exchange: Exchange, octets: bytes | memoryview) -> None:
        outbox = self._outbox
        if not outbox.is_current(exchange) or outbox.is_over:
            raise ClientDisconnected("the client closed the connection")
        self._progress.stay_on_loop()
        if self._executor.is_quiet:
            rest = outbox.write_past(exchange, octets, is_last=False)
            if rest is None:
                return
            octets = rest
        # From here on the loop writes for this exchange: no octets may overtake the loop's.
        outbox.take_completion()
        spool = exchange.spool
        if spool is not None and spool.is_begun and self._send_to_spool(exchange, spool, octets):
            return
        outbox.put(exchange, octets)
        if not outbox.has_room and not self._executor.is_inline:
            # If only the loop is late, the worker waits: a response whose client reads does not go to the disk.
            outbox.wait_until(lambda: outbox.has_room or (outbox.is_write_paused and self._begin_spool(exchange)))

    def _send_to_spool(self, exchange: Exchange, spool: ResponseSpool, octets: bytes | memoryview) -> bool:
        """Append a piece to the spool; False: the spool is empty, and there is memory for the piece."""
        size, executor, outbox = len(octets), cast(Executor, self._executor), self._outbox
        while spool.is_begun:
            try:
                if spool.append(octets):
                    if spool.wants_reader():
                        executor.post(send_spooled, outbox, exchange)
                    return True
            except ClientDisconnected:  # an OSError, too
                raise
            except OSError as exc:
                self._service.budgets.responses.log_unkept(exc)
            executor.end_slice()
            outbox.wait_until(lambda: outbox.has_room if not spool.is_begun else spool.has_room(size))
        return False

    def _begin_spool(self, exchange: Exchange) -> bool:
        """Let the following pieces of this response go to the disk; False: they may not."""
        limit_bytes = self._service.config.response_spool_bytes
        response = exchange.response  # None: the exchange has just ended, and a second thread of the app writes
        # Early hints come before the head, and the response behind may take any way.
        if not limit_bytes or response is None or not response.head_is_out:
            return False
        if exchange.spool is None:
            exchange.spool = ResponseSpool(limit_bytes, self._service.budgets.responses)
        return exchange.spool.begin()

    def _complete_response(self, exchange: Exchange, octets: bytes) -> bool:
        """Hand over the rest of the response, or write past the transport while the executor is quiet; True: the exchange has ended."""
        rest: Any = octets
        if self._executor.is_quiet and exchange.keep_alive:
            rest = self._outbox.write_past(exchange, octets, is_last=True)
            if rest is None:
                return True
        self._executor.post(self._outbox.on_complete, exchange, rest)
        return False


def has_left(exchange: Exchange) -> bool:
    """Whether the end of a client's octets, seen now and before the response, means that the client has left: see LEAVING_SECONDS."""
    connection = exchange.connection
    if not connection.remote_addr or connection.service.config.keep_half_closed or type(exchange.body) is LiveBody:
        return False  # of a closing unix socket a write tells; a live body ends behind the head
    return exchange.end == ANSWERED and 0.0 < exchange.arrived_at < time.monotonic() - LEAVING_SECONDS
