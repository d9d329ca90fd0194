"""What a supervisor is given: what it is to keep serving, and the functions of the command that it calls.

Owns:     Site.
Thread:   the supervisor's only one; it is never changed.
Not here: what changes with a reload (fleet.py), what the previous supervisor has left (inheritance.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..connections.listeners import Listener
from ..core.named_tuple import NamedTuple
from .children.command import Command
from .children.losses import OnLife
from .fleet.plan import Plan, Read
from .monitoring.overview import Supervise


class Site(NamedTuple):
    """One command with --workers."""

    plan: Plan  # the first one
    read: Read
    listeners: Sequence[Listener]  # closed in the end
    command: Command  # which has started this process
    supervise: Supervise = lambda context: ()
    on_life: OnLife = lambda event, context: None
