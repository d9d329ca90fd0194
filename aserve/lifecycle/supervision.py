"""An extension's part in a supervisor.

Owns:     Supervision, with optional methods; SupervisorContext and WorkerEnd, the arguments; HandedDown, the state for the next program.
Thread:   the supervisor's only one: nothing here may wait for long.
Not here: making it (Extension.supervise), calling the methods (processes/monitoring/overview.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable

from ..core.named_tuple import NamedTuple

if TYPE_CHECKING:  # a process without a supervisor imports statuses at the first question
    from ..connections.listeners import Listener
    from .control import Answer, Later
    from .program import Program
    from .status import Observed

# Takes the pid of the sending worker, the message, and the message's descriptors, to be closed by the handler.
Word = Callable[[int, Mapping[str, Any], "list[int]"], None]


class SupervisorContext(NamedTuple):
    """A starting supervisor, as the argument of Extension.supervise."""

    observed: Observed
    environ: Mapping[str, str]  # of the command
    watch: Callable[
        [int, Callable[[], None], int], None
    ]  # call a function when a descriptor is ready for these events of selectors
    tell: Callable[[int, dict[str, Any]], None]  # send an order to the worker with this pid; see Extension.answers
    bound: Sequence[Listener] = ()  # see Extension.bind; after an upgrade in place, the previous supervisor's
    words: Sequence[str] = ()  # of the command
    kept: Mapping[str, int] = MappingProxyType({})  # memory files of the previous supervisor; see LifeContext.kept
    resize: Callable[[int, str], None] = lambda size, why: None  # set the number of workers; the log says why


class WorkerEnd(NamedTuple):
    """The end of a child process."""

    pid: int
    page_number: int
    page: Sequence[int]  # a copy of the page, as the next worker may have the page itself; of a mold without a slot
    lost: int  # the number of requests lost


class HandedDown(NamedTuple):
    """The state of an extension for the next program in this process, in an upgrade in place."""

    state: Mapping[str, Any]  # JSON, with names unique among extensions
    bound: Sequence[Listener] = ()
    fds: Sequence[int] = ()  # further descriptors named in `state`


class Supervision:
    """One extension's part in a supervisor, from start to end; override the methods needed."""

    def words(self) -> Mapping[str, Word]:
        """Return the handlers of workers' messages, by the "say" of a message."""
        return {}

    def programs(self, config: Any) -> Sequence[Program]:
        """Return the programs to run beside the workers with these settings; called at the start, and at the end of a reload with other settings."""
        return ()

    def share(self) -> Mapping[str, Any]:
        """Return values for each child's Role.given, by names of the extension; called before each fork."""
        return {}

    def on_second(self) -> None:
        """Do what is due once a second."""

    def on_end(self, end: WorkerEnd) -> None:
        """Note the end of a child."""

    def answer(self, answers: Mapping[str, Answer], later: Later, is_upgraded: bool) -> None:
        """
        Answer questions, by name, from now on; called once, when the supervisor has answers. `later`: call a function after seconds.

        Raises:
            BindError: an address could not be bound; not with `is_upgraded`, as workers of the previous supervisor serve.
        """

    def status(self) -> Mapping[str, Any]:
        """Return facts for a status, by name; called on demand."""
        return {}

    def hand_down(self) -> HandedDown:
        """Return the state for the next program; the exec follows at once, or this process continues after a failure."""
        return HandedDown({})

    def take_over(self, state: Mapping[str, Any], has_children: bool) -> None:
        """Take over the state of all extensions from the previous supervisor; `has_children`: workers of the previous supervisor are still
        there."""

    def close(self, is_end: bool) -> None:
        """Close everything; without `is_end` in a child only, while the supervisor continues. May be called again."""
