"""How many clients wait in the kernel to be accepted, and how many it holds for a listener.

Owns:     listen_queue; describe_listening, as a status says it.
Thread:   any.
Spec:     Linux, tcp_diag: of a listening socket tcpi_unacked is the accept queue, and tcpi_sacked its limit.
Not here: accepting (acceptor.py, cparsers/lane_accept.c).

Of a unix socket, and on other systems, the kernel does not tell.
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
    """Return both numbers; None: they cannot be known."""
    if not sys.platform.startswith("linux") or listener.family == socket.AF_UNIX:
        return None
    try:
        state, waiting, limit = _INFO.unpack(listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size))
    except (OSError, struct.error):  # it is closed, or a sandbox's
        return None
    return (waiting, limit) if state == _LISTEN else None


def describe_listening(listeners: Iterable[Listener]) -> list[dict[str, Any]]:
    """Return of each listener where it is, how many wait, and their limit; of those of which the kernel tells."""
    found = ((listener, listen_queue(listener.socket)) for listener in listeners)
    return [{"url": listener.url, "queued": each[0], "limit": each[1]} for listener, each in found if each is not None]
