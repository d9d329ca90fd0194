"""A worker: the child's side of processes.

Owns:     importing the app, one Server on an event loop, messages to the supervisor and orders, the worker's page.
Thread:   the main thread; from the first loop's turn on, the event loop's.
Not here: when workers begin and end (fleet/decide.py), the fork and a failure to start (forked.py), serving (server/server.py), finding the app
          (command/apps.py).

A worker does not decide when to end. SIGTERM, or stuck threads, make the worker ask for a successor, and the worker serves until the supervisor
says drain: by then the successor serves. A worker ignores signals sent by a terminal to the whole group (Ctrl-C). If the supervisor dies, the
supervisor's end of the channel closes: all workers drain and end.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from typing import Any, Callable, cast

from ...connections.limit import is_short_of_descriptors
from ...connections.monitoring.stacks import describe_stacks
from ...core.errors import FAILED, Fault
from ...core.page import Field
from ...lifecycle.exits import begin_ending, end_in_time, hold_signals
from ...lifecycle.hooks import call_post_fork
from ...lifecycle.loading import not_loaded
from ...lifecycle.signals import Signals, early
from ...server.arguments import Processes
from ...server.running import run_on_new_loop
from ...server.server import Server
from ...wsgi import WSGIApp
from ..children.channel import Message
from ..children.children import ENDING_SECONDS
from ..children.forked import LEFT_TO_SUPERVISOR, MAX_WHY_LENGTH, dying_with, prepare_process, tell_failure
from ..children.role import Role
from ..transfers.passing import Passing
from .reloading import Reloader, reloading
from .warming import warm_up

logger = logging.getLogger("aserve")

TICK_SECONDS = 1.0
# How long the last messages may wait for the supervisor, which reads all the time. Guess.
LAST_WORDS_SECONDS = 2.0
MAX_STACKS_LENGTH = 50_000  # JSON makes two octets of a newline

Load = Callable[[], WSGIApp]  # imports the app


def run_worker(role: Role, load: Load) -> int:
    """Serve until the supervisor ends this worker, or has died; return the exit status."""
    prepare_process()
    return serve_as(role, load, is_cold=True)


def serve_as(role: Role, load: Load, is_cold: bool = False) -> int:
    """Serve as this worker, in a prepared process; return the exit status. `is_cold`: no mold has warmed up the app."""

    def serve() -> int:
        app: WSGIApp = not_loaded
        config = role.plan.config
        if role.fault is None:
            with dying_with(role.channel):
                app = load()
                call_post_fork()
                if is_cold and config.warm_up:
                    warm_up(app, config, role.listeners, role.is_new)
        return run_on_new_loop(config.loop, lambda loop: Worker(role, app, loop).run())

    return tell_failure(role.channel, serve)


class Worker:
    """A Server, under the orders of the supervisor."""

    def __init__(self, role: Role, app: WSGIApp, loop: asyncio.AbstractEventLoop) -> None:
        self._channel = role.channel
        self._page = role.page
        self._loop = loop
        self._pages, self._board = role.pages, role.load_board
        self._drain_seconds = role.plan.config.drain_delay_seconds + role.plan.config.drain_seconds
        shared = Processes(
            listeners=role.listeners,
            is_alone=role.plan.config.is_of_one and role.slot == 1,  # `aserve workers +1` adds workers
            load_board=role.load_board,
            in_flight=role.in_flight,
            slot=role.slot,
            counters=role.page,
            say=self._say,
        )
        self._server = Server(app, cast("Any", role.plan.config), processes=shared)
        if role.fault is not None:
            self._server._inner.show_fault(role.fault)
        self._told_to_end: asyncio.Future[bool] = loop.create_future()  # whether workers remain
        self._passing = Passing(
            loop,
            self._server,
            role.load_board,
            role.page_number,
            self._say,
            role.plan.config.drain_seconds,
            lambda: self._channel.is_heard,
        )
        self._channel.on_dropped = self._passing.on_dropped
        # By the `do` of the supervisor's message.
        self._orders: dict[str, Callable[[Message, list[int]], None]] = {
            "drain": lambda message, _: self._end(is_replaced=not message["stopping"]),
            "hand over": self._passing.begin,
            "adopt": self._passing.on_adopt,
            "reopen logs": lambda *_: self._server.reopen_logs(),
            "stacks": lambda message, _: self._tell_stacks(message["number"]),
            "set unready": lambda message, _: self._server.set_unready(message["why"]),
            "show fault": lambda message, _: self._show_fault(Fault(message["why"], message["traceback"])),
        }
        self._reloads = (role.plan, role.slot, role.fault is not None)
        self._reloader: Reloader | None = None

    async def run(self) -> int:
        """Serve until told to drain; return the exit status."""
        signals = Signals(self._loop)
        try:
            self._handle_signals(signals)
            self._listen()
            if self._told_to_end.done():
                return 0
            # Before a developer can have seen the pages, and saved the next change.
            async with reloading(
                *self._reloads, lambda why: self._say({"say": "changed", "why": why})
            ) as self._reloader:
                await self._server.start()
                self._server.call_when_crowded(self._passing.relieve)
                await asyncio.sleep(0)  # one iteration: the server accepts
                failing = self._loop.create_task(self._wait_failing())
                self._tick()
                # Not before: the supervisor does not hear a starting worker. An order since the fork is obeyed in the next iteration.
                signals.handle(signal.SIGTERM, lambda: self._ask_for_successor("it was sent SIGTERM"), is_once=True)
                signals.unblock()
                self._say({"say": "ready"})
                is_replaced = await self._told_to_end
            failing.cancel()
            if is_replaced:
                await self._server._inner.stop_accepting()
                self._say({"say": "left"})
                if self._channel.is_heard:
                    self._passing.give_all()
            is_clean = await self._server.drain(is_replaced)
            if not is_clean:  # even if the worker cannot end now, and is killed
                why = "it has cut requests off at the end of its drain"
                self._say({"say": "failed", "why": why, "traceback": "", "has_told": True})
            await self._say_the_rest()
        finally:
            signals.close()
            hold_signals()
        return 0 if is_clean else FAILED

    def _handle_signals(self, signals: Signals) -> None:
        for number in LEFT_TO_SUPERVISOR:
            if signal.getsignal(number) is not early:  # the app's own
                signals.handle(number, lambda: None)
        signals.handle(signal.SIGUSR1, self._server.reopen_logs)

    def _listen(self) -> None:
        """Read the supervisor's messages from now on, also messages sent since the import."""
        self._loop.add_reader(self._channel.fileno(), self._on_readable)
        self._on_readable()

    async def _wait_failing(self) -> None:
        self._ask_for_successor(await self._server.wait_failing())

    def _ask_for_successor(self, why: str) -> None:
        self._say({"say": "failing", "why": why[:MAX_WHY_LENGTH]})

    # New code

    def _show_fault(self, fault: Fault) -> None:
        """Show browsers that new code does not start, until the code does."""
        self._server._inner.show_fault(fault)
        if self._reloader is not None:
            self._reloader.look_at_all()

    # The channel

    def _say(self, message: Message, fds: Sequence[int] = ()) -> None:
        self._channel.send(message, fds)
        if self._channel.has_unsent:
            self._loop.add_writer(self._channel.fileno(), self._on_writable)

    async def _say_the_rest(self) -> None:
        """Wait until all messages are sent: messages may carry connections."""
        deadline = self._loop.time() + LAST_WORDS_SECONDS
        while self._channel.unsent and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
            self._channel.flush()

    def _on_writable(self) -> None:
        self._channel.flush()
        if not self._channel.has_unsent:
            self._loop.remove_writer(self._channel.fileno())

    def _on_readable(self) -> None:
        while True:
            try:
                received = self._channel.receive()
            except BlockingIOError:
                return
            if received is None:
                self._on_orphaned()
                return
            message, fds = received
            order = self._orders.get(message["do"])
            if order is not None:
                order(message, fds)
            else:
                self._server._inner.obey(message["do"])

    def _on_orphaned(self) -> None:
        """Drain: without a supervisor no process would replace this worker, or end the worker."""
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        logger.error("the supervisor has died: draining; start the command again")
        end_in_time(self._drain_seconds + ENDING_SECONDS)
        self._end(is_replaced=False)

    # Orders

    def _end(self, is_replaced: bool) -> None:
        self._passing.stop()
        if not self._told_to_end.done():
            begin_ending(self._drain_seconds if not is_replaced else self._server.config.drain_seconds)
            self._told_to_end.set_result(is_replaced)

    def _tell_stacks(self, number: int) -> None:
        text = describe_stacks().encode("ascii", "backslashreplace")[:MAX_STACKS_LENGTH].decode()
        self._say({"say": "stacks", "number": number, "text": text})

    # The page

    def _tick(self) -> None:
        """Write this worker's numbers to the page, once a second."""
        self._loop.call_later(TICK_SECONDS, self._tick)
        self._channel.flush()
        self._page[Field.SHORT_OF_DESCRIPTORS] = is_short_of_descriptors()
        self._server.statistics().write_to(self._page)
        if self._board is not None and self._pages is not None:
            self._board.look_at(self._pages.top - 1)
