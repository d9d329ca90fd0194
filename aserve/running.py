"""Serve one app until told to stop: in a task, or as the process itself.

Owns:     serve() and run(); signals that drain, and the choice of event loop.
Thread:   event loop only; run() makes the loop.
Not here: what is served and how it ends (server.py), handlers that the app has set (signals.py), argv (cli.py).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import signal
import threading
from typing import Any, Callable

import anyio
import anyio.abc

from .errors import WorkersStuck
from .loading import check_unpatched
from .server import Server
from .settings import Config
from .signals import Signals, leave_at_once
from .wsgi import WSGIApp

logger = logging.getLogger("aserve")

# A terminal, `make` and `timeout` send one Ctrl-C or SIGTERM to the process and to its group:
# two so close together are the same one, and no wish to leave at once.
SAME_SIGNAL_SECONDS = 0.5


async def serve(
    app: WSGIApp,
    bind: str | list[str] | None = None,
    *,
    task_status: anyio.abc.TaskStatus[Server] = anyio.TASK_STATUS_IGNORED,
    **settings: Any,
) -> None:
    """
    Serve until cancelled, then drain; for an anyio (or asyncio) task group.

        server = await task_group.start(aserve.serve, app, "127.0.0.1:0")

    `task_status` is started with the Server once it accepts.

    Raises:
        BindError: see Server.
        WorkersStuck: as many as --max-stuck hang inside the app; it has drained.
    """
    if bind is not None:
        settings["bind"] = bind
    async with Server(app, **settings) as server:
        task_status.started(server)
        failure = await server.wait_failing()
    raise WorkersStuck(failure)


def run(app: WSGIApp, bind: str | list[str] | Config | None = None, **settings: Any) -> int:
    """
    Serve until SIGTERM or SIGINT, or until too many workers are stuck (--max-stuck), then drain;
    blocking. Return the exit status: 1 when something was left unfinished.

        aserve.run(app, "0.0.0.0:7878", threads=3)

    Makes an event loop of its own. Signals are handled when called on the
    main thread, and handlers that the app has set run before ours; a second
    one ends the process at once.

    Raises:
        BindError: see Server.
        PatchedError: see Server.
        TypeError: both a Config and settings were given.
    """
    if isinstance(bind, Config):
        if settings:
            raise TypeError("give either a Config or settings, not both")
        config = bind
    else:
        config = Config(**settings) if bind is None else Config(bind=bind, **settings)
    check_unpatched()  # before signals, which are the main thread's
    loop = _new_loop(config.loop)
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(_run_until_signalled(app, config, loop))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _run_until_signalled(app: WSGIApp, config: Config, loop: asyncio.AbstractEventLoop) -> int:
    server = Server(app, config)
    signalled: asyncio.Future[tuple[str, float]] = loop.create_future()
    signals = Signals(loop)
    try:
        # Before anybody can connect: from then on an end without a drain would lose requests.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signals.handle(number, functools.partial(_on_signal, number, signalled, loop.time), is_once=True)
            if any(bind.startswith("https://") for bind in config.bind):
                signals.handle(signal.SIGHUP, server.reload_certificates)
        await server.start()
        logger.info("serving on %s", ", ".join(server.urls))
        failing = loop.create_task(server.wait_failing())
        waited: set[asyncio.Future[Any]] = {signalled, failing}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if signalled.done():
            name, hint = signalled.result()[0], "; once more to leave at once"
        else:
            name, hint = "too many workers are stuck", ""
        logger.info("%s: draining, at most %g s%s", name, config.drain_seconds, hint)
        failing.cancel()
        is_clean = await server.drain() and not server.failure
        logger.info("stopped")
    finally:
        signals.close()
    return 0 if is_clean else 1


def _on_signal(number: signal.Signals, signalled: asyncio.Future[tuple[str, float]], now: Callable[[], float]) -> None:
    if not signalled.done():
        signalled.set_result((number.name, now()))
    elif now() - signalled.result()[1] > SAME_SIGNAL_SECONDS:
        leave_at_once(number)


def _new_loop(kind: str) -> asyncio.AbstractEventLoop:
    """Return the event loop of the setting `loop`; uvloop's one door."""
    if kind != "asyncio":
        try:
            import uvloop
        except ImportError:
            if kind == "uvloop":
                raise
        else:
            return uvloop.new_event_loop()
    return asyncio.new_event_loop()
