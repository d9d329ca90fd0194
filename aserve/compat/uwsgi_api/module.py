"""`import uwsgi` for apps written for uWSGI: RPC, functions about the server, and uwsgidecorators.

Owns:     the modules `uwsgi` and `uwsgidecorators` that an app finds if no others exist.
Thread:   any.
Spec:     uWSGI 2.0.30, "The uWSGI API - Python".
Not here: RPC itself (rpc/), jobs (spooler/), what else the module has (provided.py), names that are not there (names.py), calling functions of `postfork` (lifecycle/hooks.py).
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.machinery
import logging
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Callable, Union

from ... import rpc as aserve_rpc
from ...lifecycle.hooks import at_end, post_fork
from ...wsgi import WSGIApp
from . import memory
from .decorators import DECORATORS as SHARED_DECORATORS
from .facts import worker_id
from .functions import SIGNALS, free_signal
from .handlers import places_of
from .mules import functions as mules
from .names import DECORATORS as DECORATOR_NAMES
from .names import NAMES, why_missing
from .process import Process, become, present
from .provided import names_of
from .request import remembering
from .spooler import functions as spooler
from .spooler.settings import QUEUE
from .tallies import RequestTally

logger = logging.getLogger("aserve.rpc")

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


RPC: dict[str, Any] = {function.__name__: function for function in (register_rpc, rpc, call, rpc_list)}


def _refuse(name: str) -> Any:
    """Raise an AttributeError with the alternative: the module's __getattr__ (PEP 562)."""
    if name.startswith("__"):
        raise AttributeError(f"module 'uwsgi' has no attribute {name!r}")
    raise AttributeError(why_missing(NAME, name, NAMES))


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


def mule_hook() -> Callable[[bytes], Any] | None:
    """Return the app's function for messages of mules: `uwsgi.mule_msg_hook`, or that of @mulefunc; None: it has none."""
    hook = vars(sys.modules.get(NAME, sys)).get("mule_msg_hook")
    if callable(hook):
        return hook  # type: ignore[no-any-return]
    return mules.mule_msg_dispatcher if mules.has_functions() else None


DECORATORS: dict[str, Any] = {
    "postfork": postfork,
    "get_free_signal": free_signal,
    **SHARED_DECORATORS,
    **mules.DECORATORS,
}


def _call_atexit() -> None:
    """Call `uwsgi.atexit`, if the app has set it."""
    at_exit = vars(sys.modules.get(NAME, sys)).get("atexit")
    if callable(at_exit):
        at_exit()


def _begin() -> None:
    """Start taking signals: this process is about to serve."""
    process = present()
    if process.worker_id or process.mule_id:
        SIGNALS.begin(places_of(process.worker_id, process.mule_id), lambda: present().serves)


def _call_post_fork_hook() -> None:
    """Call `uwsgi.post_fork_hook`, if the app, or uWSGI's own uwsgidecorators, has set it."""
    hook = vars(sys.modules.get(NAME, sys)).get("post_fork_hook")
    if callable(hook):
        hook()


def _refuse_decorator(name: str) -> Any:
    """Raise an AttributeError for uwsgidecorators (PEP 562)."""
    if name.startswith("__"):
        raise AttributeError(f"module 'uwsgidecorators' has no attribute {name!r}")
    raise AttributeError(why_missing(DECORATORS_NAME, name, DECORATOR_NAMES))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes one of the modules at its import."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, origin="aserve") if name == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        module.__doc__ = "What uWSGI offers to apps, as far as aserve has it."
        if module.__name__ == NAME:
            module.__dict__.update(RPC, **names_of(present()), __getattr__=_refuse)
        else:
            module.__dict__.update(DECORATORS, __getattr__=_refuse_decorator)
            module.__dict__.update(spooler.DECORATORS if present().spoolers else {})


def _queues(folders: Sequence[str]) -> dict[str, Any]:
    """Return the queues of --spooler that hosts share, by name."""
    names = [folder for folder in folders if folder.startswith(QUEUE)]
    hosts = memory.shared().hosts if names else None
    if hosts is None:
        return {}
    from .spooler.queues import Queue  # imports the package redis, too

    return {name: Queue(name, hosts.store, hosts.turns.leases) for name in names}


def wrap_app(app: WSGIApp) -> WSGIApp:
    """Return an app whose calls can use the functions about a request; the app itself, if it has not imported the module."""
    return remembering(app) if is_imported() else app


def begin_tally() -> RequestTally:
    """Return the row of counts of this process, for its server."""
    tally = memory.shared().tallies.begin(present().page_number, present().worker_id)
    SIGNALS.on_run = tally.count_signal
    return tally


def is_imported() -> bool:
    """Whether the app has imported the module: another module of its name may be there in its place."""
    return isinstance(getattr(getattr(sys.modules.get(NAME), "__spec__", None), "loader", None), _Finder)


def install(process: Process = Process()) -> None:  # noqa: B008
    """
    Let `import uwsgi` succeed in this process, with these facts; a second call only replaces the facts.

    Raises:
        OSError: there is no memory to share, or no descriptor.
    """
    become(process)
    if not process.masterpid:
        memory.share(
            process.caches, shared=process.shared, extras=process.extras
        )  # with a supervisor, it has done this
    spooler.use_folders(process.spoolers, _queues(process.spoolers))
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder(NAME))  # last: many apps have a file uwsgi.py of their own
        # First: the module that comes with uWSGI refuses to be imported without a uWSGI master.
        sys.meta_path.insert(0, _Finder(DECORATORS_NAME))
        atexit.register(_call_atexit)
        post_fork(_begin)
        at_end(SIGNALS.end)
        post_fork(_call_post_fork_hook)
