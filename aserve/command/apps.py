"""Imports the app, in each process that needs it: one without a supervisor, a worker, a mold, a spooler.

Owns:     import_needed, load, load_worker; enter, for a worker that is forked from a mold; telling of an import that takes long, where no supervisor does.
Thread:   the main thread; `_tell` has its own.
Not here: finding and importing a name (lifecycle/loading.py), the extensions' part in it (features/).
"""

from __future__ import annotations

import _thread
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..connections.monitoring.stacks import ORDER
from ..core.frames import calls_of, outer_frames, show_calls
from ..core.start_folder import FolderGoneError, StartFolder
from ..extension import Life, LifeContext
from ..features import extensions_of, on_life
from ..lifecycle.loading import SLOW_START_SECONDS, check_unpatched, load_app
from ..lifecycle.mounts import load_with_mounts, nothing_here
from ..lifecycle.surroundings import set_surroundings
from ..processes.fleet.plan import Plan
from ..server.running import loop_factory
from ..settings import EngineSettings
from ..settings.secrecy import show_app
from ..workers.interrupt import find_interrupt
from ..wsgi import WSGIApp
from .plans import config_of, depends_on_folder, needs_no_app

if TYPE_CHECKING:
    from ..processes.children.role import Role

logger = logging.getLogger("aserve")

SERVING_SECONDS = 1.0  # between two looks at an import: whether it serves, as by Flask's app.run()
SERVING = ("run_simple", "serve_forever")  # of Werkzeug, with its reloader, too; of socketserver, gevent
SERVES_ITSELF = (
    ", and serves by a server of its own: aserve serves the app instead if that call is removed, or stands below "
    "`if __name__ == '__main__':`"
)


def import_needed(config: EngineSettings) -> None:
    """Import what the settings need, before the app's folder comes on sys.path: a file there may have the name of a module."""
    extensions_of(config)
    loop_factory(config.loop)
    if config.request_seconds:
        find_interrupt()
    if config.http_parser == "httptools":
        from ..protocols import httptools1  # noqa: F401


def load(plan: Plan, role: Role | None = None, is_spooler: bool = False, is_check: bool = False) -> WSGIApp:
    """Import the app, in its surroundings and with its extensions; `role`: in a worker process, which the supervisor watches."""
    context = LifeContext(plan, role, is_spooler, is_check, environ=os.environ, argv=sys.argv)
    if not is_spooler:
        import_needed(plan.config)
    set_surroundings(plan.config, os.environ)
    with _watched(plan) if role is None else contextlib.nullcontext():
        on_life(Life.IMPORTS, context)
        app = load_with_mounts(config_of(plan).mounted, lambda: _load_main(plan))
        app = plan.origin.wrap(app) if plan.origin is not None else app
        on_life(Life.IMPORTED, context)
    check_unpatched()
    return app


@contextlib.contextmanager
def _watched(plan: Plan) -> Iterator[None]:
    """Log where an import is that takes long."""
    is_over = _thread.allocate_lock()
    with is_over:
        with contextlib.suppress(RuntimeError):  # the system starts no thread: whether one is needed, the server knows
            # Not a threading.Thread, whose parts the app may replace meanwhile (gevent).
            _thread.start_new_thread(_tell, (is_over, _thread.get_ident(), show_app(plan.spec or "the app")))
        yield


def _tell(is_over: _thread.LockType, importer: int, what: str) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the main thread gets them
    began_at, at = time.monotonic(), SERVING_SECONDS
    while not is_over.acquire(timeout=max(began_at + at - time.monotonic(), 0.0)):
        calls = calls_of(outer_frames(sys._current_frames().get(importer)))
        is_serving = any(call.function in SERVING for call in calls)
        if not is_serving and at < SLOW_START_SECONDS:
            at += SERVING_SECONDS
            continue
        logger.warning(
            "%s is being imported, for %.0f s%s; that is at (%s):\n%s",
            what, time.monotonic() - began_at, SERVES_ITSELF if is_serving else "", ORDER, show_calls(calls).rstrip(),
        )  # fmt: skip
        at = max(2 * at, SLOW_START_SECONDS)


def _load_main(plan: Plan) -> WSGIApp:
    if plan.spec or needs_no_app(config_of(plan)):
        return load_app(plan.spec) if plan.spec else nothing_here
    from ..demo import app  # which nothing else needs

    return app


def load_worker(folder: StartFolder, own: frozenset[str], plan: Plan, role: Role) -> WSGIApp:
    """Import the app for a worker or a mold, from the folder that the start folder's name leads to now."""
    try:
        folder.enter(own)
    except FolderGoneError as fault:  # the old folder is better than nothing
        if depends_on_folder(plan):
            logger.warning("%s; until then workers import the old code", fault)
    return load(plan, role)


def enter(role: Role) -> None:
    """Turn this process, forked from a mold that has imported the app, into a worker."""
    on_life(Life.FORKED, LifeContext(role.plan, role, environ=os.environ))
