"""gunicorn's hooks: functions of its configuration that the server calls.

Owns:     Hooks: calling them; the small objects for their arguments; GunicornHooks, the extension.
Thread:   the main thread, in the supervisor and in workers.
Spec:     gunicorn's documentation, "Server Hooks".
Not here: hooks that are not called (gunicorn_table.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from types import FunctionType, SimpleNamespace
from typing import Any, Callable

from ...core.named_tuple import NamedTuple
from ...extension import Extension, Life, LifeContext
from ...lifecycle.load_error import LoadError
from ...lifecycle.signals import kept_handlers
from ...settings import EngineSettings
from .guests import importing_from, reporting

logger = logging.getLogger("aserve.app")
ERROR, ACCESS = "gunicorn.error", "gunicorn.access"

IN_SUPERVISOR = ("on_starting", "when_ready", "on_reload", "on_exit", "child_exit")
IN_WORKER = ("pre_fork", "post_fork", "post_worker_init", "worker_exit")
_OF_SUPERVISOR = {
    Life.STARTS: "on_starting", Life.WORKERS_BEGIN: "when_ready", Life.RELOADS: "on_reload", Life.EXITS: "on_exit",
}  # fmt: skip
_EMPTY = (lambda server, worker: None).__code__


class Hooks:
    """The hooks of a configuration."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], cfg: Any) -> None:
        """`cfg`: gunicorn's settings."""
        self._functions = functions
        self._cfg = cfg
        self._worker: SimpleNamespace | None = None  # the argument for this process, if it is a worker

    def lend_log(self) -> None:
        """Give the logger gunicorn.error a handler that writes aserve's log, and the level: many a Flask app logs by both. Put both loggers on server.log."""
        error = logging.getLogger(ERROR)
        vars(logger).update(error_log=error, access_log=logging.getLogger(ACCESS))
        if not (self._cfg.needs_logger or error.handlers):
            error.addHandler(ToAserve())
            error.propagate = False
            error.setLevel(logging.getLogger("aserve").level)

    def in_supervisor(self, name: str) -> None:
        """
        Call a hook with the server as its argument; undo signal handlers that it sets.

        Raises:
            LoadError: it has raised.
        """
        with kept_handlers(f"gunicorn's hook {name}"), self._with_app_folder():
            self._call(name, self._server())

    def child_exit(self, pid: int, age: int) -> None:
        """Call child_exit for a worker that has ended; log its exceptions."""
        with _logging("child_exit"), kept_handlers("gunicorn's hook child_exit"), self._with_app_folder():
            self._call("child_exit", self._server(), self._new_worker(pid, age))

    def begin_worker(self, age: int) -> None:
        """
        Call pre_fork and post_fork in a new worker, before it imports the app, or after that where the app is preloaded.

        Raises:
            LoadError: the hook has raised.
        """
        self._worker, server = self._new_worker(os.getpid(), age), self._server(os.getppid())
        with self._with_app_folder():  # the import of the app puts it there for good
            self._call("pre_fork", server, self._worker)
            self._call("post_fork", server, self._worker)

    def app_is_loaded(self) -> None:
        """
        Call post_worker_init in a worker that has the app.

        Raises:
            LoadError: the hook has raised.
        """
        self._call("post_worker_init", self._worker)

    def end_worker(self) -> None:
        """Call worker_exit, if this process is a worker; log its exceptions."""
        if self._worker is not None:
            self._worker.alive = False
            with _logging("worker_exit"):
                self._call("worker_exit", self._server(os.getppid()), self._worker)

    @property
    def is_preloaded(self) -> bool:
        """Whether workers begin with the app, imported before they are forked."""
        return bool(self._cfg.preload_app)

    def _with_app_folder(self) -> contextlib.AbstractContextManager[None]:
        return importing_from(*self._cfg.import_folders)

    def _call(self, name: str, *arguments: Any) -> None:
        function = self._functions.get(name)
        if function is not None:
            with reporting(name, "calling gunicorn's hook"):
                try:
                    function(*arguments)
                except _AbsentError as fault:
                    logger.warning("gunicorn's hook %s has ended early: %s", name, fault)

    def _server(self, pid: int = 0) -> SimpleNamespace:
        cfg, _SERVER.pid = self._cfg, pid or os.getpid()
        if _SERVER.cfg is not cfg:
            vars(_SERVER).update(
                cfg=cfg, num_workers=cfg.workers, address=cfg.address, proc_name=cfg.proc_name, timeout=cfg.timeout,
                LISTENERS=[_Listener(address) for address in cfg.address],
            )  # fmt: skip
        return _SERVER

    def _new_worker(self, pid: int, age: int) -> SimpleNamespace:
        return _Worker(
            pid=pid, ppid=os.getppid(), age=age, log=logger, cfg=self._cfg, alive=True, nr=0, timeout=self._cfg.timeout
        )


class ToAserve(logging.Handler):
    """Passes messages on to aserve's handlers."""

    def emit(self, record: logging.LogRecord) -> None:
        """Do so, whatever the logger."""
        logging.getLogger("aserve").callHandlers(record)


class _AbsentError(AttributeError):
    """A hook has asked for an attribute that gunicorn's object has, and ours has not."""


class _Server(SimpleNamespace):
    def __getattr__(self, name: str) -> Any:
        if name != "WORKERS":
            raise _AbsentError(f"aserve has no server.{name}")
        self.WORKERS: dict[int, Any] = {}
        logger.warning("a hook of gunicorn's configuration asks for server.WORKERS, which is empty here")
        return self.WORKERS


_SERVER = _Server(log=logger, cfg=None)  # of this process, over reloads: hooks keep what they set on it


class _Worker(SimpleNamespace):
    def __getattr__(self, name: str) -> Any:
        if name == "wsgi":  # what would wrap the app may guard it: the worker must not start without
            raise AttributeError("aserve has no worker.wsgi: wrap the app where it is made")
        raise _AbsentError(f"aserve has no worker.{name}")


class _Listener(NamedTuple):
    """A socket that the supervisor has bound: its address, for hooks that log it."""

    cfg_addr: Any

    def __str__(self) -> str:
        """Return gunicorn's form."""
        where = self.cfg_addr
        return f"http://{where[0]}:{where[1]}" if isinstance(where, tuple) else f"unix:{where}"

    def getsockname(self) -> Any:
        """Return the address that the configuration names."""
        return self.cfg_addr


class GunicornHooks(Extension[EngineSettings]):
    """Calls the hooks of a configuration at the events of a process."""

    def __init__(self, hooks: Hooks) -> None:
        """`hooks` also keeps the worker object of this process."""
        self._hooks = hooks

    def on_life(self, event: Life, context: LifeContext) -> None:
        """Call the hook of an event; none in a mold, which gunicorn does not have, and none in --check."""
        hooks, role = self._hooks, context.role
        if event in (Life.STARTS, Life.IMPORTS):
            hooks.lend_log()
        if event in _OF_SUPERVISOR:
            hooks.in_supervisor(_OF_SUPERVISOR[event])
        elif event is Life.REAPED and context.lost is not None:
            hooks.child_exit(context.lost.pid, context.lost.slot)
        elif context.is_check or (role is not None and role.is_mold):
            return
        elif event in (Life.IMPORTED if hooks.is_preloaded else Life.IMPORTS, Life.FORKED):
            hooks.begin_worker(role.slot if role is not None else 1)
        if event in (Life.IMPORTED, Life.FORKED):
            hooks.app_is_loaded()
        elif event is Life.ENDS:
            hooks.end_worker()


@contextlib.contextmanager
def _logging(name: str) -> Iterator[None]:
    """Log an exception of the hook: its worker has ended already."""
    try:
        yield
    except LoadError as fault:
        logger.error("%s of gunicorn's configuration has raised:\n%s", name, fault.app_traceback.rstrip())


def does_nothing(function: object) -> bool:
    """Whether a hook has no body, as in gunicorn's example configuration, which many were copied from."""
    if not isinstance(function, FunctionType):
        return False
    code = function.__code__
    # One instruction is an octet and its argument, on CPython and PyPy; a docstring gives None another place.
    is_empty = code.co_code[::2] == _EMPTY.co_code[::2] and not code.co_names
    return is_empty and all(value in (None, function.__doc__) for value in code.co_consts)
