"""Serves one app until a cancellation or a signal: in a task, or as the process itself.

Owns:     serve() and run(); the start of a process that binds as root, signals that drain, reports to systemd,
          and the choice of event loop.
Thread:   event loop only; run() makes the loop.
Not here: serving and draining (server.py), handlers of the app (lifecycle/signals.py), systemd's protocol
          (core/systemd.py), the user of the process (lifecycle/), argv (command/cli.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import functools
import logging
import os
import signal
import threading
import warnings
import weakref
from collections.abc import Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Callable, cast

from ..connections.listeners import Listener
from ..core.errors import WorkersStuck
from ..core.systemd import Notifier, watchdog_seconds
from ..features import Config, extensions_of
from ..lifecycle.exits import begin_ending
from ..lifecycle.fd_store import FdStore
from ..lifecycle.hooks import call_at_end, call_post_fork
from ..lifecycle.loading import check_unpatched
from ..lifecycle.manager import Manager
from ..lifecycle.pid_file import kept_pid_file, note_that_it_stays, pid_file
from ..lifecycle.preconditions import check_descriptors
from ..lifecycle.privileges import become, find_account
from ..lifecycle.signals import (
    SAME_SIGNAL_SECONDS,
    Signals,
    early,
    end_at_once,
    is_in_background,
    write_stacks_at_crash,
)
from ..lifecycle.standard_streams import fill_standard_streams
from ..settings import EngineSettings
from ..wsgi import WSGIApp
from .arguments import Processes, check_arguments, config_of
from .server import Server

if TYPE_CHECKING:
    from types import CoroutineType

    import anyio.abc

logger = logging.getLogger("aserve")

TELLING_SECONDS = 1.0  # between two reports to systemd
FILLING_SECONDS = 1.0  # between two looks at the standard descriptors


Beside = Callable[[Server], "contextlib.AbstractContextManager[object]"]


def serve(
    app: WSGIApp,
    bind: str | Sequence[str] | Config | None = None,
    threads: int | None = None,
    *,
    task_status: anyio.abc.TaskStatus[Server] | None = None,
    **settings: Any,
) -> Coroutine[Any, Any, None]:
    """
    Serve until cancelled, then drain: a coroutine, for an anyio (or asyncio) task group.

        server = await task_group.start(aserve.serve, app, "127.0.0.1:0")

    `task_status`, from the group, is started with the Server once it accepts. A call that is not awaited serves nothing;
    without a running event loop, as in a script, a RuntimeWarning says what to write.

    Raises:
        BindError, ConfigError, TypeError: see Server.
        WorkersStuck: --max-stuck threads hang inside the app; the server has drained.
    """
    begun: list[None] = []
    serving = cast("CoroutineType[Any, Any, None]", _serve(app, bind, threads, settings, task_status, begun))
    serving.__name__ = serving.__qualname__ = "serve"  # for tasks and warnings
    # Not an own class with a __del__: anyio accepts only a coroutine. Called at exit, too, as PyPy needs it.
    weakref.finalize(serving, _warn_unawaited, begun)
    return serving


async def _serve(
    app: WSGIApp,
    bind: str | Sequence[str] | Config | None,
    threads: int | None,
    settings: dict[str, Any],
    task_status: anyio.abc.TaskStatus[Server] | None,
    begun: list[None],
) -> None:
    begun.append(None)
    async with Server(app, bind, threads, **settings) as server:
        if task_status is not None:
            task_status.started(server)
        failure = await server.wait_failing()
    raise WorkersStuck(failure)


def _warn_unawaited(begun: Sequence[None]) -> None:
    """Warn a script that has not awaited serve(); not after a cancellation before the start, nor with a running loop, where Python warns."""
    if not begun and asyncio._get_running_loop() is None:
        warnings.warn(
            "aserve.serve() was not awaited, and has served nothing: in a script write aserve.run(app, ...), which blocks; "
            "in a coroutine, await aserve.serve(app, ...)",
            RuntimeWarning,
            stacklevel=3,  # the place that has dropped the coroutine
        )


def run(
    app: WSGIApp, bind: str | Sequence[str] | Config | None = None, threads: int | None = None, **settings: Any
) -> int:
    """
    Serve until SIGTERM or SIGINT, or until too many workers are stuck (--max-stuck), then drain;
    blocking. Return the exit status: 1 when something was left unfinished.

        aserve.run(app, "0.0.0.0:7878", threads=3)

    Bind and threads may be given by position, other settings by name; or a Config in place of bind. Log lines go to the program's own
    loggers: before `logging.basicConfig(level=logging.INFO)`, or another configuration, only warnings are shown.

    Make a new event loop. On the main thread, handle signals: the app's own
    handlers run before aserve's, and a second signal ends the process at once.
    SIGHUP drains, too, if it reloads nothing and would end the process by default.

    Raises:
        BindError: see Server.
        ConfigError: see Server, and `prepared`; or it names --workers or --control.
        LoadError: a function of `post_fork` has raised.
        PatchedError: see Server.
        RuntimeError: an event loop runs on this thread.
        TypeError: see Server.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError(
            "an event loop runs here already, as in Jupyter, and aserve.run() would make another; "
            "in a coroutine or a cell write: async with aserve.Server(app, ...) as server: ..."
        )
    fill_standard_streams()
    config = config_of(bind, threads, settings)
    check_arguments(app, config, is_run=True)
    with early.beside_program() if _is_main() else contextlib.nullcontext(), prepared(config) as listeners:
        return run_prepared(app, config, listeners)


@contextlib.contextmanager
def prepared(
    config: EngineSettings, inherited: Sequence[Listener] | None = None
) -> Iterator[Sequence[Listener] | None]:
    """
    Apply the settings of the group Process; yield the listeners that were bound before that, or None.

    Files that the app makes at its import then have the right user and mode. Clients that connect meanwhile wait.
    With `inherited`, from the program before this process's exec, all that is done already. Extensions prepare before anything is bound.

    Raises:
        BindError: see Server.
        ConfigError: an account does not exist, or is not permitted; the pid file cannot be written.
    """
    if inherited is not None:
        with kept_pid_file(config.pid_file):
            yield inherited
        return
    with extensions_of(config).prepare(), _prepared(config) as listeners:
        yield listeners


@contextlib.contextmanager
def _prepared(config: EngineSettings) -> Iterator[Sequence[Listener] | None]:
    account, store = find_account(config.user, config.group, config.add_group), FdStore.of_this_process()
    if config.umask is not None:
        os.umask(config.umask)
    if account is None and config.pid_file is None and not store:
        yield None
        return
    listeners, pid = store.open(config), os.getpid()
    try:
        with pid_file(config.pid_file):
            if account is not None:
                become(account)
                note_that_it_stays(config.pid_file, account)
            yield listeners
    except BaseException:
        for listener in listeners if os.getpid() == pid else ():  # workers also leave through here
            listener.remove_file()
        raise
    finally:
        for listener in listeners:
            listener.socket.close()  # another process may have replaced the file by now


def run_prepared(
    app: WSGIApp, config: EngineSettings, listeners: Sequence[Listener] | None, beside: Beside = contextlib.nullcontext
) -> int:
    """Serve as `run` does, on the listeners of `prepared`; enter `beside` with the server, on its loop."""
    call_post_fork()
    check_unpatched()  # before the signal handlers, which belong to the main thread
    return run_on_new_loop(
        config.loop,
        lambda loop: _run_beside(
            Server(app, cast("Config", config), processes=Processes(listeners, is_alone=True)), beside
        ),
    )


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


async def _run_beside(server: Server, beside: Beside) -> int:
    with beside(server):
        return await _run_until_signalled(server, asyncio.get_running_loop())


async def _run_until_signalled(server: Server, loop: asyncio.AbstractEventLoop) -> int:
    config = server.config
    signalled: asyncio.Future[tuple[str, float]] = loop.create_future()
    signals = Signals(loop)
    is_main = _is_main()
    manager = Manager() if is_main else Manager(Notifier(""))
    try:
        # Before clients can connect: afterwards, an end without a drain would lose requests.
        if is_main:
            early.wait()
            has_certificates = bool(config.tls_binds)
            is_reload = has_certificates or manager.is_heard  # Type=notify-reload sends SIGHUP, and waits for a report
            for number in (signal.SIGTERM, signal.SIGINT, *(() if is_reload else _hangup_if_default())):
                signals.handle(number, functools.partial(_on_signal, number, signalled, loop.time), is_once=True)
            signals.handle(signal.SIGUSR1, server.reopen_logs)
            if is_reload:
                reload = server.reload_certificates if has_certificates else _reload_nothing
                signals.handle(signal.SIGHUP, functools.partial(_on_reload, reload, server, manager))
            signals.answer_others(_on_other)
            signals.unblock()
        await server.start()
        logger.info("%s", _status_of(server))
        manager.tell_ready(_status_of(server))
        failing = loop.create_task(server.wait_failing())
        telling = loop.create_task(_tell_manager(server, manager))
        waited: set[asyncio.Future[Any]] = {signalled, failing}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if signalled.done():
            name, hint = signalled.result()[0], "; once more to leave at once"
        else:
            name, hint = "too many workers are stuck", ""
        draining = f"draining, at most {config.drain_seconds:g} s"
        logger.info("%s: %s%s", name, draining, hint)
        manager.tell_stopping(f"{name}: {draining}")
        begin_ending(config.drain_delay_seconds + config.drain_seconds)
        failing.cancel()
        is_clean = await server.drain() and not server.failure
        telling.cancel()
        await asyncio.wait({telling})
        logger.info("stopped")
    finally:
        signals.close()
    return 0 if is_clean else 1


def _status_of(server: Server) -> str:
    return f"serving on {', '.join(server._inner.shown_urls)}"


def _hangup_if_default() -> tuple[signal.Signals, ...]:
    """Return SIGHUP if it would end this process by default; under `nohup` it is ignored, and the app may handle it."""
    return (signal.SIGHUP,) if signal.getsignal(signal.SIGHUP) is early else ()


def _on_other(number: signal.Signals) -> None:
    """Answer a signal that means something to a supervisor only, or ends the process at once."""
    if number == signal.SIGQUIT:
        end_at_once(number)
    if number in (signal.SIGTTIN, signal.SIGTTOU) and is_in_background():
        # The app reads from the terminal, or writes to it: without a stop it would try for ever.
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        logger.warning("%s: nothing was done: without --workers there is one process, and no successor", number.name)


def _on_reload(reload: Callable[[], bool], server: Server, manager: Manager) -> None:
    manager.tell_reloading("SIGHUP")
    if not reload():
        manager.note_unchanged("SIGHUP")
    manager.tell_ready(_status_of(server))


def _reload_nothing() -> bool:
    logger.warning(
        "SIGHUP: nothing was loaded anew, as there are only certificates to load, and no https bind; restart for new code"
    )
    return False


async def _tell_manager(server: Server, manager: Manager) -> None:
    """Repeat reports that systemd could not take; feed its watchdog while the loop turns and workers take queued requests."""
    if not manager.is_heard:
        return
    if watchdog_seconds() and not faulthandler.is_enabled():
        write_stacks_at_crash()  # the watchdog sends SIGABRT, and then the log has every thread's stack
    while True:
        await asyncio.sleep(TELLING_SECONDS)
        certificates = server._inner.ask("certificates") or ()
        manager.tell_ready(_status_of(server), server.config.advise({"certificates": certificates}))
        manager.feed_watchdog(not server.statistics().requests_stalled_seconds)


def _on_signal(number: signal.Signals, signalled: asyncio.Future[tuple[str, float]], now: Callable[[], float]) -> None:
    if not signalled.done():
        signalled.set_result((number.name, now()))
    elif now() - signalled.result()[1] > SAME_SIGNAL_SECONDS:
        end_at_once(number)


def run_on_new_loop(kind: str, begin: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, int]]) -> int:
    """
    Run the coroutine of `begin` on a new event loop, by the setting `loop`; return its exit status.

    Raises:
        LackError: there are not enough descriptors.
    """
    check_descriptors()
    fill_standard_streams()  # the app may have closed one of them since the start
    loop = new_loop(kind)
    try:
        # Not the thread's current loop: with --threads 0 the app would get it by get_event_loop(), and could stop it.
        loop.call_later(FILLING_SECONDS, _fill_again, loop)
        return loop.run_until_complete(begin(loop))
    finally:
        loop.close()
        call_at_end()


def _fill_again(loop: asyncio.AbstractEventLoop) -> None:
    """Fill what the app has closed, once a second: libuv aborts the process when it closes such a number, and a client's connection would get what the app prints."""
    fill_standard_streams()
    loop.call_later(FILLING_SECONDS, _fill_again, loop)


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    """Return a new event loop, by the setting `loop`."""
    return loop_factory(kind)()


def loop_factory(kind: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the constructor of event loops, by the setting `loop`; only here is uvloop imported."""
    if kind != "asyncio":
        try:
            import uvloop
        except ImportError:
            if kind == "uvloop":
                raise
        else:
            new_event_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
            return new_event_loop
    return asyncio.new_event_loop
