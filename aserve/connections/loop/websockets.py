"""The WebSockets of one server.

Owns:     WebSockets: the limit, the pair of sockets of each, and the ends as the server drains.
Thread:   event loop only.
Not here: a single WebSocket (websocket.py), the request for one (upgrading.py).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Callable

from ...core.errors import RequestRefused
from ...core.log_once import LogOnce

if TYPE_CHECKING:
    from ...core.exchange import Exchange
    from ...settings import EngineSettings
    from ...wsgi.deadlines import Deadlines

logger = logging.getLogger("aserve")

# The keys known to libraries: Werkzeug's, preferred by simple-websocket, and gunicorn's.
NAMES = ("werkzeug.socket", "gunicorn.socket")
# The time between two ends in a drain; less if there are too many for the first half of --drain-timeout. Guess.
ENDING_SECONDS = 0.01


class PairEnd(socket.socket):
    """One of a pair. Apps may drop their end without a close, as under Werkzeug's own server, and get no ResourceWarning."""

    __slots__ = ()

    def __del__(self) -> None:
        self.close()


class WebSockets:
    def __init__(
        self,
        config: EngineSettings,
        loop: asyncio.AbstractEventLoop,
        deadlines: Deadlines | None = None,
        write: Callable[[Exchange], None] | None = None,
    ) -> None:
        """`deadlines`: of requests; WebSockets have none; `write`: called with each exchange turned into a WebSocket."""
        self._loop, self._deadlines, self._write = loop, deadlines, write
        # A WebSocket keeps a thread, and another must take the thread's place; --threads 1 promises one thread (PEP 3333 wsgi.multithread).
        self._has_threads = config.threads > 1
        self._limit = config.websockets
        self._ending_seconds = config.drain_seconds / 2
        self._all: set[object] = set()  # also undecided requests
        self.is_ending = False  # the server closes connections: a new WebSocket ends in turn
        self._ending_count = 0
        self._line, self._shortage_line = LogOnce(logger, logging.WARNING), LogOnce(logger, logging.ERROR)

    def is_offered(self) -> bool:
        """Whether apps may have WebSockets; otherwise requests for one are as any other."""
        if self._limit and not self._has_threads:
            self._line.log(
                "a request asks for a WebSocket, for which there is no thread: --threads must be 2 or more (said once)"
            )
        return bool(self._limit) and self._has_threads

    def open_pair(self) -> tuple[socket.socket, socket.socket]:
        """
        Return the sockets of a new WebSocket: ours, non-blocking, and the app's.

        Raises:
            RequestRefused: the limit is reached, or no descriptor is left.
        """
        if len(self._all) >= self._limit:
            self._line.log("there are %d WebSockets, the limit (--websockets): more get a 503 (said once)", self._limit)
            raise RequestRefused(503, "there are too many WebSockets")
        try:
            ours, its = [
                PairEnd(each.family, each.type, each.proto, fileno=each.detach()) for each in socket.socketpair()
            ]
        except OSError as exc:
            self._shortage_line.log("no WebSocket can be had: %s; raise `ulimit -n` (said once)", exc.strerror)
            raise RequestRefused(503, "there is no room for a WebSocket") from None
        ours.setblocking(False)
        return ours, its

    def add(self, websocket: object) -> None:
        """Count a WebSocket."""
        self._all.add(websocket)

    def discard(self, websocket: object) -> None:
        """Stop counting a WebSocket."""
        self._all.discard(websocket)

    def on_begun(self, exchange: Exchange) -> None:
        """A request has become a WebSocket."""
        if self._deadlines is not None:
            self._deadlines.forget(exchange)
        if self._write is not None:
            self._write(exchange)

    def end_later(self, end: Callable[[], None]) -> None:
        """Call `end` in turn, as the server drains: the clients will connect again, but not all at once."""
        step = min(ENDING_SECONDS, self._ending_seconds / max(len(self._all), 1))
        self._loop.call_later(min(self._ending_count * step, self._ending_seconds), end)
        self._ending_count += 1
