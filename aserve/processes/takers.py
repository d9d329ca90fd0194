"""Which worker gets a connection at rest that another gives away, or any other connection.

Owns:     Takers: the choice, by the workers' pages, and by what each was given since it has written its page.
Thread:   the supervisor's only one.
Not here: which connections are given away, and when (levelling.py, passing.py), requests on their way (moves.py), the channel (children.py).
"""

from __future__ import annotations

import os
import time

from ..core.page import Field, State
from .channel import Message
from .child import Child
from .children import Children
from .fleet import Fleet

SILENT_NS = 2_000_000_000  # a worker that has not ticked for this long gets no connections: it ticks each second


class Takers:
    """The workers that may get a connection."""

    def __init__(self, children: Children, fleet: Fleet) -> None:
        self._children = children
        self._fleet = fleet
        self.by_word = {"idle": self._pass_on}

    def _pass_on(self, giver: Child, message: Message, fds: list[int]) -> None:
        """
        Give a connection at rest to the worker it is meant for, or to the one with the fewest.

        Without another, a giver that serves on gets it back; it is closed if the giver drains.
        """
        heir = self.emptiest(giver, message.get("to", 0)) or (giver if giver.state is State.READY else None)
        if heir is None:
            for fd in fds:
                os.close(fd)
            return
        self._give(heir, message, fds)

    def give(self, message: Message, fds: list[int]) -> bool:
        """Give a connection at rest to the worker with the fewest; return whether there is one."""
        heir = self.emptiest()
        if heir is not None:
            self._give(heir, message, fds)
        return heir is not None

    def _give(self, heir: Child, message: Message, fds: list[int]) -> None:
        heir.given_count += 1
        self._children.tell(heir, {**message, "do": "adopt"}, fds)

    def emptiest(self, without: Child | None = None, to: int = 0) -> Child | None:
        """
        Return the worker that is to get a connection, None: there is none; `to`: the page of the one that it is meant for.

        A worker whose slot is leaving comes last, and one whose threads are stuck after others.
        """
        children, leaving = self._children, self._fleet.asked
        return min(
            (child for child in self.able() if child is not without),
            key=lambda child: (child.page != to, child.slot in leaving, *_fullness(child, children.page(child))),
            default=None,
        )

    def able(self) -> list[Child]:
        """
        Return the workers that may get a connection.

        One whose event loop hangs gets none: it looks emptiest, and its clients would wait for nothing. Nor does one without free
        descriptors, which could not receive it.
        """
        serving = self._children.having(State.READY)
        return [
            child
            for child in serving
            if self.turns(child) and not self._children.page(child)[Field.SHORT_OF_DESCRIPTORS]
        ]

    def turns(self, child: Child) -> bool:
        """Whether a worker hears orders, and its event loop turns, by its page."""
        ticked_at = self._children.page(child)[Field.TICKED_AT]
        return not child.is_mute and (
            not ticked_at or ticked_at >= time.monotonic_ns() - SILENT_NS
        )  # 0: it has only just begun

    def on_second(self) -> None:
        """Reset the counts of what was given: the workers' pages include those connections by now."""
        for child in self._children:
            tick = self._children.page(child)[Field.TICK]
            if tick != child.given_tick:
                child.given_tick, child.given_count = tick, 0


def _fullness(heir: Child, page: memoryview) -> tuple[bool, int]:
    """Order workers that may get a connection: first those with free threads, then by connections."""
    return bool(page[Field.STALLED_SECONDS]), page[Field.CONNECTIONS] + heir.given_count
