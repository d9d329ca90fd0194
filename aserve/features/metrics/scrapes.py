"""Hands metrics and the status page to those who ask for them.

Owns:     open_metrics; Scrapes: the listeners, and each connection from accept to close: one request, one answer, at any pace, or
          one event each second.
Thread:   one, that of whoever waits for it: a supervisor's loop, or an event loop.
Spec:     RFC 9112 section 9, as far as it takes to answer one GET.
Not here: what is answered (pages.py).

With workers, the supervisor answers, and not a worker from the memory that all of them see. It can when every worker hangs, restarts,
or has died, which is when somebody looks; a worker would need the other workers' processes, tables and states, which the supervisor has at
hand; and the listener would have to be passed on with every restart. It must not wait for anybody: so nothing here blocks,
a request that is large or late is dropped, and of very many connections the oldest. A reader of the stream that falls behind misses events,
each of which tells everything; one that reads nothing any more is dropped. What the app itself counts (app.py) others
read meanwhile; who asks waits for them, a while.

All of it waits in a selector of its own, whose descriptor is itself one to wait for (epoll(7)): whoever has a loop of any kind waits
for that, and calls `on_ready`. It is not aserve's own HTTP, which takes an event loop, and that is what a supervisor must not have.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any, Callable

from ...connections.acceptor import SHORTAGES
from ...connections.addresses import binds_beside, is_loopback
from ...connections.listeners import Listener, UnixRights, open_listeners
from ...core.errors import BindError
from ...core.log_once import LogOnce
from ...settings import parse_bind, with_reach
from .pages import METRICS, Pages, Reply, Whence, respond
from .settings import MetricsSettings

logger = logging.getLogger("aserve")

# For a request, its answer, and the client's close, together. Guess: Prometheus itself gives up after 10 s.
CONNECTION_SECONDS = 5.0
# For answers that are being sent when the process becomes another program. Guess: Prometheus reads as fast as it can.
FINISH_SECONDS = 1.0
MAX_REQUEST_BYTES = 8192
# At once. Guess: a few that scrape, and people with a browser.
MAX_CONNECTIONS = 16
# Of these, readers of the stream: they stay, and leave room for Prometheus.
MAX_READERS = 8
# Events that a reader may leave unread, beside what the kernel holds for it: that much of its buffer.
MAX_LATE = 5
READER_BUFFER_BYTES = 65536
# For so long the app's own metrics are waited for. Guess: within CONNECTION_SECONDS, with what the answer takes.
APP_SECONDS = 3.0
PIECE_BYTES = 65536


def open_metrics(config: MetricsSettings) -> list[Listener]:
    """
    Return the listeners of --metrics, --stats and --agent-check, none if there are to be none; warn if others may ask for numbers.

    Raises:
        BindError: the address could not be bound.
    """
    listeners: list[Listener] = []
    try:
        if config.metrics is not None:
            listeners += _open_pages(config, config.metrics)
        if config.stats is not None:
            opened = _open_told(config, config.stats, "stats, as uWSGI has them,")
            listeners += [listener._replace(is_stats=True) for listener in opened]
        if config.agent_check is not None:
            opened = _open_told(config, config.agent_check, "HAProxy's agent check")
            listeners += [listener._replace(is_agent=True) for listener in opened]
    except BindError:
        for listener in listeners:
            listener.close()
        raise
    others = [listener for listener in listeners if not (listener.is_agent or _is_own(listener))]
    exposed = [with_reach(listener.url, listener.address) for listener in others]
    if exposed:
        logger.warning(
            "whoever reaches %s reads the metrics there%s; bind 127.0.0.1 or a unix socket, or let a firewall choose",
            ", ".join(exposed), " and the status page" if config.status_page == "all" else "",
        )  # fmt: skip
    return listeners


def _open_pages(config: MetricsSettings, place: str) -> list[Listener]:
    listeners = _open(config, place)
    page = "" if config.status_page == "off" else ", the status page on /"
    logger.info("metrics on %s%s", ", ".join(f"{listener.url}{METRICS}" for listener in listeners), page)
    return listeners


def _open_told(config: MetricsSettings, place: str, what: str) -> list[Listener]:
    """Listen for those who are told something as soon as they connect."""
    listeners = _open(config, place)
    places = (str(each.bind) if each.bind.kind == "unix" else each.url.partition("//")[2] for each in listeners)
    logger.info("%s on %s", what, ", ".join(places))
    return listeners


def _open(config: MetricsSettings, place: str) -> list[Listener]:
    bind = parse_bind(place)
    rights = UnixRights(config.unix_mode, config.unix_owner, config.unix_group)
    return open_listeners([bind], rights, beside=binds_beside(config, [bind]))


def _is_own(listener: Listener) -> bool:
    """Whether only this machine reaches it."""
    return listener.bind.kind == "unix" or is_loopback(listener.socket.getsockname()[0])


class Scrapes:
    """Answers who asks on these listeners, which it closes in the end."""

    def __init__(
        self, listeners: Sequence[Listener], pages: Pages, ask_app: Callable[[], bool] = lambda: False
    ) -> None:
        """`ask_app` has the app's metrics brought to `on_app_metrics`; it returns False if there are none."""
        self._listeners = listeners
        self._pages = pages
        self._ask_app = ask_app
        self._asked_at = float("-inf")
        self._waiting: dict[_Connection, str] = {}  # for the app's metrics: with the methods of their requests
        self._left_out = LogOnce(logger, logging.WARNING)
        self._selector = selectors.DefaultSelector()
        self._connections: dict[_Connection, None] = {}  # the oldest first
        self._listen()

    def fileno(self) -> int:
        """Return what to wait for: when it can be read, call `on_ready`."""
        return self._selector.fileno()  # those of epoll and kqueue have one

    def on_ready(self) -> None:
        """Do what can be done now, without waiting."""
        self._turn(0)

    def finish(self) -> None:
        """Send what is being sent, within a moment; until the next second, no client is accepted: they wait in the kernel."""
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
        """Return the clients whose request is not whole yet: for `restore`, in the program that this process becomes."""
        return [one.describe() for one in self._connections if one.unsent is None]

    def restore(self, states: Iterable[dict[str, Any]]) -> None:
        """Go on with clients whose request was not whole yet."""
        for state in states:
            accepted = socket.socket(fileno=state["fd"])
            accepted.setblocking(False)
            whence, received = Whence(**state["whence"]), state["received"].encode("latin-1")
            self._add(_Connection(accepted, whence, self._answer, received))

    def _turn(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, Listener):
                self._accept(key.data)
            elif key.data in self._connections:  # and has not just made room
                self._advance(key.data)

    def on_second(self) -> None:
        """Called once a second: tell the readers, let go of those that take too long."""
        self._turn(0)  # a request that came in time is answered, however late this process is
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
        """What the app itself counts has been read; or why it has not."""
        if fault:
            self._left_out.log("the app's own metrics are left out: %s", fault)
        elif self._waiting:
            self._left_out.reset()
        self._answer_waiting(text)

    def close(self, is_end: bool = True) -> None:
        """Let go of everything; with `is_end` nobody else has the listeners, and the file of a unix socket is removed."""
        self._waiting.clear()
        self._selector.close()  # first: what a forked child takes out of it would be gone here as well
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
        """Accept one; others have their turn."""
        try:
            accepted, peer = listener.socket.accept()
        except OSError as exc:
            if exc.errno in SHORTAGES:
                self._selector.unregister(listener.socket)  # for a second: it would be ready all the time
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
        """Answer those who wait, with this behind the metrics of ours."""
        waiting, self._waiting = self._waiting, {}
        if waiting:
            for connection, reply in zip(waiting, self._pages.tell_metrics(text, list(waiting.values()))):
                connection.unsent = memoryview(reply.octets)
                self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)


def _whence(listener: Listener, peer: Any) -> Whence:
    if listener.bind.kind == "unix":
        return Whence(is_unix=True)
    return Whence(is_own=is_loopback(peer[0]), is_loopback=_is_own(listener))


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
        self.is_reader = False  # of events, which go on
        self._began_at = time.monotonic()
        self._answer = answer  # None: it comes later, in `unsent`
        self._received = received
        self.unsent: memoryview | None = None  # None: the request is not whole, or its answer is not made
        self._late = 0  # events that have found the one before unsent

    @property
    def is_settled(self) -> bool:
        """Whether all of the answer is with the kernel, or of the events so far."""
        return self.unsent is not None and not self.unsent

    def describe(self) -> dict[str, Any]:
        """Return what `Scrapes.restore` makes it of."""
        return {
            "fd": self.socket.fileno(), "whence": self.whence._asdict(), "received": self._received.decode("latin-1"),
        }  # fmt: skip

    def is_over(self, oldest: float) -> bool:
        """Whether it has taken too long, if it may have begun at `oldest`."""
        return self._late > MAX_LATE if self.is_reader else self._began_at < oldest

    def offer(self, event: bytes) -> None:
        """Send a reader this, if it has got what was before."""
        if self.is_settled:
            self.unsent, self._late = memoryview(event), 0
        else:
            self._late += 1

    def advance(self) -> int:
        """
        Go on; return what to wait for, of selectors' events, 0: it is over.

        Raises:
            OSError: the client has gone; BlockingIOError: not yet.
        """
        if self.unsent is None:
            self._receive()
        elif self.is_settled:
            # RFC 9112 9.6: answered; what it still sends is read until it closes, or it might lose the answer.
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
