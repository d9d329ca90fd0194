"""The interface of a wire protocol, and the one place where C result codes become exceptions.

Owns:     WireProtocol; RequestReceiver, the common part of all protocols; ExchangeFactory, Limits, `refusal`.
Thread:   event loop; exchange factories, and their products: the worker that leads the lane.
Not here: any one protocol; transports (connections/loop/wire_loop.py).
"""

from __future__ import annotations

from typing import Any, Callable, Protocol

from .._cparsers import ffi, lib
from ..core.body import BufferedBody, LiveBody
from ..core.budgets import BodySpace, unlimited_bodies
from ..core.errors import RequestRefused, over_limit
from ..core.exchange import Exchange, refused_exchange
from ..core.named_tuple import NamedTuple
from ..proxies.forwarded import strip_forwarded
from ..settings import EngineSettings
from .refused_head import known_request, looks_like
from .underscores import Underscores

# Makes an exchange of a head parsed by the lane in C (connections/lane/lane.py). Arguments: vars, count of own ones, flags, modifier1, and the
# octets of the head: their buffer, offset and count. An exchange for the event loop must be parsed again there.
ExchangeFactory = Callable[[str, int, int, int, Any, int, int], Exchange]


class Limits(NamedTuple):
    """The limits of one connection; in octets, unless noted (settings/table.py gives the reasons)."""

    max_line_bytes: int = 8190
    max_head_bytes: int = 65536
    max_fields: int = 100  # field lines
    max_body_bytes: int = 1 << 30
    body_memory_bytes: int = 1 << 19
    max_pipelined: int = 16  # exchanges
    is_live: bool = False  # --body stream
    has_status_line: bool = False  # --scgi-status line
    strip_forwarded: Callable[[Exchange], None] = (
        strip_forwarded  # called for a request with fields reserved to proxies
    )
    body_space: BodySpace = unlimited_bodies()  # of temporary files, for all connections together
    underscores: Underscores | None = None  # logs dropped fields

    @classmethod
    def of(
        cls,
        config: EngineSettings,
        strip_forwarded: Callable[[Exchange], None],
        body_space: BodySpace,
        underscores: Underscores | None = None,
    ) -> Limits:
        """Return the settings' limits of a listener's connections."""
        return cls(
            max_line_bytes=config.max_request_line_bytes,
            max_head_bytes=config.max_head_bytes,
            max_fields=config.max_fields,
            max_body_bytes=config.max_body_bytes,
            body_memory_bytes=config.body_memory_bytes,
            max_pipelined=config.max_pipelined,
            is_live=config.body == "stream",
            has_status_line=config.scgi_status == "line",
            strip_forwarded=strip_forwarded,
            body_space=body_space,
            underscores=underscores,
        )


class WireProtocol(Protocol):
    """
    One connection's octets, de-framed. Pure: no loop, no socket, no thread.

    A client's fault is no exception, but a last exchange with a refusal: responses keep their order.
    """

    # Whether a connection carries one request, sent by the peer at once.
    is_single: bool
    # True while a client waits for "100 Continue" before sending the body (RFC 9110 10.1.1).
    is_continue_due: bool
    # Octets kept for later: an incomplete head, or octets after `max_pipelined` exchanges.
    unparsed: bytes

    def receive(self, data: bytes) -> list[Exchange]:
        """
        Feed octets from the network; return the completed exchanges.

        At most `max_pipelined` are returned; the rest is kept for `receive(b"")`.
        """

    def go_on(self) -> None:
        """Parse the octets behind a declined request for a WebSocket, kept unparsed so far, as HTTP."""

    def receive_eof(self) -> None:
        """Handle the end of the client's octets: wake the reader of a live body with an error, drop another body; parse earlier octets."""

    @property
    def is_mid_message(self) -> bool:
        """Whether a request has begun and is not complete."""

    @property
    def is_mid_body(self) -> bool:
        """Whether a request's head is complete and the body is not."""

    @property
    def body(self) -> BufferedBody | LiveBody | None:
        """The body in arrival."""

    @property
    def incomplete(self) -> list[Exchange]:
        """The request whose buffered body is still being received, if any; a request with a live body is with the app already."""

    @property
    def known(self) -> Exchange | None:
        """The known part of the request in arrival, for the log of a refusal."""

    @property
    def live_body(self) -> LiveBody | None:
        """The live body in arrival."""

    @property
    def has_unparsed(self) -> bool:
        """Whether `receive(b"")` may return more."""


class RequestReceiver:
    """The state of the request in arrival, common to all wire protocols."""

    __slots__ = ("_body", "_exchange", "unparsed")

    # Set by each protocol: another __init__ would cost a connection 0.1 us (measured 2026-11-22, CPython 3.11).
    unparsed: bytes
    _exchange: Exchange | None  # whose body is being received
    _body: Any

    def go_on(self) -> None:
        """See WireProtocol; most protocols have no such request."""

    def receive_eof(self) -> None:
        """See WireProtocol."""
        if self.live_body is not None:
            self.live_body.feed_error("the connection was closed before the end of the request body")
        elif self._body is not None:
            self._body.close()  # closes the file now, not when the garbage is collected
            self._exchange = None

    @property
    def incomplete(self) -> list[Exchange]:
        """See WireProtocol."""
        return [self._exchange] if self._exchange is not None and self.live_body is None else []

    @property
    def known(self) -> Exchange | None:
        """See WireProtocol."""
        incomplete = self.incomplete
        return incomplete[0] if incomplete else known_request(self.unparsed)

    @property
    def is_mid_message(self) -> bool:
        """See WireProtocol."""
        return self._exchange is not None or bool(self.unparsed)

    @property
    def is_mid_body(self) -> bool:
        """See WireProtocol."""
        return self._exchange is not None

    @property
    def body(self) -> BufferedBody | LiveBody | None:
        """See WireProtocol."""
        body: BufferedBody | LiveBody | None = self._body
        return body

    @property
    def live_body(self) -> LiveBody | None:
        """See WireProtocol."""
        return self._body if self._body is not None and self._body.is_live else None

    def _refuse_request(self, why: RequestRefused, exchanges: list[Exchange]) -> None:
        """Answer the request with an error: as a last exchange, or, for a request in the app, by an error of the live body."""
        exchange, body = self._exchange, self._body
        if body is not None and body.is_live:
            assert exchange is not None
            exchange.keep_alive = False
            body.refuse(why)
        else:
            if body is not None:
                body.close()
            exchanges.append(refused_exchange(why, exchange))
        self._exchange = self._body = None
        self.unparsed = b""


def refusal(code: int, octets: bytes = b"", position: int = 0) -> RequestRefused:
    """Return the RequestRefused of a C parser's error code; `octets`: the head, maybe of another protocol."""
    text = looks_like(octets, position) or ffi.string(lib.aserve_strerror(code)).decode("ascii")
    return RequestRefused(lib.aserve_status(code), text)


def new_body(limits: Limits, is_chunked: bool, length: int = 0) -> BufferedBody | LiveBody:
    """
    Return an empty body of the configured kind; `length` 0: unknown.

    Raises:
        RequestRefused: the body is over the limit; or too large for memory, and there is no room on the disk.
    """
    if length > limits.max_body_bytes:
        raise body_too_large(limits)
    if limits.is_live:
        return LiveBody(limits.body_memory_bytes, is_chunked)
    if length > limits.body_memory_bytes:
        limits.body_space.check(length)
    return BufferedBody(limits.body_memory_bytes, is_chunked, limits.body_space)


def body_too_large(limits: Limits) -> RequestRefused:
    """Return the refusal of a body over the limit (RFC 9110 section 15.5.14)."""
    return over_limit(413, "the request body", limits.max_body_bytes, "--max-body")
