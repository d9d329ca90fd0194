"""What every wire protocol is, and the one door from C result codes to exceptions.

Owns:     WireProtocol, Limits, `refusal`.
Thread:   event loop only.
Not here: any one protocol; transports (connections/wire_loop.py).
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Protocol

from .._cparsers import ffi, lib
from ..body import BufferedBody, LiveBody
from ..budgets import BodySpace, unlimited_bodies
from ..errors import RequestRefused, over_limit
from ..exchange import Exchange
from ..proxies.forwarded import strip_forwarded
from ..settings import Config


class Limits(NamedTuple):
    """How much a protocol takes from one connection; octets unless said (settings/table.py gives the reasons)."""

    max_line_bytes: int = 8190
    max_head_bytes: int = 65536
    max_fields: int = 100  # field lines
    max_body_bytes: int = 1 << 30
    body_memory_bytes: int = 1 << 19
    max_pipelined: int = 16  # exchanges
    is_live: bool = False  # --body stream
    has_status_line: bool = False  # --scgi-status line
    strip_forwarded: Callable[[Exchange], None] = (
        strip_forwarded  # for a request with fields that only a proxy is believed
    )
    body_space: BodySpace = unlimited_bodies()  # of temporary files, for all connections together

    @classmethod
    def of(cls, config: Config, strip_forwarded: Callable[[Exchange], None], body_space: BodySpace) -> Limits:
        """Return what the settings allow on the connections of one listener."""
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
        )


class WireProtocol(Protocol):
    """
    One connection's octets, de-framed. Pure: no loop, no socket, no thread.

    A client's fault is no exception: it comes back as a last exchange that
    holds its refusal, so that responses keep their order.
    """

    # Whether a connection carries one request, which is on its way as soon as the connection is there.
    is_single: bool
    # True while a client waits for "100 Continue" before it sends its body (RFC 9110 10.1.1).
    is_continue_due: bool
    # Octets kept for later: an incomplete head, or what came after `max_pipelined` exchanges.
    unparsed: bytes

    def receive(self, data: bytes) -> list[Exchange]:
        """
        Feed octets from the network; return the exchanges they completed.

        At most `max_pipelined` are returned; the rest is kept, and
        `receive(b"")` goes on with it.
        """

    def receive_eof(self) -> None:
        """The client will send no more; what it has sent is still parsed."""

    @property
    def is_mid_message(self) -> bool:
        """Whether a request has begun and is not complete."""

    @property
    def is_mid_body(self) -> bool:
        """Whether a request's head is complete and its body is not."""

    @property
    def body(self) -> BufferedBody | LiveBody | None:
        """The body that is still being received."""

    @property
    def live_body(self) -> LiveBody | None:
        """The live body that is still being received."""

    @property
    def has_unparsed(self) -> bool:
        """Whether `receive(b"")` may return more."""


def refusal(code: int) -> RequestRefused:
    """Return a C parser's error code as the exception that answers it."""
    return RequestRefused(lib.aserve_status(code), ffi.string(lib.aserve_strerror(code)).decode("ascii"))


def new_body(limits: Limits, is_chunked: bool, length: int = 0) -> BufferedBody | LiveBody:
    """
    Return an empty body of the kind that the configuration asks for; 0: its length is not known.

    Raises:
        RequestRefused: it is too large for memory, and there is no room on the disk.
    """
    if limits.is_live:
        return LiveBody(limits.body_memory_bytes, is_chunked)
    if length > limits.body_memory_bytes:
        limits.body_space.check(length)
    return BufferedBody(limits.body_memory_bytes, is_chunked, limits.body_space)


def body_too_large(limits: Limits) -> RequestRefused:
    """Return the refusal of a body over the limit (RFC 9110 section 15.5.14)."""
    return over_limit(413, "the request body", limits.max_body_bytes, "--max-body")
