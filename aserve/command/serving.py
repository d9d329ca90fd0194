"""Serves: in this process, or in worker processes.

Owns:     serve: the order of the start, the context beside the server of a process without a supervisor.
Thread:   the main thread.
Not here: the plan (plans.py), importing the app (apps.py), binding before that, serving and signals (server/running.py), the
          processes of --workers (with_workers.py), the control socket without them (alone.py).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Callable

from ..extension import Life, LifeContext
from ..features import Config, on_life
from ..lifecycle import exits
from ..lifecycle.arenas import share_one_arena
from ..lifecycle.first_process import leave_first_process
from ..lifecycle.logs import set_up_logging
from ..lifecycle.switch_interval import shorten_switch_interval
from ..processes.fleet.plan import Plan, Read
from ..server.running import Beside, prepared
from ..server.running import run_prepared as run_server
from .apps import enter, import_needed, load
from .plans import config_of
from .start_notes import tell_start

if TYPE_CHECKING:
    from ..processes.children.role import Role
    from ..processes.upgrade.inheritance import Inheritance
    from ..server.server import Server
    from ..wsgi import WSGIApp


def serve(
    plan: Plan,
    inherited: Inheritance | None,
    read: Read,
    load_for: Callable[[Plan, Role], WSGIApp],
    environ: MutableMapping[str, str],
) -> int:
    """
    Serve, or supervise workers; return the exit status.

    `inherited`: from the previous supervisor, in an upgrade in place. `read` reads the plan anew; `load_for` imports the app for a worker.
    """
    config = plan.config
    if config.workers is None:
        leave_first_process(environ)
    set_up_logging(config)
    share_one_arena(environ)
    shorten_switch_interval()
    tell_start(plan, environ, is_upgrade=inherited is not None)
    import_needed(config)
    on_life(Life.STARTS, LifeContext(plan, environ=environ))
    if config.workers is not None:
        # 1 MB, which a process without a supervisor saves. Now: --user may not be able to read it later.
        from .with_workers import run_workers
    with prepared(config, inherited.listeners if inherited else None) as listeners:
        if config.workers is not None:
            return run_workers(plan, read, listeners, inherited, environ, load_for, enter)
        around = beside(config_of(plan))
        return run_server(load(plan), config, listeners, around)


def beside(config: Config) -> Beside:
    """Return the context that is entered with the server of a process without a supervisor."""
    path, level = config.control_socket, logging.INFO if config.control is None else None
    if path is None:
        return lambda server: _ending()
    from .alone import control_of  # with the answers of a supervisor

    @contextlib.contextmanager
    def both(server: Server) -> Iterator[None]:
        with _ending(), control_of(server, path, level):
            yield

    return both


@contextlib.contextmanager
def _ending() -> Iterator[None]:
    """Hold signals at the end: one that comes after the server's handlers are gone must not cut off the command's end."""
    try:
        yield
    finally:
        exits.hold_signals()
