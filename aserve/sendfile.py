"""A file to a socket, without the octets passing through Python.

Owns:     FileSender: os.sendfile() each time the socket has room.
Thread:   event loop only.
Spec:     PEP 3333 "Optional Platform-Specific File Handling".
Not here: which responses are files (wsgi.py), the transport (connection.py).
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO, Callable

# One call's worth: a slow disk holds up the loop for no more than this. Guess.
TURN_BYTES = 1 << 19

HAS_SENDFILE = hasattr(os, "sendfile")


class FileSender:
    """Send `count` octets of `file` from `offset`; then call `on_end` with None, or with what went wrong."""

    def __init__(
        self, loop: Any, fd: int, file: BinaryIO, offset: int, count: int, on_end: Callable[[str | None], None]
    ) -> None:
        self._loop = loop
        # The loop refuses to watch a transport's own descriptor; a duplicate is the same socket.
        self._fd = os.dup(fd)
        self._file = file
        self._offset = offset
        self._left = count
        self._on_end = on_end
        self._moved_bytes = 0  # since the last take_progress

    def start(self) -> None:
        """Send what the socket takes, and the rest whenever it has room."""
        self._loop.add_writer(self._fd, self._send)
        self._send()

    def cancel(self) -> None:
        """The connection is gone."""
        self._finish("the client closed the connection")

    def take_progress(self) -> int:
        """Return how many octets were sent since the last call."""
        moved_bytes, self._moved_bytes = self._moved_bytes, 0
        return moved_bytes

    def _send(self) -> None:
        if self._fd < 0:
            return
        try:
            while self._left:
                sent = os.sendfile(self._fd, self._file.fileno(), self._offset, min(self._left, TURN_BYTES))
                if not sent:
                    self._finish(f"the file ended {self._left} octets early")
                    return
                self._offset += sent
                self._left -= sent
                self._moved_bytes += sent
                if sent == TURN_BYTES:
                    return  # others have their turn; the socket is writable, so the loop comes back
        except BlockingIOError:
            return
        except (OSError, ValueError) as exc:  # ValueError: the app closed its file
            self._finish(f"sendfile failed: {exc}")
            return
        self._finish(None)

    def _finish(self, error: str | None) -> None:
        if self._fd < 0:
            return
        self._loop.remove_writer(self._fd)
        os.close(self._fd)
        self._fd = -1
        self._on_end(error)
