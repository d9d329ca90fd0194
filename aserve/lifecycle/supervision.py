"""What an extension does in a supervisor.

Owns:     Supervision, of which every method is optional; SupervisorContext, what it is given; HandedDown, what it leaves to new code.
Thread:   the supervisor's only one: nothing here may wait for long.
Not here: which extensions do anything there (Extension.supervise), when each method is called (processes/overview.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, NamedTuple

from ..connections.listeners import Listener
from .status import Observed

# Is given the pid of the worker that says it, the message, and its descriptors, which are the handler's to close.
Word = Callable[[int, Mapping[str, Any], "list[int]"], None]


class SupervisorContext(NamedTuple):
    """A supervisor that begins, for what an extension does in it."""

    observed: Observed
    environ: Mapping[str, str]  # of the command
    watch: Callable[
        [int, Callable[[], None], int], None
    ]  # call this when the descriptor is ready for these events of selectors'
    tell: Callable[[int, dict[str, Any]], None]  # give an order to the worker with this pid; see Extension.orders
    bound: Sequence[Listener] = ()  # see Extension.bind; after an upgrade in place, those of the code before


class HandedDown(NamedTuple):
    """What the next program in this process is to have, after an upgrade in place."""

    state: Mapping[str, Any]  # JSON, by names that no other extension has
    bound: Sequence[Listener] = ()
    fds: Sequence[int] = ()  # other descriptors that `state` names


class Supervision:
    """What one extension does in a supervisor, from its start to its end; override what it needs."""

    def words(self) -> Mapping[str, Word]:
        """Return what it hears of workers, by the word: the "say" of a message."""
        return {}

    def share(self) -> Mapping[str, Any]:
        """Return what each child is given as Role.given, by names of its own; called before each fork."""
        return {}

    def on_second(self) -> None:
        """Called once a second."""

    def on_end(self, pid: int, page_number: int) -> None:
        """Note that a child has ended; its page is read once more, in `on_page_end`, and is another's then."""

    def on_page_end(self, slot: int, page: Sequence[int]) -> None:
        """Read for the last time what the worker of a slot has counted, which has ended."""

    def on_lost(self, slot: int, count: int) -> None:
        """Note how many requests the worker of a slot was at when it died."""

    def hand_down(self) -> HandedDown:
        """Return what the next program needs; this process becomes it at once, or goes on, if that cannot be."""
        return HandedDown({})

    def take_over(self, state: Mapping[str, Any], has_children: bool) -> None:
        """Go on from what the code before has left, of all extensions; without its children, that is all that is known of these."""

    def close(self, is_end: bool) -> None:
        """Let go of all; without `is_end` in a child only: the supervisor goes on. May be called again."""
