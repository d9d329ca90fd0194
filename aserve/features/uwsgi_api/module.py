"""`import uwsgi` for apps written for uWSGI: RPC, functions about the server, and uwsgidecorators.

Owns:     the modules `uwsgi` and `uwsgidecorators` that an app finds if no others exist.
Thread:   any.
Spec:     uWSGI 2.0.30, "The uWSGI API - Python".
Not here: RPC itself (rpc/), jobs (spooler/), locks, cache, signals and timers (uwsgi_api/), calling functions of `postfork` (lifecycle/hooks.py).
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Callable, Union

from ... import rpc as aserve_rpc
from ...core.named_tuple import NamedTuple
from ...core.page import MOLD, Field, State
from ...lifecycle.hooks import at_end, post_fork
from ...settings import VERSION
from ..sharing.settings import Shared
from . import memory
from .decorators import DECORATORS as SHARED_DECORATORS
from .functions import FUNCTIONS, SIGNALS
from .spooler import functions as spooler
from .spooler.settings import QUEUE

logger = logging.getLogger("aserve.rpc")
app_logger = logging.getLogger("aserve.app")

NAME, DECORATORS_NAME = "uwsgi", "uwsgidecorators"
Text = Union[str, bytes]


def register_rpc(name: str, function: Callable[..., bytes], argc: int = 0) -> bool:
    """
    Register or replace an RPC function. As in uWSGI, `argc` is not enforced.

    Raises:
        ValueError, TypeError: see aserve.rpc.register.
    """
    aserve_rpc.register(name, function, replace=True)
    return True


def rpc(address: Text | None, name: Text, *arguments: Text) -> bytes | None:
    """
    Call a function of another server, or of this process if the address is empty; None: it failed.

    The log has the reason.

    Raises:
        TypeError: something is neither bytes nor text.
    """
    if not address:
        return call(name, *arguments)
    place = address.decode() if isinstance(address, bytes) else address
    try:
        # As in uWSGI, an address without a port is the path of a unix socket.
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
        return None  # the reason is in the log


def rpc_list() -> tuple[bytes, ...]:
    """Return the names of the functions of this process."""
    return tuple(name.encode() for name in aserve_rpc.registered())


class Process(NamedTuple):
    """The facts about this process that the module shows."""

    worker_id: int = 1
    masterpid: int = 0  # 0: no supervisor
    numproc: int = 1
    options: Mapping[str, Any] = {}  # of a configuration of uWSGI, for `uwsgi.opt`
    is_preloaded: bool = False  # workers are forked from a process that has imported the app
    caches: Sequence[str] = ()  # of --uwsgi-cache; a supervisor has made them already
    page: memoryview | None = None  # the page of this worker, with its state
    slots: Any = None  # the pages of all workers: processes.slots.Slots
    spoolers: Sequence[str] = ()  # of --spooler: folders of jobs
    is_spooler: bool = False  # it does jobs, and serves no requests
    shared: Shared | None = None  # of --shared; a supervisor has joined already

    @property
    def serves(self) -> bool:
        """Whether this worker takes signals: a draining worker leaves them to its successor."""
        return self.page is None or self.page[Field.STATE] == State.READY


_process = Process()


def worker_id() -> int:
    """Return the number of this worker process; without workers it is 1."""
    return _process.worker_id


def masterpid() -> int:
    """Return the pid of the supervisor; 0: there is none."""
    return _process.masterpid


def mule_id() -> int:
    """Return 0: aserve has no mules."""
    return 0


def workers() -> tuple[dict[str, Any], ...]:
    """Return a dict for each worker: id, pid, requests (as of a second ago), status, respawn_count; without workers for this process."""
    if _process.slots is None:
        return ({"id": worker_id(), "pid": os.getpid(), "status": b"busy", "apps": []},)  # the caller serves a request
    found: dict[int, dict[str, Any]] = {}
    for number in range(1, _process.slots.top):
        page = _process.slots.page(number)
        slot, generation = page[Field.SLOT], page[Field.GENERATION]
        if not page[Field.PID] or slot not in range(1, MOLD):
            continue
        if slot in found and found[slot]["respawn_count"] >= generation:
            continue  # draining
        status = b"busy" if page[Field.THREADS_BUSY] else b"idle"
        found[slot] = {
            "id": slot, "pid": page[Field.PID], "requests": page[Field.REQUESTS], "status": status,
            "respawn_count": generation, "apps": [],
        }  # fmt: skip
    return tuple(found[slot] for slot in sorted(found))


def reload() -> bool:
    """
    Replace all workers one after another, as SIGHUP does.

    Raises:
        RuntimeError: there is no supervisor.
    """
    if not masterpid():
        raise RuntimeError(f"uwsgi.reload: {INSTEAD['reload']}")
    os.kill(masterpid(), signal.SIGHUP)
    return True


def stop() -> bool:
    """Make the server drain and end."""
    os.kill(masterpid() or os.getpid(), signal.SIGTERM)
    return True


def i_am_the_spooler() -> bool:
    """Return whether this process does jobs."""
    return _process.is_spooler


def log(text: Text) -> bool:
    """Write a line to the server's log."""
    app_logger.info("%s", text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text)
    return True


def set_logvar(name: Text, value: Text) -> None:
    """Do nothing: uWSGI's log-format can show the value, the access log cannot."""


PROVIDED: dict[str, Any] = {
    function.__name__: function
    for function in (
        register_rpc, rpc, call, rpc_list, worker_id, masterpid, mule_id, workers, reload, stop, log, set_logvar,
        i_am_the_spooler,
    )
}  # fmt: skip
PROVIDED.update(FUNCTIONS)
PROVIDED["version"] = f"aserve {VERSION}".encode()
PROVIDED["numproc"] = _process.numproc
PROVIDED["hostname"] = socket.gethostname().encode()
PROVIDED["started_on"] = int(time.time())
PROVIDED["applications"] = {}
PROVIDED["is_a_reload"] = False  # a value, as in uWSGI; a worker cannot tell whether it was started by a reload
# Threads are always enabled, and Python's own fork hooks are called: monitoring agents refuse to start, or warn, without
# these options.
PROVIDED["opt"] = {"enable-threads": True, "py-call-uwsgi-fork-hooks": True}

# The alternatives to functions that apps often use, by the beginning of their names.
INSTEAD = {
    "spool": "--spooler FOLDER offers it",
    "SPOOL_": "--spooler FOLDER offers it",
    "send_to_spooler": "--spooler FOLDER offers it",
    "add_file_monitor": "--touch-reload FILE reloads, and a thread with a package such as watchfiles looks at others",
    "add_ms_timer": "uwsgi.add_timer takes parts of a second",
    "signal_wait": "uwsgi.register_signal has a function called",
    "signal_received": "uwsgi.register_signal has a function called",
    "reload": "there is no supervisor to do it; with --workers 1 there is one",
    "websocket_": "libraries of apps speak WebSocket here: docs/websockets.md",
    "sendfile": "wsgi.file_wrapper of the environ does it",
    "post_fork_hook": "set it: it is called in each process that serves, once",
    "atexit": "set it: it is called when a process ends",
    "farm_": "there are no mules; a task queue has it",
    "mule_": "there are no mules; a task queue has it",
    "queue_": "a cache of lists, such as Redis, or a task queue has it",
    "sharedarea_": "multiprocessing.shared_memory has it",
    "metric_": "prometheus_client's metrics of all workers are in --metrics",
    "set_user_harakiri": "--request-timeout limits requests; see docs/deadlines.md",
    "alarm": "what watches the log does it",
    "snmp_": "prometheus_client's metrics of all workers are in --metrics",
    "total_requests": "uwsgi.workers() and --metrics count them",
    "connection_fd": "a connection is the server's; wsgi.input reads what came on it",
    "chunked_read": "wsgi.input reads it",
    "setprocname": "the package setproctitle does it",
    "cache_": "uwsgi.cache_get, cache_set, cache_update, cache_exists, cache_del, cache_clear, cache_keys are there",
}


def _refuse(name: str) -> Any:
    """Raise an AttributeError with the alternative: the module's __getattr__ (PEP 562)."""
    if name.startswith("__"):
        raise AttributeError(f"module 'uwsgi' has no attribute {name!r}")
    offered = ", ".join(sorted(PROVIDED))
    instead = "".join(f"; {text}" for start, text in INSTEAD.items() if name.startswith(start))
    raise AttributeError(f"uwsgi.{name} is not available under aserve{instead}; its module 'uwsgi' has {offered}")


class postfork:
    """Calls the function in each process that serves: `@postfork`; or in one worker: `@postfork(2)`."""

    def __init__(self, function: Callable[[], Any] | int) -> None:
        self._worker_id = function if isinstance(function, int) else 0
        self._function: Callable[[], Any] | None = None
        if callable(function):
            self(function)

    def __call__(self, *arguments: Any) -> Any:
        """Take the function at the first call; call it afterwards."""
        if self._function is not None:
            return self._function()
        (self._function,) = arguments
        post_fork(self._call)
        return self

    def _call(self) -> None:
        if self._worker_id in (0, worker_id()):
            self()


def spooler_function() -> Callable[[Any], Any] | None:
    """Return the app's function for jobs: `uwsgi.spooler`, or that of the decorators; None: it has none."""
    function = vars(sys.modules.get(NAME, sys)).get("spooler")
    if callable(function):
        return function  # type: ignore[no-any-return]
    return spooler.do_decorated if spooler.has_decorated() else None


DECORATORS: dict[str, Any] = {"postfork": postfork, **SHARED_DECORATORS}
DECORATED_INSTEAD = {
    "spool": INSTEAD["spool"],
    "mule": "there are no mules; @timer and @thread run beside requests, and a task queue elsewhere",
    "farm": "there are no mules; @timer and @thread run beside requests, and a task queue elsewhere",
    "harakiri": "--request-timeout limits requests; see docs/deadlines.md",
    "filemon": INSTEAD["add_file_monitor"],
}


def _call_atexit() -> None:
    """Call `uwsgi.atexit`, if the app has set it."""
    at_exit = vars(sys.modules.get(NAME, sys)).get("atexit")
    if callable(at_exit):
        at_exit()


def _begin() -> None:
    """Start taking signals: this process is about to serve."""
    if _process.worker_id:
        SIGNALS.begin(_process.worker_id, lambda: _process.serves)


def _call_post_fork_hook() -> None:
    """Call `uwsgi.post_fork_hook`, if the app, or uWSGI's own uwsgidecorators, has set it."""
    hook = vars(sys.modules.get(NAME, sys)).get("post_fork_hook")
    if callable(hook):
        hook()


def _refuse_decorator(name: str) -> Any:
    """Raise an AttributeError for uwsgidecorators (PEP 562)."""
    if name.startswith("__"):
        raise AttributeError(f"module 'uwsgidecorators' has no attribute {name!r}")
    offered = ", ".join(sorted(DECORATORS))
    instead = "".join(f"; {text}" for start, text in DECORATED_INSTEAD.items() if name.startswith(start))
    raise AttributeError(f"uwsgidecorators.{name} is not available under aserve{instead}; it has {offered}")


def _options() -> dict[str, Any]:
    """Return `uwsgi.opt`: the options of the file, and the true values of those that monitoring agents check."""
    truths: dict[str, Any] = dict(PROVIDED["opt"])
    if _process.masterpid:
        truths["master"] = True
    if not _process.is_preloaded:
        truths["lazy-apps"] = True
    options = {key: value for key, value in _process.options.items() if key not in ("master", "lazy", "lazy-apps")}
    if _process.spoolers:
        folders = [os.fsencode(folder) for folder in _process.spoolers]
        truths["spooler"] = folders[0] if len(folders) == 1 else folders
    return {**options, **truths}


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes one of the modules at its import."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, origin="aserve") if name == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = "What uWSGI offers to apps, as far as aserve has it."
        if module.__name__ == NAME:
            module.__dict__.update(PROVIDED, numproc=_process.numproc, opt=_options(), __getattr__=_refuse)
            module.__dict__.update(spooler.FUNCTIONS if _process.spoolers else {})
        else:
            module.__dict__.update(DECORATORS, __getattr__=_refuse_decorator)
            module.__dict__.update(spooler.DECORATORS if _process.spoolers else {})


def _queues(folders: Sequence[str]) -> dict[str, Any]:
    """Return the queues of --spooler that hosts share, by name."""
    names = [folder for folder in folders if folder.startswith(QUEUE)]
    hosts = memory.shared().hosts if names else None
    if hosts is None:
        return {}
    from .spooler.queues import Queue  # imports the package redis, too

    return {name: Queue(name, hosts.store, hosts.turns.leases) for name in names}


def install(process: Process = Process()) -> None:  # noqa: B008
    """
    Let `import uwsgi` succeed in this process, with these facts; a second call only replaces the facts.

    Raises:
        OSError: there is no memory to share, or no descriptor.
    """
    global _process
    _process = process
    if not process.masterpid:
        memory.share(process.caches, shared=process.shared)  # with a supervisor, it has done this
    spooler.use_folders(process.spoolers, _queues(process.spoolers))
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder(NAME))  # last: many apps have a file uwsgi.py of their own
        # First: the module that comes with uWSGI refuses to be imported without a uWSGI master.
        sys.meta_path.insert(0, _Finder(DECORATORS_NAME))
        atexit.register(_call_atexit)
        post_fork(_begin)
        at_end(SIGNALS.end)
        post_fork(_call_post_fork_hook)
