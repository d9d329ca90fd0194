"""An extension's part in a supervisor.

Owns:     Supervision, whose every method is optional; SupervisorContext, its argument; HandedDown, its state for the next program.
Thread:   the supervisor's only one: nothing here may wait for long.
Not here: making it (Extension.supervise), calling its methods (processes/monitoring/overview.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable

from ..core.named_tuple import NamedTuple

if TYPE_CHECKING:  # a process that serves by itself does without a status until it is asked for one
    from ..connections.listeners import Listener
    from .control import Answer, Later
    from .program import Program
    from .status import Observed

# Takes the pid of the sending worker, the message, and its descriptors, which the handler must close.
Word = Callable[[int, Mapping[str, Any], "list[int]"], None]


class SupervisorContext(NamedTuple):
    """A starting supervisor, as the argument of Extension.supervise."""

    observed: Observed
    environ: Mapping[str, str]  # of the command
    watch: Callable[
        [int, Callable[[], None], int], None
    ]  # call a function when a descriptor is ready for these events of selectors
    tell: Callable[[int, dict[str, Any]], None]  # send an order to the worker with this pid; see Extension.orders
    bound: Sequence[Listener] = ()  # see Extension.bind; after an upgrade in place, the previous supervisor's
    words: Sequence[str] = ()  # of the command
    kept: Mapping[str, int] = MappingProxyType({})  # memory files of the previous supervisor; see LifeContext.kept
    resize: Callable[[int, str], None] = lambda size, why: None  # set the number of workers; the log says why


class HandedDown(NamedTuple):
    """The state of an extension for the next program in this process, in an upgrade in place."""

    state: Mapping[str, Any]  # JSON, with names that no other extension uses
    bound: Sequence[Listener] = ()
    fds: Sequence[int] = ()  # other descriptors that `state` names


class Supervision:
    """One extension's part in a supervisor, from start to end; override the methods that it needs."""

    def words(self) -> Mapping[str, Word]:
        """Return the handlers of workers' messages, by the "say" of a message."""
        return {}

    def programs(self, config: Any) -> Sequence[Program]:
        """Return the programs to run beside the workers with these settings; called at the start, and at the end of each reload."""
        return ()

    def share(self) -> Mapping[str, Any]:
        """Return values for each child's Role.given, by names of its own; called before each fork."""
        return {}

    def on_second(self) -> None:
        """Do what is due once a second."""

    def choose_size(self, wanted: int) -> int:
        """Return the number of workers after a reload has changed --workers, which says `wanted`; the settings are the new ones by now."""
        return wanted

    def on_end(self, pid: int, page_number: int) -> None:
        """Note that a child has ended; its page is read once more, in `on_page_end`, and then reused."""

    def on_page_end(self, slot: int, page: Sequence[int]) -> None:
        """Read the page of an ended worker for the last time."""

    def answer(self, answers: Mapping[str, Answer], later: Later, is_upgraded: bool) -> None:
        """
        Answer questions, by name, from now on; called once, when the supervisor has its answers. `later`: call a function after seconds.

        Raises:
            BindError: its address could not be bound; not with `is_upgraded`, as workers of the previous supervisor serve.
        """

    def status(self) -> Mapping[str, Any]:
        """Return facts for a status, by name; called on demand."""
        return {}

    def on_lost(self, slot: int, count: int) -> None:
        """Note the number of requests that the worker of a slot was serving when it died."""

    def hand_down(self) -> HandedDown:
        """Return the state for the next program; the exec follows at once, or this process continues if it fails."""
        return HandedDown({})

    def take_over(self, state: Mapping[str, Any], has_children: bool) -> None:
        """Take over the state of all extensions from the previous supervisor; `has_children`: its workers are still there."""

    def close(self, is_end: bool) -> None:
        """Close everything; without `is_end` in a child only, while the supervisor continues. May be called again."""
