"""The WebSockets of one server.

Owns:     WebSockets: how many there may be, the pair of sockets of each, and how they end as the server drains.
Thread:   event loop only.
Not here: one of them (websocket.py), the request that asks for it (upgrading.py).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Callable

from ..core.errors import RequestRefused
from ..core.log_once import LogOnce

if TYPE_CHECKING:
    from ..core.exchange import Exchange
    from ..settings import EngineSettings
    from ..wsgi.deadlines import Deadlines

logger = logging.getLogger("aserve")

# What libraries look for: Werkzeug's name, which simple-websocket prefers, and gunicorn's.
NAMES = ("werkzeug.socket", "gunicorn.socket")
# In a drain one ends so long after another, unless there are so many that the first half of --drain-timeout would not do. Guess.
ENDING_SECONDS = 0.01


class End(socket.socket):
    """One of a pair. Apps may drop theirs without closing it, as under Werkzeug's own server: they are not warned."""

    __slots__ = ()

    def __del__(self) -> None:
        self.close()


class WebSockets:
    """Those of one server."""

    def __init__(
        self,
        config: EngineSettings,
        loop: asyncio.AbstractEventLoop,
        deadlines: Deadlines | None = None,
        write: Callable[[Exchange], None] | None = None,
    ) -> None:
        """`deadlines`: of requests, which have none once they are WebSockets; `write`: is told of each that becomes one."""
        self._loop, self._deadlines, self._write = loop, deadlines, write
        # A WebSocket keeps its thread, so that another must take the place; one thread is a promise (PEP 3333 wsgi.multithread).
        self._has_threads = config.threads > 1
        self._limit = config.websockets
        self._ending_seconds = config.drain_seconds / 2
        self._all: set[object] = set()  # also those of which it is not known yet
        self.is_ending = False  # the server closes its connections: one that begins ends in its turn
        self._ending_count = 0
        self._line, self._shortage_line = LogOnce(logger, logging.WARNING), LogOnce(logger, logging.ERROR)

    def is_offered(self) -> bool:
        """Whether apps may have any; otherwise requests that ask for one are as any other."""
        if self._limit and not self._has_threads:
            self._line.log(
                "a request asks for a WebSocket, for which there is no thread: --threads must be 2 or more (said once)"
            )
        return bool(self._limit) and self._has_threads

    def open_pair(self) -> tuple[socket.socket, socket.socket]:
        """
        Return the sockets of one more: ours, which does not block, and the app's.

        Raises:
            RequestRefused: there are as many as there may be, or no descriptor is left.
        """
        if len(self._all) >= self._limit:
            self._line.log("there are %d WebSockets, the limit (--websockets): more get a 503 (said once)", self._limit)
            raise RequestRefused(503, "there are too many WebSockets")
        try:
            ours, its = [End(each.family, each.type, each.proto, fileno=each.detach()) for each in socket.socketpair()]
        except OSError as exc:
            self._shortage_line.log("no WebSocket can be had: %s; raise `ulimit -n` (said once)", exc.strerror)
            raise RequestRefused(503, "there is no room for a WebSocket") from None
        ours.setblocking(False)
        return ours, its

    def add(self, websocket: object) -> None:
        """Count one."""
        self._all.add(websocket)

    def discard(self, websocket: object) -> None:
        """Count one no longer."""
        self._all.discard(websocket)

    def on_begun(self, exchange: Exchange) -> None:
        """A request has become one."""
        if self._deadlines is not None:
            self._deadlines.forget(exchange)
        if self._write is not None:
            self._write(exchange)

    def end_later(self, end: Callable[[], None]) -> None:
        """Call it in its turn, as the server drains: its client will come back, and not all should at once."""
        step = min(ENDING_SECONDS, self._ending_seconds / max(len(self._all), 1))
        self._loop.call_later(min(self._ending_count * step, self._ending_seconds), end)
        self._ending_count += 1
