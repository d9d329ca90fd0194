"""A file to a socket, without the octets passing through Python.

Owns:     FileSender: os.sendfile() each time the socket has room; read_pieces and read_piece, for senders without sendfile; closing the file
          afterwards.
Thread:   FileSender: event loop only; the rest: a worker (with --threads 0: the event loop).
Spec:     PEP 3333 "Optional Platform-Specific File Handling".
Not here: the choice of files (wsgi/gateway.py), the transport (outbox.py).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Callable

from ...core.budgets import SENT_FILE_COUNT, Budget
from ...core.errors import ResponseTruncated
from .sender import Outcome, Sender

# Read at once by senders without os.sendfile().
READ_BYTES = 1 << 16

HAS_SENDFILE = hasattr(os, "sendfile")


class FileSender(Sender):
    """A Sender of a file: the kernel moves the octets."""

    most_bytes = 1 << 19  # a slow disk holds up the loop for no more than this. Guess.
    # A file takes no memory of ours. Measured 2026-11-22: sending 10 MiB of a file cost 1.4 times as much with the limit.
    unsent_bytes = 0

    def __init__(
        self,
        loop: Any,
        fd: int,
        head: bytes,
        file: BinaryIO,
        offset: int,
        count: int,
        on_end: Callable[[Outcome], None],
    ) -> None:
        super().__init__(loop, fd, head, offset, count, on_end)
        self._file = file

    def _send_part(self, offset: int, count: int) -> int:
        sent = os.sendfile(self._fd, self._file.fileno(), offset, count)
        if not sent:
            raise ResponseTruncated(f"the file ended {self._left} octets early")
        return sent


def read_pieces(head: bytes, file: BinaryIO, offset: int, size: int, close: Callable[[], None]) -> Iterator[bytes]:
    """
    Yield a response's head and the octets of the file; close the file in the end.

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
    Return the next octets of a file with `size` still to be sent; at least one.

    Raises:
        ResponseTruncated: the file has ended early, or cannot be read.
    """
    try:
        octets = os.pread(file.fileno(), min(size, most_bytes), offset)
    except (OSError, ValueError) as exc:  # ValueError: the app closed the file
        raise ResponseTruncated(f"reading the file failed: {exc}") from exc
    if not octets:
        raise ResponseTruncated(f"the file ended {size} octets early")
    return octets


def close_file(close: Callable[[], None], files: Budget) -> None:
    """Close a sent file, and release the descriptors in the budget."""
    call_close(close)
    files.release(SENT_FILE_COUNT)


def call_close(close: Callable[[], None]) -> None:
    """Run the close() of an app's iterable."""
    try:
        close()
    except BaseException:  # SystemExit and the like must end neither the worker nor the loop
        logging.getLogger("aserve.app").exception("the app's iterable raised in close()")
