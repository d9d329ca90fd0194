"""`import uwsgi` for apps written for uWSGI: RPC, what apps ask about the server, and `postfork` of uwsgidecorators.

Owns:     the modules `uwsgi` and `uwsgidecorators` that an app finds where no others are.
Thread:   any.
Spec:     uWSGI 2.0.30, "The uWSGI API - Python".
Not here: RPC itself (rpc/), when functions of `postfork` are called (hooks.py).
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import logging
import socket
import sys
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Callable, NamedTuple, Union

from .. import rpc as aserve_rpc
from ..hooks import post_fork
from ..settings import VERSION

logger = logging.getLogger("aserve.rpc")
app_logger = logging.getLogger("aserve.app")

NAME, DECORATORS = "uwsgi", "uwsgidecorators"
Text = Union[str, bytes]


def register_rpc(name: str, function: Callable[..., bytes], argc: int = 0) -> bool:
    """
    Register an RPC function, or replace it. As in uWSGI, `argc` is not enforced.

    Raises:
        ValueError, TypeError: see aserve.rpc.register.
    """
    aserve_rpc.register(name, function, replace=True)
    return True


def rpc(address: Text | None, name: Text, *arguments: Text) -> bytes | None:
    """
    Call a function of another server, or of this process when the address is empty; None: it failed.

    Why it failed is in the log.

    Raises:
        TypeError: something is neither bytes nor text.
    """
    if not address:
        return call(name, *arguments)
    place = address.decode() if isinstance(address, bytes) else address
    try:
        # As in uWSGI, what has no port is the path of a unix socket.
        place = place if ":" in place or place[0] == "/" else f"unix:{place}"
        return aserve_rpc.call_blocking(place, name, *arguments)
    except aserve_rpc.RpcError as fault:
        logger.warning("uwsgi.rpc: %s", fault)
        return None


def call(name: Text, *arguments: Text) -> bytes | None:
    """
    Call a function of this process; None: it failed, or returned nothing.

    Raises:
        TypeError: something is neither bytes nor text.
    """
    octets = [aserve_rpc.to_octets(item) for item in (name, *arguments)]
    try:
        return aserve_rpc.call_local(*octets) or None
    except aserve_rpc.RpcError:
        return None  # it is in the log


def rpc_list() -> tuple[bytes, ...]:
    """Return the names of the functions of this process."""
    return tuple(name.encode() for name in aserve_rpc.registered())


class Process(NamedTuple):
    """Which process this is."""

    worker_id: int = 1
    masterpid: int = 0  # there is none
    numproc: int = 1
    options: Mapping[str, Any] = {}  # of a configuration of uWSGI's, for `uwsgi.opt`


_process = Process()


def worker_id() -> int:
    """Return the number of this worker process; without workers it is 1."""
    return _process.worker_id


def masterpid() -> int:
    """Return the pid of the supervisor; 0: there is none."""
    return _process.masterpid


def mule_id() -> int:
    """Return 0: no mule, of which there are none."""
    return 0


def log(text: Text) -> bool:
    """Write a line to the server's log."""
    app_logger.info("%s", text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text)
    return True


def set_logvar(name: Text, value: Text) -> None:
    """Do nothing: uWSGI's log-format could show it, the access log has one format."""


PROVIDED: dict[str, Any] = {
    function.__name__: function
    for function in (register_rpc, rpc, call, rpc_list, worker_id, masterpid, mule_id, log, set_logvar)
}
PROVIDED["version"] = f"aserve {VERSION}".encode()
PROVIDED["numproc"] = _process.numproc
PROVIDED["hostname"] = socket.gethostname().encode()
PROVIDED["started_on"] = int(time.time())
PROVIDED["applications"] = {}
# Threads are always there, and Python's own hooks are called where workers are forked: agents that watch an app refuse
# to start, or warn, when this says otherwise.
PROVIDED["opt"] = {"enable-threads": True, "py-call-uwsgi-fork-hooks": True}

# What to do instead of what apps use most, by how the names begin.
INSTEAD = {
    "cache_": "a cache of its own (Redis, memcached) has what all processes share",
    "spool": "a task queue has it",
    "SPOOL_": "a task queue has it",
    "add_timer": "a thread, cron or a systemd timer does it",
    "add_rb_timer": "a thread, cron or a systemd timer does it",
    "add_cron": "cron or a systemd timer does it",
    "register_signal": "a thread or a task queue does it",
    "signal": "a thread or a task queue does it",
    "lock": "threading.Lock does it within a process, and a file lock (fcntl.flock) among workers",
    "unlock": "threading.Lock does it within a process, and a file lock (fcntl.flock) among workers",
    "reload": "SIGHUP to uwsgi.masterpid() does it with --workers, without them your supervisor restarts it",
    "stop": "SIGTERM to os.getpid() does it",
    "websocket_": "libraries of apps speak WebSocket here: docs/websockets.md",
    "sendfile": "wsgi.file_wrapper of the environ does it",
    "post_fork_hook": "set it: it is called in each process that serves, once",
    "farm_": "there are no mules; a task queue has it",
    "mule_": "there are no mules; a task queue has it",
}


def _refuse(name: str) -> Any:
    """Say what an app lacks here: the module's __getattr__ (PEP 562)."""
    if name.startswith("__"):
        raise AttributeError(f"module 'uwsgi' has no attribute {name!r}")
    offered = ", ".join(sorted(PROVIDED))
    instead = "".join(f"; {text}" for start, text in INSTEAD.items() if name.startswith(start))
    raise AttributeError(f"uwsgi.{name} is not available under aserve{instead}; its module 'uwsgi' has {offered}")


class postfork:
    """Call the function in each process that serves: `@postfork`; or in the worker of one number: `@postfork(2)`."""

    def __init__(self, function: Callable[[], Any] | int) -> None:
        self._worker_id = function if isinstance(function, int) else 0
        self._function: Callable[[], Any] | None = None
        if callable(function):
            self(function)

    def __call__(self, *arguments: Any) -> Any:
        """Take the function, if there is none yet; otherwise call it."""
        if self._function is not None:
            return self._function()
        (self._function,) = arguments
        post_fork(self._call)
        return self

    def _call(self) -> None:
        if self._worker_id in (0, worker_id()):
            self()


def _call_post_fork_hook() -> None:
    """Call what the app, or uWSGI's own uwsgidecorators, has put into the module."""
    hook = vars(sys.modules.get(NAME, sys)).get("post_fork_hook")
    if callable(hook):
        hook()


def _refuse_decorator(name: str) -> Any:
    """Say what an app lacks in the other module (PEP 562)."""
    if name.startswith("__"):
        raise AttributeError(f"module 'uwsgidecorators' has no attribute {name!r}")
    raise AttributeError(f"uwsgidecorators.{name} is not available under aserve; it has postfork")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """
    Makes the modules when they are imported, if nobody else has them.

    It is asked last: an app is often in a file of its own called uwsgi.py.
    """

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, origin="aserve") if name in (NAME, DECORATORS) else None

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = "What uWSGI offers to apps, as far as aserve has it."
        if module.__name__ == NAME:
            opt = {**_process.options, **PROVIDED["opt"]}
            module.__dict__.update(PROVIDED, numproc=_process.numproc, opt=opt, __getattr__=_refuse)
        else:
            module.__dict__.update(postfork=postfork, __getattr__=_refuse_decorator)


def install(process: Process = Process()) -> None:  # noqa: B008
    """Let `import uwsgi` succeed in this process, and say which it is; done again, it only says that."""
    global _process
    _process = process
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
        post_fork(_call_post_fork_hook)
