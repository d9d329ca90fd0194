"""A connection that leaves HTTP: the app uses WebSocket, on a second socket.

Owns:     WebSocket, from the request for one to the end of the connection.
Thread:   two, under banners.
Spec:     RFC 9110 section 7.8; RFC 6455 sections 1.3 and 7.1.
Not here: the requests for one (cparsers/http1.c), releasing HTTP's transport (wire_loop.py), the limit (websockets.py); frames, the app's work.

The app has one end of a pair of sockets (environ["werkzeug.socket"]), the event loop the other, and the loop passes all octets between that end and
the client's transport. So behind TLS, the PROXY protocol and octets received with the request the app sees a plain client, on a socket of the
system, with time-outs and selectors; and the loop can end the connection without the app. A message costs, each way, two system calls and a wake-up
of the loop more than on the client's own socket.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import cast

from ...core.exchange import ANSWERED, CLIENT_GONE, CUT, TIMED_OUT, Client, Exchange
from ...workers.executor import Executor
from ..connection import LOST, Connection
from ..progress import LINGER_SECONDS
from ..wire_log import tell
from .outbox import queued_bytes
from .websocket_request import Leaving, OfferedHalf, OfferPhase, shut

logger = logging.getLogger("aserve")

PIECE_BYTES = 1 << 16  # read from the app at once; at most this and the transport's own limit wait for the client
STATUS_LINE = b"HTTP/1.1 "


class WebSocket(OfferedHalf):
    """A request for a WebSocket, and the connection: a Wire, and the transport's protocol once the WebSocket has begun."""

    idle_seconds = 0.0

    def __init__(self, connection: Connection, http: Leaving, end: socket.socket, its: socket.socket) -> None:
        super().__init__(connection, http, end, its)
        self._service = connection.service
        self._loop = connection.service.loop
        self._transport: asyncio.Transport | None = None  # from the begin until lost
        self._is_write_paused = False  # the client is behind
        self._unsent = b""  # octets of the client without room at the app's end: reading pauses meanwhile
        self._is_input_over = False  # the app gets no more
        self._is_at_eof = False  # the client sends no more
        self._has_returned = False  # the app
        self._is_lingering = False
        self._quiet_seconds = 0.0
        self._unread_bytes = 0
        self._status, self._sent_bytes, self._arrived_at = 101, 0, 0.0  # for the log
        self._loop.add_reader(end.fileno(), self._on_readable)

    # --- called on the event loop: beginning ---

    def _begin(self) -> bool:
        """Take the transport over from HTTP; False: the client is gone."""
        http, exchange, service = self._http_wire, self.connection.exchange, self._service
        left = http.leave_transport(self)
        if left is None or exchange is None:
            self._close_end()  # so that the app finds the end; HTTP's wire ends the exchange: see _on_returned
            return False
        self._http = None
        self._transport, octets, self._is_write_paused, is_at_eof = left
        self._websockets.on_begun(exchange)
        # From here on this is no request: free of deadlines, without a duration, and not in flight.
        self._arrived_at, exchange.arrived_at, exchange.began_at = exchange.arrived_at, 0.0, 0.0
        if service.in_flight is not None:
            service.in_flight.end(exchange)
        service.connections.add(self)
        service.connections.discard(http)
        with self._lock:
            if self._thread_id:  # otherwise the app has returned already
                cast(Executor, self._executor).set_aside(self._thread_id)
        if service.tells_wire:
            tell(self.connection, "becomes a WebSocket")
        if self._is_write_paused:
            self._watch_end(False)
        if octets:
            self.data_received(octets)
        if is_at_eof:
            self.eof_received()
        if self._websockets.is_ending:
            self.drain()
        return True

    # --- called on the event loop: from the client to the app ---

    def data_received(self, data: bytes) -> None:
        """Octets for the app have come."""
        if self._end is None or self._is_input_over:
            return
        if self._unsent:
            self._unsent += data  # read already when reading was paused
            return
        self._unsent = data
        if not self._send_to_app() and self._transport is not None:
            self._transport.pause_reading()
            self._loop.add_writer(self._end.fileno(), self._on_room)

    def drop_octets(self, data: bytes) -> None:
        """Drop the octets of a TLS client after our closure alert."""

    def eof_received(self) -> bool:
        """The client will send no more; pass on further octets of the app."""
        self._is_at_eof = True
        self.end_input()
        if self._is_lingering and self._transport is not None:
            self._transport.close()
        return True

    def end_input(self) -> None:
        """Let the app read the received octets, and then the end."""
        if self._end is not None and not self._is_input_over:
            self._is_input_over = True
            if not self._unsent:
                shut(self._end, socket.SHUT_WR)

    def _send_to_app(self) -> bool:
        """Send the received octets; False: the app's end has no room for all of them."""
        assert self._end is not None
        try:
            self._unsent = self._unsent[self._end.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:  # the app has closed its end; `_pass_on` finds out
            self._unsent, self._is_input_over = b"", True
        return not self._unsent

    def _on_room(self) -> None:
        if self._end is None or not self._send_to_app():
            return
        self._loop.remove_writer(self._end.fileno())
        if self._is_input_over:
            shut(self._end, socket.SHUT_WR)
        if self._transport is not None:
            self._transport.resume_reading()

    # --- called on the event loop: from the app to the client ---

    def _on_readable(self) -> None:
        """The app has written, or closed the app's end."""
        if self._http is not None:
            with self._lock:
                has_begun = self._phase == OfferPhase.BEGUN or (
                    self._phase == OfferPhase.OFFERED and self._is_written()
                )
            if not has_begun:
                self._watch_end(False)  # the app has closed its end, and may still answer over HTTP
                return
            if not self._begin():
                return
        self._pass_on()

    def _pass_on(self) -> None:
        """Pass on a piece of the app's octets."""
        if self._end is None or self._is_write_paused or self._transport is None:
            return
        try:
            octets = self._end.recv(PIECE_BYTES)
        except BlockingIOError:
            if self._has_returned:
                self._end_output()
            return
        except OSError:  # a reset: the app has closed its end, with octets unread
            octets = b""
        if not octets:
            self._end_output()
            return
        if not self._sent_bytes and octets.startswith(STATUS_LINE) and octets[9:12].isdigit():
            self._status = int(octets[9:12])  # the status of the handshake: the app may refuse
        self._sent_bytes += len(octets)
        self._transport.write(octets)
        if self._has_returned:
            self._loop.call_soon(self._pass_on)  # up to where nothing is left

    def pause_writing(self) -> None:
        """The client reads more slowly than the app writes: read no more from the app, and send() there waits."""
        self._is_write_paused, self._quiet_seconds = True, 0.0
        self._watch_end(False)

    def resume_writing(self) -> None:
        """The transport has room again."""
        self._is_write_paused = False
        self._watch_end(True)
        if self._has_returned:
            self._loop.call_soon(self._pass_on)

    def _watch_end(self, is_watched: bool) -> None:
        if self._end is None:
            return
        if is_watched:
            self._loop.add_reader(self._end.fileno(), self._on_readable)
        else:
            self._loop.remove_reader(self._end.fileno())

    # --- called on the event loop: ending ---

    def _on_returned(self, exchange: Exchange, _: None) -> None:
        """End the WebSocket after the app's call: pass on the app's last octets."""
        self._has_returned = True
        if self._http is not None and (self._end is None or not self._begin()):
            self._websockets.discard(self)
            self.connection.wire, exchange.websocket = self._http, None
            self._http.fail(exchange, "the client closed the connection")
        elif self._end is None:
            self._end_exchange(exchange)
        else:
            self._pass_on()

    def _end_output(self) -> None:
        """Send the pending octets and our FIN, as the app writes no more; then read on for a while (RFC 6455 section 7.1.1)."""
        self._close_end()
        transport, exchange = self._transport, self.connection.exchange
        if transport is not None:
            self._is_lingering, self._quiet_seconds = True, 0.0
            if self._is_at_eof or not transport.can_write_eof():
                transport.close()
            else:
                try:
                    transport.write_eof()
                except OSError:
                    pass  # the client has reset the connection: reading on finds out
                transport.resume_reading()
        if self._has_returned and exchange is not None:
            self._end_exchange(exchange)

    def _close_end(self) -> None:
        """Close our end. Readers of the app's socket find the end, and writers fail, also in a child forked by the app."""
        end, self._end = self._end, None
        if end is None:
            return
        self._loop.remove_reader(end.fileno())
        self._loop.remove_writer(end.fileno())
        shut(end, socket.SHUT_RDWR)
        end.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        self._transport = None
        self._close_end()
        self._service.connections.discard(self)
        exchange = self.connection.exchange
        if exchange is None:
            self.connection.wire = LOST  # breaks a cycle, freed only by the garbage collector
            return
        if exc is not None:
            self._note_end(CLIENT_GONE)
        if self._has_returned:
            self._end_exchange(exchange)
        else:
            self._note_response(exchange)
            self._service.lost.add(exchange)

    def _end_exchange(self, exchange: Exchange) -> None:
        connection = self.connection
        connection.exchange = None
        exchange.arrived_at = self._arrived_at
        self._note_response(exchange)
        exchange.client = cast(Client, exchange.client)._replace(base_environ={})  # the old one holds the app's end
        self._service.lost.discard(exchange)
        connection.end_exchange(exchange)
        self._websockets.discard(self)
        if self._transport is None:
            connection.wire = LOST

    def _note_response(self, exchange: Exchange) -> None:
        """Give the access log the status and octets of the app's socket, in place of the app's reply."""
        if exchange.response is not None:
            exchange.response.replace(self._status)
            exchange.response.sent_bytes = self._sent_bytes

    def _note_end(self, end: str) -> None:
        exchange = self.connection.exchange
        if exchange is not None and exchange.end == ANSWERED:
            exchange.end = end

    # --- called by the server ---

    def drain(self) -> None:
        """Let the WebSocket end, in turn."""
        self._websockets.end_later(self.end_input)

    def abort(self) -> None:
        """Close at once."""
        self._note_end(CUT)
        if self._transport is not None:
            self._transport.abort()

    def on_second(self) -> None:
        """End the connection of a client that does not read, or does not close; called once a second."""
        self._quiet_seconds += 1.0
        transport = self._transport
        if transport is None:
            return
        unsent_bytes = transport.get_write_buffer_size()
        if not unsent_bytes:
            self._unread_bytes = 0
            if not self._is_lingering:
                self._quiet_seconds = 0.0  # no octets wait for the client
            elif self._quiet_seconds > LINGER_SECONDS:
                transport.close()
            return
        unread_bytes = unsent_bytes + queued_bytes(transport.get_extra_info("socket").fileno())
        if unread_bytes != self._unread_bytes:
            self._quiet_seconds = 0.0  # slow, but the client reads
        self._unread_bytes = unread_bytes
        if self._quiet_seconds > self._service.config.write_seconds:
            logger.info("%s: connection aborted: the client did not read for --write-timeout", self.connection.name)
            self._note_end(TIMED_OUT)
            transport.abort()

    @property
    def unsent_bytes(self) -> int:
        """Octets in the transport."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0
