"""A file to a socket, without the octets passing through Python.

Owns:     FileSender: os.sendfile() each time the socket has room; read_pieces
          and read_piece, for who cannot do so.
Thread:   FileSender: event loop only; the others: a worker (with --threads 0:
          the event loop).
Spec:     PEP 3333 "Optional Platform-Specific File Handling".
Not here: which responses are files (wsgi/gateway.py), the transport (sending.py).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Callable

from ..errors import ResponseTruncated

# One call's worth: a slow disk holds up the loop for no more than this. Guess.
ITERATION_BYTES = 1 << 19

# Read at once by who sends a file without it.
READ_BYTES = 1 << 16

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
        """Stop sending: the connection is gone."""
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
                sent = os.sendfile(self._fd, self._file.fileno(), self._offset, min(self._left, ITERATION_BYTES))
                if not sent:
                    self._finish(f"the file ended {self._left} octets early")
                    return
                self._offset += sent
                self._left -= sent
                self._moved_bytes += sent
                if sent == ITERATION_BYTES:
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


def read_pieces(head: bytes, file: BinaryIO, offset: int, size: int, close: Callable[[], None]) -> Iterator[bytes]:
    """
    Yield a response's head and the octets of its file; close it in the end.

    Raises:
        ResponseTruncated: the file has ended early, or cannot be read.
    """
    try:
        yield head
        while size:
            octets = read_piece(file, offset, size, READ_BYTES)
            offset += len(octets)
            size -= len(octets)
            yield octets
    finally:
        call_close(close)


def read_piece(file: BinaryIO, offset: int, size: int, most_bytes: int) -> bytes:
    """
    Return the next octets of a file of which `size` are still to be sent; at least one.

    Raises:
        ResponseTruncated: the file has ended early, or cannot be read.
    """
    try:
        octets = os.pread(file.fileno(), min(size, most_bytes), offset)
    except (OSError, ValueError) as exc:  # ValueError: the app closed its file
        raise ResponseTruncated(f"reading the file failed: {exc}") from exc
    if not octets:
        raise ResponseTruncated(f"the file ended {size} octets early")
    return octets


def call_close(close: Callable[[], None]) -> None:
    """Run the close() of an app's iterable."""
    try:
        close()
    except BaseException:  # SystemExit and the like cost neither the worker nor the loop
        logging.getLogger("aserve.app").exception("the app's iterable raised in close()")
