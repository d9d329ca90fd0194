"""A connection of a trusted peer that may begin with the preface of another protocol than HTTP/1.x.

Owns:     Beginning, the connection's protocol until its first octets tell which it is; `begin`.
Thread:   event loop only.
Spec:     RFC 9113 section 3.3 (prior knowledge).
Not here: any one such protocol (carrier.py); the choice by ALPN (tls_transport.py); the PROXY protocol (greeting.py).

From any other peer, and behind a request, a preface is a request of HTTP/1.x that is refused: only the operator's proxies may choose.
"""

from __future__ import annotations

import asyncio
from typing import cast

from ..carrier import Carrier
from ..connection import LOST, Connection
from ..loop.wire_loop import LoopWire
from ..progress import first_seconds


class Beginning(asyncio.Protocol):
    """The protocol of a connection that has sent nothing yet, or less than a preface."""

    idle_seconds = 0.0

    def __init__(self, connection: Connection, octets: bytes = b"") -> None:
        """`octets`: read already."""
        self.connection = connection
        self._service = connection.service
        self._received = octets
        self._quiet_seconds = 0.0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast(asyncio.Transport, transport)
        self._service.connections.add(self)
        if not self.connection.identify(transport):
            self._transport.close()
        elif not self._service.carriers.is_believed(self.connection):
            self._go_on_as(LoopWire(self.connection, self._received, is_new=False))
        elif self._received:
            self.data_received(b"")

    def data_received(self, data: bytes) -> None:
        """Look at the first octets; go on as soon as they tell the protocol."""
        received = self._received = self._received + data
        for preface, new_carrier in self._service.carriers.by_preface.items():
            if received.startswith(preface):
                carrier = new_carrier(self.connection)
                if new_carrier is not self._service.carriers.in_lane or not self._enter_lane(carrier):
                    self._go_on_as(carrier)
                    carrier.data_received(received)
                return
            if preface.startswith(received):
                return  # more must come
        self._go_on_as(LoopWire(self.connection, received, is_new=False))

    def eof_received(self) -> None:
        """The client has sent less than a preface, and will send no more: the transport closes."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        self._service.connections.discard(self)

    # Called by the server

    def on_second(self) -> None:
        """Close the connection if its first octets take too long; called once a second."""
        self._quiet_seconds += 1.0
        service = self._service
        if self._quiet_seconds > first_seconds(service.config, service.is_draining, bool(self._received)):
            self._transport.close()

    def drain(self) -> None:
        """Let the client send its first request, if it is quick."""
        self._quiet_seconds = 0.0

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    # The protocol

    def _enter_lane(self, carrier: Carrier) -> bool:
        """Let the lane go on from here, with the octets that have come."""
        take, sock = self._service.take_carrier, self._transport.get_extra_info("socket")
        self.connection.wire = LOST  # until it has one
        self._service.connections.discard(self)  # first: counted twice, it could have a stream refused
        if take is None or not take(self.connection, sock.fileno(), None, False, carrier.state, self._received):
            return False
        self._transport.close()
        return True

    def _go_on_as(self, protocol: LoopWire | Carrier) -> None:
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        self._service.connections.discard(self)


def begin(connection: Connection, octets: bytes = b"") -> LoopWire | Beginning:
    """Return the protocol with which a connection without TLS begins; `octets`: read already."""
    return (Beginning if connection.service.carriers.by_preface else LoopWire)(connection, octets)
