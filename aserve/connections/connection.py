"""One client's connection, from accept to close: the client, the running exchange, and the wire below.

Owns:     Connection, to which exchanges, deadlines and the access log refer; Wire, the interface of the layer below; LOST, the wire of an ended
          connection.
Thread:   two, under banners. `lock` guards `exchange`. Each wire's docstring says what else the lock guards.
Not here: the two wires: a worker's own reads and writes (wire_fast.py), the event loop's transport (wire_loop.py); the way from one to the other
          (handover.py).
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, Protocol

from ..core.errors import ClientDisconnected, ResponseTruncated, WrittenOff
from ..core.exchange import ANSWERED, CLIENT_GONE, TIMED_OUT
from ..workers.inline import no_running_loop
from ..wsgi import Reply
from .addresses import unmapped
from .wire_log import tell

if TYPE_CHECKING:
    import asyncio

    from ..core.errors import RequestRefused
    from ..core.exchange import Exchange
    from ..workers.executor import Executor
    from ..workers.inline import InlineExecutor
    from .service import Service

logger = logging.getLogger("aserve")


class Wire(Protocol):
    """Reads and writes below a connection."""

    way: str  # the name in the log
    in_lane: bool  # requests come by the lane

    # --- called from a worker (with --threads 0: on the event loop) ---

    def reply(self, exchange: Exchange, reply: Reply) -> bool:
        """Send the app's reply; True: the exchange has ended, False: the wire ends the exchange later."""

    def send(self, exchange: Exchange, octets: bytes) -> None:
        """
        Send a piece of the response; wait while neither memory nor the spool has room for the next.

        Raises:
            ClientDisconnected: the client is gone, or this exchange is over.
        """

    def fail(self, exchange: Exchange, why: str) -> None:
        """Cut the response short: it cannot be finished."""

    # --- called on the event loop ---

    def take_over(self, exchange: Exchange, why: RequestRefused) -> None:
        """Answer in place of a worker written off; drop later octets of that worker."""

    def abort_slow_reader(self, exchange: Exchange, why: str) -> None:
        """Close with a reset: no worker waits any longer for a slow reader."""


class Connection:
    __slots__ = (
        "base_environ", "carried_by", "exchange", "is_believed", "is_spent", "lock", "remote_addr", "remote_port", "service", "term", "wire",
    )  # fmt: skip

    wire: Wire
    # Whether the peer's claims about clients count (proxies/trust.py). Set only if connections differ.
    is_believed: bool
    # For a Before with a count of the exchanges of a connection (wsgi/gateway.py); nothing else sets `term`.
    term: Any
    # Of a stream alone: the connection of the carrier (carrier.py), with the count of a Before.
    carried_by: Connection
    # Of a carrier's connection alone: a Before wants no further exchange there.
    is_spent: bool
    is_stream = False

    def __init__(self, service: Service, remote_addr: str = "", remote_port: str = "") -> None:
        self.service = service
        self.base_environ = service.base_environ  # the common part of each environ
        self.remote_addr = remote_addr  # "" on a unix socket
        self.remote_port = remote_port
        self.lock = threading.Lock()
        self.exchange: Exchange | None = None  # with the app, or (fast path) with the body in arrival

    @property
    def name(self) -> str:
        """The client, for the log."""
        return self.remote_addr or "unix socket"

    @property
    def executor(self) -> Executor | InlineExecutor:
        """The executor of this connection's exchanges."""
        return self.service.executor

    # --- called from a worker (with --threads 0: on the event loop) ---

    def run(self, exchange: Exchange, respond: Callable[[Exchange], Reply] | None = None) -> None:
        """Let the app answer, and send the response; `respond`: in place of the gateway's (native.py)."""
        try:
            reply = (self.service.gateway.respond if respond is None else respond)(exchange)
            wire = self.wire  # the next request may come by another, as soon as this is answered
            if wire.reply(exchange, reply):
                self.end_exchange(exchange, wire.in_lane)
            elif exchange.began_at:
                exchange.left_at = time.monotonic()
        except WrittenOff:
            raise
        except BaseException:  # a bug in aserve: this request is lost, others are not
            logger.exception("internal error; please report this as a bug in aserve")
            self.wire.fail(exchange, "internal error")

    def send(self, exchange: Exchange, octets: bytes) -> None:
        """Send a piece of the response before the app has returned; see Wire.send."""
        self.wire.send(exchange, octets)

    # --- called on the event loop ---

    def identify(self, transport: asyncio.BaseTransport) -> bool:
        """Take the client's address from the transport, and find out whether the peer is trusted; False: the client has left already."""
        peer = peer_of(transport)
        if peer is None:
            return False
        self.remote_addr, self.remote_port = peer
        if self.service.tells_wire:
            tell(self, "is accepted")
        if self.service.identify is not None:
            self.service.identify(self, transport)
        return True

    def take_over(self, exchange: Exchange, why: RequestRefused) -> None:
        """See Wire.take_over."""
        exchange.end = TIMED_OUT
        self.wire.take_over(exchange, why)
        self.service.end_lost(exchange)

    def abort_slow_reader(self, exchange: Exchange, why: str) -> None:
        """See Wire.abort_slow_reader."""
        self.wire.abort_slow_reader(exchange, why)

    # --- called from both sides ---

    def end_exchange(self, exchange: Exchange, may_wait: bool = False) -> None:
        """Log an exchange with a response that is out, or lost, and release the exchange; `may_wait`: see RequestLog.write."""
        ends = self.service.ends
        if ends is not None and not exchange.is_probe:
            ends.write(exchange, may_wait)
        release_exchange(exchange)


class LostWire:
    """The wire of a connection after the transport and the last exchange: nothing is sent."""

    way = "nobody"
    in_lane = False

    def reply(self, exchange: Exchange, reply: Reply) -> bool:
        """See Wire.reply."""
        discard_reply(exchange, reply)
        return False

    def send(self, exchange: Exchange, octets: bytes) -> None:
        """See Wire.send."""
        raise ClientDisconnected("the client closed the connection")

    def fail(self, exchange: Exchange, why: str) -> None:
        """Do nothing: there is no response to be cut short."""

    def take_over(self, exchange: Exchange, why: RequestRefused) -> None:
        """Do nothing: no client waits for an answer."""

    def abort_slow_reader(self, exchange: Exchange, why: str) -> None:
        """Do nothing: no worker waits for the client."""


def peer_of(transport: asyncio.BaseTransport) -> tuple[str, str] | None:
    """Return a client's address and port, both empty on a unix socket; None: the client has left already."""
    peer = transport.get_extra_info("peername")
    if isinstance(peer, tuple):
        return unmapped(peer[0]), str(peer[1])
    # Reset before the accept: the request is there, but without an address would look like a unix socket's.
    return ("", "") if transport.get_extra_info("socket").family == socket.AF_UNIX else None


def tells_its_end(exchange: Exchange) -> bool:
    """Whether a client sees the cut of a response without a reset: by the length, the chunks, or as no octet came."""
    if exchange.is_from_front:
        # The end of the connection is the framing of uwsgi and SCGI. Not all front servers count the body of a response with a length: Apache
        # passes on the octets, and keeps the client waiting for the rest.
        return False
    response = exchange.response
    return response is None or not response.head_is_out or bool(response.tells_its_end)


def release_exchange(exchange: Exchange) -> None:
    """Free the body and the response of an exchange."""
    if exchange.body is not None:
        exchange.body.close()
    exchange.response = None  # a cycle: both, and a body in memory, would wait for the garbage collector


def close_reply(reply: Reply) -> None:
    """Close a useless reply; log the app's failures."""
    try:
        if isinstance(reply, Iterator):
            next(reply, None)  # a generator that has not begun would close nothing
        close: Any = getattr(reply, "close", None)
        if close is not None:
            close()
    except (ClientDisconnected, ResponseTruncated):
        pass
    except WrittenOff:
        raise
    except BaseException:  # SystemExit and the like end nothing else, as in gateway.py
        logging.getLogger("aserve.app").exception("the app's iterable raised in close()")


def discard_reply(exchange: Exchange, reply: Reply) -> None:
    """Release an exchange whose connection is lost, and close the app's reply; log the app's failures."""
    with no_running_loop():  # there is one where --threads 0 has no worker for this
        close_reply(reply)
    exchange.connection.service.lost.discard(exchange)
    if exchange.response is None:  # ended already
        release_exchange(exchange)
        return
    if exchange.end == ANSWERED:
        exchange.end = CLIENT_GONE
    exchange.connection.end_exchange(exchange)


def drop_exchange(exchange: Exchange, reply: Reply | None) -> None:
    """End an exchange of a lost connection; `reply`: the app's, None: the worker was written off."""
    if reply is None:
        exchange.connection.service.end_lost(exchange)
    else:
        discard_reply(exchange, reply)


LOST = LostWire()
