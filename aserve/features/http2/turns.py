"""The order in which streams send their frames.

Owns:     Turns: the streams of a connection that have something to send. Sends: the session, as this sees it.
Thread:   event loop only.
Spec:     RFC 9218.
Not here: frames and windows (cparsers/h2.h), what waits (stream.py), the connection, and what becomes of a stream that has ended (session.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from ...protocols.http2 import END_STREAM, FRAME_BYTES, GONE, IS_UPGRADE, MALFORMED, Frames
from .states import State
from .stream import NO_HANDSHAKE, StreamTransport

logger = logging.getLogger("aserve")

# Octets that are given to TLS at once: six records, as tls.c sends three at once.
FLUSH_BYTES = 6 << 14
# One DATA frame of so many goes to the stream that has waited longest, or an urgent download would have others cut off by --write-timeout.
FAIR_FRAMES = 16
# Of one step of the loop: a quick client would have all of a long response at once, and others wait. Guess: a millisecond over TLS.
MOST_FRAMES = 64
# As in stream.py: a member looked up in its enum class costs CPython 3.11 three times a global.
ENDED, CUT = State.ENDED, State.CUT


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

    __slots__ = ("_frames", "_is_due", "_loop", "_next_fair", "_sent_count", "_unflushed_bytes", "_waiting")

    def __init__(self, frames: Frames, loop: asyncio.AbstractEventLoop) -> None:
        self._frames, self._loop = frames, loop
        self._waiting: dict[int, StreamTransport] = {}
        self._is_due = False  # `_pump` is about to be called
        self._sent_count, self._next_fair = 0, FAIR_FRAMES  # DATA frames, and those before the next fair turn

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
        until = self._sent_count + MOST_FRAMES
        while self._waiting and session.may_send:
            if self._sent_count >= until:
                self.go_on(session)
                break
            frames_left = self._next_fair - self._sent_count
            if len(self._waiting) == 1:
                turn, most_bytes = list(self._waiting.values()), FLUSH_BYTES
            elif frames_left > 0:
                first = min(map(urgency, self._waiting.values()))
                turn = [each for each in self._waiting.values() if each.urgency == first]
                most_bytes = max(min(FLUSH_BYTES // len(turn), frames_left * FRAME_BYTES), FRAME_BYTES)
            else:
                self._next_fair = self._sent_count + FAIR_FRAMES
                turn, most_bytes = [next(iter(self._waiting.values()))], FRAME_BYTES
            self._send_turn(session, turn, most_bytes)
        # Without room, too: a client that reads nothing must not hold the threads of its streams.
        for stream in [each for each in self._waiting.values() if each.state is CUT]:
            session.cut(stream)
        session.flush()

    def _send_turn(self, session: Sends, streams: list[StreamTransport], most_bytes: int) -> None:
        """Send up to so many octets of each of these."""
        for stream in streams:
            if not session.may_send:
                return
            del self._waiting[stream.stream_id]
            self._unflushed_bytes += self._send(session, stream, most_bytes)
            if self._unflushed_bytes >= FLUSH_BYTES:
                self._unflushed_bytes = 0
                session.flush()

    def _send(self, session: Sends, stream: StreamTransport, most_bytes: int) -> int:
        """Send a stream's heads and DATA frames, or its end; return the number of octets."""
        if stream.state is CUT:
            session.cut(stream)
            return 0
        stream_id, frames, head = stream.stream_id, self._frames, b""
        flags = IS_UPGRADE if stream.request.asks_websocket else 0
        result = room = frames.room(stream_id)
        while stream.heads and result >= 0:
            is_final, head = stream.heads.pop(0)
            if not is_final:
                result, head = frames.send(stream_id, head, b"", flags), b""
        octets = stream.take(min(room, most_bytes)) if stream.pending and room >= 0 else b""
        is_end = stream.state is ENDED and not stream.pending
        if result >= 0 and (head or octets or is_end):
            result = frames.send(stream_id, head, octets, flags | is_end * END_STREAM)
            self._sent_count += len(octets) // FRAME_BYTES or bool(octets or is_end)
        if result == MALFORMED:
            logger.info("stream reset: %s", NO_HANDSHAKE)
            session.cut(stream)
        elif result == GONE:
            session.leave(stream)
        elif is_end:
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
