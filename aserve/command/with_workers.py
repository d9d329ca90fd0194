"""The command with --workers: a supervisor, and the work of its children.

Owns:     the supervisor's arguments, the work of its children, the trial of new code, the inheritance from the previous supervisor.
Thread:   the main thread.
Not here: what is to be served (plans.py), importing the app (apps.py); everything after that (processes/).

The command imports this only with --workers: a process without a supervisor needs 1 MB less.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Callable

from ..connections.listeners import Listener, bind_listeners
from ..core.errors import FAILED, AserveError, BindError
from ..core.page import MOLD
from ..extension import Life, LifeContext
from ..features import Config, on_life, supervised_of
from ..lifecycle.exits import begin_ending, hold_signals
from ..lifecycle.loading import LoadError
from ..lifecycle.logs import set_up_logging
from ..processes.channel import Channel
from ..processes.command import Command
from ..processes.inheritance import Inheritance
from ..processes.mold import run_mold
from ..processes.plan import Plan, Read
from ..processes.programs import Jobs
from ..processes.shutdown import StartFailed
from ..processes.supervisor import Supervisor
from ..processes.trial import trial_role
from ..processes.worker import Role, run_worker, say_failed
from ..server.running import loop_factory
from ..settings import ConfigError
from ..wsgi import WSGIApp

Load = Callable[[Plan, Role], WSGIApp]  # imports the app for a worker, or for a mold
Enter = Callable[[Role], object]  # turns a process forked from a mold into a worker


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
    try:
        bound = bound or extensions.bind()
        on_life(Life.WORKERS_BEGIN, LifeContext(plan, kept=inherited.kept if inherited else {}))
    except (BindError, ConfigError, LoadError):
        for listener in (*listeners, *bound):
            listener.close()
        raise
    _share_memory(plan)
    try:
        role = Supervisor(
            plan, read, listeners, Command.of_this_process(environ), open_jobs,
            lambda context: extensions.supervise(context._replace(bound=bound)), on_life,
        ).run(inherited)  # fmt: skip
    except StartFailed as fault:
        sys.stderr.write(fault.app_traceback)
        sys.stderr.write(f"aserve: error: {fault}\n")
        return FAILED
    if not isinstance(role, int):
        return _work_to_the_end(role, load, enter)
    begin_ending(plan.config.drain_seconds)
    hold_signals()
    on_life(Life.EXITS, LifeContext(plan))
    return role


def open_jobs(kept: Mapping[str, int]) -> Jobs:
    """Return the supervisor's view of jobs (--spooler); take over the files of the previous supervisor."""
    from ..features.uwsgi_api.spooler.pages import Spoolers  # most sites have none

    return Spoolers(kept)


def _share_memory(plan: Plan) -> None:
    """Load into this process what its children would otherwise load each."""
    loop_factory(plan.config.loop)  # imports uvloop, if it is used
    if hasattr(gc, "freeze"):  # not on PyPy
        gc.freeze()  # so that collectors of children do not touch these objects, and the kernel need not copy them


def run_trial(channel_fd: int, read: Read, load: Load, enter: Enter) -> int:
    """Show the supervisor, which runs the old code, whether this code can serve."""
    channel = Channel.inherit(channel_fd)
    with contextlib.closing(channel):
        try:
            role = trial_role(read(), channel)
        except (ConfigError, AserveError, BindError) as fault:
            return say_failed(channel, str(fault))
        return _work(role, load, enter)


def _work_to_the_end(role: Role, load: Load, enter: Enter) -> int:
    """Do the work of a role, and keep its channel open: the kernel closes it at the process's end, as a sign to the supervisor."""
    roles = [role]

    def enter_forked(worker: Role) -> object:
        roles.append(worker)  # this process was forked from a mold
        return enter(worker)

    status = _work(role, load, enter_forked)
    for each in roles:
        each.channel.detach()  # or Python would close it, with a warning
    for listener in role.listeners:
        listener.socket.close()
    return status


def _work(role: Role, load: Load, enter: Enter) -> int:
    """Do the work of a role in a child; return the exit status."""
    present = role

    def become(worker: Role) -> object:
        nonlocal present
        present = worker  # this process was forked from a mold
        _begin(worker)
        return enter(worker)

    try:
        _begin(role)
    except ImportError as fault:  # as of a library that --user may not read
        return say_failed(role.channel, f"it cannot import what aserve needs: {fault}")
    if role.slot == MOLD:
        status = run_mold(role, lambda: load(role.plan, role), become)
    else:
        status = run_worker(role, lambda: load(role.plan, role))
    on_life(Life.ENDS, LifeContext(present.plan, present))
    return status


def _begin(role: Role) -> None:
    """Let the log have this process's name."""
    set_up_logging(role.plan.config, role.name)
