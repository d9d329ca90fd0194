"""The choice of the worker for a connection given away.

Owns:     Placement: the choice, by the workers' pages, and by the gifts since the last write of a page.
Thread:   the supervisor's only one.
Not here: the connections to be given away, and when (levelling.py, passing.py), connections on the way (transfers.py).
"""

from __future__ import annotations

from ...core.page import Field, State
from ..children.child import Child
from ..children.children import Children, turns
from ..fleet.fleet import Fleet


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
        return [child for child in serving if turns(child) and not child.page[Field.SHORT_OF_DESCRIPTORS]]


def _fullness(child: Child) -> tuple[bool, int]:
    """Order workers able to get a connection: first workers with free threads, then by connections."""
    return bool(child.page[Field.STALLED_SECONDS]), child.page[Field.CONNECTIONS] + child.given_count
