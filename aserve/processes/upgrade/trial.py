"""A trial: a process for new code to show the ability to serve, before the supervisor becomes the new code.

Owns:     the role of the process: a worker, on sockets out of reach of clients.
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
    page = new_page()  # no process reads the page
    return Role(TRIAL, 1, plan, channel, _private_listeners(plan), page, supervisor_pid=os.getppid(), is_new=True)


def _private_listeners(plan: Plan) -> list[Listener]:
    """Return a listener for each bind, of the bind's protocol and certificates, at an address already gone."""
    try:
        with tempfile.TemporaryDirectory(prefix="aserve-trial-") as folder:  # only this user may enter
            return open_listeners([
                parse_bind(bind)._replace(kind="unix", path=os.path.join(folder, str(number)))
                for number, bind in enumerate(plan.config.bind)
            ])  # fmt: skip
    except OSError:
        return []  # no folder can be written to: the trial imports the app, and accepts no connections
