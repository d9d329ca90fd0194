"""A connection with the exchanges of many streams.

Owns:     Carrier, the interface towards the transport and the server; NewCarrier, a maker; Carriers of a listener; StreamConnection.
Thread:   event loop only, but StreamConnection: in the lane the leader, or whoever promotes a request, makes one.
Spec:     RFC 7301 (ALPN).
Not here: any one such protocol; a stream's LoopWire (wire_loop.py). A stream has a Connection of its own, and counts as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Callable, Protocol

from ..core.exchange import Exchange
from ..core.named_tuple import NamedTuple
from .connection import Connection


class Carrier(asyncio.Protocol):
    """The protocol of a connection with streams; every method is for a subclass to override."""

    idle_seconds = 0.0  # the time without a stream; 0: there is one
    connection: Connection
    state: Any  # C's: the lane may go on with a copy

    @property
    def has_streams(self) -> bool:
        """Whether a stream is open; each is counted as a connection, and without one the carrier is."""
        raise NotImplementedError

    def on_second(self) -> None:
        """Close the connection if idle for too long; called once a second."""
        raise NotImplementedError

    def drain(self) -> None:
        """Let open streams finish, then close."""
        raise NotImplementedError

    def abort(self) -> None:
        """Close at once."""
        raise NotImplementedError

    def drop_octets(self, data: bytes) -> None:
        """Drop octets behind our last ones."""
        raise NotImplementedError

    def leave_lane(self, set: Any, number: int, running: Callable[[], int], on_lost: Callable[[], None]) -> None:
        """
        Go on with a connection of the lane, before there is a transport.

        `number`: of the connection there, until `on_lost`. `running`: returns how many of its streams are there still.
        """
        raise NotImplementedError

    def adopt(self, stream_id: int, wire: Any) -> bool:
        """Go on with a stream of the lane, whose request has begun; False: it cannot be. `wire`: a LoopWire."""
        raise NotImplementedError

    def begin(self, stream_id: int, head: bytes, body: bytes) -> None:
        """Begin a stream of the lane, by its request; `head`: in the form of HTTP/1.1, or empty: nobody waits for an answer, and its place is free."""
        raise NotImplementedError


class StreamExecutor(Protocol):
    """The runner of the exchanges of a connection's streams."""

    def submit(self, function: Callable[[Any], None], exchange: Exchange) -> None:
        """Run function(exchange) in a worker."""

    def end(self, exchange: Exchange) -> None:
        """Forget an ended exchange; on the event loop."""


class StreamConnection(Connection):
    """The connection of a stream, with the client of the carrier's connection."""

    __slots__ = ("_exchange", "_executor", "unsent_bytes")
    is_stream = True

    def __init__(self, of: Connection, executor: StreamExecutor) -> None:
        self._exchange: Exchange | None = None
        self.unsent_bytes: int | None = None  # of a response whose head the lane has sent; -1: unknown
        self._executor = executor
        super().__init__(of.service, of.remote_addr, of.remote_port)
        self.base_environ, self.carried_by = of.base_environ, of
        if of.service.identify is not None:
            self.is_believed = of.is_believed

    def leave_lane(self, executor: StreamExecutor) -> None:
        """Let this run further exchanges."""
        self._executor = executor

    @property
    def executor(self) -> Any:
        """See Connection."""
        return self._executor

    @property
    def exchange(self) -> Exchange | None:
        """See Connection."""
        return self._exchange

    @exchange.setter
    def exchange(self, exchange: Exchange | None) -> None:
        ended, self._exchange = self._exchange, exchange
        if ended is not None:
            self._executor.end(ended)


class LaneStreams:
    """In place of the StreamExecutor of streams in the lane, whose C counts them."""

    def end(self, exchange: Exchange) -> None:
        """See StreamExecutor."""


IN_LANE: Any = LaneStreams()

# The argument: the connection, with the client not identified yet.
NewCarrier = Callable[[Connection], Carrier]


class Carriers(NamedTuple):
    """The protocols of a listener beside HTTP/1.x."""

    by_name: Mapping[str, NewCarrier] = MappingProxyType({})  # chosen by ALPN
    by_preface: Mapping[bytes, NewCarrier] = MappingProxyType({})  # the first octets of a connection without TLS
    is_believed: Callable[[Connection], bool] = lambda connection: False  # whether a peer may send a preface

    @property
    def in_lane(self) -> NewCarrier | None:
        """The maker of HTTP/2, which alone the lane knows."""
        return self.by_name.get("h2") or next(iter(self.by_preface.values()), None)


NO_CARRIERS = Carriers()
