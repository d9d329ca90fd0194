"""Stand-ins for the connections counted by a limit, and its log."""

import asyncio


class Counted(asyncio.Protocol):
    """A connection, as far as a limit knows one."""

    def __init__(self, limit, idle_seconds=0.0):
        self.limit, self.idle_seconds = limit, idle_seconds
        self.is_drained = False
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport
        self.limit.add(self)

    def connection_lost(self, exc):
        self.limit.discard(self)

    def drain(self):
        self.is_drained = True

    def abort(self):
        self.transport.abort()


class CountedLane:
    """A lane, as far as a limit knows one."""

    def __init__(self, count=0, idle_count=0):
        self.count, self.idle_count = count, idle_count
        self.max_count = self.others_count = None
        self.pause_counts = (0, 0)

    def set_limit(self, max_count):
        self.max_count = max_count

    def set_others_count(self, others_count):
        self.others_count = others_count

    def evict_idle(self):
        closed, self.idle_count = self.idle_count, 0
        self.count -= closed
        return closed


def lines(caplog):
    """Return the lines since the last call."""
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found
