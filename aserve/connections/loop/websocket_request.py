"""A request for a WebSocket, until the app decides.

Owns:     OfferedHalf: the app's decision; the worker's steps before and after.
Thread:   two, under banners.
Spec:     RFC 9110 section 7.8; RFC 6455 section 4.2.2.
Not here: the later WebSocket (websocket.py).

The app has one end of a pair of sockets. The first octets written there make a WebSocket of the request, as a 101 response. Until then the request
is as any other, and the app may return a response.
"""

from __future__ import annotations

import asyncio
import enum
import socket
import threading
from typing import Protocol

from ...core.errors import ClientDisconnected, RequestRefused, WrittenOff
from ...core.exchange import Exchange
from ...wsgi import Reply
from ..connection import Connection, Wire, close_reply
from .websockets import WebSockets


class OfferPhase(enum.IntEnum):
    """The phase of the request. After OFFERED the app has decided."""

    OFFERED = 0  # the app may answer over HTTP, or write to the socket
    DECLINED = 1  # the app has answered
    BEGUN = 2  # the app has written


class Leaving(Wire, Protocol):
    """The wire of HTTP, free for the connection to leave."""

    def drop(self, exchange: Exchange) -> None:
        """End a request of a client that has left before the begin in a worker."""

    def stay(self) -> None:
        """Go on with HTTP after all."""

    def leave_transport(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes, bool, bool] | None:
        """
        Leave the transport to another protocol; None: the client is gone.

        Return the transport; octets after the request; whether writing is paused; whether the client will send no more.
        """


class OfferedHalf(asyncio.Protocol):
    """The Wire until the app decides; `WebSocket` adds the rest."""

    way = "a WebSocket"
    in_lane = False

    def __init__(self, connection: Connection, http: Leaving, end: socket.socket, its: socket.socket) -> None:
        self.connection = connection
        self._websockets: WebSockets = connection.service.websockets
        self._websockets.add(self)
        self._executor = connection.service.executor
        self._http: Leaving | None = http  # until the begin
        self._lock = threading.Lock()  # guards the next two
        self._phase = OfferPhase.OFFERED
        self._thread_id = 0  # of the worker with the request
        self._end: socket.socket | None = end  # ours of the pair; closed by the event loop, after the decision
        self._its = its  # the app's; closed by the app's worker

    def _close_end(self) -> None:
        """Close our end."""
        raise NotImplementedError

    def _on_returned(self, exchange: Exchange, _: None) -> None:
        """End the WebSocket: the app's call is over."""
        raise NotImplementedError

    # --- called from a worker ---

    def run(self, exchange: Exchange) -> None:
        """Let the app answer, or begin."""
        self._thread_id = threading.get_ident()
        try:
            self.connection.run(exchange)
        except WrittenOff:
            if self.has_begun():  # just before: no answer was sent in place of the app
                self._executor.post(self._on_returned, exchange, None)
            raise
        finally:
            with self._lock:
                self._thread_id = 0
            # Apps drop their end, and on PyPy the collector would close the socket much later. First wake a thread still waiting there.
            shut(self._its, socket.SHUT_RDWR)
            self._its.close()

    def reply(self, exchange: Exchange, reply: Reply) -> bool:
        """See Wire.reply; a reply after a WebSocket is discarded."""
        if not self.has_begun():
            return self._http_wire.reply(exchange, reply)
        close_reply(reply)
        self._executor.post(self._on_returned, exchange, None)
        return False

    def send(self, exchange: Exchange, octets: bytes) -> None:
        """See Wire.send."""
        if self.has_begun():
            raise ClientDisconnected("the connection is a WebSocket, and no more HTTP")
        self._http_wire.send(exchange, octets)

    def fail(self, exchange: Exchange, why: str) -> None:
        """See Wire.fail."""
        if self.has_begun():
            self._executor.post(self._on_returned, exchange, None)
        else:
            self._http_wire.fail(exchange, why)

    def has_begun(self) -> bool:
        """Whether the app has written to the socket. The call decides: call after the app's answer or failure."""
        with self._lock:
            if self._phase != OfferPhase.OFFERED:
                return self._phase == OfferPhase.BEGUN
            if self._is_written():
                return True
            self._phase = OfferPhase.DECLINED
        self._executor.post(self._on_declined, None, None)
        return False

    @property
    def _http_wire(self) -> Leaving:
        assert self._http is not None  # not begun
        return self._http

    # --- called on the event loop: before the begin ---

    def take_over(self, exchange: Exchange, why: RequestRefused) -> None:
        """See Wire.take_over."""
        if not self.has_begun():
            self._http_wire.take_over(exchange, why)

    def abort_slow_reader(self, exchange: Exchange, why: str) -> None:
        """See Wire.abort_slow_reader."""
        if not self.has_begun():
            self._http_wire.abort_slow_reader(exchange, why)

    def drop(self, exchange: Exchange) -> None:
        """End a request of a client that has left before the begin in a worker."""
        self._close_end()
        self._its.close()
        self._websockets.discard(self)
        self._http_wire.drop(exchange)

    def _on_declined(self, _: None, __: None) -> None:
        self._close_end()
        self._websockets.discard(self)
        self.connection.wire = http = self._http_wire
        if self.connection.exchange is not None:
            self.connection.exchange.websocket = None
        http.stay()

    def _is_written(self) -> bool:
        """Begin if the app has written; called with the lock held, and while the phase is OFFERED."""
        try:
            if self._end is None or not self._end.recv(1, socket.MSG_PEEK):
                return False  # the app has closed its end
        except OSError:  # there are no octets
            return False
        self._phase = OfferPhase.BEGUN
        return True


def shut(end: socket.socket, how: int) -> None:
    """Shut a socket down, if the peer has not closed."""
    try:
        end.shutdown(how)
    except OSError:
        pass  # macOS: the app has closed its own; or this one is closed
