"""The command's process as a child of a supervisor: a worker, a mold, or the trial of new code.

Owns:     the work of a role from the fork to the exit status; the trial.
Thread:   the main thread.
Not here: the supervisor (with_workers.py), importing the app (apps.py), the work itself (processes/worker/worker.py, mold.py).
"""

from __future__ import annotations

import contextlib
from typing import Callable

from ..core.errors import AserveError, BindError
from ..extension import Life, LifeContext
from ..features import on_life
from ..lifecycle.logs import set_up_logging
from ..processes.children.channel import Channel
from ..processes.children.forked import say_failed
from ..processes.children.role import Role
from ..processes.fleet.plan import Plan
from ..processes.upgrade.trial import trial_role
from ..processes.worker.mold import run_mold
from ..processes.worker.worker import run_worker
from ..settings import ConfigError
from ..wsgi import WSGIApp

Load = Callable[[Plan, Role], WSGIApp]  # imports the app for a worker, or for a mold
Enter = Callable[[Role], object]  # turns a process forked from a mold into a worker


def run_trial(channel_fd: int, read: Callable[[], Plan], load: Load, enter: Enter) -> int:
    """Show the supervisor, which runs the old code, whether this code can serve."""
    channel = Channel.inherit(channel_fd)
    with contextlib.closing(channel):
        try:
            role = trial_role(read(), channel)
        except (ConfigError, AserveError, BindError) as fault:
            return say_failed(channel, str(fault))
        return _work(role, load, enter)


def work_to_the_end(role: Role, load: Load, enter: Enter) -> int:
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
    if role.is_mold:
        status = run_mold(role, lambda: load(role.plan, role), become)
    else:
        status = run_worker(role, lambda: load(role.plan, role))
    on_life(Life.ENDS, LifeContext(present.plan, present))
    return status


def _begin(role: Role) -> None:
    """Let the log have this process's name."""
    set_up_logging(role.plan.config, role.name)
