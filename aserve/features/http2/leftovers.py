"""What is left of streams that are over: clients that still send.

Owns:     Leftovers.
Thread:   event loop only.
Spec:     RFC 9113 section 8.1: a server may answer before the request is complete.
Not here: open streams (session.py), requests that still run (calls.py).
"""

from __future__ import annotations

from ...connections.progress import LINGER_SECONDS


class Leftovers:
    """The streams of one connection that are over for us, and not for their clients; they take room from new ones."""

    __slots__ = ("_sending",)

    def __init__(self) -> None:
        # By streams whose requests are not complete, the seconds since their responses. They are reset later: curl 7.88 drops
        # a response with a reset behind it.
        self._sending: dict[int, float] = {}

    def add_sending(self, stream_id: int) -> None:
        """Count a stream whose response is sent, and whose client sends on."""
        self._sending[stream_id] = 0.0

    def forget_sending(self, stream_id: int) -> bool:
        """Forget a stream whose client sends no more; return whether it was one."""
        return self._sending.pop(stream_id, None) is not None

    def end_sending(self) -> None:
        """Forget them: the client sends no more at all."""
        self._sending.clear()

    @property
    def count(self) -> int:
        """The streams whose clients still send what is not wanted."""
        return len(self._sending)

    def on_second(self) -> list[int]:
        """Let a second pass; return the streams that have sent on for too long, which are to be reset."""
        self._sending = {stream_id: seconds + 1.0 for stream_id, seconds in self._sending.items()}
        late = [stream_id for stream_id, seconds in self._sending.items() if seconds > LINGER_SECONDS]
        for stream_id in late:
            del self._sending[stream_id]
        return late
