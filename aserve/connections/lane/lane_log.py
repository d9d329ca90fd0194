"""Log lines about the lane's connections, for --log-level debug: the lane's C logs nothing.

Owns:     LaneLog: it wraps methods of a lane, and only with debug.
Thread:   `on_second` the event loop's; `submit_arrivals` the leader's. Each changes the dictionary by single operations.
Not here: requests (../features/wire_log.py), handovers (handover.py), the event loop's wire (wire_loop.py).

With its first request a connection is logged as accepted, and within a second, or when its number is reused, as closed. A connection
without a request is not logged. This costs a step for each connection at each batch, and nothing without debug.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from ..connection import Connection
from ..wire_log import tell
from .wire_fast import FastWire

TakeBack = Callable[..., bool]  # see Service.take_back


class LaneLog:
    """The debug log of one lane."""

    def __init__(self, lane: Any) -> None:
        """Wrap the methods of the lane: from now on calls come here first."""
        self._lane = lane
        self._on_second, self._submit_arrivals = lane.on_second, lane.submit_arrivals
        self._known: dict[int, Connection] = {}  # by descriptor
        self._returned: dict[Connection, None] = {}  # back from the event loop: their accept is logged already
        lane.on_second, lane.submit_arrivals = self.on_second, self.submit_arrivals
        for service in lane.services:
            if service.take_back is not None:
                service.take_back = functools.partial(self._take_back, service.take_back)

    def submit_arrivals(self, count: int) -> None:
        """See HandleSet."""
        self._submit_arrivals(count)
        for fd, connection in list(self._lane.connections.items()):
            if self._known.get(fd) is not connection:
                self._forget(fd)
                self._known[fd] = connection
                if self._returned.pop(connection, self) is self:
                    tell(connection, "is accepted")

    def on_second(self) -> None:
        """Log closed connections; called once a second."""
        self._on_second()
        there = set(self._lane.fds)
        for fd in [fd for fd in list(self._known) if fd not in there]:
            self._forget(fd)
        alive = set(self._lane.connections.values())
        for connection in [each for each in list(self._returned) if each not in alive]:
            self._returned.pop(connection, None)  # it sent no further request

    def _take_back(self, take_back: TakeBack, connection: Connection, *more: Any) -> bool:
        self._returned[connection] = None  # first: its next request may come before the call returns
        is_taken = take_back(connection, *more)
        if not is_taken:
            del self._returned[connection]
        return is_taken

    def _forget(self, fd: int) -> None:
        connection = self._known.pop(fd, None)
        if connection is not None and isinstance(connection.wire, FastWire):  # otherwise it is open, on the loop
            tell(connection, "is closed")
