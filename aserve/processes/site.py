"""The site of a supervisor: the plan, the listeners, and functions of the command.

Owns:     Site; why settings could not be read.
Thread:   the supervisor's only one; a Site is never changed.
Not here: facts that change with a reload (fleet.py), the inheritance of the previous supervisor (inheritance.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..connections.listeners import Listener
from ..core.named_tuple import NamedTuple
from ..lifecycle.load_error import LoadError
from ..lifecycle.loading import working_folder
from .children.command import Command
from .fleet.plan import Plan, Read
from .monitoring.overview import OnLife, Supervise


class Site(NamedTuple):
    """A command with --workers."""

    plan: Plan  # the first plan
    read: Read  # `read_again` of command/plans.py
    listeners: Sequence[Listener]  # closed in the end
    command: Command  # of the start of this process
    supervise: Supervise = lambda context: ()
    on_life: OnLife = lambda event, context: None


def describe_unexpected(fault: Exception) -> str:
    """Return why settings could not be read, for an unexpected exception, and where to look for the cure."""
    try:
        working_folder()  # relative paths need the folder
    except LoadError as gone:
        return str(gone)
    return f"the settings could not be read: {type(fault).__name__}: {fault}; the log has the traceback"
