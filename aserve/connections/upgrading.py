"""What becomes of a request for a WebSocket on the event loop's wire: the app is offered one, and HTTP leaves its transport or stays.

Owns:     the offer, or why there is none; leaving the transport.
Thread:   event loop only.
Spec:     RFC 9110 section 7.8.
Not here: the WebSocket (websockets.py).
"""

from __future__ import annotations

import asyncio

from ..core.errors import RequestRefused
from ..core.exchange import Client, Exchange
from .states import Event, State
from .timeouts import TimedHalf
from .websocket import WebSocket
from .websockets import NAMES


class UpgradingHalf(TimedHalf):
    """The way out of HTTP; `LoopWire` adds the rest."""

    __slots__ = ()

    def _start_first(self, exchanges: list[Exchange]) -> None:
        """Start the first of these; the others wait."""
        raise NotImplementedError

    def take_over(self, exchange: Exchange, why: RequestRefused) -> None:
        """See Wire.take_over."""
        raise NotImplementedError

    def _prepare_exchange(self, exchange: Exchange) -> None:
        """See to the less common needs of an exchange."""
        raise NotImplementedError

    def _offer_websocket(self, exchange: Exchange) -> None:
        """Start an exchange whose client asks for a WebSocket: the app may answer it, or begin one."""
        service, connection = self._service, self.connection
        exchange.is_for_loop, exchange.connection = False, connection
        is_probe = service.health_paths is not None and service.health_paths.probe_of(exchange)
        if is_probe or not service.websockets.is_offered():
            self._protocol.go_on()
            self._start_first([exchange])
            return
        try:
            ours, its = service.websockets.open_pair()
        except RequestRefused as why:
            exchange.keep_alive = False
            self._refuse(exchange, why)
            return
        exchange.websocket = WebSocket(connection, self, ours, its)
        # In place of a test in each request's way: the environ begins with what is the client's (build_environ).
        base = {**connection.base_environ, **dict.fromkeys(NAMES, its)}
        exchange.client = Client(connection.remote_addr, connection.remote_port, base)
        connection.exchange, connection.wire = exchange, exchange.websocket
        self._progress.move()
        self._progress.stay_on_loop()
        self.transition(Event.REQUEST)
        self._prepare_exchange(exchange)
        if self._protocol.unparsed:
            self._transport.pause_reading()  # it may not be HTTP; until something comes, the client's end is seen
        elif self._is_at_eof or service.websockets.is_ending:
            self._end_offer()
        service.begin(exchange)
        self._executor.submit(exchange.websocket.run, exchange)

    def _end_offer(self) -> None:
        """Let an app that reads before it has decided find the end: its client is gone, or the server ends."""
        exchange = self.connection.exchange
        if exchange is not None and exchange.websocket is not None:
            exchange.websocket.end_input()

    def stay(self) -> None:
        """Go on with HTTP: the app answers."""
        self._protocol.go_on()
        if not self._is_at_eof and not self._transport.is_closing():
            self._transport.resume_reading()

    def leave_transport(self, protocol: asyncio.Protocol) -> tuple[asyncio.Transport, bytes, bool, bool] | None:
        """See websockets.Leaving."""
        if self.state != State.LOOP_ENDS or self._transport.is_closing():
            return None
        self.transition(Event.DETACH)
        octets, self._protocol.unparsed = self._protocol.unparsed, b""
        self._transport.set_protocol(protocol)
        self._outbox.leave()
        if not self._is_at_eof:
            self._transport.resume_reading()
        return self._transport, octets, self._outbox.is_write_paused, self._is_at_eof
