"""The kernel's accept queue of a listener: its length and its limit.

Owns:     listen_queue; describe_listening, for a status.
Thread:   any.
Spec:     Linux, tcp_diag: of a listening socket tcpi_unacked is the accept queue, and tcpi_sacked the limit.
Not here: accepting (acceptor.py, cparsers/lane_accept.c).

For a unix socket, and on other systems, the kernel shows neither.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterable
from typing import Any

from .listeners import Listener

_LISTEN = 10  # TCP_LISTEN
_INFO = struct.Struct("=B23xII")  # state, tcpi_unacked, tcpi_sacked; linux/tcp.h


def listen_queue(listener: socket.socket) -> tuple[int, int] | None:
    """Return the queue's length and limit; None: unknown."""
    if not sys.platform.startswith("linux") or listener.family == socket.AF_UNIX:
        return None
    try:
        state, waiting, limit = _INFO.unpack(listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size))
    except (OSError, struct.error):  # a closed socket, or a sandbox's
        return None
    return (waiting, limit) if state == _LISTEN else None


def describe_listening(listeners: Iterable[Listener]) -> list[dict[str, Any]]:
    """Return URL, queue length and limit of each listener, where known to the kernel."""
    found = ((listener, listen_queue(listener.socket)) for listener in listeners)
    return [{"url": listener.url, "queued": each[0], "limit": each[1]} for listener, each in found if each is not None]
