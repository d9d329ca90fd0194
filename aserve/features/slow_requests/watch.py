"""Logs running requests after too long a time, with the stack of their thread: --slow-request.

Owns:     SlowRequests: the running slow requests, the messages, and the last ones.
Thread:   `look` on the event loop, once a second; with --threads 0, where the app may block the loop, in a second thread. `write` in the thread
          that ends an exchange. One lock guards the common state.
Not here: stacks (connections/monitoring/stacks.py), times (wsgi/timing.py); ending long requests (wsgi/deadlines.py).

Nothing is noted at the begin of a request, beyond the times: a look at the thread finds the request (connections/monitoring/stacks.py). Only the
ends of slow requests are kept.
"""

from __future__ import annotations

import collections
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any, Callable

from ...connections.monitoring.stacks import ORDER, look_at_threads
from ...core.errors import RequestRefused
from ...core.exchange import ANSWERED, REFUSED, Exchange, escape, shortened
from ...core.frames import Call, calls_of, show_calls, where_of
from ...workers.threads import Watcher
from ...wsgi.request_id import request_id_of

logger = logging.getLogger("aserve.slow")

# The logged stacks of a minute: a stall of all requests must not fill the log. Guess: enough to see the cause.
MAX_PER_MINUTE = 12
MAX_KEPT = 32  # of the last slow requests
MAX_STACK = 4000  # characters; the outermost calls are left out
MAX_TEXT = 1000  # characters of a request, a call, a thread's name: clients and apps choose their lengths. Guess: a line says enough.
LOOK_SECONDS = 1.0
LEAST_QUEUE_SECONDS = 0.05  # a shorter wait would be shown as 0.0

_monotonic = time.monotonic


class SlowRequests:
    def __init__(
        self, seconds: float, is_ours: Callable[[Exchange], bool], worker: int | None = None, is_inline: bool = False
    ) -> None:
        """`seconds`: --slow-request; `is_ours`: see Serving.has; `worker`: the process's number; `is_inline`: look from a thread, until `close`."""
        self._seconds, self._is_ours, self._worker = seconds, is_ours, worker
        self._lock = threading.Lock()  # guards all below
        self._running: dict[
            Exchange, dict[str, Any] | None
        ] = {}  # with their record; None: beyond MAX_PER_MINUTE, not logged
        self._over: set[Exchange] = set()  # ended, but perhaps still in a thread, written off or in close()
        self._last: collections.deque[dict[str, Any]] = collections.deque(maxlen=MAX_KEPT)
        self._number = 0
        self._minute_began_at, self._told_count, self._left_out_count = 0.0, 0, 0
        self._is_over = threading.Event()
        self._looker = Watcher(self._look_on, "aserve-slow-requests")
        self._is_inline = is_inline
        if is_inline:
            self._looker.start()

    def last(self) -> list[dict[str, Any]]:
        """
        Return the last logged slow requests, at most MAX_KEPT, the newest last.

        Each has: number (from 1, in this process), at (seconds since 1970, of the log line), request ("GET /a", escaped), seconds (so far, or until
        the end), queue_seconds (of these, the wait for a thread), worker (None without --workers), thread, request_id (or None), stack (text, the
        last call first; empty: never sampled), where (the last call in the app), end (None: still running; else as in the access log), status
        (then; 0: none).
        """
        with self._lock:
            return [dict(found) for found in self._last]

    # --- called on the event loop ---

    def on_second(self) -> None:
        """Look for slow requests once a second."""
        if not self._is_inline:
            self.look()

    def close(self) -> None:
        """Stop looking."""
        self._is_over.set()
        if self._is_inline:
            self._looker.join(LOOK_SECONDS)

    # --- called on the event loop, or in the looking thread ---

    def _look_on(self) -> None:
        while not self._is_over.wait(min(self._seconds, LOOK_SECONDS)):
            self.look()

    def look(self) -> None:
        """Log requests of a thread after too long a time, each once."""
        now = _monotonic()
        with self._lock:
            for ended in [exchange for exchange in self._running if exchange.response is None]:
                del self._running[ended]  # ended during the look
            self._on_minute(now)
        found = set()
        for thread_id, exchange, frames in look_at_threads(now - self._seconds):
            if exchange is None:
                continue
            found.add(exchange)
            if not exchange.arrived_at or exchange in self._running or exchange in self._over:
                continue
            is_late = now - (exchange.grew_at or exchange.arrived_at) >= self._seconds
            if is_late and not self._is_new_stream(exchange) and self._is_ours(exchange):
                self._tell_running(exchange, thread_id, calls_of(frames))
        with self._lock:
            self._over &= found

    def _is_new_stream(self, exchange: Exchange) -> bool:
        """Whether a response is sent in pieces, without a record of progress by the event loop yet."""
        response = exchange.response
        if self._is_inline or exchange.grew_at or response is None:
            return False
        return bool(response.head_is_out and not response.is_full)

    def _on_minute(self, now: float) -> None:
        if now - self._minute_began_at < 60:
            return
        left_out, self._minute_began_at = self._left_out_count, now
        self._told_count = self._left_out_count = 0
        if left_out:
            logger.warning("%d more slow requests not logged in the last minute", left_out)

    def _tell_running(self, exchange: Exchange, thread_id: int, calls: Sequence[Call]) -> None:
        found = self._note(exchange, thread_id, calls)
        if found is not None:
            logger.warning(
                "%s has taken %s so far, longer than --slow-request (%g s)%s; %s is at (%s):\n%s",
                found["request"], _show_times(found), self._seconds, _show_id(found), found["thread"], ORDER,
                found["stack"].rstrip(),
            )  # fmt: skip

    # --- called in the thread that ends an exchange ---

    def write(self, exchange: Exchange) -> None:
        """Log the end of a slow request: see Reader.at_end."""
        if exchange.websocket is None:
            self._write(exchange, exchange.response.code if exchange.response is not None else 0)

    def write_websocket(self, exchange: Exchange) -> None:
        """Treat a request as ended when turned into a WebSocket."""
        self._write(exchange, 101)

    def _write(self, exchange: Exchange, status: int) -> None:
        since = exchange.grew_at or exchange.arrived_at  # a response with progress is not slow
        if exchange in self._running or _monotonic() - since >= self._seconds:
            self._end(exchange, exchange.end, status)

    def write_refused(self, connection: Any, exchange: Exchange | None, why: RequestRefused) -> None:
        """Log a slow request refused for lack of an answer in time."""
        if exchange is None:
            return
        if exchange in self._running:
            self._end(exchange, REFUSED if exchange.end == ANSWERED else exchange.end, why.status)
        elif exchange.began_at:  # begun by a thread
            with self._lock:
                self._over.add(exchange)

    def _end(self, exchange: Exchange, end: str, status: int) -> None:
        is_new = exchange not in self._running
        if is_new and (not exchange.arrived_at or exchange.is_probe):
            return  # never complete
        found = self._note(exchange, exchange.thread_id, ()) if is_new else self._running.get(exchange)
        with self._lock:
            self._running.pop(exchange, None)
            self._over.add(exchange)
            if found is None:
                return
            found["seconds"], found["end"], found["status"] = _monotonic() - exchange.arrived_at, end, status
        if is_new:
            logger.warning(
                "%s has taken %s, longer than --slow-request (%g s)%s: %s; its stack was not seen",
                found["request"], _show_times(found), self._seconds, _show_id(found), _show_end(end, status),
            )  # fmt: skip
        else:
            logger.warning("%s has ended after %s: %s", found["request"], _show_times(found), _show_end(end, status))

    # --- called from both ---

    def _note(self, exchange: Exchange, thread_id: int, calls: Sequence[Call]) -> dict[str, Any] | None:
        """Keep a record of a slow request; None: beyond MAX_PER_MINUTE."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        request_id, began_at = request_id_of(exchange), exchange.began_at
        now = _monotonic()
        with self._lock:
            self._on_minute(now)
            if self._told_count >= MAX_PER_MINUTE:
                self._left_out_count += 1
                self._running[exchange] = None
                return None
            self._told_count += 1
            self._number += 1
            found: dict[str, Any] = {
                "number": self._number,
                "at": time.time(),
                "request": shortened(exchange.summary, MAX_TEXT),
                "seconds": now - exchange.arrived_at,
                "queue_seconds": began_at - exchange.arrived_at if began_at else None,
                "worker": self._worker,
                "thread": shortened(names.get(thread_id, f"thread {thread_id}" if thread_id else "none"), MAX_TEXT),
                "request_id": escape(request_id) if request_id else None,
                "stack": show_calls(calls)[:MAX_STACK],
                "where": shortened(where_of(calls), MAX_TEXT),
                "end": None,
                "status": None,
            }
            self._running[exchange] = found
            self._last.append(found)
            return found


def _show_times(found: dict[str, Any]) -> str:
    """Return the duration of a request, and the part in the queue: such a request may be quick by itself."""
    seconds, queued = found["seconds"], found["queue_seconds"] or 0.0
    if queued < LEAST_QUEUE_SECONDS:
        return f"{seconds:.1f} s"
    return f"{seconds:.1f} s (waited {queued:.1f} s in the queue, ran {seconds - queued:.1f} s)"


def _show_end(end: str, status: int) -> str:
    return f"{end} {status}" if status else f"{end}, without a response"


def _show_id(found: dict[str, Any]) -> str:
    return f"; request id {found['request_id']}" if found["request_id"] else ""
