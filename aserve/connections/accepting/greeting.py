"""Identifying the peer of a connection, before its first request.

Owns:     credentials of a unix socket's peer; the PROXY protocol's header on
          listeners that ask for it: which peers may send one, how long it
          may take, and the connection's client by it.
Thread:   event loop only.
Spec:     proxy-protocol.txt of HAProxy, section 2.
Not here: the header's grammar (proxies/proxy_protocol.py), which peers are proxies (proxies/peers.py),
          fields of requests (proxies/forwarded.py, trust.py).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Callable, cast

from ...proxies.peers import Peers, credentials_of
from ...proxies.proxy_protocol import BadHeader, Header, parse_header
from ..connection import Connection
from ..loop.wire_loop import LoopWire
from ..progress import first_seconds
from ..service import Service

logger = logging.getLogger("aserve")

# Log lines about closed connections: one at once; further ones within this time are only counted. Guess.
THROTTLE_SECONDS = 10.0


class LogThrottle:
    """Logs, for one listener, which connections were closed without a request; a flood of them makes few lines."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._untold_count = 0
        self._quiet_until = 0.0  # loop time

    def warn(self, who: str, why: str) -> None:
        """Log why a connection was closed; within THROTTLE_SECONDS of the last such line, only count it."""
        now = self._service.loop.time()
        if now < self._quiet_until:
            self._untold_count += 1
            return
        more = f" ({self._untold_count} more since the last such line)" if self._untold_count else ""
        logger.warning("%s: closed: %s: %s%s", self._service.name, who, why, more)
        self._untold_count = 0
        self._quiet_until = now + THROTTLE_SECONDS


def identify_by(peers: Peers) -> Callable[[Connection, asyncio.BaseTransport], None]:
    """Return a function that finds out whether a connection's peer is trusted."""

    def identify(connection: Connection, transport: asyncio.BaseTransport) -> None:
        sock = transport.get_extra_info("socket")
        connection.is_believed = (
            peers.has_peer(connection.remote_addr)
            if connection.remote_addr
            else sock.family == socket.AF_UNIX and peers.has_unix_peer(credentials_of(sock))
        )

    return identify


class Greeting(asyncio.Protocol):
    """The beginning of a connection that starts with a header of the PROXY protocol: it comes before the wire."""

    idle_seconds = 0.0

    def __init__(self, service: Service, peers: Peers, throttle: LogThrottle) -> None:
        self._service = service
        self._peers = peers
        self._throttle = throttle
        self.connection = Connection(service)
        self._received = b""  # of the header
        self._is_over = False  # the header is complete, or was rejected
        self._quiet_seconds = 0.0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer has connected; reject it unless it is a proxy."""
        self._transport = cast(asyncio.Transport, transport)
        self._service.connections.add(self)
        if not self.connection.identify(transport):
            self._close()
        elif not self.connection.is_believed:
            self._reject("only a peer in --trusted-proxies may connect here")

    def data_received(self, data: bytes) -> None:
        """Parse octets of the header; requests may follow."""
        if self._is_over:
            return
        self._received += data
        try:
            header = parse_header(self._received)
        except BadHeader as exc:
            self._reject(str(exc))
            return
        if header is not None:
            self._begin_wire(header)

    def eof_received(self) -> None:
        """The proxy will send no more."""
        if self._received:
            self._reject("the connection ended within the PROXY protocol header")
        self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        self._is_over = True
        self._service.connections.discard(self)

    # Called by the server

    def on_second(self) -> None:
        """Close the connection if its header takes too long; called once a second."""
        self._quiet_seconds += 1.0
        service, has_begun = self._service, bool(self._received)
        if self._quiet_seconds > first_seconds(service.config, service.is_draining, has_begun):
            if has_begun or not service.is_draining:
                self._reject("no PROXY protocol header came in time (--head-timeout)")
            else:
                self._close()

    def drain(self) -> None:
        """Let the client send its first request, if it is quick."""

    def abort(self) -> None:
        """Close at once."""
        self._transport.abort()

    # The header

    def _begin_wire(self, header: Header) -> None:
        """Give the connection its wire: the header is complete."""
        self._is_over = True
        if not header.is_local:
            self._set_client(header)
        wire = LoopWire(self.connection, self._received[header.size :], is_new=False)
        self._transport.set_protocol(wire)
        wire.connection_made(self._transport)
        self._service.connections.discard(self)

    def _set_client(self, header: Header) -> None:
        """Set the client to the one that the header names."""
        # From here on fields of requests come from that client, and not from the proxy that sent the header,
        # which may not understand HTTP. They count if the client is a trusted proxy itself.
        connection = self.connection
        connection.is_believed = False
        if header.is_unix:
            connection.remote_addr = connection.remote_port = ""
        elif header.source is not None:
            connection.remote_addr, connection.remote_port = header.source[0], str(header.source[1])
            connection.is_believed = self._peers.has_address(connection.remote_addr)
        base = connection.base_environ.copy()
        if header.destination is not None:
            base["SERVER_PORT"] = str(header.destination[1])
        if header.is_tls:
            base["wsgi.url_scheme"], base["HTTPS"] = "https", "on"
        connection.base_environ = base

    def _describe_peer(self) -> str:
        if self.connection.remote_addr:
            return self.connection.remote_addr
        credentials = credentials_of(self._transport.get_extra_info("socket"))
        return "a unix socket's peer with uid={} and gid={}".format(*credentials) if credentials else "a unix socket"

    def _reject(self, why: str) -> None:
        """Close without a response: this peer does not expect HTTP."""
        if not self._is_over:
            self._throttle.warn(self._describe_peer(), why)
            self._close()

    def _close(self) -> None:
        self._is_over = True
        self._transport.close()
