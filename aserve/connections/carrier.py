"""A connection whose octets carry the exchanges of many streams.

Owns:     Carrier, the interface towards the transport and the server; NewCarrier, its maker; Carriers, those of a listener; `new_stream`.
Thread:   event loop only.
Spec:     RFC 7301 (ALPN).
Not here: any one such protocol; a stream's LoopWire (wire_loop.py). A stream has a Connection of its own, and counts as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Callable

from ..core.named_tuple import NamedTuple
from .connection import Connection


class Carrier(asyncio.Protocol):
    """The protocol of a connection that carries streams; every method is for a subclass to override."""

    idle_seconds = 0.0  # for how long it has had no stream; 0 if it has one

    @property
    def has_streams(self) -> bool:
        """Whether a stream is open; each is counted as a connection, and without one the carrier is."""
        raise NotImplementedError

    def on_second(self) -> None:
        """Close the connection if it has idled for too long; called once a second."""
        raise NotImplementedError

    def drain(self) -> None:
        """Let open streams finish, then close."""
        raise NotImplementedError

    def abort(self) -> None:
        """Close at once."""
        raise NotImplementedError

    def drop_octets(self, data: bytes) -> None:
        """Drop octets that have come after our last."""
        raise NotImplementedError


def new_stream(of: Connection) -> Connection:
    """Return the connection of a stream: its client is that of the carrier's connection."""
    made = Connection(of.service, of.remote_addr, of.remote_port)
    made.base_environ, made.carried_by = of.base_environ, of
    if of.service.identify is not None:
        made.is_believed = of.is_believed
    return made


# Its argument: the connection, whose client is not identified yet.
NewCarrier = Callable[[Connection], Carrier]


class Carriers(NamedTuple):
    """The protocols of a listener beside HTTP/1.x."""

    by_name: Mapping[str, NewCarrier] = MappingProxyType({})  # that ALPN has chosen
    by_preface: Mapping[bytes, NewCarrier] = MappingProxyType({})  # the first octets of a connection without TLS
    is_believed: Callable[[Connection], bool] = lambda connection: False  # whether a peer may send a preface


NO_CARRIERS = Carriers()
