"""The end of a connection: its last octets are on their way, and the client still sends.

Owns:     Lingering.
Thread:   event loop only.
Spec:     RFC 9113 section 5.4.1; RFC 9112 section 9.6, which says the same of HTTP/1.1.
Not here: when a connection ends (session.py); the limits (connections/progress.py).
"""

from __future__ import annotations

import asyncio
import contextlib

from ...connections.progress import Progress
from ...settings import EngineSettings


class Lingering:
    """Reads on behind the last octets: a client gives room while it reads them, and a socket that is closed would answer with a reset."""

    __slots__ = ("_progress", "_transport", "_unsent_bytes")

    def __init__(self, transport: asyncio.Transport, config: EngineSettings, is_at_eof: bool) -> None:
        """Send pending octets and our FIN. `is_at_eof`: the client sends no more, so there is nothing to read."""
        self._progress, self._transport = Progress(config), transport
        self._unsent_bytes = transport.get_write_buffer_size()
        if is_at_eof or not transport.can_write_eof():
            transport.close()
            return
        with contextlib.suppress(OSError):  # the client has reset the connection: reading on finds that out
            transport.write_eof()
        transport.resume_reading()

    def drop(self, count: int) -> None:
        """Drop octets that have come."""
        self._progress.move()
        if self._progress.drop(count):
            self._transport.close()

    def on_second(self, is_draining: bool) -> None:
        """Close when the client is quiet, or sends on for too long; cut off a client that does not read."""
        self._progress.tick()
        unsent_bytes, before = self._transport.get_write_buffer_size(), self._unsent_bytes
        self._unsent_bytes = unsent_bytes
        if unsent_bytes:
            if self._progress.why_slow_reader(self, max(before - unsent_bytes, 0)):
                self._transport.abort()
        elif self._progress.has_lingered(is_draining):
            self._transport.close()
