"""Hands the metrics to those who ask for them.

Owns:     open_metrics; Scrapes: the listeners, and each connection from accept to close: one request, one answer, at any pace.
Thread:   one, that of whoever waits for it: a supervisor's loop, or an event loop.
Spec:     RFC 9112, as far as it takes to answer GET /metrics.
Not here: the text (text.py).

With workers, the supervisor answers, and not a worker from the memory that all of them see. It can when every worker hangs, restarts,
or has died, which is when somebody looks; a worker would need the other workers' processes, tables and states, which the supervisor has at
hand; and the listener would have to be passed on with every restart. It must not wait for anybody: so nothing here blocks,
a request that is large or late is dropped, and of very many connections the oldest. What the app itself counts (app.py) others
read meanwhile; who asks waits for them, a while.

All of it waits in a selector of its own, whose descriptor is itself one to wait for (epoll(7)): whoever has a loop of any kind waits
for that, and calls `on_ready`. It is not aserve's own HTTP, which takes an event loop, and that is what a supervisor must not have.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import logging
import selectors
import socket
import time
from collections.abc import Sequence
from typing import Callable

from ..connections.listeners import Listener, UnixRights, open_listeners
from ..log_once import LogOnce
from ..settings import Config, parse_bind
from .text import CONTENT_TYPE

logger = logging.getLogger("aserve")

# For a request, its answer, and the client's close, together. Guess: Prometheus itself gives up after 10 s.
CONNECTION_SECONDS = 5.0
# For those who are being answered when the process becomes another program. Guess: a request is a packet.
FINISH_SECONDS = 1.0
MAX_REQUEST_BYTES = 8192
# At once. Guess: a few that scrape, and people with a browser.
MAX_CONNECTIONS = 16
# For so long a text is given to all who ask: the numbers of a moment are the same for all. Guess.
FRESH_SECONDS = 0.2
# For so long the app's own metrics are waited for. Guess: within CONNECTION_SECONDS, with what the answer takes.
APP_SECONDS = 3.0
PIECE_BYTES = 65536
PATH = "/metrics"
REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}  # fmt: skip


def open_metrics(config: Config) -> list[Listener]:
    """
    Return the listeners of --metrics, none if there are to be none; warn if others may ask.

    Raises:
        BindError: the address could not be bound.
    """
    if config.metrics is None:
        return []
    rights = UnixRights(config.unix_mode, config.unix_owner, config.unix_group)
    listeners = open_listeners([parse_bind(config.metrics)], rights)
    logger.info("metrics on %s", ", ".join(f"{listener.url}{PATH}" for listener in listeners))
    exposed = [listener.url for listener in listeners if _is_exposed(listener)]
    if exposed:
        logger.warning(
            "whoever reaches %s reads the metrics there; bind 127.0.0.1 or a unix socket, or let a firewall choose",
            ", ".join(exposed),
        )
    return listeners


def _is_exposed(listener: Listener) -> bool:
    if listener.bind.kind == "unix":
        return False
    return not ipaddress.ip_address(listener.socket.getsockname()[0].partition("%")[0]).is_loopback


class Scrapes:
    """Answers GET /metrics on these listeners, which it closes in the end."""

    def __init__(
        self, listeners: Sequence[Listener], render: Callable[[], bytes], ask_app: Callable[[], bool] = lambda: False
    ) -> None:
        """`ask_app` has the app's metrics brought to `on_app_metrics`; it returns False if there are none."""
        self._listeners = listeners
        self._render = render  # makes the text
        self._ask_app = ask_app
        self._asked_at = float("-inf")
        self._waiting: dict[_Connection, str] = {}  # for the app's metrics: with the methods of their requests
        self._left_out = LogOnce(logger, logging.WARNING)
        self._selector = selectors.DefaultSelector()
        self._connections: dict[_Connection, None] = {}  # the oldest first
        self._text, self._made_at = b"", float("-inf")
        self._listen()

    def fileno(self) -> int:
        """Return what to wait for: when it can be read, call `on_ready`."""
        return self._selector.fileno()  # those of epoll and kqueue have one

    def on_ready(self) -> None:
        """Do what can be done now, without waiting."""
        self._turn(0)

    def finish(self) -> None:
        """Answer those who have been accepted, within a moment; until the next second, nobody else is: they wait in the kernel."""
        for listener in self._listeners:
            if listener.socket in self._selector.get_map():
                self._selector.unregister(listener.socket)
        self._answer_waiting(b"")
        deadline = time.monotonic() + FINISH_SECONDS
        while any(not one.is_answered for one in self._connections) and time.monotonic() < deadline:
            self._turn(deadline - time.monotonic())

    def _turn(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            if isinstance(key.data, Listener):
                self._accept(key.data)
            elif key.data in self._connections:  # and has not just made room
                self._advance(key.data)

    def on_second(self) -> None:
        """Called once a second: let go of those that take too long."""
        if self._waiting and time.monotonic() - self._asked_at >= APP_SECONDS:
            self.on_app_metrics(b"", f"they could not be read within {APP_SECONDS:g} s")
        oldest = time.monotonic() - CONNECTION_SECONDS
        for connection in [one for one in self._connections if one.began_at < oldest]:
            self._close(connection)
        self._listen()

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
            accepted = listener.socket.accept()[0]
        except OSError as exc:
            if exc.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                self._selector.unregister(listener.socket)  # for a second: it would be ready all the time
            return
        accepted.setblocking(False)
        if len(self._connections) >= MAX_CONNECTIONS:
            self._close(next(iter(self._connections)))
        connection = _Connection(accepted, self._answer)
        self._connections[connection] = None
        self._selector.register(accepted, selectors.EVENT_READ, connection)

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

    def _answer(self, connection: _Connection, head: bytes) -> bytes | None:
        """Return the response to a request; None: it comes later."""
        words = head.partition(b"\r\n")[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _respond(400, "this is not HTTP/1.1")
        method, target = words[0].decode("latin-1"), words[1].decode("latin-1")
        if target.partition("?")[0] != PATH:
            return _respond(404, f"aserve's metrics are at {PATH}", method)
        if method not in ("GET", "HEAD"):
            return _respond(405, f"ask with GET or HEAD, not {method[:20]}", method, "Allow: GET, HEAD\r\n")
        if time.monotonic() - self._made_at < FRESH_SECONDS:
            return _respond(200, self._text, method)
        if self._waiting or self._ask_app():
            if not self._waiting:
                self._asked_at = time.monotonic()
            self._waiting[connection] = method
            return None
        status, body = self._make(b"")
        return _respond(status, body, method)

    def _answer_waiting(self, text: bytes) -> None:
        """Answer those who wait, with this behind the metrics of ours."""
        waiting, self._waiting = self._waiting, {}
        if waiting:
            status, body = self._make(text)
        for connection, method in waiting.items():
            connection.unsent = memoryview(_respond(status, body, method))
            self._selector.register(connection.socket, selectors.EVENT_WRITE, connection)

    def _make(self, app_text: bytes) -> tuple[int, bytes | str]:
        """Make the text; return the status and the body of an answer."""
        try:
            self._text, self._made_at = self._render() + app_text, time.monotonic()
            return 200, self._text
        except Exception:
            logger.exception("internal error; please report this as a bug in aserve")
            return 500, "the metrics could not be made; aserve's log says why"


class _Connection:
    """One client, and its one request."""

    def __init__(self, accepted: socket.socket, answer: Callable[[_Connection, bytes], bytes | None]) -> None:
        self.socket = accepted
        self.began_at = time.monotonic()
        self._answer = answer  # None: it comes later, in `unsent`
        self._received = b""
        self.unsent: memoryview | None = None  # None: the request is not whole, or its answer is not made

    @property
    def is_answered(self) -> bool:
        """Whether all of the answer is with the kernel."""
        return self.unsent is not None and not self.unsent

    def advance(self) -> int:
        """
        Go on; return what to wait for, of selectors' events, 0: it is over.

        Raises:
            OSError: the client has gone; BlockingIOError: not yet.
        """
        if self.unsent is None:
            self._receive()
        elif self.is_answered:
            # RFC 9112 9.6: answered; what it still sends is read until it closes, or it might lose the answer.
            return selectors.EVENT_READ if self.socket.recv(PIECE_BYTES) else 0
        if self.unsent is None:
            return selectors.EVENT_READ
        with contextlib.suppress(BlockingIOError):
            self.unsent = self.unsent[self.socket.send(self.unsent[:PIECE_BYTES]) :]
        if self.unsent:
            return selectors.EVENT_WRITE
        self.socket.shutdown(socket.SHUT_WR)
        return selectors.EVENT_READ

    def _receive(self) -> None:
        octets = self.socket.recv(PIECE_BYTES)
        if not octets:
            raise ConnectionResetError
        self._received += octets
        head, end, _ = self._received.partition(b"\r\n\r\n")
        if end and len(head) <= MAX_REQUEST_BYTES:
            answer = self._answer(self, head)
            self.unsent = memoryview(answer) if answer is not None else None
        elif len(self._received) > MAX_REQUEST_BYTES:
            self.unsent = memoryview(_respond(431, f"a request here has at most {MAX_REQUEST_BYTES} octets"))


def _respond(status: int, body: bytes | str, method: str = "GET", fields: str = "") -> bytes:
    octets = body if isinstance(body, bytes) else f"{body}\n".encode()
    kind = CONTENT_TYPE if isinstance(body, bytes) else "text/plain; charset=utf-8"
    head = (
        f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(octets)}\r\n"
        f"{fields}Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (b"" if method == "HEAD" else octets)
