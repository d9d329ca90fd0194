"""Connections that wait for a request, from one server to another, of this process or another.

Owns:     Detached; letting go of such connections (`detach_idle`), going on with one (`adopt`).
Thread:   event loop only.
Not here: how a descriptor goes from process to process, which is the caller's (unix(7), SCM_RIGHTS); the way between
          the two wires of one server (handover.py).

The client notices nothing: the kernel keeps the connection as long as one descriptor of it is open. Nothing of the
next request has been read, and what the client sends meanwhile stays with the kernel until somebody reads it.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .._cparsers import ffi, lib
from .acceptor import make_transport, protocol_factory
from .connection import LOST, Connection
from .lane import Lane
from .limit import ConnectionLimit
from .listeners import Listener
from .service import Service
from .states import State
from .wire_log import tell
from .wire_loop import LoopWire

logger = logging.getLogger("aserve")

GIVEN = "is left to another process"  # for --log-level debug


class Detached(NamedTuple):
    """A connection that its server has let go of."""

    fd: int  # whoever has this must close it, or give it to `Server.adopt`
    listener_index: int  # in `Server.addresses`
    # What is known of its client, and can be written as JSON. None: nothing has come on it yet; who adopts it finds out.
    peer: dict[str, Any] | None


# Letting go


def detach_idle(
    lane: Lane | None, wires: Iterable[object], services: Sequence[Service], count: int | None
) -> list[Detached]:
    """Let go of connections that wait for a request, at most `count`; see Server.detach_idle."""
    index_of = {service: index for index, service in enumerate(services)}
    found = [
        Detached(fd, index_of[service], _describe(connection) if connection is not None else None)
        for fd, service, connection in (_leave_lane(lane, count) if lane is not None else ())
    ]
    for wire in wires:
        if count is not None and len(found) >= count:
            break
        if isinstance(wire, LoopWire):
            peer = None if wire.state == State.NEW else _describe(wire.connection)
            try:
                fd = wire.detach()
            except OSError as exc:
                logger.warning("connections that idle stay: %s; raise `ulimit -n`", exc.strerror)
                break
            if fd is not None:
                _tell(wire.connection, GIVEN)
                found.append(Detached(fd, index_of[wire.connection.service], peer))
    return found


def _tell(connection: Connection, what: str) -> None:
    if connection.service.tells_wire:
        tell(connection, what)


def _leave_lane(lane: Lane, count: int | None) -> Iterator[tuple[int, Service, Connection | None]]:
    """Let go of the lane's; no connection: nothing has come on it yet."""
    cap = lane.count if count is None else min(count, lane.count)
    released = ffi.new("lane_released[]", cap)
    for each in released[0 : lib.lane_release_idle(lane.set, released, cap)]:
        if each.is_used and lane.native is not None:
            lane.native.connection_of(each.fd, each.listener)  # all of its requests may have been plain
        connection = lane.connections.pop(each.fd, None)  # without a request, an earlier one's with this number
        if connection is not None and each.is_used:
            _tell(connection, GIVEN)
            connection.wire = LOST  # it is not closed
        yield each.fd, lane.services[each.listener], connection if each.is_used else None


def _describe(connection: Connection) -> dict[str, Any]:
    """Return what is known of a client, as JSON has it; `environ`: what it has otherwise than others (PROXY protocol)."""
    base = connection.service.base_environ
    return {
        "address": connection.remote_addr,
        "port": connection.remote_port,
        "is_believed": getattr(connection, "is_believed", False),
        "environ": {name: value for name, value in connection.base_environ.items() if value != base.get(name)},
    }


# Going on


async def adopt(detached: Detached, pairs: Sequence[tuple[Listener, Service]], limit: ConnectionLimit) -> bool:
    """Go on with a connection; see Server.adopt."""
    fd, index, peer = detached
    if limit.is_full() or not 0 <= index < len(pairs):
        return False
    listener, service = pairs[index]
    if peer is not None and listener.bind.protocol != "http":
        return False
    try:
        os.set_blocking(fd, False)  # what PyPy's socket makes of a number is blocking
        if peer is None:
            protocol = protocol_factory(service, listener.bind)()
        else:
            connection = _recall(service, peer)
            _tell(connection, "comes from another process")
            if service.take_back is not None and service.take_back(connection, fd):
                os.close(fd)
                return True
            protocol = LoopWire.kept(connection)
        # A descriptor for the transport, which closes its own: until all is done, the caller's stays as it is.
        sock = socket.fromfd(fd, listener.socket.family, socket.SOCK_STREAM)
        limit.add_pending(protocol)
        try:
            await make_transport(service.loop, lambda: protocol, sock)
        finally:
            limit.discard_pending(protocol)
    except OSError as exc:
        logger.info("%s: a connection was not adopted: %s", service.name, exc.strerror)
        return False
    os.close(fd)
    return True


def _recall(service: Service, peer: dict[str, Any]) -> Connection:
    """Return a connection that knows its client already."""
    connection = Connection(service, peer["address"], peer["port"])
    connection.wire = LOST  # until it has one
    connection.is_believed = peer["is_believed"]
    if peer["environ"]:
        connection.base_environ = {**service.base_environ, **peer["environ"]}
    return connection
