"""The sending half of the event loop's wire: from the app's reply to what the event loop is to write.

Owns:     back-pressure on the app: memory first, then the response's spool, then the wait; large pieces in parts; the
          worker that writes to the socket itself when nothing else is queued.
Thread:   a worker (with --threads 0: the event loop).
Spec:     PEP 3333 "Buffering and Streaming".
Not here: the transport (writing.py), receiving (wire_loop.py), time-outs (timeouts.py); what the octets are (wsgi/response.py).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any, Callable, cast

from ..core.budgets import SENT_FILE_COUNT
from ..core.errors import ClientDisconnected, ResponseTruncated
from ..core.exchange import Exchange
from ..core.spool import ResponseSpool
from ..workers.executor import Executor
from ..wsgi import FileResponse, Reply
from .large_bodies import LargeBodies
from .sender import keep_rest
from .sendfile import read_pieces
from .states import Event, State

# A worker writes to the socket itself up to this size; a larger response hardly fits the socket's buffer.
DIRECT_BYTES = 1 << 16
# Once --response-memory is full, larger pieces are sent in parts, so that a client that is behind has only the first
# in memory.
PART_BYTES = 1 << 18

# Measured: a member looked up in its enum class costs CPython 3.11 three times a global.
RUNNING, LOOP_ENDS = State.RUNNING, State.LOOP_ENDS


class SendingHalf(LargeBodies):
    """What workers do with the event loop's wire."""

    __slots__ = ()

    def reply(self, exchange: Exchange, reply: Reply) -> bool:
        """See Wire.reply."""
        if type(reply) is bytes:
            return self._complete_response(exchange, reply)
        if self._executor.is_inline or type(reply) not in (tuple, FileResponse):
            self._progress.stay_on_loop()  # else the fast path has a pump for it
        if type(reply) is tuple:
            return self._send_large(exchange, cast("tuple[bytes, bytes]", reply))
        if type(reply) is not FileResponse:
            return self._send_pieces(exchange, cast("Iterator[bytes]", reply))
        if self._service.budgets.files.reserve(SENT_FILE_COUNT):
            self._executor.post(self._on_file, exchange, reply)
            return False
        # Enough files are open for clients without a worker.
        return self._send_pieces(exchange, read_pieces(reply.head, reply.file, reply.offset, reply.size, reply.close))

    def fail(self, exchange: Exchange, why: str) -> None:
        """See Wire.fail."""
        self._executor.post(self._on_abort, exchange, why)

    def _leave_exchange(self, exchange: Exchange) -> None:
        """Let the connection have this exchange no more; on the loop, or under the lock."""
        self.connection.exchange = None
        if self._service.in_flight is not None:
            self._service.in_flight.end(exchange)

    def _send_large(self, exchange: Exchange, reply: tuple[bytes, bytes]) -> bool:
        """Hand over a head and a large body; when too much of them waits in memory, as pieces."""
        has_client = exchange is self.connection.exchange and self._state <= LOOP_ENDS
        if self._reserve_body(exchange, reply[1], is_patient=has_client and len(reply[1]) > PART_BYTES):
            self._executor.post(self._on_large, exchange, reply)
            return False
        return self._run_pieces(exchange, (octets for octets in reply))

    def _send_pieces(self, exchange: Exchange, pieces: Iterator[bytes]) -> bool:
        if not self._executor.is_inline:
            return self._run_pieces(exchange, pieces)
        self._on_pieces(exchange, pieces)
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
            self._executor.post(self._on_spooled, exchange, why)
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
                executor.end_slice()  # from memory it goes as any other
        is_for_disk = spool is not None and spool.is_begun
        if len(octets) <= PART_BYTES or (not is_for_disk and self._reserve_memory(exchange, len(octets))):
            self._send_part(exchange, octets)
            return
        parts = memoryview(octets)
        for at in range(0, len(octets), PART_BYTES):
            self._send_part(exchange, parts[at : at + PART_BYTES])

    def _reserve_memory(self, exchange: Exchange, count: int) -> bool:
        """Count this much of a response, one piece at a time, in --response-memory; False: there is no room for it."""
        more = count - exchange.counted_bytes
        if more > 0:
            if not self._service.budgets.memory.reserve(more, is_forced=self._must_hold(count)):
                return False
            with self._lock:  # a second thread of the app may write(), too: then both are counted
                exchange.counted_bytes += more
        if exchange is not self.connection.exchange:
            self._release_memory(exchange)  # it has ended meanwhile
        return True

    def _reserve_body(self, exchange: Exchange, body: bytes, is_patient: bool) -> bool:
        """Count a whole body in --response-memory; False: there is no room for it, nor soon (`is_patient`)."""
        is_forced = self._must_hold(len(body))
        if not self._service.budgets.memory.reserve_body(body, is_patient and not is_forced, is_forced):
            return False
        with self._lock:
            exchange.counted_bytes += len(body)
            exchange.counted_body = body
        if exchange is not self.connection.exchange:
            self._release_memory(exchange)  # it has ended meanwhile
        return True

    def _must_hold(self, count: int) -> bool:
        """Return whether so much at once waits in memory in any case."""
        return self._executor.is_inline or count > self._service.config.response_spool_bytes

    def _send_part(self, exchange: Exchange, octets: bytes | memoryview) -> None:
        if self._state > LOOP_ENDS or exchange is not self.connection.exchange:
            raise ClientDisconnected("the client closed the connection")
        self._progress.stay_on_loop()
        if self._executor.is_quiet:
            rest = self._write_past(exchange, octets, is_last=False)
            if rest is None:
                return
            octets = rest
        # From here on the loop writes for this exchange: nothing may overtake what it has.
        self._take_completion()
        spool = exchange.spool
        if spool is not None and spool.is_begun and self._send_to_spool(exchange, spool, octets):
            return
        with self._lock:
            self._backlog_bytes += len(octets)
        self._executor.post(self._on_piece, exchange, keep_rest(octets))
        if self._backlog_bytes > self._service.config.write_buffer_bytes and not self._executor.is_inline:
            # For the loop alone a worker waits: a client that reads is not sent to the disk.
            self._wait_until(lambda: self._is_writable or (self._is_write_paused and self._begin_spool(exchange)))

    def _send_to_spool(self, exchange: Exchange, spool: ResponseSpool, octets: bytes | memoryview) -> bool:
        """Put a piece after what the spool holds; False: that has all been sent, and there is memory for it."""
        size, executor = len(octets), cast(Executor, self._executor)
        while spool.is_begun:
            try:
                if spool.append(octets):
                    if spool.wants_reader():
                        executor.post(self._on_spool, exchange, None)
                    return True
            except ClientDisconnected:  # an OSError, too
                raise
            except OSError as exc:
                self._service.budgets.responses.log_unkept(exc)
            executor.end_slice()
            self._wait_until(lambda: self._is_writable if not spool.is_begun else spool.has_room(size))
        return False

    def _begin_spool(self, exchange: Exchange) -> bool:
        """Let what follows of this response go to the disk; False: it may not."""
        limit_bytes = self._service.config.response_spool_bytes
        response = exchange.response  # None: it has just ended, and a second thread of the app writes
        # Early hints come before the head, and the rest of such a response may take any way.
        if not limit_bytes or response is None or not response.head_is_out:
            return False
        if exchange.spool is None:
            exchange.spool = ResponseSpool(limit_bytes, self._service.budgets.responses)
        return exchange.spool.begin()

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait for a condition, looked at anew with each step of the loop; it must not wait itself."""
        waiter = threading.Lock()
        waiter.acquire()
        while True:
            with self._lock:
                if self._state > LOOP_ENDS or self._transport.is_closing():
                    raise ClientDisconnected("the client closed the connection")
                if is_so():
                    return
                self._waiter = waiter
            waiter.acquire()

    def _complete_response(self, exchange: Exchange, octets: bytes) -> bool:
        """Hand over the rest of the response, or, as the last one out, write it; True: the exchange has ended."""
        rest: Any = octets
        if self._executor.is_quiet and exchange.keep_alive:
            rest = self._write_past(exchange, octets, is_last=True)
            if rest is None:
                return True
        self._executor.post(self._on_complete, exchange, rest)
        return False

    def _write_past(self, exchange: Exchange, octets: bytes | memoryview, is_last: bool) -> bytes | memoryview | None:
        """Write to the socket past the transport; return what the loop must write, None: nothing."""
        with self._lock:
            if (
                self._state != RUNNING
                or not self._can_bypass
                or len(octets) > DIRECT_BYTES
                or self._transport.get_write_buffer_size()
                or exchange is not self.connection.exchange  # it has ended since `send` looked
            ):
                return octets
            self._executor.waking.append(None)
            try:
                sent = os.write(self._fd, octets) if octets else 0
            except OSError:
                return octets  # full, or gone: the transport meets the same, and knows what to do
            finally:
                self._executor.waking.pop()
            if sent < len(octets):
                self._transition(Event.TAKE_COMPLETION)
                return octets[sent:]
            if is_last:
                self._leave_exchange(exchange)
                self._progress.move()
                self._transition(Event.DONE)
            return None
