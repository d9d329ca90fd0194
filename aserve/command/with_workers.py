"""The command with --workers: a supervisor.

Owns:     the supervisor's arguments, the inheritance from the previous supervisor.
Thread:   the main thread.
Not here: what is to be served (plans.py), the work of its children (as_child.py); everything after that (processes/).

The command imports this only with --workers: a process without a supervisor needs 1 MB less.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping, MutableMapping, Sequence

from ..connections.listeners import Listener, bind_listeners
from ..core.errors import FAILED, BindError
from ..extension import Life, LifeContext
from ..features import Config, on_life, supervised_of
from ..lifecycle.exits import begin_ending, hold_signals
from ..lifecycle.load_error import LoadError
from ..processes.acts import StartFailed
from ..processes.children.command import Command
from ..processes.fleet.plan import Plan, Read
from ..processes.site import Site
from ..processes.supervisor import Supervisor
from ..processes.upgrade.inheritance import Inheritance
from ..settings import ConfigError
from .as_child import Enter, Load, work_to_the_end


def read_inheritance(fd: int) -> Inheritance:
    """Read the state of the previous supervisor from the descriptor that it has passed."""
    return Inheritance.read(fd, Config)


def run_workers(
    plan: Plan,
    read: Read,
    listeners: Sequence[Listener] | None,
    inherited: Inheritance | None,
    environ: MutableMapping[str, str],
    load: Load,
    enter: Enter,
) -> int:
    """Supervise workers; in a worker, serve. Return the exit status of this process."""
    listeners = bind_listeners(plan.config) if listeners is None else listeners
    extensions = supervised_of(plan.config)
    bound: Sequence[Listener] = inherited.bound if inherited else ()
    kept: Mapping[str, int] = inherited.kept if inherited else {}
    try:
        bound = bound or extensions.bind()
        on_life(Life.WORKERS_BEGIN, LifeContext(plan, kept=kept, environ=environ))
    except (BindError, ConfigError, LoadError):
        for listener in (*listeners, *bound):
            listener.close()
        raise
    if hasattr(gc, "freeze"):  # not on PyPy
        gc.freeze()  # so that collectors of children do not touch these objects, and the kernel need not copy them
    try:
        site = Site(
            plan, read, listeners, Command.of_this_process(environ),
            lambda context: extensions.supervise(context._replace(bound=bound, kept=kept)), on_life,
        )  # fmt: skip
        role = Supervisor(site).run(inherited)
    except StartFailed as fault:
        sys.stderr.write(fault.app_traceback)
        sys.stderr.write(f"aserve: error: {fault}\n")
        return FAILED
    if not isinstance(role, int):
        return work_to_the_end(role, load, enter)
    begin_ending(plan.config.drain_seconds)
    hold_signals()
    on_life(Life.EXITS, LifeContext(plan, environ=environ))
    return role
