"""The order in which streams send their frames.

Owns:     Turns: the streams of a connection that have something to send; from a stream's octets to its frames. Sends: the session, as this sees it.
Thread:   event loop only.
Spec:     RFC 9113 sections 5.2 and 6.1; RFC 9218 sections 4.1 (urgency) and 7.1 (PRIORITY_UPDATE).
Not here: what waits (stream.py), the connection, and what becomes of a stream that has ended (session.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from hyperframe.frame import ExtensionFrame

from ...core.patterns import lazy_pattern
from .fields import Field
from .states import State
from .stream import DEFAULT_URGENCY, StreamTransport

# Octets that are given to TLS at once.
FLUSH_BYTES = 1 << 16
# One DATA frame of so many goes to the stream that has waited longest, or an urgent download would have others cut off by --write-timeout.
FAIR_FRAMES = 16
# As in stream.py: a member looked up in its enum class costs CPython 3.11 three times a global.
ENDED, CUT = State.ENDED, State.CUT
PRIORITY_UPDATE = 0x10  # the type of its frame
_URGENCY = lazy_pattern(rb"(?:\A|[ ,])u=([0-7])(?:\Z|[ ,;])")


class Sends(Protocol):
    """The session, as an argument of each call: an attribute would make a cycle, which only the garbage collector frees."""

    is_at_eof: bool  # the client sends no more, so no full window will have room again

    @property
    def may_send(self) -> bool:
        """Whether the transport has room."""

    def flush(self) -> None:
        """Give the frames to the transport."""

    def finish(self, stream: StreamTransport) -> None:
        """End a stream whose response is sent."""

    def cut(self, stream: StreamTransport) -> None:
        """Reset a stream whose response cannot be finished."""

    def leave(self, stream: StreamTransport) -> None:
        """Forget a stream."""


class Turns:
    """The streams of one connection that have something to send, in the order of their turns."""

    __slots__ = ("_frames", "_is_due", "_loop", "_next_fair", "_unflushed_bytes", "_waiting", "sent_count")

    def __init__(self, frames: H2Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._frames, self._loop = frames, loop
        self._waiting: dict[int, StreamTransport] = {}
        self._is_due = False  # `_pump` is about to be called
        self.sent_count, self._next_fair = 0, FAIR_FRAMES  # DATA frames, and those before the next fair turn

    def add(self, session: Sends, streams: Iterable[StreamTransport]) -> None:
        """Let these streams send soon, if they have something to send."""
        self._waiting.update((each.stream_id, each) for each in streams if each.is_sendable)
        self.go_on(session)

    def discard(self, stream: StreamTransport) -> None:
        """Let this stream send no more."""
        self._waiting.pop(stream.stream_id, None)

    def go_on(self, session: Sends) -> None:
        """Send soon; not now: the frames of one step of the loop go out together."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._pump, session)

    def _pump(self, session: Sends) -> None:
        """Send frames of the streams in turn, the urgent ones first, while the transport has room."""
        self._is_due, self._unflushed_bytes = False, 0
        while self._waiting and session.may_send:
            if self.sent_count < self._next_fair:
                first = min(map(urgency, self._waiting.values()))
                turn = [each for each in self._waiting.values() if each.urgency == first]
            else:
                self._next_fair = self.sent_count + FAIR_FRAMES
                turn = [next(iter(self._waiting.values()))]
            self._send_turn(session, turn)
        # Without room, too: a client that reads nothing must not hold the threads of its streams.
        for stream in [each for each in self._waiting.values() if each.state is CUT]:
            session.cut(stream)
        session.flush()

    def _send_turn(self, session: Sends, streams: list[StreamTransport]) -> None:
        """Send a frame of each of these."""
        for stream in streams:
            if not session.may_send:
                return
            del self._waiting[stream.stream_id]
            try:
                self._unflushed_bytes += self._send(session, stream)
            except ProtocolError:  # h2 has closed the stream
                session.leave(stream)
            if self._unflushed_bytes >= FLUSH_BYTES:
                self._unflushed_bytes = 0
                session.flush()

    def _send(self, session: Sends, stream: StreamTransport) -> int:
        """Send a stream's heads and one DATA frame, or its end; return the number of octets."""
        if stream.state is CUT:
            session.cut(stream)
            return 0
        stream_id, frames = stream.stream_id, self._frames
        while stream.heads:
            is_final, fields = stream.heads.pop(0)
            is_end = is_final and stream.state is ENDED and not stream.pending
            frames.send_headers(stream_id, fields, end_stream=is_end)
            if is_end:
                session.finish(stream)
                return 0
        room = min(frames.local_flow_control_window(stream_id), frames.max_outbound_frame_size)
        octets = stream.take(max(room, 0)) if stream.pending else b""
        is_end = stream.state is ENDED and not stream.pending
        if octets or is_end:
            frames.send_data(stream_id, octets, end_stream=is_end)
            self.sent_count += 1
        if is_end:
            session.finish(stream)
        elif stream.pending and octets:
            self._waiting[stream_id] = stream  # its next turn comes after the others'
        elif stream.pending and session.is_at_eof:
            session.cut(stream)
        stream.on_sent()
        return len(octets)


def urgency(stream: StreamTransport) -> int:
    """Return a stream's urgency; the lowest is sent first."""
    return stream.urgency


def urgency_of(fields: list[Field]) -> int:
    """Return the urgency that a request asks for."""
    for name, value in fields:
        if name == b"priority" and (found := _URGENCY.search(value)) is not None:
            return int(found[1])
    return DEFAULT_URGENCY


def updated_urgency(frame: ExtensionFrame) -> tuple[int, int] | None:
    """
    Return a stream and its new urgency; None: the frame is no PRIORITY_UPDATE.

    Raises:
        ValueError: it breaks RFC 9218 section 7.1; the text names the rule.
    """
    if frame.type != PRIORITY_UPDATE:
        return None
    stream_id = int.from_bytes(frame.body[:4], "big") & 0x7FFFFFFF
    if frame.stream_id or not stream_id:
        raise ValueError("a PRIORITY_UPDATE on a stream, or for none")
    return stream_id, urgency_of([(b"priority", frame.body[4:])])
