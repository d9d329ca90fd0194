"""A server on an event loop in a thread of this process: tests call and look inside, and move the clock."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import socket
import stat
import threading
import time
from collections.abc import Callable
from typing import Any

import aserve
from aserve._cparsers import lib
from aserve.features import Config
from aserve.server.arguments import Processes
from aserve.server.listening import Listening

from . import faults
from .client import RawClient
from .interpreter import new_loop
from .waiting import PATIENCE_SECONDS, wait_until


class RunningServer:
    """An aserve.Server on an event loop in a separate thread."""

    def __init__(self, app: Any, loop: str, settings: dict[str, Any]) -> None:
        given = {name: settings.pop(name) for name in ("in_flight", "load_board") if name in settings}
        # As in a worker: the config may have settings of the command.
        self.server = aserve.Server(app, Config(**settings), processes=Processes(**given))
        self._has_told = threading.Event()  # in a drain: every connection
        self.server._listening.drain = self._drain_connections  # type: ignore[method-assign]
        self.faults: list[str] = []  # faults of the event loop's exception handler
        self.is_clean: bool | None = None  # the result of drain()
        self.clients: list[RawClient] = []
        self._is_clock_held = False
        self._error: BaseException | None = None
        self._ready = threading.Event()
        self._loop_kind = loop
        self._thread = threading.Thread(target=self._run, name="event-loop", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    @property
    def address(self) -> Any:
        """The first listening address."""
        return self.server.addresses[0]

    @property
    def url(self) -> str:
        return self.server.urls[0]

    def call(self, function: Callable[[], Any]) -> Any:
        """Return function() run on the event loop; the result is awaited there if need be."""

        async def run() -> Any:
            found = function()
            return await found if inspect.isawaitable(found) else found

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        return future.result(PATIENCE_SECONDS)

    def hold_clock(self) -> None:
        """Let no second pass for the time-outs from now on, but for `pass_seconds`; `stop` lets the clock go on."""
        self._is_clock_held = True
        self._do(lambda: setattr(self.server, "_on_second", lambda: None))  # called by the timer

    def pass_seconds(self, count: int) -> None:
        """Let these seconds pass for the time-outs, at once, and hold the clock; harmless in a drain's last moment."""
        self.hold_clock()
        for _ in range(count):
            self._do(lambda: aserve.Server._on_second(self.server))

    def lose_handovers(self, count: int) -> None:
        """Lose the next `count` connections on their way out of the lane."""
        lane = self.server._listening.lane
        assert lane is not None
        handovers, left = lane.handovers, [count]

        class Loop:
            def __getattr__(self, name: str) -> Any:
                return getattr(original, name)

            async def connect_accepted_socket(self, factory: Any, sock: socket.socket) -> Any:
                if left[0]:
                    left[0] -= 1
                    raise OSError("lost")
                return await original.connect_accepted_socket(factory, sock)

        original, handovers._loop = handovers._loop, Loop()  # type: ignore[assignment]

    def pass_seconds_until(self, condition: Callable[[], Any]) -> None:
        """Let seconds pass, one by one, until the condition holds."""

        def look() -> Any:
            self.pass_seconds(1)
            return condition()

        wait_until(look)

    def statistics(self) -> aserve.Statistics:
        """Return the server's present numbers."""
        return self.call(self.server.statistics)

    def ongoing(self, count: int) -> list[tuple[float, str]]:
        """Return the `count` oldest running requests."""
        return self.call(lambda: self.server._inner.ongoing(count))

    def options(self, level: int, name: int) -> list[int]:
        """Return the value of a socket option for each connection, TCP only."""

        def look() -> list[int]:
            found = {}  # by client: a connection may have two descriptors for a while
            for fd in map(int, os.listdir("/dev/fd")):
                with contextlib.suppress(OSError):  # the folder's own, closed again; and no socket
                    if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                        continue
                    is_blocking = os.get_blocking(fd)
                    with socket.socket(fileno=os.dup(fd)) as sock:
                        os.set_blocking(fd, is_blocking)  # PyPy's socket changes the flag, shared by both
                        if sock.getsockname() == self.address:
                            found[sock.getpeername()] = sock.getsockopt(level, name)
            return list(found.values())

        return self.call(look)

    def wait_until_idle(self) -> None:
        """Wait until no connection is left."""
        wait_until(lambda: not self.server.connection_count)

    def wait_until_known(self, count: int) -> None:
        """Wait until `count` connections have been accepted and are open."""
        wait_until(lambda: self.server.connection_count == count)

    def wait_until_waiting(self, count: int) -> None:
        """Wait until `count` connections wait for a request; the time begins when no worker runs last instructions for one."""
        wait_until(lambda: self.statistics().connections_idle == count and not self._is_lane_busy())

    def _is_lane_busy(self) -> bool:
        lane = self.server._listening.lane
        if lane is None:
            return False
        lanes = lane.handovers.set
        return any(lanes.conns[fd].state == lib.LANE_BUSY for fd in range(lanes.top))

    def wait_until_receiving(self) -> None:
        """Wait until octets of a request have come; octets of a TLS handshake do not count."""
        wait_until(lambda: self.statistics().connections_receiving)

    def has_received(self, count: int) -> bool:
        """Whether `count` octets of the body of an incomplete request have come."""
        statistics = self.statistics()
        return statistics.bodies_incomplete > 0 and statistics.bodies_incomplete_bytes == count

    def wait_until_steady(self, look: Callable[[], Any]) -> Any:
        """Return a number once the same at 20 looks from the event loop, with a full turn each time."""
        seen = [self.call(look)]

        def is_steady() -> bool:
            seen.append(self.call(look))
            return len(seen) > 25 and seen[-1] == seen[-20]

        wait_until(is_steady, 20)
        return seen[-1]

    def stop_when(self, condition: Callable[[], Any]) -> None:
        wait_until(condition)
        self.stop()

    def begin_drain(self) -> None:
        """Start draining, and return when every connection's `drain` was called. `stop` waits for the end."""
        self._do(self._stopping.set)
        wait_until(lambda: self.server.is_draining or not self._thread.is_alive())
        if not self.server.config.drain_delay_seconds:
            wait_until(lambda: self._has_told.is_set() or not self._thread.is_alive())

    def _drain_connections(self) -> None:
        Listening.drain(self.server._listening)
        self._has_told.set()

    def stop(self) -> None:
        """Drain, and check for faults on the event loop."""
        for client in self.clients:
            client.close()  # the drain need not linger
        self._see_clients_leave()
        if self._thread.is_alive():
            if self._is_clock_held:
                self._do(lambda: vars(self.server).pop("_on_second"))
            self.begin_drain()
        self._thread.join(20)
        assert not self._thread.is_alive(), "the server does not stop"
        assert self._error is None, self._error
        assert not self.faults, "what reached the event loop's exception handler:\n" + "\n\n".join(self.faults)

    def _see_clients_leave(self) -> None:
        """Wait a moment until all connections have ended: a drain with one left looks again only after 10 ms."""
        for _ in range(20):
            if not self.server.connection_count:
                return
            time.sleep(0.0002)

    def _do(self, function: Callable[[], Any]) -> None:
        """Run function() on the event loop, unless the loop has ended or is about to."""
        is_done = threading.Event()

        def run() -> None:
            if self.is_clean is None:
                function()
            is_done.set()

        with contextlib.suppress(RuntimeError):  # closed
            self._loop.call_soon_threadsafe(run)
        wait_until(lambda: is_done.is_set() or not self._thread.is_alive())

    def _run(self) -> None:
        loop = new_loop(self._loop_kind)
        loop.set_exception_handler(lambda _, context: self.faults.append(faults.describe(context)))
        try:
            loop.run_until_complete(self._serve())
        except BaseException as exc:
            self._error = exc
            self._ready.set()
        finally:
            loop.close()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        await self.server.start()
        self._ready.set()
        await self._stopping.wait()
        self.is_clean = await self.server.drain()
        await asyncio.sleep(0)  # the transports' own last callbacks
