"""The choice of the worker for a connection given away.

Owns:     Placement: the choice, by the workers' pages, and by the gifts since the last write of a page.
Thread:   the supervisor's only one.
Not here: the connections to be given away, and when (levelling.py, passing.py), connections on the way (transfers.py).
"""

from __future__ import annotations

import time

from ...core.page import Field, State
from ..children.child import Child
from ..children.children import Children
from ..fleet.fleet import Fleet

SILENT_NS = 2_000_000_000  # a worker without a tick for this long gets no connections: workers tick each second


class Placement:
    """The workers able to get a connection."""

    def __init__(self, children: Children, fleet: Fleet) -> None:
        self._children = children
        self._fleet = fleet

    @property
    def are_last(self) -> bool:
        """Whether no worker is to begin any more: the server ends."""
        return self._fleet.is_ending

    def emptiest(self, without: Child | None = None, to: int = 0) -> Child | None:
        """
        Return the worker to get a connection, None: no worker; `to`: the page of the preferred worker.

        Workers of leaving slots come last, and workers with stuck threads after workers with free threads.
        """
        leaving = self._fleet.asked
        return min(
            (child for child in self.able() if child is not without),
            key=lambda child: (child.page_number != to, child.slot in leaving, *_fullness(child)),
            default=None,
        )

    def able(self) -> list[Child]:
        """
        Return the workers able to get a connection.

        Not a worker with a hung event loop: such a worker looks emptiest, and clients would wait in vain. Nor a worker without free
        descriptors, unable to receive a connection.
        """
        serving = self._children.having(State.READY)
        return [child for child in serving if self.turns(child) and not child.page[Field.SHORT_OF_DESCRIPTORS]]

    def turns(self, child: Child) -> bool:
        """Whether a worker hears orders, and the event loop turns, by the page."""
        return _turns(child)

    def on_second(self) -> None:
        """Note silent workers; reset the counts of gifts: by now the workers' pages include the given connections."""
        note_silent(self._children)
        for child in self._children:
            tick = child.page[Field.TICK]
            if tick != child.given_tick:
                child.given_tick, child.given_count = tick, 0


def note_silent(children: Children) -> None:
    """Note which serving or draining workers hear no orders, or have a still event loop."""
    for child in children.having(State.READY, State.DRAINING):
        child.is_silent = not _turns(child)


def _turns(child: Child) -> bool:
    ticked_at = child.page[Field.TICKED_AT]  # 0: the worker has only just begun
    return not child.is_mute and (not ticked_at or ticked_at >= time.monotonic_ns() - SILENT_NS)


def _fullness(child: Child) -> tuple[bool, int]:
    """Order workers able to get a connection: first workers with free threads, then by connections."""
    return bool(child.page[Field.STALLED_SECONDS]), child.page[Field.CONNECTIONS] + child.given_count
