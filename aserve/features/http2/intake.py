"""Frames that have come: a portion of them at a time, so that no connection holds up the others.

Owns:     Intake. Takes: the session, as this sees it.
Thread:   event loop only.
Spec:     RFC 9113 section 10.5 (denial of service).
Not here: what is done for a frame (session.py), how many are a portion, and how many a client may send (cparsers/h2.h).

A connection reads up to 256 KiB at once: 26,000 frames of 10 octets.
"""

from __future__ import annotations

import asyncio
import collections
from typing import Protocol

from ...protocols.http2 import Event, Frames


class Takes(Protocol):
    """The session, as an argument of each call: an attribute would make a cycle, which only the garbage collector frees."""

    is_closed: bool  # it acts on no more frames

    @property
    def transport(self) -> asyncio.Transport:
        """The connection's."""

    def take(self, events: list[Event]) -> None:
        """Act on what has come."""

    def end_input(self) -> None:
        """The client sends no more."""


class Intake:
    """What one connection has received, and not yet acted on."""

    __slots__ = ("_frames", "_is_behind", "_loop", "_waiting", "is_at_end")

    def __init__(self, frames: Frames, loop: asyncio.AbstractEventLoop) -> None:
        self._frames, self._loop = frames, loop
        self._waiting: collections.deque[tuple[bytes, int]] = collections.deque()  # octets, and where to go on
        # `_catch_up` is about to be called; the transport reads no more, but may have octets.
        self._is_behind = False
        self.is_at_end = False  # the client sends no more

    @property
    def is_idle(self) -> bool:
        """Whether all that has come is received."""
        return not self._waiting and not self._is_behind

    def receive(self, session: Takes, data: bytes) -> None:
        """Receive a portion now, and others when other connections have had their turn."""
        self._waiting.append((data, 0))
        if not self._is_behind:
            self._receive(session)

    def end(self, session: Takes) -> None:
        """End the input behind what has come."""
        self.is_at_end = True
        if not self._is_behind:
            session.end_input()

    def _catch_up(self, session: Takes) -> None:
        if not session.is_closed and not session.transport.is_closing():
            self._receive(session)

    def _receive(self, session: Takes) -> None:
        data, at = self._waiting.popleft() if self._waiting else (b"", 0)
        at, is_full, events = self._frames.receive(data, at)
        session.take(events)
        if session.is_closed:
            return
        if at < len(data):
            self._waiting.appendleft((data, at))
        if self._waiting or is_full:
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
