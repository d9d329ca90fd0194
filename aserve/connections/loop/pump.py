"""The pump: large bodies of the lane's connections, sent by one thread, a few at a time.

Owns:     Pump: the thread, the table of bodies for C, their part of the budgets; Large, one response with such a body.
Thread:   three, under banners: a worker gives a response, the pump's own thread sends the body, the event loop closes.
Not here: the order of sending, and the system calls (cparsers/pump.c); the connection's next state (wire_fast.py); bodies of the event loop's wire
          (large_bodies.py), with late bodies from here.

A body in the pump costs no Python between the first octet and the last, nor does the connection leave the lane. No body stays for long: pump.c
returns late ones, so there are no time-outs here.
"""

from __future__ import annotations

import collections
import functools
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Callable, Protocol

from ..._cparsers import ffi, lib
from ...core.budgets import SENT_FILE_COUNT
from ...core.exchange import Exchange
from ...core.forks import end_if_forked, forked
from ...wsgi import FileResponse
from ..listeners import UNSENT_BYTES
from ..server_budgets import Budgets
from .sendfile import close_file

if TYPE_CHECKING:
    from ...workers.executor import Executor

logger = logging.getLogger("aserve")

# Bodies at once, 64 KB for their table. Further ones are sent by the event loop. Guess.
MOST_COUNT = 512
# The event loop takes over a client with octets unread this long after the begin of the turn. Guess: on a busy machine a quick client may take a
# part of that, and time-outs must not come much later.
LATE_SECONDS = 1.0
SENT, GONE, SHORT = lib.PUMP_SENT, lib.PUMP_GONE, lib.PUMP_SHORT


class PumpedWire(Protocol):
    """FastWire, in the pump's own thread."""

    fd: int

    @property
    def session(self) -> Any:
        """The `tls_session *`, NULL without TLS."""

    def end_large(self, exchange: Exchange) -> None:
        """End the exchange: all of the response is sent."""

    def go_on_large(self, large: Large, reply: tuple[bytes, bytes | memoryview] | FileResponse) -> None:
        """Let the event loop send this rest: the client is late."""

    def drop(self, exchange: Exchange) -> None:
        """Close the connection: the client is gone."""

    def fail(self, exchange: Exchange, why: str) -> None:
        """Cut the response short: it cannot be finished."""


class Large:
    """A response with a large body, in memory or in a file, counted in the budgets until the close."""

    __slots__ = ("_budgets", "_executor", "exchange", "is_kept", "pins", "reply", "wire")

    def __init__(
        self, wire: PumpedWire, exchange: Exchange, reply: tuple[bytes, bytes] | FileResponse, budgets: Budgets,
        executor: Executor,
    ) -> None:  # fmt: skip
        """`reply`: a head and a body, or a head and a file."""
        self.wire, self.exchange, self.reply = wire, exchange, reply
        self.pins: Any = None  # the memory read by C
        self.is_kept = False  # by the lane, on a stream
        self._budgets, self._executor = budgets, executor

    def reserve(self) -> bool:
        """Count the response in the budgets; False: no room now. The event loop's wire then waits for room, or counts a refusal."""
        if isinstance(self.reply, FileResponse):
            files = self._budgets.files
            return files.has_room(SENT_FILE_COUNT) and files.reserve(SENT_FILE_COUNT)
        return self._budgets.memory.reserve_body(self.reply[1])

    def close(self) -> None:
        """Release the budgets; close the file."""
        if not isinstance(self.reply, FileResponse):
            self._budgets.memory.release_body(self.reply[1])
            return
        close = self.reply.close
        if self.reply.has_builtin_close:
            close_file(close, self._budgets.files)
        else:  # the app's own code, for a worker
            self._executor.post(self._submit_close, close, None)

    def _submit_close(self, close: Any, _: None) -> None:
        self._executor.submit(functools.partial(close_file, files=self._budgets.files), close)


class Pump:
    def __init__(
        self, budgets: Budgets, executor: Executor, write_seconds: float, most_count: int = MOST_COUNT
    ) -> None:
        """`write_seconds`: the server's wait for a client that does not read, from the lateness here on."""
        self._budgets, self._executor = budgets, executor
        self._late_seconds = min(LATE_SECONDS, write_seconds / 4)
        self._set: Any = None
        self._lock = threading.Lock()  # guards the start, the end, and `take`
        self._thread: threading.Thread | None = None
        self._is_closing = False
        self._new: collections.deque[Large] = collections.deque()
        self._most_count = most_count
        self._free = list(range(most_count))  # numbers in C's table
        self._begun: dict[int, Large] = {}  # by those

    # --- called from a worker ---

    def take(self, wire: PumpedWire, exchange: Exchange, reply: tuple[bytes, bytes] | FileResponse) -> bool:
        """Send a whole response, then call the wire; False: there is no room here."""
        large = Large(wire, exchange, reply, self._budgets, self._executor)
        with self._lock:
            is_full = len(self._new) + len(self._begun) >= self._most_count
            if is_full or self._is_closing or not (self._thread or self._start()) or not large.reserve():
                return False
            self._new.append(large)
            lib.pump_wake(self._set)
        return True

    def _start(self) -> bool:
        set = ffi.new("pump *")
        self._memory = ffi.new("pump_body[]", self._most_count), ffi.new("int32_t[]", self._most_count)
        (set.bodies, set.ended), set.cap = self._memory, self._most_count
        set.late_us = round(1e6 * self._late_seconds)
        if lib.pump_open(set):
            lib.pump_close(set)
            return False
        thread = threading.Thread(target=self._run, name="aserve-pump", daemon=True)
        self._set = set
        try:
            thread.start()
        except RuntimeError:  # the system starts no thread
            lib.pump_close(set)
            return False
        self._thread = thread
        return True

    # --- called in the pump's own thread ---

    def _run(self) -> None:
        set, forked_count = self._set, len(forked)
        while not self._is_closing or self._begun or self._new:
            while self._new and self._free:
                self._guard(self._add, self._new.popleft())
            for at in range(lib.pump_run(set)):
                number = set.ended[at]
                self._guard(self._end, self._begun.pop(number), set.bodies[number])
                self._free.append(number)
            end_if_forked(forked_count)  # a finalizer of the app's has forked here: the bodies are the parent's
        with self._lock:
            lib.pump_close(set)

    def _guard(self, step: Callable[..., None], large: Large, *arguments: Any) -> None:
        try:
            step(large, *arguments)
        except Exception:  # a bug in aserve: this response is lost, others are not
            logger.exception("internal error; please report this as a bug in aserve")

    def _add(self, large: Large) -> None:
        reply = large.reply
        head = ffi.from_buffer(reply[0])
        if isinstance(reply, FileResponse):
            body, offset, count = ffi.NULL, reply.offset, reply.size
            try:
                file_fd = reply.file.fileno()
            except (OSError, ValueError):  # closed or detached by the app
                file_fd = -1
        else:
            body, offset, count, file_fd = ffi.from_buffer(reply[1]), 0, len(reply[1]), -1
        number = self._free.pop()
        self._begun[number] = large
        large.pins = head, body
        to, source = (large.wire.fd, large.wire.session), (body, file_fd, offset, count)
        lib.pump_add(self._set, number, *to, head, len(head), *source, UNSENT_BYTES)

    def _end(self, large: Large, body: Any) -> None:
        outcome, large.pins = body.outcome, None
        if outcome == SENT:
            large.close()
            large.wire.end_large(large.exchange)
        elif outcome == GONE:
            large.close()
            large.wire.drop(large.exchange)
        elif outcome == SHORT:
            why = f"the file ended {body.left} octets early"
            if body.error:
                why = f"reading the file failed: {os.strerror(body.error)}"
            large.close()
            large.wire.fail(large.exchange, why)
        else:
            head = large.reply[0][len(large.reply[0]) - body.head_left :]
            if isinstance(large.reply, FileResponse):
                large.reply = large.reply._replace(head=head, offset=body.offset, size=body.left)
                large.wire.go_on_large(large, large.reply)
            else:
                large.wire.go_on_large(large, (head, memoryview(large.reply[1])[body.offset :]))

    # --- called on the event loop ---

    def close(self) -> None:
        """End the thread; the lane is closed, so the bodies here are lost."""
        with self._lock:
            self._is_closing = True
            thread, self._thread = self._thread, None
            if thread is not None:
                lib.pump_wake(self._set)
        if thread is not None:
            thread.join(1.0)  # longer: a hanging disk

    # --- called in a child forked by the app ---

    @property
    def fds(self) -> list[int]:
        """Descriptors of the pump itself."""
        return [] if self._set is None else [fd for fd in (self._set.epoll_fd, self._set.wake_fd) if fd >= 0]
