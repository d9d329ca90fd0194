"""Connections that find out who is at their other end before their first request.

Owns:     credentials of a unix socket's peer; the PROXY protocol's header on
          listeners that ask for it: who may send one, how long it may take,
          what it makes of the connection.
Thread:   event loop only.
Spec:     proxy-protocol.txt of HAProxy, section 2.
Not here: the header's grammar (proxy_protocol.py), who is a proxy (peers.py),
          fields of requests (forwarded.py, trust.py).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import socket
from typing import Callable

from .connection import ARRIVING_SECONDS, Connection
from .proxies.peers import Credentials, Peers, credentials_of
from .proxies.proxy_protocol import BadHeader, Header, parse_header
from .proxies.trust import needs_identity
from .service import Service
from .settings import Bind
from .states import State

logger = logging.getLogger("aserve")

# Lines about closed connections: one at once, the others counted until so much later. Guess.
QUIET_SECONDS = 10.0


def connections_of(service: Service, bind: Bind) -> Callable[[], Connection]:
    """Return what makes a listener's connections."""
    peers = service.peers
    if peers is None or not needs_identity(bind, peers):
        return functools.partial(Connection, service)
    if bind.is_proxied:
        return functools.partial(ProxiedConnection, service, peers, Complaints(service))
    return functools.partial(IdentifiedConnection, service, peers)


class Complaints:
    """A listener's log of connections that were closed unheard; a flood of them makes few lines."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._untold_count = 0
        self._quiet_until = 0.0  # loop time

    def add(self, who: str, why: str) -> None:
        """Tell why a connection was closed, or count it."""
        now = self._service.loop.time()
        if now < self._quiet_until:
            self._untold_count += 1
            return
        more = f" ({self._untold_count} more since the last such line)" if self._untold_count else ""
        logger.warning("%s: closed: %s: %s%s", self._service.name, who, why, more)
        self._untold_count = 0
        self._quiet_until = now + QUIET_SECONDS


class IdentifiedConnection(Connection):
    """A connection of a unix socket on which some peers are believed, and some are not."""

    __slots__ = ("_credentials", "_peers", "is_believed")

    def __init__(self, service: Service, peers: Peers) -> None:
        super().__init__(service)
        self._peers = peers
        self._credentials: Credentials | None = None
        self.is_believed = False  # what it tells of its clients (trust.py)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer has connected."""
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if self.remote_addr:
            self.is_believed = self._peers.has_peer(self.remote_addr)
        elif sock.family == socket.AF_UNIX:  # else it has gone already, as a balancer that only looks whether we listen
            self._credentials = credentials_of(sock)
            self.is_believed = self._peers.has_unix_peer(self._credentials)


class ProxiedConnection(IdentifiedConnection):
    """A connection that begins with a header of the PROXY protocol."""

    __slots__ = ("_complaints", "_unread")

    def __init__(self, service: Service, peers: Peers, complaints: Complaints) -> None:
        super().__init__(service, peers)
        self._complaints = complaints
        self._unread: bytes | None = b""  # what has come of the header; None: it is through, or never will be

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected, who must be a proxy."""
        super().connection_made(transport)
        if not self.is_believed:
            self._reject("only who is in --trusted-proxies may connect here")

    def data_received(self, data: bytes) -> None:
        """Octets have come: of the header, then of requests."""
        if self._unread is None:
            super().data_received(data)
            return
        data = self._unread + data
        try:
            header = parse_header(data)
        except BadHeader as exc:
            self._reject(str(exc))
            return
        if header is None:
            self._unread = data
            return
        self._unread = None
        self._quiet_seconds = 0.0
        if not header.is_local:
            self._announce(header)
        if len(data) > header.size:
            super().data_received(data[header.size :])

    def eof_received(self) -> bool:
        """The proxy will send no more."""
        if self._unread:
            self._reject("the connection ended within the PROXY protocol header")
        return super().eof_received()

    def on_second(self) -> None:
        """Called once a second: end what has been quiet for too long."""
        if self._unread is None:
            super().on_second()
            return
        self._quiet_seconds += 1.0
        if self._service.is_draining:
            if self._quiet_seconds > ARRIVING_SECONDS:
                self._close()
        elif self._quiet_seconds > self._service.config.head_seconds:
            self._reject("no PROXY protocol header came in time (--head-timeout)")

    def _announce(self, header: Header) -> None:
        """Take the client for whom the header names."""
        # From here on the fields are the word of that client, and not of the proxy that announces it: it
        # may know nothing of HTTP. They are believed if the client is a proxy itself.
        self.is_believed = False
        if header.is_unix:
            self.remote_addr = self.remote_port = ""
        elif header.source is not None:
            self.remote_addr, self.remote_port = header.source[0], str(header.source[1])
            self.is_believed = self._peers.has_address(self.remote_addr)
        base = self.base_environ.copy()
        if header.destination is not None:
            base["SERVER_PORT"] = str(header.destination[1])
        if header.is_tls:
            base["wsgi.url_scheme"], base["HTTPS"] = "https", "on"
        self.base_environ = base

    def _describe_unix_peer(self) -> str:
        if self._credentials is None:
            return "a unix socket"
        return "a unix socket's peer with uid={} and gid={}".format(*self._credentials)

    def _reject(self, why: str) -> None:
        """Close without a word: whoever this is does not wait for HTTP."""
        self._unread = None
        if self._state <= State.IDLE:
            self._complaints.add(self.remote_addr or self._describe_unix_peer(), why)
            self._close()
