"""Answers requests for metrics and the status page.

Owns:     open_metrics, warn_of_readers; Scrapes: the listeners, and each connection from accept to close: one request, one answer, at any pace, or
          one event each second.
Thread:   that of its owner: a supervisor's loop, or an event loop.
Spec:     RFC 9112 section 9, as far as one GET needs it.
Not here: the answers (pages.py).

With workers, the supervisor answers, and not a worker from the shared memory. The supervisor can answer while every worker hangs, restarts,
or has died, which is when operators look; a worker would need the other workers' processes, tables and states, which the supervisor has;
and the listener would have to be passed on with every restart. The supervisor must not wait for a client: so nothing here blocks,
large or late requests are dropped, and of too many connections the oldest. A reader of the stream that falls behind misses events,
each of which is complete; one that does not read any more is dropped. Another process reads the app's own metrics (app.py); requests
wait for them, at most APP_SECONDS.

All sockets are in a selector of its own, whose descriptor can itself be polled (epoll(7)): the owner's loop, of any kind, waits for
that, and calls `on_ready`. It does not use aserve's own HTTP, which needs an event loop, which a supervisor must not have.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any, Callable

from ...connections.accepting.acceptor import SHORTAGES
from ...connections.addresses import binds_beside, is_loopback
from ...connections.listeners import Listener, UnixRights, open_listeners, places_of
from ...core.descriptors import accept
from ...core.errors import BindError
from ...core.log_once import LogOnce
from ...settings import parse_bind, with_reach
from ...settings.kinds import HTTP
from .pages import METRICS, MetricsPages, Reply, Whence, respond
from .settings import MetricsSettings

logger = logging.getLogger("aserve")

# For a request, its answer, and the client's close, together. Guess: Prometheus itself gives up after 10 s.
CONNECTION_SECONDS = 5.0
# For unsent answers before an exec. Guess: Prometheus reads as fast as it can.
FINISH_SECONDS = 1.0
MAX_REQUEST_BYTES = 8192
# At once. Guess: a few scrapers, and some browsers.
MAX_CONNECTIONS = 16
# Of these, readers of the stream, which stay: fewer, so that Prometheus has room.
MAX_READERS = 8
# Events that a reader may leave unread, beside those in the kernel's buffer.
MAX_LATE = 5
READER_BUFFER_BYTES = 65536
# How long to wait for the app's own metrics. Guess: leaves time for the answer within CONNECTION_SECONDS.
APP_SECONDS = 3.0
PIECE_BYTES = 65536


def open_metrics(config: MetricsSettings) -> list[Listener]:
    """
    Return the listeners of --metrics, --stats and --agent-check, none if they are not set; warn if other machines can reach them.

    Raises:
        BindError: the address could not be bound.
    """
    listeners: list[Listener] = []
    try:
        if config.metrics is not None:
            listeners += _open_pages(config, config.metrics)
        if config.stats is not None:
            opened = _open_told(config, config.stats, "--stats", "stats, as uWSGI has them,")
            by_http = config.stats.startswith(HTTP)
            listeners += [one._replace(is_stats=not by_http, is_http_stats=by_http) for one in opened]
        if config.agent_check is not None:
            opened = _open_told(config, config.agent_check, "--agent-check", "HAProxy's agent check")
            listeners += [listener._replace(is_agent=True) for listener in opened]
    except BindError:
        for listener in listeners:
            listener.close()
        raise
    others = [listener for listener in listeners if not (listener.is_agent or _is_own(listener))]
    _warn_of_readers(config, with_reach((listener.url, listener.address) for listener in others))
    return listeners


def warn_of_readers(config: MetricsSettings) -> None:
    """
    Warn, without binding, if other machines could reach --metrics or --stats.

    Raises:
        BindError: a host is not found.
    """
    places = places_of(parse_bind(place) for place in (config.metrics, config.stats) if place is not None)
    _warn_of_readers(
        config, with_reach((url, (host, bind.port)) for bind, host, url in places if not is_loopback(host))
    )


def _warn_of_readers(config: MetricsSettings, urls: Sequence[str]) -> None:
    if urls:
        logger.warning(
            "every client that reaches %s can read the metrics%s; bind 127.0.0.1 or a unix socket, or use a firewall",
            ", ".join(urls), " and the status page" if config.status_page == "all" else "",
        )  # fmt: skip


def _open_pages(config: MetricsSettings, place: str) -> list[Listener]:
    listeners = _open(config, place, "--metrics")
    page = "" if config.status_page == "off" else ", the status page on /"
    logger.info("metrics on %s%s", ", ".join(f"{listener.url}{METRICS}" for listener in listeners), page)
    return listeners


def _open_told(config: MetricsSettings, place: str, flag: str, what: str) -> list[Listener]:
    """Listen for clients that get an answer as soon as they connect."""
    listeners = _open(config, place, flag)
    places = (str(each.bind) if each.bind.kind == "unix" else each.url.partition("//")[2] for each in listeners)
    logger.info("%s on %s", what, ", ".join(places))
    return listeners


def _open(config: MetricsSettings, place: str, flag: str) -> list[Listener]:
    bind = parse_bind(place)
    try:
        return open_listeners([bind], UnixRights(config.metrics_mode), beside=binds_beside(config, [bind]))
    except BindError as fault:
        raise BindError(f"{flag}: {fault}") from None


def _is_own(listener: Listener) -> bool:
    """Whether only this machine reaches the listener."""
    return listener.bind.kind == "unix" or is_loopback(listener.socket.getsockname()[0])


class Scrapes:
    """Answers clients on these listeners, and closes the listeners at the end."""

    def __init__(
        self, listeners: Sequence[Listener], pages: MetricsPages, ask_app: Callable[[], bool] = lambda: False
    ) -> None:
        """`ask_app` requests the app's metrics, for `on_app_metrics`; it returns False if there are none."""
        self._listeners = listeners
        self._pages = pages
        self._ask_app = ask_app
        self._asked_at = float("-inf")
        self._waiting: dict[_Connection, str] = {}  # connections that wait for the app's metrics, with their methods
        self._left_out = LogOnce(logger, logging.WARNING)
        self._selector = selectors.DefaultSelector()
        self._connections: dict[_Connection, None] = {}  # the oldest first
        self._listen()

    def fileno(self) -> int:
        """Return a descriptor to poll: when it is readable, call `on_ready`."""
        return self._selector.fileno()  # selectors of epoll and kqueue have one

    def on_ready(self) -> None:
        """Handle all ready sockets, without waiting."""
        self._turn(0)

    def finish(self) -> None:
        """Finish sending answers within FINISH_SECONDS; accept no client until the next second: they wait in the kernel."""
        for listener in self._listeners:
            if listener.socket in self._selector.get_map():
                self._selector.unregister(listener.socket)
        deadline = time.monotonic() + FINISH_SECONDS
        self._turn(0)
        self._answer_waiting(b"")
        while any(one.unsent for one in self._connections) and time.monotonic() < deadline:
            self._turn(deadline - time.monotonic())
            self._answer_waiting(b"")

    def describe(self) -> list[dict[str, Any]]:
        """Return the clients without a complete request, for `restore` after an exec."""
        return [one.describe() for one in self._connections if one.unsent is None]

    def restore(self, states: Iterable[dict[str, Any]]) -> None:
        """Take over clients without a complete request."""
        for state in states:
            accepted = socket.socket(fileno=state["fd"])
            accepted.setblocking(False)
            whence, received = Whence(**state["whence"]), state["received"].encode("latin-1")
            self._add(_Connection(accepted, whence, self._answer, received))

    def _turn(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, Listener):
                self._accept(key.data)
            elif key.data in self._connections:  # and was not just dropped to make room
                self._advance(key.data)

    def on_second(self) -> None:
        """Send an event to readers, and drop late connections, once a second."""
        self._turn(0)  # a request that came in time is answered, even if this process is late
        if self._waiting and time.monotonic() - self._asked_at >= APP_SECONDS:
            self.on_app_metrics(b"", f"they could not be read within {APP_SECONDS:g} s")
        oldest = time.monotonic() - CONNECTION_SECONDS
        for connection in [one for one in self._connections if one.is_over(oldest)]:
            self._close(connection)
        readers = self._readers
        event = self._pages.next_event() if readers else b""
        for reader in readers:
            reader.offer(event)
            self._advance(reader)
        self._listen()

    @property
    def _readers(self) -> list[_Connection]:
        return [one for one in self._connections if one.is_reader]

    def on_app_metrics(self, text: bytes, fault: str) -> None:
        """Take the app's metrics; or the reason why they could not be read."""
        if fault:
            self._left_out.log("the app's own metrics are left out: %s", fault)
        elif self._waiting:
            self._left_out.reset()
        self._answer_waiting(text)

    def close(self, is_end: bool = True) -> None:
        """Close everything; with `is_end` no other process has the listeners, and the file of a unix socket is removed."""
        self._waiting.clear()
        self._selector.close()  # first: sockets that a forked child unregisters would be unregistered here as well
        for connection in self._connections:
            connection.socket.close()
        for listener in self._listeners:
            if is_end:
                listener.close()
            else:
                listener.socket.close()

    def _listen(self) -> None:
        known = self._selector.get_map()
        for listener in self._listeners:
            if listener.socket not in known:
                self._selector.register(listener.socket, selectors.EVENT_READ, listener)

    def _accept(self, listener: Listener) -> None:
        """Accept one connection, so that other sockets have their turn."""
        try:
            accepted, peer = accept(listener.socket)
        except OSError as exc:
            if exc.errno in SHORTAGES:
                self._selector.unregister(listener.socket)  # until the next second: it would be ready all the time
            return
        accepted.setblocking(False)
        if len(self._connections) >= MAX_CONNECTIONS:
            self._close(next(one for one in self._connections if not one.is_reader))
        connection = _Connection(accepted, _whence(listener, peer), self._answer)
        if listener.is_stats or listener.is_agent:
            connection.unsent = memoryview(self._pages.stats() if listener.is_stats else self._pages.agent_line())
        self._add(connection)

    def _add(self, connection: _Connection) -> None:
        self._connections[connection] = None
        events = selectors.EVENT_READ if connection.unsent is None else selectors.EVENT_WRITE
        self._selector.register(connection.socket, events, connection)

    def _advance(self, connection: _Connection) -> None:
        try:
            events = connection.advance()
        except BlockingIOError:
            return
        except OSError:
            events = 0
        if connection in self._waiting:
            self._selector.unregister(connection.socket)
        elif events:
            self._selector.modify(connection.socket, events, connection)
        else:
            self._close(connection)

    def _close(self, connection: _Connection) -> None:
        del self._connections[connection]
        if self._waiting.pop(connection, None) is None:
            self._selector.unregister(connection.socket)
        connection.socket.close()

    def _answer(self, connection: _Connection, head: bytes) -> Reply | None:
        """Return the response to a request; None: it comes later."""
        reply = self._pages.answer(head, connection.whence, len(self._readers) < MAX_READERS)
        if isinstance(reply, Reply):
            return reply
        if self._waiting or self._ask_app():
            if not self._waiting:
                self._asked_at = time.monotonic()
            self._waiting[connection] = reply.method
            return None
        return self._pages.tell_metrics(b"", [reply.method])[0]

    def _answer_waiting(self, text: bytes) -> None:
        """Answer the waiting requests, with `text` after aserve's metrics."""
        waiting, self._waiting = self._waiting, {}
        if waiting:
            for connection, reply in zip(waiting, self._pages.tell_metrics(text, list(waiting.values()))):
                connection.unsent = memoryview(reply.octets)
                self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)


def _whence(listener: Listener, peer: Any) -> Whence:
    if listener.bind.kind == "unix":
        return Whence(is_unix=True, is_stats=listener.is_http_stats)
    return Whence(is_own=is_loopback(peer[0]), is_loopback=_is_own(listener), is_stats=listener.is_http_stats)


class _Connection:
    """One client, and its one request."""

    def __init__(
        self,
        accepted: socket.socket,
        whence: Whence,
        answer: Callable[[_Connection, bytes], Reply | None],
        received: bytes = b"",
    ) -> None:
        self.socket = accepted
        self.whence = whence
        self.is_reader = False  # a reader of the stream of events
        self._began_at = time.monotonic()
        self._answer = answer  # None: it comes later, in `unsent`
        self._received = received
        self.unsent: memoryview | None = None  # None: the request is not complete, or the answer is not made
        self._late = 0  # events that were skipped since the one before was unsent

    @property
    def is_settled(self) -> bool:
        """Whether the kernel has all of the answer, or of the events so far."""
        return self.unsent is not None and not self.unsent

    def describe(self) -> dict[str, Any]:
        """Return the state for `Scrapes.restore`."""
        return {
            "fd": self.socket.fileno(), "whence": self.whence._asdict(), "received": self._received.decode("latin-1"),
        }  # fmt: skip

    def is_over(self, oldest: float) -> bool:
        """Whether it has taken too long: it began before `oldest`, or has missed too many events."""
        return self._late > MAX_LATE if self.is_reader else self._began_at < oldest

    def offer(self, event: bytes) -> None:
        """Send an event to a reader, if the one before was sent."""
        if self.is_settled:
            self.unsent, self._late = memoryview(event), 0
        else:
            self._late += 1

    def advance(self) -> int:
        """
        Continue; return the selectors' events to wait for, 0: the connection is over.

        Raises:
            OSError: the client has left; BlockingIOError: not ready yet.
        """
        if self.unsent is None:
            self._receive()
        elif self.is_settled:
            # RFC 9112 9.6: answered; read until the client closes, or it might lose the answer.
            return selectors.EVENT_READ if self.socket.recv(PIECE_BYTES) else 0
        if self.unsent is None:
            return selectors.EVENT_READ
        with contextlib.suppress(BlockingIOError):
            self.unsent = self.unsent[self.socket.send(self.unsent[:PIECE_BYTES]) :]
        if self.unsent:
            return selectors.EVENT_WRITE
        if not self.is_reader:
            self.socket.shutdown(socket.SHUT_WR)
        return selectors.EVENT_READ

    def _receive(self) -> None:
        octets = self.socket.recv(PIECE_BYTES)
        if not octets:
            raise ConnectionResetError
        self._received += octets
        head, end, _ = self._received.partition(b"\r\n\r\n")
        if end and len(head) <= MAX_REQUEST_BYTES:
            reply = self._answer(self, head)
            if reply is None:
                return
            self.unsent, self.is_reader = memoryview(reply.octets), reply.is_stream
            if self.is_reader:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, READER_BUFFER_BYTES)
        elif len(self._received) > MAX_REQUEST_BYTES:
            self.unsent = memoryview(respond(431, f"a request here has at most {MAX_REQUEST_BYTES} octets").octets)
