"""Frames that have come: a portion of them at a time, so that no connection holds up the others.

Owns:     Intake; Portions, the buffer of h2. Takes: the session, as this sees it.
Thread:   event loop only.
Spec:     RFC 9113 section 10.5 (denial of service).
Not here: what is done for a frame (session.py), how many a client may send (allowance.py).

A connection reads up to 256 KiB at once: 26,000 frames of 10 octets, for which h2 takes a second (measured 2026-11-27, CPython 3.11).
"""

from __future__ import annotations

import asyncio
import collections
from typing import Any, Protocol

from h2.connection import H2Connection
from h2.exceptions import ProtocolError
from h2.frame_buffer import FrameBuffer

# Of one connection at one turn of the event loop: 3 ms. A browser begins about as many streams at once.
FRAMES = 100


class Takes(Protocol):
    """The session, as an argument of each call: an attribute would make a cycle, which only the garbage collector frees."""

    is_closed: bool  # it acts on no more frames

    @property
    def transport(self) -> asyncio.Transport:
        """The connection's."""

    def take(self, events: list[Any]) -> None:
        """Act on what has come."""

    def end(self, why: str) -> None:
        """End the connection by the client's fault."""

    def end_input(self) -> None:
        """The client sends no more."""


class Portions(FrameBuffer):
    """What has come, of which h2 gets as many frames as are granted."""

    left = 0

    def __next__(self) -> Any:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return super().__next__()


class Intake:
    """What one connection has received, and not yet acted on."""

    __slots__ = ("_frames", "_is_behind", "_loop", "_portions", "_waiting", "is_at_end")

    def __init__(self, frames: H2Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._frames, self._loop = frames, loop
        self._portions = frames.incoming_buffer = Portions(server=True)
        self._waiting: collections.deque[bytes] = collections.deque()
        # `_catch_up` is about to be called; the transport reads no more, but may have octets.
        self._is_behind = False
        self.is_at_end = False  # the client sends no more

    def receive(self, session: Takes, data: bytes) -> None:
        """Receive a portion now, and others when other connections have had their turn."""
        if self._is_behind:
            self._waiting.append(data)
        else:
            self._receive(session, data)

    def end(self, session: Takes) -> None:
        """End the input behind what has come."""
        self.is_at_end = True
        if not self._is_behind:
            session.end_input()

    def _catch_up(self, session: Takes) -> None:
        if not session.is_closed and not session.transport.is_closing():
            self._receive(session, self._waiting.popleft() if self._portions.left and self._waiting else b"")

    def _receive(self, session: Takes, data: bytes) -> None:
        self._portions.left = FRAMES
        try:
            events = self._frames.receive_data(data)
        except ProtocolError as exc:
            session.end(f"the client broke HTTP/2: {exc or type(exc).__name__}")
            return
        session.take(events)
        if session.is_closed:
            return
        if self._waiting or not self._portions.left:
            self._fall_behind(session)
        elif self._is_behind:
            self._is_behind = False
            session.transport.resume_reading()
            if self.is_at_end:
                session.end_input()

    def _fall_behind(self, session: Takes) -> None:
        if not self._is_behind:
            self._is_behind = True
            session.transport.pause_reading()
        self._loop.call_soon(self._catch_up, session)
