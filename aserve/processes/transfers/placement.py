"""Which worker gets a connection that another gives away.

Owns:     Placement: the choice, by the workers' pages, and by what each was given since it has written its page.
Thread:   the supervisor's only one.
Not here: which connections are given away, and when (levelling.py, passing.py), connections on their way (transfers.py).
"""

from __future__ import annotations

import time

from ...core.page import Field, State
from ..children.child import Child
from ..children.children import Children
from ..fleet.fleet import Fleet

SILENT_NS = 2_000_000_000  # a worker that has not ticked for this long gets no connections: it ticks each second


class Placement:
    """The workers that may get a connection."""

    def __init__(self, children: Children, fleet: Fleet) -> None:
        self._children = children
        self._fleet = fleet

    @property
    def are_last(self) -> bool:
        """Whether no worker is to begin any more: the server ends."""
        return self._fleet.is_ending

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
        return _turns(child, self._children.page(child))

    def on_second(self) -> None:
        """Note which workers are silent; reset the counts of what was given: the workers' pages include those connections by now."""
        note_silent(self._children)
        for child in self._children:
            tick = self._children.page(child)[Field.TICK]
            if tick != child.given_tick:
                child.given_tick, child.given_count = tick, 0


def note_silent(children: Children) -> None:
    """Note which of the workers that serve, or drain, hear no orders, or have an event loop that does not turn."""
    for child in children.having(State.READY, State.DRAINING):
        child.is_silent = not _turns(child, children.page(child))


def _turns(child: Child, page: memoryview) -> bool:
    ticked_at = page[Field.TICKED_AT]  # 0: it has only just begun
    return not child.is_mute and (not ticked_at or ticked_at >= time.monotonic_ns() - SILENT_NS)


def _fullness(heir: Child, page: memoryview) -> tuple[bool, int]:
    """Order workers that may get a connection: first those with free threads, then by connections."""
    return bool(page[Field.STALLED_SECONDS]), page[Field.CONNECTIONS] + heir.given_count
