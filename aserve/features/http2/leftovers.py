"""What is left of streams that are over: requests that still run, and clients that still send.

Owns:     Leftovers.
Thread:   event loop only.
Spec:     RFC 9113 section 8.1: a server may answer before the request is complete.
Not here: open streams (session.py).
"""

from __future__ import annotations

from ...connections.connection import Connection
from ...connections.progress import LINGER_SECONDS


class Leftovers:
    """The streams of one connection that are over for their clients, or for us; they take room from new ones."""

    __slots__ = ("_running", "_sending")

    def __init__(self) -> None:
        self._running: list[Connection] = []  # of reset streams, whose requests may still run
        # By streams whose requests are not complete, the seconds since their responses. They are reset later: curl 7.88 drops
        # a response with a reset behind it.
        self._sending: dict[int, float] = {}

    def add_running(self, connection: Connection) -> None:
        """Count a stream that is closed, if its request still runs."""
        if connection.exchange is not None:
            self._running.append(connection)

    def add_sending(self, stream_id: int) -> None:
        """Count a stream whose response is sent, and whose client sends on."""
        self._sending[stream_id] = 0.0

    def forget_sending(self, stream_id: int) -> bool:
        """Forget a stream whose client sends no more; return whether it was one."""
        return self._sending.pop(stream_id, None) is not None

    def count(self, most: int) -> int:
        """Return how many there are, or a number below `most` that they do not exceed."""
        if len(self._running) + len(self._sending) >= most:
            self._running = [each for each in self._running if each.exchange is not None]
        return len(self._running) + len(self._sending)

    def end_sending(self) -> None:
        """Forget them: the client sends no more at all."""
        self._sending.clear()

    @property
    def is_sending(self) -> bool:
        """Whether a client still sends what is not wanted."""
        return bool(self._sending)

    def on_second(self) -> list[int]:
        """Let a second pass; return the streams that have sent on for too long, which are to be reset."""
        self._sending = {stream_id: seconds + 1.0 for stream_id, seconds in self._sending.items()}
        late = [stream_id for stream_id, seconds in self._sending.items() if seconds > LINGER_SECONDS]
        for stream_id in late:
            del self._sending[stream_id]
        return late
