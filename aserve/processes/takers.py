"""Which worker gets a connection that another gives away.

Owns:     Takers: the choice, by the workers' pages, and by what each was given since it has written its page.
Thread:   the supervisor's only one.
Not here: which connections are given away, and when (levelling.py, passing.py), the channel (children.py).
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
        Give a connection of one worker to the one it is meant for, or to the one with the fewest; a worker whose slot is leaving comes last.

        One whose event loop hangs gets none: it looks emptiest, and its clients would wait for nothing. Nor does one without free
        descriptors, which could not receive it. One whose threads are stuck comes after others. Without another, a giver that serves on gets
        it back, and one that drains if there is a request to be answered.
        """
        children, leaving = self._children, self._fleet.asked
        since = time.monotonic_ns() - SILENT_NS
        others = [child for child in children.having(State.READY) if child is not giver]
        heirs = [child for child in others if self._may_take(child, since, has_request=len(fds) > 1)]
        if message.get("returns") and len(fds) > 1:  # it had no room for a request, or drains
            heirs = self._home_of(message) or heirs
        if not heirs and (giver.state is State.READY or len(fds) > 1):
            heirs = [giver]
        if not heirs:
            for fd in fds:
                os.close(fd)
            return
        to = message.get("to")  # a page
        heir = min(
            heirs, key=lambda heir: (heir.page != to, heir.slot in leaving, *_fullness(heir, children.page(heir)))
        )
        heir.given_count += 1
        children.tell(heir, {**message, "do": "adopt"}, fds)

    def _home_of(self, message: Message) -> list[Child]:
        """Return the worker that gave a request first, which takes it back also while it drains; none: it has ended."""
        alive = self._children.having(State.READY, State.DRAINING)
        return [child for child in alive if child.page == message["giver"]]

    def on_second(self) -> None:
        """Reset the counts of what was given: the workers' pages include those connections by now."""
        for child in self._children:
            tick = self._children.page(child)[Field.TICK]
            if tick != child.given_tick:
                child.given_tick, child.given_count = tick, 0

    def _may_take(self, child: Child, since: int, has_request: bool) -> bool:
        page = self._children.page(child)
        if has_request and not page[Field.TAKES_REQUESTS]:
            return False
        ticked_at = page[Field.TICKED_AT]
        has_ticked = not ticked_at or ticked_at >= since  # 0: it has only just begun
        return has_ticked and not page[Field.SHORT_OF_DESCRIPTORS]


def _fullness(heir: Child, page: memoryview) -> tuple[bool, int]:
    """Order workers that may get a connection: first those with free threads, then by connections."""
    return bool(page[Field.STALLED_SECONDS]), page[Field.CONNECTIONS] + heir.given_count
