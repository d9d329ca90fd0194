"""What becomes of the lane's connections, for --log-level debug: the lane's C says nothing of it.

Owns:     LaneLog: it stands between a lane and those who call it, and only with debug.
Thread:   `on_second` the event loop's; `submit_arrivals` the leader's. Each changes the dictionary by single operations.
Not here: requests (../features/wire_log.py), handovers (handover.py), the event loop's wire (wire_loop.py).

Of a connection it is told with its first request that it was accepted, and within a second, or when its number is another's, that it is
closed. One that has never asked for anything is not told of. It costs a step for each connection at each batch, and nothing without debug.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

from .connection import Connection
from .wire_fast import FastWire
from .wire_log import tell

TakeBack = Callable[[Connection, int], bool]  # see Service.take_back


class LaneLog:
    """That of one lane."""

    def __init__(self, lane: Any) -> None:
        """From now on, what is said to the lane comes here first."""
        self._lane = lane
        self._on_second, self._submit_arrivals = lane.on_second, lane.submit_arrivals
        self._known: dict[int, Connection] = {}  # by descriptor
        self._returned: dict[Connection, None] = {}  # those that were accepted long ago
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
        """Called once a second."""
        self._on_second()
        there = set(self._lane.fds)
        for fd in [fd for fd in list(self._known) if fd not in there]:
            self._forget(fd)
        alive = set(self._lane.connections.values())
        for connection in [each for each in list(self._returned) if each not in alive]:
            self._returned.pop(connection, None)  # it has asked for nothing more

    def _take_back(self, take_back: TakeBack, connection: Connection, fd: int) -> bool:
        self._returned[connection] = None  # first: its next request may come before the call returns
        is_taken = take_back(connection, fd)
        if not is_taken:
            del self._returned[connection]
        return is_taken

    def _forget(self, fd: int) -> None:
        connection = self._known.pop(fd, None)
        if connection is not None and isinstance(connection.wire, FastWire):  # else it has left the lane, and goes on
            tell(connection, "is closed")
