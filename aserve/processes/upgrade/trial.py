"""A trial: a process in which new code shows that it can serve, before the supervisor becomes that code.

Owns:     the role of that process: a worker, on sockets that no client can reach.
Thread:   the main thread.
Not here: the supervisor's side (upgrade.py), the worker itself (worker.py).
"""

from __future__ import annotations

import os
import tempfile

from ...connections.listeners import Listener, open_listeners
from ...core.page import new_page
from ...settings import ConfigError, parse_bind
from ..children.channel import Channel
from ..children.child import TRIAL
from ..children.role import Role
from ..fleet.plan import Plan


def trial_role(plan: Plan, channel: Channel) -> Role:
    """
    Return the role of this process.

    Raises:
        ConfigError: the settings do not ask for workers.
    """
    if plan.config.workers is None:
        raise ConfigError("the settings do not ask for workers any more (--workers); that takes a restart")
    page = new_page()  # no process reads it
    return Role(TRIAL, 1, plan, channel, _private_listeners(plan), page, supervisor_pid=os.getppid(), is_new=True)


def _private_listeners(plan: Plan) -> list[Listener]:
    """Return a listener for each bind, of its protocol and with its certificates, at an address that is gone already."""
    try:
        with tempfile.TemporaryDirectory(prefix="aserve-trial-") as folder:  # which only this user may enter
            return open_listeners([
                parse_bind(bind)._replace(kind="unix", path=os.path.join(folder, str(number)))
                for number, bind in enumerate(plan.config.bind)
            ])  # fmt: skip
    except OSError:
        return []  # no folder can be written to: the trial imports the app, and accepts no connections
